//! `.csv`: a row for each slice of the window, for spreadsheets.

use super::Form;
use crate::contract::Interval;

#[derive(Default)]
pub(super) struct Csv {
    /// The begin of the window, once it is known.
    begin_ns: Option<u64>,
}

impl Form for Csv {
    fn begin(&mut self) -> String {
        "second,correct,wrong,failed,rate_per_s,\
         min_ns,mean_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,max_ns\n"
            .to_owned()
    }

    fn slice(&mut self, slice: &Interval) -> String {
        let begin_ns = *self.begin_ns.get_or_insert(slice.begin_ns);
        let second = (slice.begin_ns - begin_ns) as f64 / 1e9;
        let latency = &slice.latency_ns;
        format!(
            "{second},{},{},{},{:.1},{},{:.0},{},{},{},{},{}\n",
            slice.correct,
            slice.wrong,
            slice.failed,
            slice.rate_per_s,
            latency.min,
            latency.mean,
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p99_9,
            latency.max
        )
    }
}
