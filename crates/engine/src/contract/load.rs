//! What a load generator is told, and what it tells.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Address, Failed, IntervalWord, LoadWord, MeasuredWord, MeasuringWord, ReadyWord, ReportWord, Version,
    Workload, one,
};

/// What a load generator is to do: the line it reads from standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadSpec {
    pub(crate) schema: Version,
    pub(crate) role: LoadWord,
    #[serde(default)]
    pub(crate) driver: Driver,
    pub(crate) workload: Workload,
    /// The addresses of the server; connections take them in turn.
    pub(crate) connect: Vec<Address>,
    /// How TLS is spoken; null: not at all.
    #[serde(default)]
    pub(crate) tls: Option<Tls>,
    /// Local addresses that connections come from, in turn; none: the kernel's choice.
    #[serde(default)]
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) connections: usize,
    /// Connections that are opened beside them and never used.
    #[serde(default)]
    pub(crate) idle: usize,
    /// Connections opened in a second at most; null: as fast as it goes.
    #[serde(default)]
    pub(crate) connect_per_s: Option<f64>,
    /// What decides when a request goes out.
    #[serde(default)]
    pub(crate) pace: Pace,
    /// In a closed loop, connections that are busy at the same time, in turns; null: all of them.
    #[serde(default)]
    pub(crate) active: Option<usize>,
    /// Requests that may be outstanding on a connection.
    #[serde(default = "one")]
    pub(crate) pipeline: usize,
    /// A connection is closed after so many requests and opened anew; null: never.
    #[serde(default)]
    pub(crate) requests_per_connection: Option<u64>,
    /// Connections apart from the others, each asked about 100 times a second by a thread of their own.
    #[serde(default)]
    pub(crate) probes: usize,
    /// How long before a request is due the generator stops sleeping and spins.
    #[serde(default)]
    pub(crate) spin_us: u64,
    #[serde(default = "one")]
    pub(crate) threads: usize,
    /// How many processes the whole is split over; more, where one may not have so many descriptors.
    #[serde(default = "one")]
    pub(crate) processes: usize,
    /// Where this process stands among those that load a server as one; null: it is alone.
    #[serde(default)]
    pub(crate) place: Option<Place>,
    /// The processors it may run on; none: all of them.
    #[serde(default)]
    pub(crate) cpus: Vec<usize>,
    /// Load before the measured window; null stands for 500, or for none with `requests`.
    #[serde(default)]
    pub(crate) warmup_ms: Option<u64>,
    /// The length of the measured window. Either this or `requests`.
    #[serde(default)]
    pub(crate) duration_ms: Option<u64>,
    /// The window ends after so many requests; it has no warm-up.
    #[serde(default)]
    pub(crate) requests: Option<u64>,
    /// How long a reply, or a connection, may take before it counts as failed.
    #[serde(default = "timeout_ms")]
    pub(crate) timeout_ms: u64,
    /// The length of the slices of time in `intervals`.
    #[serde(default = "interval_ms")]
    pub(crate) interval_ms: u64,
    /// Tells an `interval` for each slice of the window of this length; null: none.
    #[serde(default)]
    pub(crate) slice_ms: Option<u64>,
    /// Whether it waits for a line on its input after `ready`, before the warm-up, and after `measured`, before it
    /// closes its connections, so that the server can be looked at while it rests. The first line may be a time in
    /// CLOCK_MONOTONIC nanoseconds: then the warm-up begins, and not at once.
    #[serde(default)]
    pub(crate) held: bool,
}

impl LoadSpec {
    /// How many threads it has: the driver of that name has one for each connection, whatever was asked for.
    pub(crate) fn threads(&self) -> usize {
        if self.driver == Driver::Thread { self.connections } else { self.threads }
    }
}

/// How the load generator waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Driver {
    #[default]
    Epoll,
    IoUring,
    Thread,
}

/// A server that is spoken to in TLS. Sessions are not resumed: every connection pays for a whole handshake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// The name, or the IP address, that its certificate must be for.
    pub(crate) server_name: String,
    /// A file in PEM with the authorities that are trusted; null: those of the machine.
    #[serde(default)]
    pub(crate) cacert: Option<PathBuf>,
    /// Whether any certificate will do.
    #[serde(default)]
    pub(crate) insecure: bool,
}

