//! `.hlog`: a histogram of each slice of the window, in nanoseconds, as HdrHistogram's own tools read them.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use sys::clock;

use super::{Ended, Form};
use crate::contract::Interval;

#[derive(Default)]
pub(super) struct Hlog {
    /// The begin of the window, once it is known and stands in the head.
    begin_ns: Option<u64>,
}

impl Form for Hlog {
    /// When it began and how long it was in seconds, its maximum, and its histogram, which the contract packs in the
    /// same way: so none is packed twice.
    fn slice(&mut self, slice: &Interval) -> String {
        let head = self.head(slice.begin_ns);
        let begin_ns = self.begin_ns.unwrap_or(slice.begin_ns);
        let begin_s = (slice.begin_ns - begin_ns) as f64 / 1e9;
        let length_s = (slice.end_ns - slice.begin_ns) as f64 / 1e9;
        let latency = &slice.latency_ns;
        format!("{head}{begin_s:.3},{length_s:.3},{}.000,{}\n", latency.max, latency.histogram)
    }

    fn end(&mut self, ended: &Ended<'_>) -> String {
        self.head(ended.report.begin_ns)
    }
}

impl Hlog {
    /// What stands before the first row: when the window began, by the clock on the wall.
    fn head(&mut self, begin_ns: u64) -> String {
        if self.begin_ns.is_some() {
            return String::new();
        }
        self.begin_ns = Some(begin_ns);
        let ago = Duration::from_nanos(clock::monotonic_ns().saturating_sub(begin_ns));
        let begin = SystemTime::now() - ago;
        let mut head = Vec::new();
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("[Latencies and maxima in nanoseconds]")
            .with_start_time(begin)
            .with_base_time(begin)
            .begin_log_with(&mut head, &mut V2DeflateSerializer::new())
            .expect("memory can be written");
        head.extend_from_slice(LEGEND);
        String::from_utf8(head).expect("it is text")
    }
}

const LEGEND: &[u8] =
    b"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
