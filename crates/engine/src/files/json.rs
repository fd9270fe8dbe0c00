//! `.json`: the report, for people and programs to read.

use super::{Ended, Form};

pub(super) struct Json;

impl Form for Json {
    fn end(&mut self, ended: &Ended<'_>) -> String {
        let mut text = serde_json::to_string_pretty(ended.report).expect("a report is plain data");
        text.push('\n');
        text
    }
}
