//! `.hlog`: a histogram of each slice of the window, in nanoseconds, in the format of HdrHistogram's own tools.

use std::time::{Duration, SystemTime};

use contract::Interval;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use sys::clock;

use super::{Ended, Form};

#[derive(Default)]
pub(super) struct Hlog {
    /// The beginning of the window, once it is known and in the header.
    begin_ns: Option<u64>,
}

impl Form for Hlog {
    /// Its start and length in seconds, its maximum, and its histogram, packed as in the contract.
    fn slice(&mut self, slice: &Interval) -> String {
        let head = self.head(slice.begin_ns);
        let begin_ns = self.begin_ns.unwrap_or(slice.begin_ns);
        let begin_s = (slice.begin_ns - begin_ns) as f64 / 1e9;
        let length_s = (slice.end_ns - slice.begin_ns) as f64 / 1e9;
        let latency = &slice.latency_ns;
        format!("{head}{begin_s:.3},{length_s:.3},{}.000,{}\n", latency.max(), latency.packed())
    }

    fn end(&mut self, ended: &Ended<'_>) -> String {
        self.head(ended.report.begin_ns)
    }
}

impl Hlog {
    /// The header before the first row, with the wall-clock time of the window's beginning.
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

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::result::report::interval;

    /// A file that HdrHistogram's own HistogramLogProcessor, version 2.2.2, has read.
    const READ: &str = include_str!("testdata/read.hlog");
    /// And its results: number of values, median, p99, p99.9 and maximum.
    const FOUND: [u64; 5] = [1_111, 541_183, 9_003_007, 10_002_431, 30_015_487];

    fn slice(index: u64, latencies_ns: impl Iterator<Item = (u64, u64)>) -> ::load::Slice {
        let mut latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
        for (time_ns, number) in latencies_ns {
            latency.record_n(time_ns, number).expect("it is in bounds");
        }
        let (begin_ns, correct) = (5_000_000_000 + index * 1_000_000_000, latency.len());
        let end_ns = begin_ns + 1_000_000_000;
        ::load::Slice { index, begin_ns, end_ns, correct, wrong: 0, failed: 0, latency: latency.into() }
    }

    /// The lines that do not depend on the time of the run.
    fn lasting(text: &str) -> Vec<&str> {
        let is_time = |line: &&str| line.starts_with("#[StartTime: ") || line.starts_with("#[BaseTime: ");
        text.lines().filter(|line| !is_time(line)).collect()
    }

    #[test]
    fn a_log_is_to_the_byte_one_that_another_reader_has_read() {
        let slices = [
            slice(0, (1..=1_000).map(|step| (step * 1_000, 1))),
            slice(1, (1..=100).map(|step| (step * 100_000, 1))),
            slice(2, [].into_iter()),
            slice(3, [(1, 10), (30_000_000, 1)].into_iter()),
        ];
        let mut log = Hlog::default();
        let text: String = slices.iter().map(|slice| log.slice(&interval(slice))).collect();
        assert_eq!(lasting(&text), lasting(READ));

        let mut whole = slices[0].latency.clone();
        slices[1..].iter().for_each(|slice| whole.add(&slice.latency));
        let quantiles = [0.5, 0.99, 0.999].map(|quantile| whole.value_at_quantile(quantile));
        assert_eq!([&[whole.len()], &quantiles[..], &[whole.max()]].concat(), FOUND);
    }
}
