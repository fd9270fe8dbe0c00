//! The spec of a load generator.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{
    CONNECTIONS, DURATION_MS, IDLE, PIPELINE, PLACE_CONNECTIONS, PLACE_THREADS, PROBES, PROCESSES,
    RATE_PER_S, REQUESTS, SLICE_MS, SOURCES, SPIN_US, STAGES, TARGETS, THREADS, WARMUP_MS,
};
use crate::{Address, LoadWord, Version, Workload, one};

/// The spec of a load generator: the line it reads from standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    pub schema: Version,
    pub role: LoadWord,
    #[serde(default)]
    pub driver: Driver,
    pub workload: Workload,
    /// The addresses of the server; connections take them in turn.
    #[schemars(length(min = *TARGETS.start(), max = *TARGETS.end()))]
    pub connect: Vec<Address>,
    /// TLS settings; null: no TLS.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Local addresses that connections come from, in turn; none: the kernel's choice.
    #[serde(default)]
    #[schemars(length(min = *SOURCES.start(), max = *SOURCES.end()))]
    pub sources: Vec<IpAddr>,
    #[schemars(range(min = *CONNECTIONS.start(), max = *CONNECTIONS.end()))]
    pub connections: usize,
    /// Additional connections that are opened and never used.
    #[serde(default)]
    #[schemars(range(min = *IDLE.start(), max = *IDLE.end()))]
    pub idle: usize,
    /// When the connections are opened.
    #[serde(default)]
    pub open: Opening,
    /// Connections opened per second at most; null: as fast as possible.
    #[serde(default)]
    #[schemars(range(max = *RATE_PER_S.end()), extend("exclusiveMinimum" = 0.0))]
    pub connect_per_s: Option<f64>,
    /// What decides when a request is sent.
    #[serde(default)]
    pub pace: Pace,
    /// In a closed loop, connections that are busy at the same time, in turns; null: all of them.
    #[serde(default)]
    #[schemars(range(min = *CONNECTIONS.start(), max = *CONNECTIONS.end()))]
    pub active: Option<usize>,
    /// Requests that may be outstanding on a connection.
    #[serde(default = "one")]
    #[schemars(range(min = *PIPELINE.start(), max = *PIPELINE.end()))]
    pub pipeline: usize,
    /// A connection is closed after this many requests and reopened; null: never.
    #[serde(default)]
    #[schemars(range(min = *REQUESTS.start(), max = *REQUESTS.end()))]
    pub requests_per_connection: Option<u64>,
    /// Extra connections on a separate thread, each with about 100 requests per second.
    #[serde(default)]
    #[schemars(range(min = *PROBES.start(), max = *PROBES.end()))]
    pub probes: usize,
    /// How long the generator busy-waits before a request is due, or after a reply in a closed loop.
    #[serde(default)]
    #[schemars(range(min = *SPIN_US.start(), max = *SPIN_US.end()))]
    pub spin_us: u64,
    #[serde(default = "one")]
    #[schemars(range(min = *THREADS.start(), max = *THREADS.end()))]
    pub threads: usize,
    /// Processes of the generator; more are started if one process cannot have enough descriptors.
    #[serde(default = "one")]
    #[schemars(range(min = *PROCESSES.start(), max = *PROCESSES.end()))]
    pub processes: usize,
    /// The shard of this process, if several load a server as one; null: it is alone.
    #[serde(default)]
    pub place: Option<Shard>,
    /// The processors it may run on; none: all of them.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// The file of the network namespace that it enters before it opens a socket; null: the one it is started in.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// Load before the measured window; null stands for 500, or for none with `requests` or connections opened as
    /// needed.
    #[serde(default)]
    #[schemars(range(min = *WARMUP_MS.start(), max = *WARMUP_MS.end()))]
    pub warmup_ms: Option<u64>,
    /// The length of the measured window. Either this or `requests`.
    #[serde(default)]
    #[schemars(range(min = *DURATION_MS.start(), max = *DURATION_MS.end()))]
    pub duration_ms: Option<u64>,
    /// The window ends after this many requests; there is no warm-up.
    #[serde(default)]
    #[schemars(range(min = *REQUESTS.start(), max = *REQUESTS.end()))]
    pub requests: Option<u64>,
    /// How long a reply, or a connection, may take before it counts as failed.
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = *DURATION_MS.start(), max = *DURATION_MS.end()))]
    pub timeout_ms: u64,
    /// How much of a reply is compared with the expected one.
    #[serde(default)]
    pub verify: Verification,
    /// Whether the parts of each request's time are measured, at the cost of two clock readings per request.
    #[serde(default)]
    pub details: bool,
    /// The length of the slices of time in `intervals`.
    #[serde(default = "interval_ms")]
    #[schemars(range(min = *DURATION_MS.start(), max = *DURATION_MS.end()))]
    pub interval_ms: u64,
    /// Emits an `interval` event for each slice of the window of this length; null: none.
    #[serde(default)]
    #[schemars(range(min = *SLICE_MS.start(), max = *SLICE_MS.end()))]
    pub slice_ms: Option<u64>,
    /// Whether it waits for a line on its input after `ready`, before the warm-up, and after `measured`, before it
    /// closes its connections, so that the idle server can be inspected. The first line may be the start of the warm-up
    /// in CLOCK_MONOTONIC nanoseconds; otherwise that begins at once.
    #[serde(default)]
    pub held: bool,
}

