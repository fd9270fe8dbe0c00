//! `iolab-engine load`: loads one server, then reports.

use std::env;
use std::io::{self, ErrorKind, IsTerminal};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::process::parent_id;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ::load::{Event, Tls};
use contract::{
    LoadReady, LoadSpec, LoadWord, Measured, MeasuredWord, Measuring, MeasuringWord, ReadyWord, Report, Role,
    Version,
};
use proto::Protocol;

use crate::commands::self_test;
use crate::compat::{self, Compat};
use crate::export::{Ended, Files};
use crate::failure::{Failure, Fault};
use crate::flags::{self, LoadFlags};
use crate::output;
use crate::process::event_pipe::EventPipe;
use crate::process::shards::{self, Ran};
use crate::process::supervision::{self, Owner};
use crate::result::report::{interval, report};
use crate::result::summary;
use crate::spec::check::{self, Names};
use crate::spec::limits::{DESCRIPTORS_RESERVED, enter, pin};
use crate::spec::tls;
use crate::spec::workload::{self, Visit};
use crate::units::{count, counted};

/// Runs the command.
pub(crate) fn command(flags: &LoadFlags) -> ExitCode {
    if flags.spec.is_some() {
        return supervision::finish(for_a_program(), Owner::Program, Role::Load);
    }
    let outcome = match &flags.like {
        _ if flags.self_test => self_test::command(),
        Some(line) => run_compat(line),
        None => for_a_person(flags, None),
    };
    supervision::finish(outcome, Owner::Person, Role::Load)
}

/// Runs another tool's command line.
fn run_compat(line: &str) -> Result<(), Failure> {
    let compat = compat::parse(line)?;
    let same = shlex::try_join(compat.argv.iter().map(String::as_str)).unwrap_or_default();
    output::say(&format!("as: iolab load {same}"));
    // The words before our flags are the program and its command.
    let mut flags = flags::parse_load(&compat.argv, env::args().skip(2))?;
    flags.leave_out_impossible_details();
    for_a_person(&flags, Some(&compat))
}

fn for_a_program() -> Result<(), Failure> {
    let mut spec: LoadSpec = supervision::read_spec()?;
    check::load(&spec, Names::Fields)?;
    // The processes that it starts inherit the namespace.
    enter(spec.netns.take().as_deref())?;
    let spec = shards::fit(spec)?;
    let parts = shards::parts(&spec);
    // The first part is the largest: if this machine can run it, it can run all.
    let tls = prepare(&parts[0])?;
    let mut missing_features = Vec::new();
    let (line, lines) = mpsc::channel();
    let ran = run(&parts, tls.as_ref(), Some(line), &mut |event| {
        if let Event::Ready { missing_features: found, .. } = &event {
            missing_features.clone_from(found);
        }
        let is_held = spec.held && matches!(event, Event::Ready { .. } | Event::Measured { .. });
        // Lines that came before the event do not answer it.
        while lines.try_recv().is_ok() {}
        output::line(&event_line(&spec, event));
        if is_held { wait_for_line(&lines) } else { None }
    })?;
    output::line(&contract::line(&whole_report(&spec, missing_features, &ran)));
    ran.lost.into_iter().next().map_or(Ok(()), Err)
}

/// The report of a run, including which parts are missing.
fn whole_report(spec: &LoadSpec, missing_features: Vec<String>, ran: &Ran) -> Report {
    let mut report = report(spec, missing_features, &ran.measured);
    report.unsound.splice(0..0, ran.lost.iter().map(|failure| failure.message.clone()));
    report
}

