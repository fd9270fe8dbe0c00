//! A process for each connection: accept, fork, and the child serves it to its end in blocking calls.
//!
//! Complete isolation for the price of copying page tables, and of a process the scheduler must know. Children
//! that have ended are reaped as they end; unreaped, they would fill the process table.

use std::convert::Infallible;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

use proto::Protocol;
use sys::process;

use crate::conversation::{after_failed_accept, converse};
use crate::scratch::Scratch;
use crate::workers::spread;
use crate::{Choice, Config, Holds};

pub(crate) const ABOUT: &str = "a process for each connection, forked when it is accepted";
pub(crate) const OPTIONS: &[Choice] = &[];
pub(crate) const HOLDS: Holds = Holds::Many;
pub(crate) use crate::lacks_nothing as lacks;

/// Children that have not been reaped yet, of all workers: the kernel hands an ended child to whoever asks.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn serve<P: Protocol>(
    listeners: Vec<TcpListener>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    let reaper = thread::Builder::new().name("reaper".into()).spawn(reap)?;
    let reaper = reaper.thread().clone();
    // A closure that is shared by workers is copied to each, so it may only hold what can be.
    let reaper: &'static Thread = Box::leak(Box::new(reaper));
    let children_max = config.connections_max.saturating_mul(listeners.len());
    spread(listeners, config, move |listener| {
        // A fork copies the whole table: a child must not hold the connections of other workers, which would then
        // not end when they are closed.
        process::own_descriptors()?;
        loop {
            match listener.accept() {
                Ok((socket, _)) => start::<P>(socket, workload, children_max, reaper),
                Err(error) => after_failed_accept(&error),
            }
        }
    })
}

/// Forks a child for a connection. Where there are enough of them, or the system allows no further process, the
/// connection is refused, by closing it.
fn start<P: Protocol>(
    socket: TcpStream,
    workload: &'static P::Workload,
    children_max: usize,
    reaper: &Thread,
) {
    // Counted before it exists: it may end, and be reaped, before this function goes on.
    if CHILDREN.fetch_add(1, Ordering::Relaxed) >= children_max {
        CHILDREN.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let parent = std::process::id();
    let forked = process::fork(|| {
        if process::die_with_parent(parent).is_ok() {
            converse::<P>(socket, workload, &mut Scratch::new());
        }
    });
    match forked {
        Ok(()) => reaper.unpark(),
        Err(_) => drop(CHILDREN.fetch_sub(1, Ordering::Relaxed)),
    }
}

/// Waits for children to end, as long as there are any.
fn reap() {
    loop {
        match process::wait_child() {
            Ok(()) => drop(CHILDREN.fetch_sub(1, Ordering::Relaxed)),
            Err(_) => thread::park(),
        }
    }
}
