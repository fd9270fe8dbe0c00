//! The load generator: it asks, checks every byte of every answer, and says how long each took.
//!
//! It shares no code with the servers but the protocols and the system calls, so that a mistake in how a server
//! waits cannot hide behind the same mistake in the instrument. Its threads share nothing while they run: each has
//! its own connections, histogram and counts, which are merged at the end.

#![forbid(unsafe_code)]

mod drivers;
mod exchange;
mod record;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proto::{Client, Protocol};
use sys::net::Address;

pub use self::record::{Errors, Generator, Intervals, Report, Requests};
use self::record::{Record, Recorder, Timeline};

/// How the generator waits for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Epoll,
    IoUring,
}

impl Driver {
    pub const ALL: [Self; 2] = [Self::Epoll, Self::IoUring];

    /// The word users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }

    /// One line for lists.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Epoll => "receives, checks and sends the next request of one connection after the other",
            Self::IoUring => {
                "checks all replies that have come, then sends all next requests in one system call"
            }
        }
    }

    /// What the driver would do without on this machine.
    ///
    /// # Errors
    /// Where it cannot run here; the text says why and what to do.
    pub fn lacks(self) -> std::io::Result<Vec<String>> {
        match self {
            Self::Epoll => Ok(Vec::new()),
            Self::IoUring => drivers::io_uring::lacks(),
        }
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    After(Duration),
    /// When so many requests have been answered or have failed.
    Requests(u64),
}

/// What to ask of whom, and for how long.
#[derive(Clone, Debug)]
pub struct Config {
    pub driver: Driver,
    /// Where the server listens; connections take several in turn.
    pub addresses: Vec<Address>,
    /// Connections, each with one request outstanding: as soon as a reply is whole the next request goes out.
    pub connections: usize,
    /// Threads the connections are spread over; at most one for each connection.
    pub threads: usize,
    /// Processors to run on, one thread each in turn; empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
    /// Time before the measured window. A run of a number of requests has none.
    pub warmup: Duration,
    pub end: End,
    /// How long a connection may take to open, and a reply to come.
    pub timeout: Duration,
    /// The grain of [`Report::intervals`].
    pub interval: Duration,
}

impl Config {
    /// Whether there is a time before the window. Without one, every request counts.
    fn is_warmed_up(&self) -> bool {
        self.warmup > Duration::ZERO && matches!(self.end, End::After(_))
    }
}

/// What is told while a run goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All connections are open; and each has been answered once, if there is a warm-up.
    Ready { connections: usize, lacks: Vec<String> },
    /// The measured window begins.
    Measuring { at_ns: u64 },
    /// The measured window has ended.
    Measured { at_ns: u64 },
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A word for programs, such as `connection_refused`.
    pub kind: &'static str,
    /// One line for people, saying what to do.
    pub message: String,
}

/// Runs the load and reports what was measured. Raising `stop` ends it early, with what there is by then.
///
/// The warm-up waits until `tell` has returned from [`Event::Ready`], and the connections stay open until it has
/// returned from [`Event::Measured`]: so long the server is at rest, and whoever measures it may take their time.
///
/// # Errors
/// If the connections cannot be opened, or the driver does not work on this machine. Once they are open, what
/// goes wrong is counted and the run goes on.
pub fn run<P: Protocol>(
    config: &Config,
    workload: &'static P::Workload,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Report, Failure> {
    let halt = AtomicBool::new(false);
    thread::scope(|scope| {
        let (ready, readies) = mpsc::channel();
        let mut threads = Vec::new();
        for index in 0..config.threads.clamp(1, config.connections) {
            let ((start, started), (record, recorded)) = (mpsc::channel(), mpsc::channel());
            let (ready, halt) = (ready.clone(), &halt);
            let share = Share::of(config, index);
            let body = move || work::<P>(config, workload, &share, Link { ready, started, record }, halt);
            let spawned = thread::Builder::new().name(format!("load-{index}")).spawn_scoped(scope, body);
            spawned.map_err(|error| failure("no_thread", format!("cannot start a thread: {error}")))?;
            threads.push(Thread { start, recorded, record: None });
        }
        drop(ready);
        let mut lacks = Vec::new();
        for _ in &threads {
            let ready = wait_for(&readies, stop, &halt);
            // Where one thread has failed, the others need not open the rest.
            halt.fetch_or(ready.is_err(), Ordering::Relaxed);
            lacks = ready?;
        }
        tell(Event::Ready { connections: config.connections, lacks });
        let timeline = Timeline::starting_at(sys::clock::monotonic_ns(), config);
        for thread in &threads {
            // A thread that is gone has panicked, which waiting for its record tells.
            let _ = thread.start.send(timeline);
        }
        attend(&timeline, stop, &halt, tell, || threads.iter_mut().all(Thread::is_done));
        let records = threads.iter_mut().map(Thread::wait);
        let report = Report::merge(records, &timeline, halt.load(Ordering::Relaxed));
        if timeline.is_open_ended() {
            tell(Event::Measured { at_ns: report.end_ns });
        }
        Ok(report)
    })
}

