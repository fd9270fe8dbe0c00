//! The load generator: sends requests, checks every byte of every reply, and records latencies.
//!
//! It shares only the protocols and the syscalls with the servers, so a mistake in how a server waits cannot hide
//! behind the same mistake here. Its threads share nothing while they run: each has its own connections, histogram and
//! counts, which are merged at the end.

#![forbid(unsafe_code)]

mod client_connection;
mod dispatch;
mod drivers;
mod in_flight;
pub mod pace;
mod record;
mod slices;
mod tls;
mod watch;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use contract::{Arrivals, Driver, FirstFailure, LoadSpec, Opening, Pace, Shard, Stage};
use proto::{Client, Protocol};
use sys::net::Socket;

use self::dispatch::Dispatcher;
use self::pace::{Ramp, Schedule};
pub use self::record::{Backlog, Report};
use self::record::{Recorder, Timeline};
pub use self::slices::Slice;
use self::slices::{Slicer, Slices};
use self::tls::Session;
pub use self::tls::{Tls, Trust};

/// Features that a driver would use and this machine lacks.
///
/// # Errors
/// If the driver cannot run here. The text says why and what to do.
pub fn missing_features(driver: Driver) -> io::Result<Vec<String>> {
    match driver {
        Driver::Epoll | Driver::Thread => Ok(Vec::new()),
        Driver::IoUring => drivers::io_uring::missing_features(),
    }
}

/// The number of threads: as requested, but at most one for each connection.
fn threads_of(spec: &LoadSpec) -> usize {
    spec.threads().clamp(1, spec.connections)
}

/// The shard of this process among those that load the server together.
fn shard_of(spec: &LoadSpec) -> Shard {
    let alone = Shard { threads_before: 0, threads: threads_of(spec), connections_before: 0 };
    spec.place.unwrap_or(alone)
}

/// The load of the probes, if there are any.
fn probe_of(spec: &LoadSpec) -> Option<LoadSpec> {
    let shard = shard_of(spec);
    // The probes of each process have their own times.
    let seed = PROBE_SEED + shard.threads_before as u64;
    let stage = Stage::steady(PROBE_RATE_PER_S * spec.probes as f64);
    // A processor without a thread of the load, if there is one.
    let cpu = spec.cpus.get((shard.threads_before + threads_of(spec)) % spec.cpus.len().max(1));
    (spec.probes > 0).then(|| LoadSpec {
        // One thread handles all probes, because they are few.
        driver: if spec.driver == Driver::Thread { Driver::Epoll } else { spec.driver },
        cpus: Vec::from_iter(cpu.copied()),
        connections: spec.probes,
        idle: 0,
        threads: 1,
        place: Some(Shard {
            threads_before: 0,
            threads: 1,
            connections_before: shard.connections_before + spec.connections + spec.idle,
        }),
        pace: Pace::Open { arrivals: Arrivals::Poisson, seed, stages: vec![stage] },
        active: None,
        pipeline: 1,
        open: Opening::Before,
        details: false,
        requests: spec.requests.map(|_| u64::MAX),
        slice_ms: None,
        ..spec.clone()
    })
}

/// Requests per second of a probe connection: too few to load the server, and enough for a p99 within ten seconds.
const PROBE_RATE_PER_S: f64 = 100.0;
/// An unlikely seed for users to choose, so that probes do not coincide with the requests of a schedule.
const PROBE_SEED: u64 = 0x70_72_6f_62_65;

/// Progress of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// All connections are open, except those opened as needed. If there is a warm-up, each has had one reply.
    Ready { connections: usize, missing_features: Vec<String> },
    /// The measured window begins.
    Measuring { at_ns: u64 },
    /// A slice of the window has ended.
    Sliced(Slice),
    /// The measured window has ended.
    Measured { at_ns: u64 },
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A word for programs, such as `connection_refused`.
    pub kind: &'static str,
    /// One line for people that says what to do.
    pub message: String,
    /// The connection that could not be opened, if that is the reason.
    pub first_failure: Option<FirstFailure>,
}

