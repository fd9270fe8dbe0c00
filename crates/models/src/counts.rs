//! Counts of accepted and refused connections, in memory that worker processes share with their parent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The configured limit of a worker.
    ConnectionsMax,
    /// The process or the system has no descriptor left.
    Descriptors,
    /// Its descriptor number does not fit into the set of `select`.
    SetSize,
    /// The system allows no further process.
    Processes,
    /// The system allows no further thread.
    Threads,
    /// The system has no memory left to watch the connection, or for its stack.
    Memory,
}

impl Limit {
    pub const ALL: [Self; 6] = [
        Self::ConnectionsMax,
        Self::Descriptors,
        Self::SetSize,
        Self::Processes,
        Self::Threads,
        Self::Memory,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionsMax => "connections_max",
            Self::Descriptors => "descriptors",
            Self::SetSize => "set_size",
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Memory => "memory",
        }
    }
}

/// Counters of one worker take two cache lines, so that workers do not share one.
const STRIDE: usize = 16;
const ACCEPTED: usize = 0;
const REFUSED: usize = 1;

/// The counts of all workers, and the number of restarts.
#[derive(Clone, Copy, Debug)]
pub struct WorkerStats {
    restarts: &'static AtomicU64,
    workers: &'static [AtomicU64],
}

impl WorkerStats {
    /// The statistics of `workers` workers. These may be threads, or processes that are forked later.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(workers: usize) -> io::Result<Self> {
        let (first, rest) = sys::shared::counters(STRIDE * (workers + 1))?.split_at(STRIDE);
        Ok(Self { restarts: &first[0], workers: rest })
    }

    /// The counts of each worker.
    pub fn workers(self) -> impl Iterator<Item = Counts> {
        self.workers.chunks_exact(STRIDE).map(Counts)
    }

    /// The number of restarts of worker processes.
    pub fn restarts(self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(crate) fn restarted(self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counts of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Counts(&'static [AtomicU64]);

impl Counts {
    /// Connections it has accepted, including those that have ended.
    pub fn connections(self) -> u64 {
        self.0[ACCEPTED].load(Ordering::Relaxed)
    }

    /// Connections it has refused because of a limit.
    pub fn refused(self, limit: Limit) -> u64 {
        self.0[REFUSED + limit as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn take(self) {
        self.0[ACCEPTED].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refuse(self, limit: Limit) {
        self.0[REFUSED + limit as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Permission for one connection of a worker, given back when it is dropped.
pub(crate) struct ConnectionPermit(Arc<AtomicUsize>);

impl ConnectionPermit {
    /// `open` counts the permits that are taken. None if there are `connections_max` already.
    pub(crate) fn take(open: &Arc<AtomicUsize>, connections_max: usize) -> Option<Self> {
        // Counted first: several listeners may do so at once.
        let permit = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::Relaxed) < connections_max).then_some(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
