//! `.ndjson`: an `interval` a line while the run goes on, then the report, both as a program would get them.

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
