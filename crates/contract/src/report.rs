//! The final report of a load generator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Address, Bytes, Driver, Errors, ErrorsByPhase, FirstFailure, Generator, Intervals, Latency, LoadWord,
    Opening, Pace, Probe, ReportWord, Requests, Statuses, Times, Tls, Verification, Version, Views, Workload,
    one,
};

/// The measurements of a load generator in the window.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub schema: Version,
    pub event: ReportWord,
    pub role: LoadWord,
    pub build: String,
    pub driver: Driver,
    pub lacks: Vec<String>,
    pub workload: Workload,
    #[schemars(length(min = 1))]
    pub connect: Vec<Address>,
    /// As in the spec.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Requested connections.
    #[schemars(range(min = 1))]
    pub connections: usize,
    /// Requested additional idle connections.
    pub idle: usize,
    /// As in the spec.
    #[serde(default)]
    pub open: Opening,
    /// Connections open when the window ended, idle ones included.
    pub connections_open: usize,
    /// Connections opened in the whole run, including idle and reopened ones, without probes.
    pub connections_made: u64,
    #[schemars(range(min = 1))]
    pub threads: usize,
    /// How many processes it comes from.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub processes: usize,
    pub cpus: Vec<usize>,
    pub pace: Pace,
    /// Connections of a closed loop that were busy at the same time.
    #[schemars(range(min = 1))]
    pub active: Option<usize>,
    #[schemars(range(min = 1))]
    pub pipeline: usize,
    #[schemars(range(min = 1))]
    pub requests_per_connection: Option<u64>,
    /// The requested number of requests.
    pub requests_asked: Option<u64>,
    /// How long the generator busy-waited before a request was due.
    #[serde(default)]
    pub spin_us: u64,
    /// As in the spec.
    #[serde(default)]
    pub verify: Verification,
    /// Conditions to print beside the figures, a phrase each.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub requests: Requests,
    pub errors: Errors,
    /// The same requests by phase.
    pub errors_by_phase: ErrorsByPhase,
    /// The first thing that went wrong, for people.
    pub first_error: Option<String>,
    /// The same for programs.
    pub first_failure: Option<FirstFailure>,
    pub bytes: Bytes,
    /// Correct replies per second; until the last reply if the server was gone at the end.
    #[schemars(range(min = 0.0))]
    pub rate_per_s: f64,
    /// Whether the server was gone at the end: no connection was open any more, and none could be opened.
    #[serde(default)]
    pub gone: bool,
    /// When the last complete reply of the window arrived; null if none did.
    #[serde(default)]
    pub last_reply_ns: Option<u64>,
    /// From the first connect to the last reply.
    pub elapsed_ns: Option<u64>,
    /// In a run with a number of requests, from the beginning of the first to the last reply.
    pub finish_ns: Option<u64>,
    /// From when a request was due, in a closed loop from its send, to the complete, verified reply.
    pub latency_ns: Latency,
    /// Other views of the same run; null in a closed loop, where all are the same.
    pub views: Option<Views>,
    /// The parts of the requests' times; null unless `details` were requested.
    #[serde(default)]
    pub times: Option<Times>,
    /// Counts of the requests that were due; null in a closed loop.
    pub schedule: Option<Schedule>,
    /// The measurements of the probes; null without probes.
    pub probe: Option<Probe>,
    /// How long ago the oldest request in flight was due, at the end.
    pub unanswered_ns_max: u64,
    /// Sum over the requests in flight of the time since each was due, when the window began.
    #[serde(default)]
    pub age_begin_ns: u64,
    /// The same when it ended.
    #[serde(default)]
    pub age_end_ns: u64,
    /// Sum over the failed requests of the time from when each was due to its failure. In a closed loop: sum of
    /// latencies + age_end_ns + age_failed_ns - age_begin_ns = mean number in flight x window.
    #[serde(default)]
    pub age_failed_ns: u64,
    /// How often each status occurred; empty if the protocol has none.
    pub statuses: Statuses,
    pub intervals: Intervals,
    pub generator: Generator,
    /// What limited the rate.
    pub bound: Bound,
    /// Why the run is invalid, a sentence each; empty if it is valid.
    pub unsound: Vec<String>,
}

impl Report {
    /// The length of the measured window.
    pub fn window_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// The part of the window that all rates refer to: the whole window, or up to the last reply of a server that was
    /// gone at the end.
    pub fn served_ns(&self) -> u64 {
        let last_ns = self.last_reply_ns.filter(|_| self.gone);
        last_ns.map_or_else(|| self.window_ns(), |last_ns| last_ns.saturating_sub(self.begin_ns))
    }

    /// An amount per second of that time; 0 if it is empty.
    pub fn per_second(&self, amount: u64) -> f64 {
        let served_s = self.served_ns() as f64 / 1e9;
        if served_s > 0.0 { amount as f64 / served_s } else { 0.0 }
    }
}

/// `due + unsent_begin = sent + unsent_end`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Requests that were due in the window.
    pub due: u64,
    /// Due before the window and not sent before it began.
    pub unsent_begin: u64,
    /// Due before the end of the window and not sent.
    pub unsent_end: u64,
    /// Sent in the window, but due while no connection was free.
    pub waited: u64,
    /// The requested rate, over the whole window.
    #[schemars(range(min = 0.0))]
    pub asked_per_s: f64,
}

/// What limited the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    pub by: BoundBy,
    /// One line for people.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// The generator waited for the server.
    Server,
    /// The server may be faster than this.
    Generator,
    /// Every due request was sent: both sides could do more.
    Rate,
    Unclear,
}
