//! `.ndjson`: an `interval` per line during the run, then the report, both as programs get them.

use contract::Interval;

use super::{Ended, Form};

pub(super) struct Ndjson;

impl Form for Ndjson {
    fn slice(&mut self, slice: &Interval) -> String {
        contract::line(slice) + "\n"
    }

    fn end(&mut self, ended: &Ended<'_>) -> String {
        contract::line(ended.report) + "\n"
    }
}