/// What the main thread has of another. Dropping it lets that close its connections and end.
struct Thread {
    start: mpsc::Sender<Timeline>,
    recorded: mpsc::Receiver<Record>,
    record: Option<Record>,
}

impl Thread {
    /// Whether it has run to its end, or panicked, which [`Self::wait`] tells.
    fn is_done(&mut self) -> bool {
        self.record.is_some()
            || match self.recorded.try_recv() {
                Ok(record) => {
                    self.record = Some(record);
                    true
                }
                Err(mpsc::TryRecvError::Disconnected) => true,
                Err(mpsc::TryRecvError::Empty) => false,
            }
    }

    /// Waits for its end.
    fn wait(&mut self) -> Record {
        (self.record.take()).unwrap_or_else(|| self.recorded.recv().expect("the thread does not panic"))
    }
}

/// What a thread has of the main one.
struct Link {
    /// It tells here that its connections are open.
    ready: mpsc::Sender<Ready>,
    /// It is told here to start, and by the end of the channel that its connections may go.
    started: mpsc::Receiver<Timeline>,
    record: mpsc::Sender<Record>,
}

/// Waits until the next thread has opened its connections, and has them all give up when `stop` is raised.
fn wait_for(readies: &mpsc::Receiver<Ready>, stop: &AtomicBool, halt: &AtomicBool) -> Ready {
    loop {
        halt.fetch_or(stop.load(Ordering::Relaxed), Ordering::Relaxed);
        match readies.recv_timeout(ATTEND) {
            Ok(ready) => return ready,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("a thread has panicked before it was ready"),
        }
    }
}

/// One thread's part of the load.
struct Share {
    connections: usize,
    requests: u64,
    cpus: Vec<usize>,
}

impl Share {
    fn of(config: &Config, index: usize) -> Self {
        let threads = config.threads.clamp(1, config.connections);
        let part = |whole: u64| whole / threads as u64 + u64::from((index as u64) < whole % threads as u64);
        let requests = match config.end {
            End::After(_) => u64::MAX,
            End::Requests(requests) => part(requests),
        };
        let cpus = Vec::from_iter(config.cpus.get(index % config.cpus.len().max(1)).copied());
        Self { connections: part(config.connections as u64) as usize, requests, cpus }
    }
}

type Ready = Result<Vec<String>, Failure>;

fn work<P: Protocol>(
    config: &Config,
    workload: &'static P::Workload,
    share: &Share,
    link: Link,
    halt: &AtomicBool,
) {
    // A processor set that cannot be had is refused before any thread starts; here the kernel's choice would do.
    let _ = sys::cpu::pin(&share.cpus);
    let _ = sys::process::exact_timers();
    let client = P::Client::new(workload);
    match config.driver {
        Driver::Epoll => {
            drive(
                drivers::epoll::Worker::open(config, share.connections, client, halt),
                config,
                share,
                link,
                halt,
            );
        }
        Driver::IoUring => {
            drive(
                drivers::io_uring::Worker::open(config, share.connections, client, halt),
                config,
                share,
                link,
                halt,
            );
        }
    }
}

