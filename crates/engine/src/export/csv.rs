//! `.csv`: a row for each slice of the window, for spreadsheets.

use contract::Interval;

use super::{Ended, Form};

#[derive(Default)]
pub(super) struct Csv {
    /// The beginning of the window, once it is known and the header is written.
    begin_ns: Option<u64>,
}

impl Form for Csv {
    fn slice(&mut self, slice: &Interval) -> String {
        let head = self.head(slice.begin_ns);
        let begin_ns = self.begin_ns.unwrap_or(slice.begin_ns);
        let second = (slice.begin_ns - begin_ns) as f64 / 1e9;
        let latency = &slice.latency_ns;
        format!(
            "{head}{second},{},{},{},{:.1},{},{:.0},{},{},{},{},{}\n",
            slice.correct,
            slice.wrong,
            slice.failed,
            slice.rate_per_s,
            latency.min(),
            latency.mean(),
            latency.value_at_quantile(0.5),
            latency.value_at_quantile(0.9),
            latency.value_at_quantile(0.99),
            latency.value_at_quantile(0.999),
            latency.max()
        )
    }

    fn end(&mut self, ended: &Ended<'_>) -> String {
        self.head(ended.report.begin_ns).to_owned()
    }
}

impl Csv {
    /// The header before the first row.
    fn head(&mut self, begin_ns: u64) -> &'static str {
        if self.begin_ns.is_some() {
            return "";
        }
        self.begin_ns = Some(begin_ns);
        HEAD
    }
}

const HEAD: &str =
    "second,correct,wrong,failed,rate_per_s,min_ns,mean_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,max_ns\n";