/// Where a process stands among several that load a server as one: its threads and connections are a stretch of theirs.
/// The rates that its spec asks for are those of all of them, of which each thread takes its part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// Threads of the processes before it.
    pub(crate) threads_before: usize,
    /// Threads of them all.
    pub(crate) threads: usize,
    /// Connections of the processes before it, idle ones and probes included.
    pub(crate) connections_before: usize,
}

/// What decides when a request goes out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "loop", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Pace {
    /// The reply to the one before it.
    #[default]
    Closed,
    /// Its time, whatever has become of those before it.
    Open {
        arrivals: Arrivals,
        /// Decides the times of Poisson arrivals.
        #[serde(default = "seed")]
        seed: u64,
        /// Rates one after the other, from the begin of the measured window. Before it the first rate holds.
        stages: Vec<Stage>,
    },
}

/// How requests are spread at a given rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arrivals {
    /// At random, as by many users who know nothing of each other.
    #[default]
    Poisson,
    /// At equal distances.
    Even,
}

/// A rate for a time, changing linearly from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stage {
    pub(crate) from_per_s: f64,
    pub(crate) to_per_s: f64,
    /// Null only of the last, which goes on to the end at `to_per_s`.
    pub(crate) duration_ms: Option<u64>,
}

impl From<&Pace> for ::load::Pace {
    fn from(pace: &Pace) -> Self {
        let Pace::Open { arrivals, seed, stages } = pace else { return Self::Closed };
        let stages = stages.iter().map(|stage| ::load::Stage {
            from_per_s: stage.from_per_s,
            to_per_s: stage.to_per_s,
            duration: stage.duration_ms.map(Duration::from_millis),
        });
        let arrivals = match arrivals {
            Arrivals::Even => ::load::Arrivals::Even,
            Arrivals::Poisson => ::load::Arrivals::Poisson { seed: *seed },
        };
        Self::Open { arrivals, stages: stages.collect() }
    }
}

impl From<Place> for ::load::Place {
    fn from(place: Place) -> Self {
        let Place { threads_before, threads, connections_before } = place;
        Self { threads_before, threads, connections_before }
    }
}

impl From<Driver> for ::load::Driver {
    fn from(driver: Driver) -> Self {
        match driver {
            Driver::Epoll => Self::Epoll,
            Driver::IoUring => Self::IoUring,
            Driver::Thread => Self::Thread,
        }
    }
}

/// All connections of a load generator are open.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadReady {
    pub(crate) schema: Version,
    pub(crate) event: ReadyWord,
    pub(crate) role: LoadWord,
    pub(crate) driver: Driver,
    pub(crate) connections: usize,
    pub(crate) pid: u32,
    pub(crate) build: String,
    /// Features of the kernel it does without.
    pub(crate) lacks: Vec<String>,
}

/// The warm-up is over and the window begins.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measuring {
    pub(crate) schema: Version,
    pub(crate) event: MeasuringWord,
    pub(crate) role: LoadWord,
    pub(crate) monotonic_ns: u64,
}

/// A slice of the window is over.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interval {
    pub(crate) schema: Version,
    pub(crate) event: IntervalWord,
    pub(crate) role: LoadWord,
    /// Which one it is, from 0.
    pub(crate) index: u64,
    pub(crate) begin_ns: u64,
    /// The last one may be shorter than the others.
    pub(crate) end_ns: u64,
    pub(crate) correct: u64,
    pub(crate) wrong: u64,
    pub(crate) failed: u64,
    /// Correct replies a second.
    pub(crate) rate_per_s: f64,
    /// As in the report.
    pub(crate) latency_ns: Latency,
}

/// The window has ended.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    pub(crate) schema: Version,
    pub(crate) event: MeasuredWord,
    pub(crate) role: LoadWord,
    pub(crate) monotonic_ns: u64,
}