/// Waits for the next line of the input, and returns its time. Returns None if the run is stopped.
fn wait_for_line(lines: &mpsc::Receiver<Line>) -> Line {
    while !STOP.load(Ordering::Relaxed) {
        match lines.recv_timeout(LOOK_PAUSE) {
            Ok(line) => return line,
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
    None
}

/// A line of the input: when to continue, in CLOCK_MONOTONIC nanoseconds, or None for now.
type Line = Option<u64>;

/// How often a held run checks whether it was stopped.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

fn for_a_person(flags: &LoadFlags, compat: Option<&Compat>) -> Result<(), Failure> {
    let spec = flags.to_spec()?;
    check::load(&spec, Names::Flags)?;
    let spec = shards::fit(spec)?;
    // Reject errors before any file is created.
    let parts = shards::parts(&spec);
    let tls = prepare(&parts[0])?;
    let clock = flags.time_limit()?.map(Clock::new).transpose()?;
    let mut files = Files::open(&flags.writes)?;
    let mut pipe = flags.event_pipe().map(|descriptor| watched(descriptor, &spec)).transpose()?;
    let mut missing_features = Vec::new();
    let mut ran = run(&parts, tls.as_ref(), None, &mut |event| {
        match &event {
            Event::Ready { missing_features: found, .. } => {
                missing_features.clone_from(found);
                if io::stderr().is_terminal() && !flags.quiet {
                    output::say(&beginning(&spec, flags.subject()));
                }
            }
            Event::Measuring { .. } => clock.iter().for_each(Clock::start),
            Event::Sliced(slice) => files.slice(slice),
            Event::Measured { .. } => {}
        }
        if let Some(pipe) = &mut pipe {
            pipe.emit(&event_line(&spec, event));
        }
        None
    })?;
    // The time limit sets the same flag as an interruption, but reaching it is a regular end.
    ran.measured.interrupted &= !clock.is_some_and(|clock| clock.has_struck());
    let report = whole_report(&spec, missing_features, &ran);
    let Ran { measured, lost } = ran;
    let written = files.end(&Ended { report: &report, measured: &measured, subject: flags.subject() });
    output::line(&match compat {
        _ if flags.json => contract::line(&report),
        Some(compat) => compat.text(&report, &measured.latency),
        None => summary::text(&report, &summary::rows(&measured), flags.subject()),
    });
    written?;
    if let Some(failure) = lost.into_iter().next() {
        return Err(failure);
    }
    match report.unsound.first() {
        Some(reason) if flags.strict => Err(Failure::work("unsound", format!("--strict: {reason}"))),
        // A stopped run may have no reply yet. ab, hey, wrk and oha exit with 0 even without a correct one.
        _ if report.interrupted || compat.is_some() => Ok(()),
        _ => summary::failure(&report).map_or(Ok(()), Err),
    }
}

/// The time limit of a run with a number of requests.
struct Clock {
    begin: mpsc::Sender<()>,
    has_struck: Arc<AtomicBool>,
}

impl Clock {
    /// Expires this long after its start.
    fn new(limit: Duration) -> io::Result<Self> {
        let (begin, begun) = mpsc::channel();
        let has_struck = Arc::new(AtomicBool::new(false));
        let struck = Arc::clone(&has_struck);
        thread::Builder::new().name("time-limit".into()).spawn(move || {
            if begun.recv().is_ok() {
                thread::sleep(limit);
                // If the run was already stopped, the limit did not stop it.
                struck.store(!STOP.swap(true, Ordering::Relaxed), Ordering::Relaxed);
            }
        })?;
        Ok(Self { begin, has_struck })
    }

    fn start(&self) {
        // The thread waits for this message, so the send cannot fail.
        let _ = self.begin.send(());
    }

    fn has_struck(&self) -> bool {
        self.has_struck.load(Ordering::Relaxed)
    }
}

/// The pipe to the process that shows the run. The first event is the spec. The run ends with that process.
fn watched(descriptor: u32, spec: &LoadSpec) -> Result<EventPipe, Failure> {
    sys::process::die_with_parent(parent_id())?;
    let mut pipe = EventPipe::open(descriptor)?;
    pipe.emit(&contract::line(spec));
    Ok(pipe)
}

/// Set by SIGINT, SIGTERM, SIGHUP or a time limit. The report then covers what was measured until then.
static STOP: AtomicBool = AtomicBool::new(false);

/// Loads the server with the parts of a checked spec. The protocol becomes a type here. A supervised run passes on each
/// `line` of its input.
fn run(
    parts: &[LoadSpec],
    tls: Option<&Tls>,
    line: Option<mpsc::Sender<Line>>,
    emit: &mut dyn FnMut(Event) -> Option<u64>,
) -> Result<Ran, Failure> {
    if parts.len() > 1 {
        take_input(line)?;
        return shards::run(parts, &STOP, emit);
    }
    let spec = &parts[0];
    workload::dispatch(&spec.workload, &spec.connect[0], Role::Load, Drive { spec, tls, line, emit })
        .map(Ran::from)
}

/// A load that has been checked.
struct Drive<'a> {
    spec: &'a LoadSpec,
    tls: Option<&'a Tls>,
    line: Option<mpsc::Sender<Line>>,
    emit: &'a mut dyn FnMut(Event) -> Option<u64>,
}

impl Visit for Drive<'_> {
    type Output = ::load::Report;

    fn visit<P: Protocol>(self, workload: &'static P::Workload) -> Result<::load::Report, Failure> {
        drive::<P>((self.spec, self.tls), workload, self.line, self.emit)
    }
}

