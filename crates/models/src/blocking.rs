//! One request at a time: accept a connection, serve it to its end, accept the next.
//!
//! The oldest model, and the baseline for all others. While one client is served, all others wait in the kernel's
//! queue, so a client that keeps its connection open blocks the rest. HTTP replies therefore end the connection.

use std::convert::Infallible;
use std::io;

use proto::Protocol;

use crate::conversation::one_at_a_time;
use crate::workers::{Worker, spread};
use crate::{Config, Model};

pub(crate) const MODEL: Model = Model {
    about: "one connection at a time in blocking calls",
    connections_per_worker: |_| Some(1),
    ..Model::DEFAULT
};

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| one_at_a_time::<P>(worker, workload))
}
