//! Several processes that load one server as one, for more connections than one process has descriptors.
//!
//! Each is another instance of this program, with its shard of the spec, and held. So none sends a request before all
//! connections are open, all start at the same moment, and none closes a connection before all have measured. Their
//! reports are merged like those of threads.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ::load::{Event, Slice};
use contract::limits::PROCESSES;
use contract::{Address, Failed, LoadEvent, LoadSpec, Pace, Shard};

use crate::failure::{Failure, Fault};
use crate::output;
use crate::result::report::{measured, slice};
use crate::spec::limits::DESCRIPTORS_RESERVED;
use crate::spec::workload::forever;
use crate::units::{count, counted};

/// Adapts a checked spec to this machine: as many processes as its connections need descriptors, a thread for each, and
/// as many loopback source addresses as they need ports. Prints what it adds.
///
/// # Errors
/// `bad_number`: too few connections for the processes, or too few source addresses for the connections.
pub(crate) fn fit(mut spec: LoadSpec) -> Result<LoadSpec, Failure> {
    let needed = processes_needed(&spec, descriptors());
    if needed > spec.processes {
        let (processes, descriptors) = (count(needed as u64), count(descriptors() as u64));
        output::say(&format!(
            "using {processes} processes: one has descriptors for {descriptors} connections"
        ));
        spec.processes = needed;
    }
    if spec.processes > 1 {
        spec.threads = spec.threads.max(spec.processes);
        check_shares(&spec)?;
    }
    give_sources(&mut spec, ports())?;
    Ok(spec)
}

/// Checks that there is work for each process.
fn check_shares(spec: &LoadSpec) -> Result<(), Failure> {
    let processes = spec.processes;
    let busy = spec.active.unwrap_or(spec.connections);
    let least = if processes > busy {
        counted(busy, "busy connection")
    } else if parts(spec).iter().any(|part| part.requests == Some(0)) {
        "fewer requests than processes".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::request(
        "bad_number",
        format!("{processes} processes cannot share {least}: use fewer processes"),
    ))
}

/// The parts of a spec, one for each of its processes. Together they are the whole; the first is the largest.
pub(crate) fn parts(spec: &LoadSpec) -> Vec<LoadSpec> {
    match spec.processes {
        // The spec may be a part itself, with its own place.
        1 => vec![spec.clone()],
        processes => (0..processes).map(|index| part(spec, index)).collect(),
    }
}

/// Runs each part in a process, as [`::load::run`] runs one. Raising `stop` ends them all early.
///
/// Call it from a thread that lives as long as the run: the processes end with it.
///
/// If one fails, the others end too. If all were already measuring, the results of the others so far are the run.
///
/// # Errors
/// The first failure, if there is nothing to report.
pub(crate) fn run(
    parts: &[LoadSpec],
    stop: &AtomicBool,
    emit: &mut dyn FnMut(Event) -> Option<u64>,
) -> Result<Ran, Failure> {
    let (sender, news) = mpsc::channel();
    let mut shards = Vec::new();
    for part in parts {
        shards.push(ShardProcess::start(part, shards.len(), sender.clone())?);
    }
    drop(sender);
    let slices = Slices { pending: Vec::new(), ends: vec![u64::MAX; shards.len()] };
    let mut whole = Shards {
        shards,
        news,
        stop,
        is_interrupted: false,
        measuring: 0,
        at_ns: 0,
        slices,
        lost: Vec::new(),
    };
    let missing_features = whole.open()?;
    let connections = parts.iter().map(|part| part.connections).sum();
    let start_ns = emit(Event::Ready { connections, missing_features });
    // All processes use the same clock, and need a moment to receive the time.
    let start_ns = start_ns.unwrap_or_else(|| sys::clock::monotonic_ns() + START_AHEAD_NS);
    whole.go_on(&start_ns.to_string());
    whole.measure(&parts[0], emit)
}

/// A run that has been measured.
pub(crate) struct Ran {
    pub(crate) measured: ::load::Report,
    /// The failures of processes whose parts are missing.
    pub(crate) lost: Vec<Failure>,
}

impl From<::load::Report> for Ran {
    fn from(measured: ::load::Report) -> Self {
        Self { measured, lost: Vec::new() }
    }
}

/// How far ahead the start is, so that even the last process receives it in time on a busy machine.
const START_AHEAD_NS: u64 = 100_000_000;