/// Runs the load and returns the report. Raising `stop` ends it early, with the results so far.
///
/// The warm-up waits until `emit` has returned from [`Event::Ready`], and the connections stay open until it has
/// returned from [`Event::Measured`]. Meanwhile the server is idle and can be inspected. From [`Event::Ready`] `emit`
/// returns the start of the warm-up in CLOCK_MONOTONIC nanoseconds, or None for at once. Its other results are ignored.
///
/// # Errors
/// If the connections cannot be opened, or the driver does not work on this machine. Later errors are counted, and the
/// run goes on.
pub fn run<P: Protocol>(
    spec: &LoadSpec,
    tls: Option<&Tls>,
    workload: &'static P::Workload,
    stop: &AtomicBool,
    emit: &mut dyn FnMut(Event) -> Option<u64>,
) -> Result<Report, Failure> {
    let (halt, probe_halt) = (AtomicBool::new(false), AtomicBool::new(false));
    let probe = probe_of(spec);
    thread::scope(|scope| {
        let ((ready, readies), (probe_ready, probe_readies)) = (mpsc::channel(), mpsc::channel());
        let (slice, slices) = mpsc::channel();
        let mut slices = Slices::new(slices, threads_of(spec));
        let start = |spec, index, ready: &mpsc::Sender<Ready>, halt| {
            start::<P>(scope, (spec, tls), workload, index, (ready.clone(), slice.clone()), halt)
        };
        let mut threads = (0..threads_of(spec))
            .map(|index| start(spec, index, &ready, &halt))
            .collect::<Result<Vec<_>, _>>()?;
        let probe = probe.as_ref().map(|probe| start(probe, 0, &probe_ready, &probe_halt)).transpose()?;
        drop((ready, probe_ready));
        let mut opened = wait_for_all(&readies, threads.len(), stop, &halt);
        if opened.is_ok() && probe.is_some() {
            opened = wait_for(&probe_readies, stop, &probe_halt).map_err(of_probe);
        }
        if opened.is_err() {
            // The other threads need not open the rest.
            [&halt, &probe_halt].into_iter().for_each(|halt| halt.store(true, Ordering::Relaxed));
        }
        let missing_features = opened?;
        let ready_ns = sys::clock::monotonic_ns();
        let start_ns = emit(Event::Ready { connections: spec.connections, missing_features });
        let timeline = Timeline::starting_at(within_reach(start_ns, ready_ns), spec);
        for thread in threads.iter().chain(&probe) {
            // If the thread is gone, it has panicked. Waiting for its record reports that.
            let _ = thread.start.send(timeline);
        }
        attend(&timeline, stop, &halt, &mut slices, emit, || threads.iter_mut().all(Thread::is_done));
        let mut report = Report::empty(matches!(spec.pace, Pace::Open { .. }));
        threads.iter_mut().for_each(|thread| report.add(&thread.wait()));
        // In a run with a number of requests, the probes end here.
        probe_halt.store(true, Ordering::Relaxed);
        report.probe = probe.map(|mut thread| Box::new(thread.wait().into_probe(spec.probes)));
        report.generator.rss_bytes_max = sys::process::rss_bytes_max();
        report.interrupted = halt.load(Ordering::Relaxed);
        slices.pass_on(true, |slice| {
            emit(Event::Sliced(slice));
        });
        if timeline.is_open_ended() {
            emit(Event::Measured { at_ns: report.end_ns });
        }
        Ok(report)
    })
}

/// The start of a run that should begin at `start_ns`: not before it is ready, and not too far ahead.
fn within_reach(start_ns: Option<u64>, ready_ns: u64) -> u64 {
    let now_ns = sys::clock::monotonic_ns();
    start_ns.map_or(now_ns, |start_ns| start_ns.clamp(ready_ns, now_ns + START_AHEAD_NS_MAX))
}

