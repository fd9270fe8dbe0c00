//! A fixed number of threads serve all connections. Idle connections are in a cache, watched by one more thread.
//!
//! The watcher asks epoll which cached connections are ready, each reported once, and queues them. A thread of the pool
//! takes one, serves it, and gives it back. So a connection belongs to one thread at a time, computing requests spread
//! over processors, and no thread waits for a slow peer: its connection is in the cache. Each message costs a locked
//! queue, a switch to another thread, and a syscall to watch the connection again.
//!
//! The queue is never longer than the number of open connections, which `cache` and `connections_max` limit.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use proto::{Protocol, Server};
use slab::Slab;
use sys::epoll::{Epoll, Interest};
use sys::net::Socket;

use crate::acceptor::{Acceptor, LISTENERS};
use crate::counts::Limit;
use crate::readiness::{Connection, Step};
use crate::scratch::Scratch;
use crate::workers::{Worker, spread};
use crate::{Config, Model, ModelOption, Values};

pub(crate) const MODEL: Model = Model {
    about: "a fixed number of threads, and a cache of connections that wait for them",
    options: &[THREADS, CACHE],
    connections_per_worker,
    ..Model::DEFAULT
};

const THREADS: ModelOption = ModelOption {
    name: "threads",
    values: Values::Number { default: "25", min: 1, max: 1024 },
    about: "threads of each worker that serve connections",
    defects: &[],
};

const CACHE: ModelOption = ModelOption {
    name: "cache",
    values: Values::Number { default: "10000", min: 1, max: 1_000_000 },
    about: "connections that each worker keeps open; one more closes the one that was idle longest",
    defects: &[],
};

fn connections_per_worker(config: &Config) -> Option<usize> {
    Some(config.number(&CACHE).min(config.connections_max))
}

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| {
        let watcher = Watcher::<P>::new(worker, config, workload)?;
        for index in 0..config.number(&THREADS) {
            let pool = Arc::clone(&watcher.pool);
            thread::Builder::new().name(format!("pool-{index}")).spawn(move || work::<P>(&pool))?;
        }
        watcher.run()
    })
}

/// The connections of a worker, and which of them wait for a thread.
struct Pool<S> {
    /// The set of the watcher, to watch connections again.
    epoll: Epoll,
    state: Mutex<State<S>>,
    ready: Condvar,
}

struct State<S> {
    connections: Slab<Entry<S>>,
    /// Connections that are ready, with their keys.
    queue: VecDeque<(usize, Connection<S>)>,
    threads_waiting: usize,
    /// Counts connections that were given back: a clock for how long each has been idle.
    returns: u64,
}

/// Where a connection is.
enum Entry<S> {
    /// In the cache, since this count of `returns`.
    Cached(Connection<S>, u64),
    /// Queued, or with a thread.
    Out,
    /// Ready again, with a thread that watches it again but has not given it back yet.
    OutAndReady,
}

impl<S> Pool<S> {
    fn new(epoll: Epoll) -> Self {
        let state =
            State { connections: Slab::new(), queue: VecDeque::new(), threads_waiting: 0, returns: 0 };
        Self { epoll, state: Mutex::new(state), ready: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().expect("no thread panics while it has the lock")
    }

    /// Waits for the next connection to serve.
    fn next<'a>(&'a self, mut state: MutexGuard<'a, State<S>>) -> (usize, Connection<S>) {
        loop {
            if let Some(next) = state.queue.pop_front() {
                return next;
            }
            state.threads_waiting += 1;
            state = self.ready.wait(state).expect("no thread panics while it has the lock");
            state.threads_waiting -= 1;
        }
    }
}

impl<S> State<S> {
    /// Records that a connection is ready. Returns whether it is queued for a thread now.
    fn report(&mut self, key: usize) -> bool {
        let entry = &mut self.connections[key];
        match mem::replace(entry, Entry::Out) {
            Entry::Cached(connection, _) => {
                self.queue.push_back((key, connection));
                true
            }
            Entry::Out | Entry::OutAndReady => {
                *entry = Entry::OutAndReady;
                false
            }
        }
    }

