//! What a server really did, request by request.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use crate::profile::{Answer, Kind};

/// A request; its reply was never written if that time is 0.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrival_ns: u64,
    reply_ns: u64,
    answer: Answer,
}

/// All requests, in the order in which they came.
pub(crate) struct Record {
    requests: Vec<Request>,
    pub(crate) connections: u64,
    pub(crate) origin_ns: u64,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { requests: Vec::with_capacity(REQUESTS_USUAL), connections: 0, origin_ns: 0 }
    }

    /// Takes a request down and returns its number.
    pub(crate) fn came(&mut self, arrival_ns: u64, answer: Answer) -> usize {
        self.requests.push(Request { arrival_ns, reply_ns: 0, answer });
        self.requests.len() - 1
    }

    pub(crate) fn kind(&self, number: usize) -> Kind {
        self.requests[number].answer.kind
    }

    pub(crate) fn answered(&mut self, number: usize, reply_ns: u64) {
        self.requests[number].reply_ns = reply_ns;
    }

    /// Writes all requests; the layout is told where the flag is.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for Request { arrival_ns, reply_ns, answer } in &self.requests {
            for number in [*arrival_ns, answer.due_ns, *reply_ns, answer.kind as u64] {
                file.write_all(&number.to_le_bytes())?;
            }
        }
        file.flush()
    }

    /// Counts, how long requests were kept, and how late replies were, as one document.
    pub(crate) fn summary(&self) -> Value {
        let answered = || self.requests.iter().filter(|request| request.reply_ns != 0);
        let count = |kind| answered().filter(|request| request.answer.kind == kind).count();
        let kept = answered().map(|request| request.reply_ns - request.arrival_ns);
        let late = answered().map(|request| request.reply_ns - request.answer.due_ns);
        json!({
            "event": "truth",
            "connections": self.connections,
            "requests": self.requests.len(),
            "unanswered": self.requests.len() - answered().count(),
            "right": count(Kind::Right),
            "wrong": count(Kind::Wrong),
            "unavailable": count(Kind::Unavailable),
            "reset": count(Kind::Reset),
            "origin_ns": self.origin_ns,
            "kept_ns": quantiles(kept.collect()),
            "late_ns": quantiles(late.collect()),
        })
    }
}

/// The usual quantiles: the least value that so many do not exceed. All are 0 where there is no value.
fn quantiles(mut values: Vec<u64>) -> Value {
    values.sort_unstable();
    let at = |of_100_000: usize| {
        let rank = (values.len() * of_100_000).div_ceil(100_000);
        values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    };
    json!({"p50": at(50_000), "p90": at(90_000), "p99": at(99_000), "p99_9": at(99_900), "max": at(100_000)})
}

/// For so many there is room from the start: growing takes time from a request.
const REQUESTS_USUAL: usize = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_least_value_that_so_many_do_not_exceed() {
        let check = |values: &[u64], name: &str, expected: u64| {
            assert_eq!(quantiles(values.to_vec())[name], json!(expected), "{name} of {values:?}");
        };
        let hundred: Vec<u64> = (1..=100).rev().collect();
        check(&hundred, "p50", 50);
        check(&hundred, "p99", 99);
        check(&hundred, "p99_9", 100);
        check(&hundred, "max", 100);
        check(&[7], "p50", 7);
        check(&[], "p99", 0);
    }
}