/// How many processes are needed if each has this many descriptors for connections.
fn processes_needed(spec: &LoadSpec, descriptors: usize) -> usize {
    let largest = |processes: usize| {
        let kinds = [spec.connections, spec.idle, spec.probes];
        kinds.into_iter().map(|whole| whole.div_ceil(processes)).sum::<usize>()
    };
    // If even the maximum is too few, the check of a part reports it.
    PROCESSES.into_iter().find(|processes| largest(*processes) <= descriptors).unwrap_or(1)
}

/// How many connections one process has descriptors for.
fn descriptors() -> usize {
    sys::process::descriptors_max().saturating_sub(DESCRIPTORS_RESERVED)
}

/// Adds source addresses for connections to the loopback interface if one address has too few ports.
fn give_sources(spec: &mut LoadSpec, ports: usize) -> Result<(), Failure> {
    if spec.connect.iter().any(|Address(address)| matches!(address, sys::net::Address::Unix(_))) {
        return Ok(());
    }
    let connections = spec.connections + spec.idle + spec.probes;
    let needed = |ports: usize| connections.div_ceil((ports * spec.connect.len()).max(1));
    if spec.sources.is_empty() && spec.connect.iter().all(is_loopback) {
        let needed = needed((ports as f64 * PORTS_SHARE) as usize);
        if needed > 1 {
            let first = u32::from(Ipv4Addr::LOCALHOST) + 1;
            spec.sources = (first..).take(needed).map(|address| Ipv4Addr::from(address).into()).collect();
            let (ports, last) = (count(ports as u64), spec.sources[needed - 1]);
            output::say(&format!(
                "connections come from {} to {last}: one address has {ports} ports for a server",
                spec.sources[0]
            ));
        }
        return Ok(());
    }
    if needed(ports) > spec.sources.len().max(1) {
        let message = format!(
            "{} need {} source addresses, each with {} ports: give more of them (--source)",
            counted(connections, "connection"),
            needed(ports),
            count(ports as u64)
        );
        return Err(Failure::request("bad_number", message));
    }
    Ok(())
}

/// The share of an address's ports to use before adding another address. The kernel tries every other port first. When
/// those are taken, it scans them all for each connection, which takes milliseconds.
const PORTS_SHARE: f64 = 0.45;

/// Whether this is an address of 127.0.0.0/8, which all belong to this machine.
fn is_loopback(Address(address): &Address) -> bool {
    matches!(address, sys::net::Address::Ip(address) if address.is_ipv4() && address.ip().is_loopback())
}

/// The number of ports that the kernel chooses from for connections between two addresses. If unknown, its default.
fn ports() -> usize {
    const DEFAULT: usize = 28_232;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map_while(|number| number.parse::<usize>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) if first <= last => last - first + 1,
        _ => DEFAULT,
    }
}

fn part(spec: &LoadSpec, index: usize) -> LoadSpec {
    let (of, threads) = (spec.processes, spec.threads());
    let begin = |whole: usize| before(whole, index, of);
    let part = |whole: usize| before(whole, index + 1, of) - begin(whole);
    // A schedule uses all threads in turn, whatever their process; a closed loop is as fast as its connections.
    let requests = |whole: usize| match spec.pace {
        Pace::Open { .. } => {
            before(whole, begin(threads) + part(threads), threads) - before(whole, begin(threads), threads)
        }
        Pace::Closed => part(whole),
    };
    LoadSpec {
        processes: 1,
        place: Some(Shard {
            threads_before: begin(threads),
            threads,
            connections_before: begin(spec.connections) + begin(spec.idle) + begin(spec.probes),
        }),
        connections: part(spec.connections),
        idle: part(spec.idle),
        probes: part(spec.probes),
        active: spec.active.map(part),
        threads: part(spec.threads),
        requests: spec.requests.map(|whole| requests(whole as usize) as u64),
        held: true,
        ..spec.clone()
    }
}

/// How much of a whole the shares before `index` have. There are `of` shares, and the first ones are the largest.
fn before(whole: usize, index: usize, of: usize) -> usize {
    whole / of * index + index.min(whole % of)
}

/// One of the processes. Dropping it kills it.
struct ShardProcess {
    child: Child,
    /// The process lives while this is open.
    stdin: Option<ChildStdin>,
    /// Whether it has measured and waits for the others.
    rests: bool,
    /// How many slices it has reported.
    slices: u64,
    /// Whether it reports nothing more.
    has_ended: bool,
    report: Option<::load::Report>,
}

/// An event of a process. None: it has ended, or its output is invalid.
type News = (usize, Option<LoadEvent>);