/// What a load generator saw in the measured window.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) schema: Version,
    pub(crate) event: ReportWord,
    pub(crate) role: LoadWord,
    pub(crate) build: String,
    pub(crate) driver: Driver,
    pub(crate) lacks: Vec<String>,
    pub(crate) workload: Workload,
    pub(crate) connect: Vec<Address>,
    /// As in the spec.
    #[serde(default)]
    pub(crate) tls: Option<Tls>,
    /// Connections asked for.
    pub(crate) connections: usize,
    /// Connections that were asked for to be idle beside them.
    pub(crate) idle: usize,
    /// Connections open when the window ended, idle ones included.
    pub(crate) connections_open: usize,
    pub(crate) threads: usize,
    /// How many processes it comes from.
    #[serde(default = "one")]
    pub(crate) processes: usize,
    pub(crate) cpus: Vec<usize>,
    pub(crate) pace: Pace,
    /// Connections of a closed loop that were busy at the same time.
    pub(crate) active: Option<usize>,
    pub(crate) pipeline: usize,
    pub(crate) requests_per_connection: Option<u64>,
    /// How long before a request was due the generator no longer slept.
    #[serde(default)]
    pub(crate) spin_us: u64,
    /// Whether a signal ended it before its time.
    pub(crate) interrupted: bool,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) requests: Requests,
    pub(crate) errors: Errors,
    /// The first thing that went wrong, for people.
    pub(crate) first_error: Option<String>,
    pub(crate) bytes: Bytes,
    /// Correct replies a second; of a server that was gone at the end, until its last reply.
    pub(crate) rate_per_s: f64,
    /// Whether the server was gone at the end: no connection was open any more, and none could be opened.
    #[serde(default)]
    pub(crate) gone: bool,
    /// When the last whole reply of the window came; null where none did.
    #[serde(default)]
    pub(crate) last_reply_ns: Option<u64>,
    /// From when a request was due, in a closed loop from its send, to the whole, verified reply.
    pub(crate) latency_ns: Latency,
    /// The same run by other clocks; null in a closed loop, where they are one.
    pub(crate) views: Option<Views>,
    /// What became of the requests that were due; null in a closed loop.
    pub(crate) schedule: Option<Schedule>,
    /// What the probes have seen; null without probes.
    pub(crate) probe: Option<Probe>,
    /// How long the oldest request that was in flight at the end had been due.
    pub(crate) unanswered_ns_max: u64,
    /// The ages, since they were due, of the requests in flight when the window began, added up.
    #[serde(default)]
    pub(crate) age_begin_ns: u64,
    /// The same when it ended.
    #[serde(default)]
    pub(crate) age_end_ns: u64,
    /// The ages of the failed requests when they failed, added up. In a closed loop: sum of latencies + age_end_ns +
    /// age_failed_ns - age_begin_ns = mean number in flight x window.
    #[serde(default)]
    pub(crate) age_failed_ns: u64,
    /// How often each status came; empty where the protocol has none.
    pub(crate) statuses: BTreeMap<String, u64>,
    pub(crate) intervals: Intervals,
    pub(crate) generator: Generator,
    /// What limited the rate.
    pub(crate) bound: Bound,
    /// Why the figures are not to be trusted, a sentence each; empty if the run is sound.
    pub(crate) unsound: Vec<String>,
}

impl Report {
    /// The length of the measured window.
    pub(crate) fn window_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// The part of the window that every rate is over: all of it, or up to the last reply of a server that was gone at
    /// the end.
    pub(crate) fn served_ns(&self) -> u64 {
        let last_ns = self.last_reply_ns.filter(|_| self.gone);
        last_ns.map_or_else(|| self.window_ns(), |last_ns| last_ns.saturating_sub(self.begin_ns))
    }

    /// An amount for each second of that time; 0 where there was none.
    pub(crate) fn per_second(&self, amount: u64) -> f64 {
        let served_s = self.served_ns() as f64 / 1e9;
        if served_s > 0.0 { amount as f64 / served_s } else { 0.0 }
    }
}

/// What a load generator tells, as whoever has started it reads it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum LoadEvent {
    Ready(LoadReady),
    Measuring(Measuring),
    Interval(Box<Interval>),
    Measured(Measured),
    Report(Box<Report>),
    Failed(Failed),
}