    /// Takes back a connection that is watched again.
    fn give_back(&mut self, key: usize, connection: Connection<S>) {
        self.returns += 1;
        let entry = &mut self.connections[key];
        match entry {
            Entry::OutAndReady => {
                *entry = Entry::Out;
                self.queue.push_back((key, connection));
            }
            _ => *entry = Entry::Cached(connection, self.returns),
        }
    }

    /// Closes the connection that has been in the cache longest, if there is one. It searches all of them: that is
    /// rare, and keeping them in order would cost time for each request.
    fn evict(&mut self) -> bool {
        let cached = self.connections.iter().filter_map(|(key, entry)| match entry {
            Entry::Cached(_, since) => Some((since, key)),
            Entry::Out | Entry::OutAndReady => None,
        });
        let longest = cached.min().map(|(_, key)| key);
        longest.map(|key| self.connections.remove(key)).is_some()
    }
}

/// What a thread of the pool does.
fn work<P: Protocol>(pool: &Pool<P::Server>) {
    let mut scratch = Scratch::new();
    let mut state = pool.lock();
    loop {
        let (key, mut connection) = pool.next(state);
        scratch.tick();
        let interest = match connection.step(&mut scratch, false) {
            Step::Receive | Step::ReceiveAgain => Some(Interest::READ.once()),
            Step::Send | Step::SendAgain => Some(Interest::WRITE.once()),
            Step::Close => None,
        };
        let watched =
            interest.filter(|&interest| pool.epoll.change(&connection, key as u64, interest).is_ok());
        if watched.is_some() {
            state = pool.lock();
            state.give_back(key, connection);
        } else {
            // Closed before its key is freed, so that no event for it can follow.
            drop(connection);
            state = pool.lock();
            state.connections.remove(key);
        }
    }
}

/// Accepts connections and watches those in the cache.
struct Watcher<P: Protocol> {
    epoll: Epoll,
    acceptor: Acceptor,
    pool: Arc<Pool<P::Server>>,
    cache: usize,
    connections_max: usize,
    workload: &'static P::Workload,
}

impl<P: Protocol> Watcher<P> {
    fn new(worker: Worker, config: &'static Config, workload: &'static P::Workload) -> io::Result<Self> {
        let (acceptor, epoll) = Acceptor::with_epoll(worker)?;
        let (pool, cache) = (Arc::new(Pool::new(epoll.share()?)), config.number(&CACHE));
        Ok(Self { epoll, acceptor, pool, cache, connections_max: config.connections_max, workload })
    }

    fn run(mut self) -> io::Result<Infallible> {
        loop {
            let count = self.epoll.wait(None)?;
            self.queue_ready(count);
            // Last, because a key that is freed here may be in an event above.
            for index in 0..count {
                if let Some(listener) = self.epoll.ready(index).key.checked_sub(LISTENERS) {
                    self.accept(listener as usize);
                }
            }
        }
    }

    /// Queues all ready connections, and wakes as many sleeping threads.
    fn queue_ready(&self, count: usize) {
        let mut state = self.pool.lock();
        let keys = (0..count).map(|index| self.epoll.ready(index).key).filter(|&key| key < LISTENERS);
        let queued = keys.filter(|&key| state.report(key as usize)).count();
        let woken = queued.min(state.threads_waiting);
        drop(state);
        (0..woken).for_each(|_| self.pool.ready.notify_one());
    }

    fn accept(&mut self, listener: usize) {
        // Only the watcher adds connections, so the room can only grow.
        let room = self.connections_max.saturating_sub(self.pool.lock().connections.len());
        let (epoll, pool, cache, workload) = (&self.epoll, &self.pool, self.cache, self.workload);
        self.acceptor.accept(listener, room, |socket: Socket| {
            // Released after each connection: threads take the lock after each message.
            let mut state = pool.lock();
            if state.connections.len() >= cache && !state.evict() {
                return Err(Limit::ConnectionsMax);
            }
            let since = state.returns;
            let entry = state.connections.vacant_entry();
            epoll.add(&socket, entry.key() as u64, Interest::READ.once()).map_err(|_| Limit::Memory)?;
            entry.insert(Entry::Cached(Connection::new(socket, P::Server::new(workload)), since));
            Ok(())
        });
    }
}