impl ShardProcess {
    /// Starts a process with its part of the spec, and a thread that forwards its events.
    fn start(part: &LoadSpec, index: usize, sender: mpsc::Sender<News>) -> Result<Self, Failure> {
        let mut child = Command::new(env::current_exe()?)
            .args(["load", "--spec", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Only this process gets Ctrl-C, and passes it on: a second SIGINT would end a child at once.
            .process_group(0)
            .spawn()
            .map_err(|error| Failure::work("failed", format!("cannot start another process: {error}")))?;
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let stdin = child.stdin.take();
        let mut shard = Self { stdin, child, rests: false, slices: 0, has_ended: false, report: None };
        thread::Builder::new().name(format!("process-{index}")).spawn(move || {
            let events = stdout.lines().map_while(|line| contract::read::<LoadEvent>(&line.ok()?).ok());
            // Without a receiver the run is over.
            events.for_each(|event| drop(sender.send((index, Some(event)))));
            let _ = sender.send((index, None));
        })?;
        shard.say(&contract::line(part));
        Ok(shard)
    }

    /// Sends it a line. A process that has ended does not read it, which its last event reports.
    fn say(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{line}");
        }
    }

    /// Why it failed: its own message, if it sent one.
    fn failure(&mut self, failed: Option<Failed>, place: &str) -> Failure {
        let status = self.child.wait();
        let Some(Failed { kind, message, first_failure, .. }) = failed else {
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            let message = format!("{place} ended before its report: {status}");
            return Failure::work("failed", message);
        };
        let fault = match status.ok().and_then(|status| status.code()) {
            Some(code) if code == Fault::Request as i32 => Fault::Request,
            Some(code) if code == Fault::Machine as i32 => Fault::Machine,
            _ => Fault::Work,
        };
        Failure { first_failure, ..Failure::new(fault, forever(kind).as_str(), message) }
    }
}

impl Drop for ShardProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Shards<'a> {
    shards: Vec<ShardProcess>,
    news: mpsc::Receiver<News>,
    stop: &'a AtomicBool,
    is_interrupted: bool,
    /// How many have started to measure, and the latest time in a `measuring` or `measured` event.
    measuring: usize,
    at_ns: u64,
    slices: Slices,
    /// The failures of processes that ended without a report.
    lost: Vec<Failure>,
}