/// `sent + in_flight_begin = correct + wrong + failed + in_flight_end`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requests {
    pub(crate) sent: u64,
    pub(crate) correct: u64,
    pub(crate) wrong: u64,
    pub(crate) failed: u64,
    pub(crate) in_flight_begin: u64,
    pub(crate) in_flight_end: u64,
}

/// What went wrong, by kind.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Errors {
    pub(crate) connect: u64,
    pub(crate) reset: u64,
    pub(crate) closed: u64,
    pub(crate) timeout: u64,
    pub(crate) malformed: u64,
    /// Sessions of TLS that could not begin, or broke.
    #[serde(default)]
    pub(crate) tls: u64,
    /// Another status than the expected one.
    pub(crate) status: u64,
    /// Other bytes than the expected ones.
    pub(crate) wrong: u64,
}

/// Bytes as the protocol sees them: before they are encrypted where there is TLS.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bytes {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Those of them that are the bodies of whole replies; null where the protocol has no heads to tell apart.
    #[serde(default)]
    pub(crate) bodies: Option<u64>,
}

/// A distribution of times in nanoseconds, all zero where there were none.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latency {
    pub(crate) min: u64,
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) p99_99: u64,
    pub(crate) p99_999: u64,
    pub(crate) max: u64,
    pub(crate) stdev: f64,
    /// HdrHistogram V2, deflated, base64.
    pub(crate) histogram: String,
}

/// The views of an open loop beside the response time.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Views {
    /// From the send to the whole, verified reply.
    pub(crate) service_ns: Latency,
    /// The same of those requests that found a connection free: all that a closed loop would have seen.
    pub(crate) closed_ns: Latency,
    /// The generator's own delay: from the due time, or from when a connection was free if that came later, to the
    /// send.
    pub(crate) lateness_ns: Latency,
}

/// What connections apart from the load have seen: nothing of it is in the other figures.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    pub(crate) connections: usize,
    pub(crate) requests: Requests,
    /// From when a request was due to the whole, verified reply.
    pub(crate) latency_ns: Latency,
    /// From its send.
    pub(crate) service_ns: Latency,
    /// The delay of the probes' own thread.
    pub(crate) lateness_ns: Latency,
}

/// `due + unsent_begin = sent + unsent_end`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    /// Requests that were due in the window.
    pub(crate) due: u64,
    /// Due before the window and not sent by then.
    pub(crate) unsent_begin: u64,
    /// Due by the end of the window and not sent.
    pub(crate) unsent_end: u64,
    /// Sent in the window, having found no connection free when they were due.
    pub(crate) waited: u64,
    /// The rate that was asked for, over the whole window.
    pub(crate) asked_per_s: f64,
}

/// What limited the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bound {
    pub(crate) by: BoundBy,
    /// One line for people.
    pub(crate) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BoundBy {
    /// The generator waited for the server.
    Server,
    /// The server may be faster than this.
    Generator,
    /// All that was asked for was done: both could do more.
    Rate,
    Unclear,
}

/// Correct replies in each slice of time, the warm-up included.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Intervals {
    pub(crate) begin_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) completed: Vec<u64>,
}

/// What the load generator says of itself.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Generator {
    pub(crate) cpu_ns: u64,
    pub(crate) wall_ns: u64,
    /// Time its threads were runnable without a processor.
    pub(crate) run_delay_ns: u64,
    /// The longest time it was away: busy between two waits, or woken later than it had asked for.
    pub(crate) turn_ns_max: u64,
    pub(crate) turns: u64,
    pub(crate) rss_bytes_max: u64,
}

pub(crate) const TIMEOUT_MS_DEFAULT: u64 = 10_000;
pub(crate) const INTERVAL_MS_DEFAULT: u64 = 20;
pub(crate) const WARMUP_MS_DEFAULT: u64 = 500;
pub(crate) const SEED_DEFAULT: u64 = 1;

fn timeout_ms() -> u64 {
    TIMEOUT_MS_DEFAULT
}

fn interval_ms() -> u64 {
    INTERVAL_MS_DEFAULT
}

fn seed() -> u64 {
    SEED_DEFAULT
}