/// Tells that the connections are open, waits for the common start, runs to the end, and keeps the connections open
/// until they may go.
fn drive<W: drivers::Drive>(
    worker: Result<W, Failure>,
    config: &Config,
    share: &Share,
    link: Link,
    halt: &AtomicBool,
) {
    let Link { ready, started, record } = link;
    let mut worker = match worker {
        Ok(worker) => worker,
        Err(failure) => {
            // The receiver lives until every thread has told it, here and below.
            let _ = ready.send(Err(failure));
            return;
        }
    };
    let mut recorder = Recorder::new(share.requests);
    if config.is_warmed_up() {
        // One request on each connection, which nobody records: a server that starts a process for each is
        // still at it when the last has connected, and would be for a second of its warm-up.
        worker.run(&mut Recorder::new(share.connections as u64), halt);
    }
    let _ = ready.send(Ok(worker.lacks()));
    // The channel ends when no thread has anything more to tell.
    drop(ready);
    // No start means that another thread has failed: there is nothing to do.
    let Ok(timeline) = started.recv() else { return };
    recorder.start(timeline);
    worker.run(&mut recorder, halt);
    // Closing the connections belongs to no window.
    let _ = record.send(recorder.finish());
    let _ = started.recv();
}

/// How often the main thread looks whether it is to stop.
const ATTEND: Duration = Duration::from_millis(20);

/// Tells when the window begins and ends, and halts the threads when asked to.
fn attend(
    timeline: &Timeline,
    stop: &AtomicBool,
    halt: &AtomicBool,
    tell: &mut dyn FnMut(Event),
    mut finished: impl FnMut() -> bool,
) {
    let mut measuring = false;
    loop {
        // Before the clock is read: who is done at the end of the window has been told that it has ended.
        let finished = finished();
        let now_ns = sys::clock::monotonic_ns();
        if stop.load(Ordering::Relaxed) {
            halt.store(true, Ordering::Relaxed);
            return;
        }
        if !measuring && now_ns >= timeline.begin_ns {
            measuring = true;
            tell(Event::Measuring { at_ns: now_ns });
        }
        if now_ns >= timeline.end_ns {
            tell(Event::Measured { at_ns: now_ns });
            return;
        }
        if finished {
            return;
        }
        let next_ns = if measuring { timeline.end_ns } else { timeline.begin_ns };
        thread::sleep(Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(ATTEND));
    }
}

fn failure(kind: &'static str, message: String) -> Failure {
    Failure { kind, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects the shares of all threads to add up to the whole, and to differ by one at most.
    fn check(connections: usize, threads: usize, requests: u64) {
        let config = Config {
            driver: Driver::Epoll,
            addresses: Vec::new(),
            connections,
            threads,
            cpus: vec![3, 5],
            warmup: Duration::ZERO,
            end: End::Requests(requests),
            timeout: Duration::from_secs(1),
            interval: Duration::from_millis(100),
        };
        let shares: Vec<Share> =
            (0..threads.min(connections)).map(|index| Share::of(&config, index)).collect();
        assert_eq!(shares.iter().map(|share| share.connections).sum::<usize>(), connections);
        assert_eq!(shares.iter().map(|share| share.requests).sum::<u64>(), requests);
        let spread = |of: fn(&Share) -> u64| {
            shares.iter().map(of).max().unwrap() - shares.iter().map(of).min().unwrap()
        };
        assert!(spread(|share| share.connections as u64) <= 1 && spread(|share| share.requests) <= 1);
        assert_eq!(shares[0].cpus, [3]);
    }

    #[test]
    fn the_load_is_spread_evenly_and_nothing_is_lost() {
        check(1, 1, 1);
        check(50, 2, 1_001);
        check(7, 3, 100);
        check(3, 8, 10);
    }
}
