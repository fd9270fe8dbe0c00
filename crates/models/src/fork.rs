//! A process for each connection: accept and fork. The child serves the connection in blocking calls.
//!
//! Complete isolation, at the cost of copying the page tables and a process for each connection. Children are reaped as
//! they end. With `reap=never` they stay in the process table until it is full.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

use proto::Protocol;
use sys::net::Socket;
use sys::process;

use crate::acceptor::Acceptor;
use crate::conversation::converse;
use crate::counts::Limit;
use crate::scratch::Scratch;
use crate::workers::{Worker, spread};
use crate::{Config, Model, ModelOption, Values, WorkerKind};

pub(crate) const MODEL: Model = Model {
    about: "a process for each connection, forked when it is accepted",
    options: &[REAP],
    ..Model::DEFAULT
};

const REAP: ModelOption = ModelOption {
    name: "reap",
    values: Values::Words(&["soon", "never"]),
    about: "when a finished child process is reaped",
    defects: &[(
        "never",
        "every connection leaves a zombie process, and the server refuses all connections at the limit of processes",
    )],
};

/// Children of all workers of this process that have not been reaped yet. Any thread may reap any child.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    let workers_here = if config.worker_kind == WorkerKind::Process { 1 } else { workers.len() };
    let children_max = config.connections_max.saturating_mul(workers_here);
    let reaps = config.option(&REAP) == "soon";
    spread(workers, config, move |worker| {
        let reaper = reaps.then(start_reaper).transpose()?;
        // A fork copies the descriptor table. The acceptor has its own, so children do not inherit the connections of
        // other workers, which would then stay open after they are closed.
        let mut acceptor = Acceptor::new(worker)?;
        // Each child has a copy of it. A child that allocated its own would spend a quarter of its time on page faults.
        let mut scratch = Scratch::new();
        loop {
            let socket = acceptor.wait();
            let started = match &reaper {
                Some(reaper) => start_counted::<P>(socket, workload, &mut scratch, children_max, reaper),
                None => start::<P>(socket, workload, &mut scratch),
            };
            acceptor.settle(started);
        }
    })
}

/// Starts a child for a connection, unless there are `children_max` already.
fn start_counted<P: Protocol>(
    socket: Socket,
    workload: &'static P::Workload,
    scratch: &mut Scratch,
    children_max: usize,
    reaper: &Thread,
) -> Result<(), Limit> {
    // Counted before the fork: the child may end and be reaped before this function continues.
    if CHILDREN.fetch_add(1, Ordering::Relaxed) >= children_max {
        CHILDREN.fetch_sub(1, Ordering::Relaxed);
        return Err(Limit::ConnectionsMax);
    }
    let started = start::<P>(socket, workload, scratch);
    match started {
        Ok(()) => reaper.unpark(),
        Err(_) => drop(CHILDREN.fetch_sub(1, Ordering::Relaxed)),
    }
    started
}

/// Forks a child for a connection. If the system allows no further process, the connection is closed.
fn start<P: Protocol>(
    socket: Socket,
    workload: &'static P::Workload,
    scratch: &mut Scratch,
) -> Result<(), Limit> {
    let parent = std::process::id();
    let forked = process::fork(|| {
        if process::die_with_parent(parent).is_ok() {
            converse::<P>(&socket, workload, scratch);
        }
        // The exit code does not matter.
        0
    });
    forked.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => Limit::Memory,
        _ => Limit::Processes,
    })
}

fn start_reaper() -> io::Result<Thread> {
    let reaper = thread::Builder::new().name("reaper".into()).spawn(reap)?;
    Ok(reaper.thread().clone())
}

/// Reaps children, and sleeps while there are none.
fn reap() {
    loop {
        match process::wait_child() {
            Ok(_) => drop(CHILDREN.fetch_sub(1, Ordering::Relaxed)),
            Err(_) => thread::park(),
        }
    }
}