/// Checks the machine and runs the load. Nothing is sent before every check has passed.
fn drive<P: Protocol>(
    (spec, tls): (&LoadSpec, Option<&Tls>),
    workload: &'static P::Workload,
    line: Option<mpsc::Sender<Line>>,
    emit: &mut dyn FnMut(Event) -> Option<u64>,
) -> Result<::load::Report, Failure> {
    pin(&spec.cpus)?;
    if let Err(error) = ::load::missing_features(spec.driver) {
        let message = format!("the driver {} cannot run here: {error}", spec.driver.name());
        return Err(Failure::machine("unavailable", message));
    }
    take_input(line)?;
    ::load::run::<P>(spec, tls, workload, &STOP, emit).map_err(|failure| {
        let fault = match failure.kind {
            "epoll" | "io_uring" | "descriptor_limit" => Fault::Machine,
            _ => Fault::Work,
        };
        let first_failure = failure.first_failure;
        Failure { first_failure, ..Failure::new(fault, failure.kind, failure.message) }
    })
}

/// From here on a signal stops the run, and a supervised one ends with its input.
fn take_input(line: Option<mpsc::Sender<Line>>) -> Result<(), Failure> {
    if let Some(line) = line {
        // The receiver lives until the report; later lines have no meaning.
        let pass_on = move |text: &[u8]| {
            let time_ns = str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
            let _ = line.send(time_ns);
        };
        supervision::answer_input(pass_on, || ())?;
    }
    sys::process::on_terminate(&STOP)?;
    Ok(())
}

/// Refuses a checked load that this machine cannot run, and prepares its TLS sessions.
fn prepare(spec: &LoadSpec) -> Result<Option<Tls>, Failure> {
    check_sources(spec)?;
    check_descriptors(spec)?;
    tls::sessions(spec)
}

/// Refuses source addresses that no connection can use. The kernel's own error would name neither the address nor the
/// reason.
fn check_sources(spec: &LoadSpec) -> Result<(), Failure> {
    let servers = spec.connect.iter().filter_map(|address| match &address.0 {
        sys::net::Address::Ip(address) => Some(address),
        sys::net::Address::Unix(_) => None,
    });
    for server in servers {
        let kind = if server.is_ipv4() { "IPv4" } else { "IPv6" };
        for source in &spec.sources {
            if server.is_ipv4() != source.is_ipv4() {
                let message =
                    format!("a connection from {source} cannot reach {server}: give sources of {kind}");
                return Err(Failure::request("bad_spec", message));
            }
            UdpSocket::bind((*source, 0)).map_err(|error| cannot_come_from(*source, &error))?;
        }
    }
    Ok(())
}

fn cannot_come_from(source: IpAddr, error: &io::Error) -> Failure {
    let message = match error.kind() {
        ErrorKind::AddrNotAvailable => {
            format!("{source} is not an address of this machine: see `ip address`")
        }
        _ => format!("connections cannot come from {source}: {error}"),
    };
    Failure::work("connect_failed", message)
}

/// Refuses more connections than this process can have descriptors for.
fn check_descriptors(spec: &LoadSpec) -> Result<(), Failure> {
    let connections = spec.connections + spec.idle + spec.probes;
    let descriptors_max = sys::process::descriptors_max();
    if connections + DESCRIPTORS_RESERVED > descriptors_max {
        let message = format!(
            "{} need more descriptors than the {} this process may have: \
             take fewer connections, or raise the limit (ulimit -Hn)",
            counted(connections, "connection"),
            count(descriptors_max as u64)
        );
        return Err(Failure::machine("descriptor_limit", message));
    }
    Ok(())
}

fn beginning(spec: &LoadSpec, subject: &str) -> String {
    let connections = counted(spec.connections, "connection");
    match (spec.duration_ms, spec.requests) {
        (_, Some(requests)) => {
            format!("measuring {} requests to {subject} over {connections}", count(requests))
        }
        (duration_ms, None) => {
            let seconds = duration_ms.unwrap_or_default() as f64 / 1e3;
            format!("measuring {subject} over {connections} for {seconds} s; Ctrl-C ends it early")
        }
    }
}

fn event_line(spec: &LoadSpec, event: Event) -> String {
    match event {
        Event::Ready { connections, missing_features } => contract::line(&LoadReady {
            schema: Version,
            event: ReadyWord::Is,
            role: LoadWord::Is,
            driver: spec.driver,
            connections,
            pid: process::id(),
            build: crate::BUILD.to_owned(),
            lacks: missing_features,
        }),
        Event::Measuring { at_ns } => contract::line(&Measuring {
            schema: Version,
            event: MeasuringWord::Is,
            role: LoadWord::Is,
            monotonic_ns: at_ns,
        }),
        Event::Sliced(slice) => contract::line(&interval(&slice)),
        Event::Measured { at_ns } => contract::line(&Measured {
            schema: Version,
            event: MeasuredWord::Is,
            role: LoadWord::Is,
            monotonic_ns: at_ns,
        }),
    }
}

#[cfg(test)]
mod tests;
