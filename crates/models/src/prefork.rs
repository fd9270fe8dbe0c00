//! A fixed number of processes, forked in advance. All accept from one queue, and each serves one connection at a time.
//!
//! The isolation of a process for each connection, without a fork for each. The kernel wakes one waiting process, and
//! the program is as simple as one for a single client. With several addresses the processes wait in poll, and each
//! connection wakes all of them. No more connections are served than there are processes: further ones wait in the
//! kernel's queue, even while the served ones are idle.
//!
//! With several workers, each has its own listeners and its own processes. `worker_kind` makes no difference.

use std::convert::Infallible;
use std::io;

use proto::Protocol;

use crate::conversation::one_at_a_time;
use crate::workers::{Worker, supervise};
use crate::{Config, Model, ModelOption, Values};

pub(crate) const MODEL: Model = Model {
    about: "a fixed number of processes, one connection at a time each",
    options: &[PROCESSES],
    connections_per_worker: |config| Some(processes(config)),
    ..Model::DEFAULT
};

const PROCESSES: ModelOption = ModelOption {
    name: "processes",
    values: Values::Number { default: "16", min: 1, max: 1024 },
    about: "processes of each worker, which is also the number of connections it serves at the same time",
    defects: &[],
};

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    supervise(workers, processes(config), config, move |worker| one_at_a_time::<P>(worker, workload))
}

/// Processes of each worker.
fn processes(config: &Config) -> usize {
    config.number(&PROCESSES).min(config.connections_max)
}
