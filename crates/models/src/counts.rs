//! What each worker has accepted and refused, in memory that worker processes share with their parent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The most connections a worker was told to hold.
    ConnectionsMax,
    /// The process or the system has no descriptor left.
    Descriptors,
    /// The number of its descriptor does not fit into the set that `select` takes.
    SetSize,
    /// The system allows no further process.
    Processes,
    /// The system allows no further thread.
    Threads,
    /// The system has no memory left for what watches a connection, or for its stack.
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

    /// The word in reports.
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

/// Counters of one worker, two cache lines apart from those of the next.
const STRIDE: usize = 16;
const ACCEPTED: usize = 0;
const REFUSED: usize = 1;

/// The counts of all workers, and how often one was started again.
#[derive(Clone, Copy, Debug)]
pub struct WorkerStats {
    restarts: &'static AtomicU64,
    workers: &'static [AtomicU64],
}

impl WorkerStats {
    /// The statistics of so many workers, which may be threads or processes that are forked later.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn new(workers: usize) -> io::Result<Self> {
        let (first, rest) = sys::shared::counters(STRIDE * (workers + 1))?.split_at(STRIDE);
        Ok(Self { restarts: &first[0], workers: rest })
    }

    /// The counts of each worker.
    pub fn workers(self) -> impl Iterator<Item = Counts> {
        self.workers.chunks_exact(STRIDE).map(Counts)
    }

    /// How often a worker process was started again.
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
    /// Connections it has taken, those that have ended among them.
    pub fn connections(self) -> u64 {
        self.0[ACCEPTED].load(Ordering::Relaxed)
    }

    /// Connections it has closed at once because of a limit.
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
        // Taken first: several listeners may do so at once.
        let permit = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::Relaxed) < connections_max).then_some(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