/// The longest time until the start of a run.
const START_AHEAD_NS_MAX: u64 = 60_000_000_000;

/// Starts a thread, which opens its share of the connections.
fn start<'scope, P: Protocol>(
    scope: &'scope thread::Scope<'scope, '_>,
    (spec, tls): (&'scope LoadSpec, Option<&'scope Tls>),
    workload: &'static P::Workload,
    index: usize,
    (ready, slice): (mpsc::Sender<Ready>, mpsc::Sender<Slice>),
    halt: &'scope AtomicBool,
) -> Result<Thread, Failure> {
    let ((start, started), (record, recorded)) = (mpsc::channel(), mpsc::channel());
    let (channels, share) = (Channels { ready, started, slice, record }, ThreadLoad::of(spec, index));
    let body = move || work::<P>(spec, tls, workload, &share, channels, halt);
    let spawned = thread::Builder::new().name(format!("load-{index}")).spawn_scoped(scope, body);
    spawned.map_err(|error| failure("no_thread", format!("cannot start a thread: {error}")))?;
    Ok(Thread { start, recorded, record: None })
}

/// The main thread's side of a load thread. Dropping it lets the thread close its connections and end.
struct Thread {
    start: mpsc::Sender<Timeline>,
    recorded: mpsc::Receiver<Report>,
    record: Option<Report>,
}

impl Thread {
    /// Whether it has finished or panicked; [`Self::wait`] reports a panic.
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
    fn wait(&mut self) -> Report {
        (self.record.take()).unwrap_or_else(|| self.recorded.recv().expect("the thread does not panic"))
    }
}

/// A load thread's side of the channels to the main thread.
struct Channels {
    /// Reports that the connections are open.
    ready: mpsc::Sender<Ready>,
    /// Receives the start. When the channel closes, the connections may be closed.
    started: mpsc::Receiver<Timeline>,
    slice: mpsc::Sender<Slice>,
    record: mpsc::Sender<Report>,
}

/// Waits until all threads have opened their connections, or one of them has failed.
fn wait_for_all(
    readies: &mpsc::Receiver<Ready>,
    threads: usize,
    stop: &AtomicBool,
    halt: &AtomicBool,
) -> Ready {
    let mut missing_features = Vec::new();
    for _ in 0..threads {
        missing_features = wait_for(readies, stop, halt)?;
    }
    Ok(missing_features)
}

/// Waits until the next thread has opened its connections. Halts all threads when `stop` is raised.
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
struct ThreadLoad {
    /// The index of the thread among those of all processes.
    index: usize,
    threads: usize,
    /// The number of connections of earlier threads, in all processes.
    first: usize,
    connections: usize,
    idle: usize,
    in_flight: u64,
    requests: u64,
    cpus: Vec<usize>,
}

impl ThreadLoad {
    fn of(spec: &LoadSpec, index: usize) -> Self {
        let threads = threads_of(spec) as u64;
        let before = |whole: u64, index: u64| whole / threads * index + index.min(whole % threads);
        let part = |whole: u64| before(whole, index as u64 + 1) - before(whole, index as u64);
        let (connections, idle) = (spec.connections as u64, spec.idle as u64);
        let room = connections * spec.pipeline as u64;
        let shard = shard_of(spec);
        let first = before(connections, index as u64) + before(idle, index as u64);
        let index = shard.threads_before + index;
        Self {
            index,
            threads: shard.threads,
            first: shard.connections_before + first as usize,
            connections: part(connections) as usize,
            idle: part(idle) as usize,
            in_flight: part(spec.active.map_or(room, |active| (active * spec.pipeline) as u64)),
            requests: spec.requests.map_or(u64::MAX, part),
            cpus: Vec::from_iter(spec.cpus.get(index % spec.cpus.len().max(1)).copied()),
        }
    }