impl Shards<'_> {
    /// Waits until all have opened their connections. Returns their missing features.
    fn open(&mut self) -> Result<Vec<String>, Failure> {
        let mut missing_features = Vec::new();
        let mut left = self.shards.len();
        while left > 0 {
            if let LoadEvent::Ready(ready) = self.next().1? {
                missing_features = ready.lacks;
                left -= 1;
            }
        }
        Ok(missing_features)
    }

    /// Follows them from the start to their reports, or to those of the processes that survive.
    fn measure(
        mut self,
        part: &LoadSpec,
        emit: &mut dyn FnMut(Event) -> Option<u64>,
    ) -> Result<Ran, Failure> {
        let mut is_over = false;
        while self.shards.iter().any(|shard| !shard.has_ended) {
            match self.next() {
                (index, Ok(event)) => self.take(index, event, part, emit)?,
                (_, Err(failure)) if self.measuring < self.shards.len() => return Err(failure),
                (index, Err(failure)) => self.lose(index, failure),
            }
            self.slices.pass_on(false, |slice| {
                emit(Event::Sliced(slice));
            });
            if !is_over && self.shards.iter().all(|shard| shard.rests || shard.has_ended) {
                is_over = true;
                // A process that was stopped early has sent its report at once, without this event.
                if self.shards.iter().all(|shard| shard.rests) {
                    emit(Event::Measured { at_ns: self.at_ns });
                }
                self.go_on("");
            }
        }
        self.slices.pass_on(true, |slice| {
            emit(Event::Sliced(slice));
        });
        self.sum(part)
    }

    /// Handles an event after all are ready.
    fn take(
        &mut self,
        index: usize,
        event: LoadEvent,
        part: &LoadSpec,
        emit: &mut dyn FnMut(Event) -> Option<u64>,
    ) -> Result<(), Failure> {
        match event {
            LoadEvent::Measuring(begun) => {
                self.measuring += 1;
                self.at_ns = begun.monotonic_ns.max(self.at_ns);
                if self.measuring == self.shards.len() {
                    emit(Event::Measuring { at_ns: self.at_ns });
                }
            }
            LoadEvent::Interval(interval) => {
                self.shards[index].slices = interval.index + 1;
                self.slices.add(slice(*interval));
            }
            LoadEvent::Measured(ended) => {
                self.shards[index].rests = true;
                self.at_ns = ended.monotonic_ns.max(self.at_ns);
                // In a run with a number of requests, it has sent all its slices by now and may wait for long. In a run
                // with a duration, it sends the last one when it continues, which is soon.
                if part.requests.is_some() {
                    self.slices.ends[index] = self.shards[index].slices;
                }
            }
            LoadEvent::Report(report) => {
                self.shards[index].report = Some(measured(&report));
                self.shards[index].has_ended = true;
            }
            LoadEvent::Ready(_) | LoadEvent::Failed(_) => {}
        }
        Ok(())
    }

    /// Continues without one of them, and stops the others, because the load has changed.
    fn lose(&mut self, index: usize, failure: Failure) {
        self.shards[index].has_ended = true;
        self.slices.ends[index] = self.shards[index].slices;
        self.lost.push(failure);
        self.interrupt();
    }

    /// Merges the reports.
    fn sum(mut self, part: &LoadSpec) -> Result<Ran, Failure> {
        let mut whole = ::load::Report::empty(matches!(part.pace, Pace::Open { .. }));
        self.shards.iter().filter_map(|shard| shard.report.as_ref()).for_each(|report| whole.add(report));
        if self.lost.len() == self.shards.len() {
            return Err(self.lost.swap_remove(0));
        }
        // The last one may have died when the others had already finished.
        whole.interrupted |= !self.lost.is_empty();
        self.lost.iter_mut().for_each(|failure| failure.message += ": its results are missing");
        Ok(Ran { measured: whole, lost: self.lost })
    }

    /// Releases all held processes with this line.
    fn go_on(&mut self, line: &str) {
        self.shards.iter_mut().for_each(|shard| shard.say(line));
    }

    /// The next event with the index of its process, or the failure of that process. Passes on a stop.
    fn next(&mut self) -> (usize, Result<LoadEvent, Failure>) {
        loop {
            if self.stop.load(Ordering::Relaxed) && !self.is_interrupted {
                self.interrupt();
            }
            match self.news.recv_timeout(LOOK_PAUSE) {
                Ok((index, _)) if self.shards[index].has_ended => {}
                Ok((index, Some(LoadEvent::Failed(failed)))) => {
                    return (index, Err(self.failure(index, Some(failed))));
                }
                Ok((index, Some(event))) => return (index, Ok(event)),
                Ok((index, None)) => return (index, Err(self.failure(index, None))),
                Err(_) => {}
            }
        }
    }

    fn interrupt(&mut self) {
        self.is_interrupted = true;
        // A process that has just ended by itself is harmless: its PID stays reserved until it is reaped.
        let shards = self.shards.iter().filter(|shard| !shard.has_ended);
        shards.for_each(|shard| drop(sys::process::interrupt(shard.child.id())));
    }

    fn failure(&mut self, index: usize, failed: Option<Failed>) -> Failure {
        if self.is_interrupted && self.measuring == 0 {
            // Each process knows only of its own connections.
            return Failure::work("interrupted", "stopped while the connections were being opened");
        }
        let shard = &mut self.shards[index];
        let place = format!("process {} of the generator", shard.child.id());
        // Closing its input ends it if it is still running.
        shard.stdin = None;
        shard.failure(failed, &place)
    }
}

/// How often the stop flag is checked.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Slices of the window that not all processes have sent yet.
struct Slices {
    pending: Vec<(Slice, usize)>,
    /// For each process, the first slice without it, if known.
    ends: Vec<u64>,
}

impl Slices {
    fn add(&mut self, part: Slice) {
        match self.pending.iter_mut().find(|(slice, _)| slice.index == part.index) {
            Some((slice, parts)) => {
                slice.add(&part);
                *parts += 1;
            }
            None => self.pending.push((part, 1)),
        }
    }

    /// Passes on the complete slices; at the end of a run, all.
    fn pass_on(&mut self, is_end: bool, mut emit: impl FnMut(Slice)) {
        self.pending.sort_unstable_by_key(|(slice, _)| slice.index);
        let is_whole = |(slice, parts): &&(Slice, usize)| is_end || self.is_whole(slice, *parts);
        let whole = self.pending.iter().take_while(is_whole).count();
        self.pending.drain(..whole).for_each(|(slice, _)| emit(slice));
    }

    fn is_whole(&self, slice: &Slice, parts: usize) -> bool {
        parts + self.ends.iter().filter(|&&end| end <= slice.index).count() == self.ends.len()
    }
}

#[cfg(test)]
mod tests;
