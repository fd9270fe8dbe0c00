//! `.json`: the report, for people and programs to read.

use super::{Ended, Form};

pub(super) struct Json;

impl Form for Json {
    fn end(&mut self, ended: &Ended<'_>) -> String {
        contract::pretty(ended.report) + "\n"
    }
}