    /// The dispatcher of its requests.
    fn dispatcher(&self, pace: &Pace, timeline: &Timeline) -> Dispatcher {
        match pace {
            Pace::Closed => Dispatcher::closed(self.connections, self.in_flight),
            Pace::Open { arrivals, seed, stages } => {
                Dispatcher::open(self.connections, self.schedule((*arrivals, *seed), stages, timeline))
            }
        }
    }

    /// Its part of the schedule of all processes.
    fn schedule(&self, arrivals: (Arrivals, u64), stages: &[Stage], timeline: &Timeline) -> Schedule {
        let stages: Vec<Ramp> = stages.iter().map(Ramp::from).collect();
        let times = (timeline.start_ns, timeline.begin_ns);
        Schedule::new(arrivals, &stages, (self.index, self.threads), times)
    }
}

type Ready = Result<Vec<String>, Failure>;

fn work<P: Protocol>(
    spec: &LoadSpec,
    tls: Option<&Tls>,
    workload: &'static P::Workload,
    share: &ThreadLoad,
    channels: Channels,
    halt: &AtomicBool,
) {
    // Impossible processor sets are refused before any thread starts. An error here leaves the choice to the kernel.
    let _ = sys::cpu::pin(&share.cpus);
    let _ = sys::process::exact_timers();
    let client = P::Client::new(workload);
    match (spec.driver, tls) {
        (Driver::Epoll, None) => {
            let worker = drivers::epoll::Worker::<_, _, Socket>::open(spec, (), share, client, halt);
            drive(worker, spec, share, channels, halt);
        }
        (Driver::Epoll, Some(tls)) => {
            let worker =
                drivers::epoll::Worker::<_, _, Session>::open(spec, tls.clone(), share, client, halt);
            drive(worker, spec, share, channels, halt);
        }
        (Driver::IoUring, None) => {
            let worker = drivers::io_uring::Worker::open(spec, share, client, halt);
            drive(worker, spec, share, channels, halt);
        }
        (Driver::IoUring, Some(_)) => unreachable!("a driver that has no TLS is refused before"),
        (Driver::Thread, None) => {
            let worker = drivers::thread::Worker::<_, _, Socket>::open(spec, (), share, client, halt);
            drive(worker, spec, share, channels, halt);
        }
        (Driver::Thread, Some(tls)) => {
            let worker =
                drivers::thread::Worker::<_, _, Session>::open(spec, tls.clone(), share, client, halt);
            drive(worker, spec, share, channels, halt);
        }
    }
}

/// Reports that the connections are open, waits for the common start, runs to the end, and keeps the connections open
/// until the main thread releases them.
fn drive<W: drivers::Drive>(
    worker: Result<W, Failure>,
    spec: &LoadSpec,
    share: &ThreadLoad,
    channels: Channels,
    halt: &AtomicBool,
) {
    let Channels { ready, started, slice, record } = channels;
    let mut worker = match worker {
        Ok(worker) => worker,
        Err(failure) => {
            // The receiver exists until every thread has sent its message, here and below.
            let _ = ready.send(Err(failure));
            return;
        }
    };
    let mut recorder = Recorder::new(share.requests, &spec.pace);
    if watch::counts_opened(spec) {
        recorder.count_opened();
    }
    if spec.details {
        recorder.time_requests();
    }
    if spec.warmup_ms() > 0 {
        // One request on each connection, not recorded: a server with a process for each connection may still be
        // starting them when the last has connected.
        let count = share.connections as u64;
        let mut dispatcher = Dispatcher::closed(share.connections, count);
        let mut unrecorded = Recorder::new(count, &Pace::Closed);
        worker.run(&mut dispatcher, &mut unrecorded, halt);
        recorder.follow(&unrecorded);
    }
    let _ = ready.send(Ok(worker.missing_features()));
    // The channel ends when all threads have sent their message.
    drop(ready);
    // Without a start, another thread has failed.
    let Ok(timeline) = started.recv() else { return };
    let slicer = spec.slice_ms.map(|slice_ms| Slicer::new(1_000_000 * slice_ms, slice));
    drivers::pause_until(timeline.start_ns, halt);
    recorder.start(timeline, slicer);
    worker.run(&mut share.dispatcher(&spec.pace, &timeline), &mut recorder, halt);
    let mut report = recorder.finish();
    report.first_failure = report.first_failure.map(|first| first.of_thread(share.index, share.threads));
    // The time to close connections belongs to no window.
    let _ = record.send(report);
    let _ = started.recv();
}