impl LoadSpec {
    /// One connection in a closed loop, with the defaults of a spec. Its window has no end yet.
    pub fn new(workload: Workload, connect: Vec<Address>) -> Self {
        Self {
            schema: Version,
            role: LoadWord::Is,
            driver: Driver::default(),
            workload,
            connect,
            tls: None,
            sources: Vec::new(),
            connections: 1,
            idle: 0,
            open: Opening::default(),
            connect_per_s: None,
            pace: Pace::default(),
            active: None,
            pipeline: one(),
            requests_per_connection: None,
            probes: 0,
            spin_us: 0,
            threads: one(),
            processes: one(),
            place: None,
            cpus: Vec::new(),
            netns: None,
            warmup_ms: None,
            duration_ms: None,
            requests: None,
            timeout_ms: TIMEOUT_MS_DEFAULT,
            verify: Verification::default(),
            details: false,
            interval_ms: INTERVAL_MS_DEFAULT,
            slice_ms: None,
            held: false,
        }
    }

    /// The time before the window. A run with a number of requests has none, because every request counts. Neither has
    /// one that opens connections as needed, because every connection counts.
    pub fn warmup_ms(&self) -> u64 {
        let has_none = self.requests.is_some() || self.open == Opening::AsNeeded;
        if has_none { 0 } else { self.warmup_ms.unwrap_or(WARMUP_MS_DEFAULT) }
    }

    /// The number of threads. The driver `thread` has one for each connection, regardless of the setting.
    pub fn threads(&self) -> usize {
        if self.driver == Driver::Thread { self.connections } else { self.threads }
    }
}

/// How the load generator waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Driver {
    #[default]
    Epoll,
    IoUring,
    Thread,
}

impl Driver {
    pub const ALL: [Self; 3] = [Self::Epoll, Self::IoUring, Self::Thread];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
            Self::Thread => "thread",
        }
    }

    /// One line for lists.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Epoll => "receives, checks and sends the next request of one connection after the other",
            Self::IoUring => "checks all replies that have come, then sends all next requests in one syscall",
            Self::Thread => "has a thread for each connection, which waits in its syscalls",
        }
    }

    /// Whether it can tell when a connection is open and when a request is sent. A ring does both in the kernel, and a
    /// thread's blocking calls wait for both at once.
    pub const fn has_details(self) -> bool {
        matches!(self, Self::Epoll)
    }

    /// Whether it supports TLS. A ring sends and receives in the kernel, which has no session.
    pub const fn has_tls(self) -> bool {
        !matches!(self, Self::IoUring)
    }
}

/// When connections are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Opening {
    /// Before the run; each gets one reply before the warm-up.
    #[default]
    Before,
    /// Each when its first request is due, as `ab` does.
    AsNeeded,
}

/// How much of a reply is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verification {
    /// The whole reply, in any number of receives.
    #[default]
    Whole,
    /// Only what the first receive returns, as clients without framing do: a reply in several pieces is wrong.
    OneReceive,
}

/// TLS with the server. Sessions are not resumed: every connection makes a full handshake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The name or IP address to expect in its certificate.
    pub server_name: String,
    /// A PEM file of trusted certificate authorities; null: those of the machine.
    #[serde(default)]
    pub cacert: Option<PathBuf>,
    /// Whether any certificate is accepted.
    #[serde(default)]
    pub insecure: bool,
}

/// One of several processes that load a server as one. Its threads and connections are consecutive among those of all
/// processes. The rates in its spec are those of all processes; each thread sends its share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Threads of the processes before it.
    #[schemars(range(max = *PLACE_THREADS.end()))]
    pub threads_before: usize,
    /// Threads of all processes.
    #[schemars(range(min = *PLACE_THREADS.start(), max = *PLACE_THREADS.end()))]
    pub threads: usize,
    /// Connections of the processes before it, idle ones and probes included.
    #[schemars(range(min = *PLACE_CONNECTIONS.start(), max = *PLACE_CONNECTIONS.end()))]
    pub connections_before: usize,
}

/// What decides when a request is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "loop", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pace {
    /// The reply to the previous request.
    #[default]
    Closed,
    /// Its due time, whether or not earlier requests have been answered.
    Open {
        #[serde(default)]
        arrivals: Arrivals,
        /// Seed of the Poisson arrivals.
        #[serde(default = "seed")]
        seed: u64,
        /// Consecutive rates, from the start of the measured window. The warm-up has the first rate.
        #[schemars(length(min = *STAGES.start(), max = *STAGES.end()))]
        stages: Vec<Stage>,
    },
}

/// How requests are spread at a given rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Random (Poisson), as from many independent users.
    #[default]
    Poisson,
    /// Evenly spaced.
    Even,
}

/// A rate for a time, changing linearly from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    #[schemars(range(min = *RATE_PER_S.start(), max = *RATE_PER_S.end()))]
    pub from_per_s: f64,
    #[schemars(range(min = *RATE_PER_S.start(), max = *RATE_PER_S.end()))]
    pub to_per_s: f64,
    /// Null only for the last stage, which continues to the end at `to_per_s`.
    #[schemars(range(min = *DURATION_MS.start(), max = *DURATION_MS.end()))]
    pub duration_ms: Option<u64>,
}

impl Stage {
    /// A constant rate without end.
    pub const fn steady(rate_per_s: f64) -> Self {
        Self { from_per_s: rate_per_s, to_per_s: rate_per_s, duration_ms: None }
    }
}

pub const TIMEOUT_MS_DEFAULT: u64 = 10_000;
pub const INTERVAL_MS_DEFAULT: u64 = 20;
pub const WARMUP_MS_DEFAULT: u64 = 500;
pub const SEED_DEFAULT: u64 = 1;

fn timeout_ms() -> u64 {
    TIMEOUT_MS_DEFAULT
}

fn interval_ms() -> u64 {
    INTERVAL_MS_DEFAULT
}

fn seed() -> u64 {
    SEED_DEFAULT
}
