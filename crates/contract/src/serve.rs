//! The spec and the reports of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{ADDRESSES, CONNECTIONS, THREADS};
use crate::{Address, ReadyWord, ServeWord, ServedWord, Version, Workload, one};

/// The spec of a server: the line it reads from standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeSpec {
    pub schema: Version,
    pub role: ServeWord,
    /// The name of a model, as `describe` lists them.
    pub model: String,
    /// Options of the model and their values; those not named have their defaults.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    pub workload: Workload,
    /// Where it listens, on one address or on several. Port 0 lets the kernel choose.
    #[schemars(length(min = *ADDRESSES.start(), max = *ADDRESSES.end()))]
    pub listen: Vec<Address>,
    #[serde(default = "one")]
    #[schemars(range(min = *THREADS.start(), max = *THREADS.end()))]
    pub workers: usize,
    #[serde(default)]
    pub worker_kind: WorkerKind,
    /// The processors it may run on; none: all of them.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// The file of the network namespace that it enters before it opens a socket; null: the one it is started in.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// Maximum number of connections per worker.
    #[serde(default = "connections_max")]
    #[schemars(range(min = *CONNECTIONS.start(), max = *CONNECTIONS.end()))]
    pub connections_max: usize,
    /// Whether to count its syscalls, which slows each of them a little.
    #[serde(default)]
    pub count_calls: bool,
}

/// Whether each worker is a thread or a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum WorkerKind {
    /// A thread of the server's process.
    #[default]
    Thread,
    /// A process of its own, started again when it dies.
    Process,
}

/// A server accepts connections.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeReady {
    pub schema: Version,
    pub event: ReadyWord,
    pub role: ServeWord,
    /// The model with its options that are not default, as `io_uring[recv=oneshot]`.
    pub model: String,
    /// The addresses with their actual ports.
    #[schemars(length(min = 1))]
    pub listen: Vec<Address>,
    pub pid: u32,
    pub build: String,
    #[schemars(range(min = 1))]
    pub workers: usize,
    pub worker_kind: WorkerKind,
    /// Connections a worker serves at the same time; null: as many as the system and `connections_max` allow.
    #[schemars(range(min = 1))]
    pub holds: Option<usize>,
    /// Known defects of this variant, if it is one that was published with a defect.
    pub defects: Vec<String>,
    /// Missing kernel features.
    pub lacks: Vec<String>,
    /// The parser and builder of messages: `iolab`, or the library that is compared with it as a whole.
    pub parser: String,
    /// Whether an open connection may move from one thread to another.
    pub moves_connections: bool,
}

/// What a server has done so far. Emitted after each line on standard input, and when the server ends.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Served {
    pub schema: Version,
    pub event: ServedWord,
    pub role: ServeWord,
    pub workers: Vec<ServedWorker>,
    /// How often a worker process was restarted.
    pub restarts: u64,
    /// Syscalls of all workers so far, if they are counted and the kernel allows it.
    pub calls: Option<u64>,
}

/// What one worker has done so far.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServedWorker {
    /// Connections it has accepted, including ended ones.
    pub connections: u64,
    /// Connections it has refused, by limit.
    pub refused: BTreeMap<String, u64>,
}

pub const CONNECTIONS_MAX_DEFAULT: usize = 16_384;

fn connections_max() -> usize {
    CONNECTIONS_MAX_DEFAULT
}