/// The failure of a probe. Probe connections have their own numbers, so none is reported as one of the load.
fn of_probe(failure: Failure) -> Failure {
    Failure { message: format!("a probe cannot start: {}", failure.message), first_failure: None, ..failure }
}

/// The interval at which the main thread checks `stop`.
const ATTEND: Duration = Duration::from_millis(20);

/// Reports when the window begins and ends, and halts the threads when `stop` is raised.
fn attend(
    timeline: &Timeline,
    stop: &AtomicBool,
    halt: &AtomicBool,
    slices: &mut Slices,
    emit: &mut dyn FnMut(Event) -> Option<u64>,
    mut finished: impl FnMut() -> bool,
) {
    let mut measuring = false;
    loop {
        // Read before the clock: threads that finish at the end of the window must still lead to `Measured`.
        let finished = finished();
        let now_ns = sys::clock::monotonic_ns();
        if stop.load(Ordering::Relaxed) {
            halt.store(true, Ordering::Relaxed);
            return;
        }
        if !measuring && now_ns >= timeline.begin_ns {
            measuring = true;
            emit(Event::Measuring { at_ns: now_ns });
        }
        slices.pass_on(false, |slice| {
            emit(Event::Sliced(slice));
        });
        if now_ns >= timeline.end_ns {
            emit(Event::Measured { at_ns: now_ns });
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
    Failure { kind, message, first_failure: None }
}

#[cfg(test)]
mod tests {
    use contract::{Echo, Workload};

    use super::*;

    /// Expects the shares of all threads to add up to the whole, and to differ by at most one.
    fn check(connections: usize, threads: usize, requests: u64) {
        let spec = LoadSpec { connections, threads, cpus: vec![3, 5], requests: Some(requests), ..spec() };
        let shares: Vec<ThreadLoad> =
            (0..threads.min(connections)).map(|index| ThreadLoad::of(&spec, index)).collect();
        assert_eq!(shares.iter().map(|share| share.connections).sum::<usize>(), connections);
        assert_eq!(shares.iter().map(|share| share.requests).sum::<u64>(), requests);
        let spread = |of: fn(&ThreadLoad) -> u64| {
            shares.iter().map(of).max().unwrap() - shares.iter().map(of).min().unwrap()
        };
        assert!(spread(|share| share.connections as u64) <= 1 && spread(|share| share.requests) <= 1);
        assert_eq!(shares[0].cpus, [3]);
        let before = |index: usize| shares[..index].iter().map(|share| share.connections).sum::<usize>();
        assert!(shares.iter().all(|share| share.first == before(share.index)));
    }

    /// A load for ten seconds, without an address.
    fn spec() -> LoadSpec {
        let workload = Workload::Echo(Echo::default());
        LoadSpec { duration_ms: Some(10_000), warmup_ms: Some(0), ..LoadSpec::new(workload, Vec::new()) }
    }

    #[test]
    fn the_load_is_spread_evenly_and_nothing_is_lost() {
        check(1, 1, 1);
        check(50, 2, 1_001);
        check(7, 3, 100);
        check(3, 8, 10);
    }

    /// A load of seven connections, with idle ones and probes, on this many threads of one process.
    fn load_of(threads: usize, place: Option<Shard>) -> LoadSpec {
        LoadSpec { connections: 7, idle: 5, probes: 1, threads, place, cpus: vec![3, 5, 8], ..spec() }
    }

    fn shares(spec: &LoadSpec) -> Vec<ThreadLoad> {
        (0..threads_of(spec)).map(|index| ThreadLoad::of(spec, index)).collect()
    }

    /// When the first thousand requests of all threads of these processes are due.
    fn dues_ns(specs: &[LoadSpec], arrivals: (Arrivals, u64)) -> Vec<u64> {
        let stage = Stage { from_per_s: 1000.0, to_per_s: 3000.0, duration_ms: Some(1_000) };
        let mut dues_ns = Vec::new();
        for share in specs.iter().flat_map(shares) {
            let timeline = Timeline::starting_at(7, &specs[0]);
            let mut schedule = share.schedule(arrivals, &[stage], &timeline);
            while schedule.due_ns() < u64::MAX {
                dues_ns.push(schedule.due_ns());
                schedule.advance();
            }
        }
        dues_ns.sort_unstable();
        dues_ns
    }

    /// Expects several processes with these numbers of threads to send the same as one process with all threads.
    fn check_places(threads: &[usize]) {
        let all = threads.iter().sum();
        let parts: Vec<LoadSpec> = (0..threads.len())
            .map(|index| {
                let threads_before = threads[..index].iter().sum();
                let place = Shard { threads_before, threads: all, connections_before: 13 * index };
                load_of(threads[index], Some(place))
            })
            .collect();
        for arrivals in [(Arrivals::Even, 0), (Arrivals::Poisson, 5)] {
            let due_ns = dues_ns(&parts, arrivals);
            assert!(due_ns.len().abs_diff(2000) < 250, "{threads:?} ask {} times", due_ns.len());
            assert_eq!(due_ns, dues_ns(&[load_of(all, None)], arrivals), "{threads:?}, {arrivals:?}");
        }
        let cpus =
            |specs: &[LoadSpec]| specs.iter().flat_map(shares).map(|share| share.cpus).collect::<Vec<_>>();
        assert_eq!(cpus(&parts), cpus(&[load_of(all, None)]), "{threads:?}");
        // These numbers decide the address and source of each connection.
        let mut next = 0;
        for (part, probe) in parts.iter().map(|part| (part, probe_of(part).expect("it has one"))) {
            for share in shares(part).iter().chain(&shares(&probe)) {
                assert_eq!(share.first, next, "{threads:?}");
                next += share.connections + share.idle;
            }
        }
        let mut paces: Vec<_> = parts.iter().map(|part| probe_of(part).expect("it has one").pace).collect();
        paces.dedup();
        assert_eq!(paces.len(), parts.len(), "probes of two processes have the same times: {threads:?}");
    }

    #[test]
    fn several_processes_are_as_one_with_all_their_threads() {
        check_places(&[1]);
        check_places(&[1, 1]);
        check_places(&[3, 2, 2]);
    }

    #[test]
    fn the_failure_of_a_probe_is_told_as_one_and_by_no_number_of_another_connection() {
        let (phase, saw) = (contract::Phase::Connect, contract::Saw::Refused);
        let first = FirstFailure { at_ns: 5, request: 0, connection: 1, phase, saw };
        let failed = Failure { first_failure: Some(first), ..failure("connect_failed", "no way".into()) };
        let expected =
            Failure { message: "a probe cannot start: no way".into(), first_failure: None, ..failed.clone() };
        assert_eq!(of_probe(failed), expected);
    }

    #[test]
    fn a_begin_that_cannot_be_is_one_at_once() {
        let now_ns = sys::clock::monotonic_ns();
        assert_eq!(within_reach(Some(now_ns), now_ns - 5), now_ns, "it has just passed");
        assert_eq!(within_reach(Some(5), 7), 7);
        let (at_once_ns, ahead_ns) = (within_reach(None, 5), within_reach(Some(u64::MAX), 0));
        let until_now_ns = now_ns..=sys::clock::monotonic_ns();
        assert!(until_now_ns.contains(&at_once_ns));
        assert!(until_now_ns.contains(&(ahead_ns - START_AHEAD_NS_MAX)));
    }
}
