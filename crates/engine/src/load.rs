//! `iolab-engine load`: load one server, then report.

use std::io::{self, IsTerminal};
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ::load::{Config, End, Event};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use proto::Protocol;

use crate::cli::LoadFlags;
use crate::contract::{
    self, BUILD, Bytes, Errors, Generator, Intervals, Latency, LoadReady, LoadSpec, LoadWord, Measured,
    MeasuredWord, Measuring, MeasuringWord, ReadyWord, Report, ReportWord, Requests, Role, Version,
    WARMUP_MS_DEFAULT,
};
use crate::failure::{Failure, Fault};
use crate::limits::{
    CONNECTIONS_MAX, DESCRIPTORS_RESERVED, DURATION_MS_MAX, INTERVALS_MAX, LISTENERS_MAX, REQUESTS_MAX,
    THREADS_MAX, pin, within,
};
use crate::output;
use crate::summary;
use crate::supervision::{self, Owner};
use crate::units::{count, counted};
use crate::workload::{self, Visit};

/// Runs the command.
pub(crate) fn command(flags: &LoadFlags) -> ExitCode {
    if flags.spec.is_some() {
        return supervision::finish(for_a_program(), Owner::Program, Role::Load);
    }
    supervision::finish(for_a_person(flags), Owner::Person, Role::Load)
}

fn for_a_program() -> Result<(), Failure> {
    let spec: LoadSpec = contract::read(&supervision::spec_line()?)?;
    let mut lacks = Vec::new();
    let (line, lines) = mpsc::channel();
    let measured = run(&spec, Some(line), &mut |event| {
        if let Event::Ready { lacks: found, .. } = &event {
            lacks.clone_from(found);
        }
        let is_held = spec.held && !matches!(event, Event::Measuring { .. });
        // A line that came before the event was no answer to it.
        while lines.try_recv().is_ok() {}
        output::line(&event_line(&spec, event));
        if is_held {
            wait_for_line(&lines);
        }
    })?;
    output::line(&contract::line(&document(&spec, lacks, &measured)?));
    Ok(())
}

/// Waits for the next line of the input, unless the run is stopped.
fn wait_for_line(lines: &mpsc::Receiver<()>) {
    while !STOP.load(Ordering::Relaxed) {
        if lines.recv_timeout(LOOK_PAUSE) != Err(mpsc::RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// How often a held run looks whether it has been stopped.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

fn for_a_person(flags: &LoadFlags) -> Result<(), Failure> {
    let spec = flags.to_spec()?;
    let mut lacks = Vec::new();
    let measured = run(&spec, None, &mut |event| {
        if let Event::Ready { lacks: found, .. } = event {
            lacks = found;
            if io::stderr().is_terminal() {
                output::say(&beginning(&spec, flags.subject()));
            }
        }
    })?;
    let report = document(&spec, lacks, &measured)?;
    output::line(&if flags.json {
        contract::line(&report)
    } else {
        summary::text(&report, &measured.latency, flags.subject())
    });
    Ok(())
}

/// Set when the user or the system asks for the end; the report then covers what was measured until then.
static STOP: AtomicBool = AtomicBool::new(false);

/// Checks the spec and loads the server. The protocol is chosen here, once. A supervised run passes on each `line` of
/// its input.
fn run(
    spec: &LoadSpec,
    line: Option<mpsc::Sender<()>>,
    tell: &mut dyn FnMut(Event),
) -> Result<::load::Report, Failure> {
    let config = to_config(spec)?;
    workload::dispatch(&spec.workload, &spec.connect[0], Role::Load, Drive { config: &config, line, tell })
}

/// A load that has been checked.
struct Drive<'a> {
    config: &'a Config,
    line: Option<mpsc::Sender<()>>,
    tell: &'a mut dyn FnMut(Event),
}

impl Visit for Drive<'_> {
    type Output = ::load::Report;

    fn visit<P: Protocol>(self, workload: &'static P::Workload) -> Result<::load::Report, Failure> {
        drive::<P>(self.config, workload, self.line, self.tell)
    }
}

/// Checks the machine and runs the load. Nothing is sent before all that can be refused has been checked.
fn drive<P: Protocol>(
    config: &Config,
    workload: &'static P::Workload,
    line: Option<mpsc::Sender<()>>,
    tell: &mut dyn FnMut(Event),
) -> Result<::load::Report, Failure> {
    pin(&config.cpus)?;
    if let Err(error) = config.driver.lacks() {
        let message = format!("the driver {} cannot run here: {error}", config.driver.name());
        return Err(Failure::machine("unavailable", message));
    }
    if let Some(line) = line {
        // The receiver lives until the report; a line after that has no meaning.
        let pass_on = move || {
            let _ = line.send(());
        };
        supervision::answer_input(pass_on, || ())?;
    }
    sys::process::on_terminate(&STOP)?;
    ::load::run::<P>(config, workload, &STOP, tell).map_err(|failure| {
        let fault = match failure.kind {
            "epoll" | "io_uring" | "descriptor_limit" => Fault::Machine,
            _ => Fault::Work,
        };
        Failure { fault, kind: failure.kind, message: failure.message }
    })
}

fn to_config(spec: &LoadSpec) -> Result<Config, Failure> {
    within("threads", spec.threads, 1..=THREADS_MAX)?;
    within("connections", spec.connections, 1..=CONNECTIONS_MAX)?;
    within("the number of addresses to connect to", spec.connect.len(), 1..=LISTENERS_MAX)?;
    within("timeout_ms", spec.timeout_ms, 1..=DURATION_MS_MAX)?;
    within("interval_ms", spec.interval_ms, 1..=DURATION_MS_MAX)?;
    if spec.threads > spec.connections {
        let LoadSpec { threads, connections, .. } = spec;
        let message = format!("{threads} threads cannot share {connections} connections: take fewer threads");
        return Err(Failure::request("bad_number", message));
    }
    let (warmup_ms, end) = end(spec)?;
    let descriptors_max = sys::process::descriptors_max();
    if spec.connections + DESCRIPTORS_RESERVED > descriptors_max {
        let message = format!(
            "{} need more descriptors than the {} this process may have: \
             take fewer connections, or raise the limit (ulimit -Hn)",
            counted(spec.connections, "connection"),
            count(descriptors_max as u64)
        );
        return Err(Failure::machine("descriptor_limit", message));
    }
    Ok(Config {
        driver: spec.driver.into(),
        addresses: spec.connect.iter().map(|address| address.0.clone()).collect(),
        connections: spec.connections,
        threads: spec.threads,
        cpus: spec.cpus.clone(),
        warmup: Duration::from_millis(warmup_ms),
        end,
        timeout: Duration::from_millis(spec.timeout_ms),
        interval: Duration::from_millis(spec.interval_ms),
    })
}

/// The warm-up in milliseconds, and what ends the window after it.
fn end(spec: &LoadSpec) -> Result<(u64, End), Failure> {
    match (spec.duration_ms, spec.requests) {
        (Some(duration_ms), None) => {
            let warmup_ms = spec.warmup_ms.unwrap_or(WARMUP_MS_DEFAULT);
            within("warmup_ms", warmup_ms, 0..=DURATION_MS_MAX)?;
            within("duration_ms", duration_ms, 1..=DURATION_MS_MAX)?;
            let intervals = (warmup_ms + duration_ms) / spec.interval_ms;
            within("the number of intervals", intervals, 0..=INTERVALS_MAX)?;
            Ok((warmup_ms, End::After(Duration::from_millis(duration_ms))))
        }
        (None, Some(requests)) => {
            within("requests", requests, 1..=REQUESTS_MAX)?;
            if spec.warmup_ms.is_some_and(|warmup_ms| warmup_ms > 0) {
                let message = "warmup_ms goes with duration_ms; with requests it must be 0 or left out";
                return Err(Failure::request("bad_spec", message));
            }
            Ok((0, End::Requests(requests)))
        }
        _ => Err(Failure::request("bad_spec", "give either duration_ms or requests")),
    }
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
        Event::Ready { connections, lacks } => contract::line(&LoadReady {
            schema: Version,
            event: ReadyWord::Is,
            role: LoadWord::Is,
            driver: spec.driver,
            connections,
            pid: process::id(),
            build: BUILD.to_owned(),
            lacks,
        }),
        Event::Measuring { at_ns } => contract::line(&Measuring {
            schema: Version,
            event: MeasuringWord::Is,
            role: LoadWord::Is,
            monotonic_ns: at_ns,
        }),
        Event::Measured { at_ns } => contract::line(&Measured {
            schema: Version,
            event: MeasuredWord::Is,
            role: LoadWord::Is,
            monotonic_ns: at_ns,
        }),
    }
}

/// The report as the contract has it.
fn document(spec: &LoadSpec, lacks: Vec<String>, measured: &::load::Report) -> Result<Report, Failure> {
    let ::load::Report { requests, errors, intervals, generator, .. } = measured;
    let window_s = measured.end_ns.saturating_sub(measured.begin_ns) as f64 / 1e9;
    Ok(Report {
        schema: Version,
        event: ReportWord::Is,
        role: LoadWord::Is,
        build: BUILD.to_owned(),
        driver: spec.driver,
        lacks,
        workload: spec.workload.clone(),
        connect: spec.connect.clone(),
        connections: spec.connections,
        connections_open: measured.connections_open,
        threads: spec.threads,
        cpus: spec.cpus.clone(),
        interrupted: measured.interrupted,
        begin_ns: measured.begin_ns,
        end_ns: measured.end_ns,
        requests: Requests {
            sent: requests.sent,
            correct: requests.correct,
            wrong: requests.wrong,
            failed: requests.failed,
            in_flight_begin: requests.in_flight_begin,
            in_flight_end: requests.in_flight_end,
        },
        errors: Errors {
            connect: errors.connect,
            reset: errors.reset,
            closed: errors.closed,
            timeout: errors.timeout,
            malformed: errors.malformed,
            wrong: errors.wrong,
        },
        first_error: measured.first_error.clone(),
        bytes: Bytes { sent: measured.bytes_sent, received: measured.bytes_received },
        rate_per_s: if window_s > 0.0 { requests.correct as f64 / window_s } else { 0.0 },
        latency_ns: latency(&measured.latency)?,
        intervals: Intervals {
            begin_ns: intervals.begin_ns,
            length_ns: intervals.length_ns,
            completed: intervals.completed.clone(),
        },
        generator: Generator {
            cpu_ns: generator.cpu_ns,
            wall_ns: generator.wall_ns,
            run_delay_ns: generator.run_delay_ns,
            turn_ns_max: generator.turn_ns_max,
            turns: generator.turns,
            rss_bytes_max: generator.rss_bytes_max,
        },
    })
}

fn latency(latency_ns: &Histogram<u64>) -> Result<Latency, Failure> {
    let mut packed = Vec::new();
    V2DeflateSerializer::new()
        .serialize(latency_ns, &mut packed)
        .map_err(|error| Failure::work("failed", format!("cannot write the histogram: {error:?}")))?;
    Ok(Latency {
        min: latency_ns.min(),
        mean: latency_ns.mean(),
        p50: latency_ns.value_at_quantile(0.5),
        p90: latency_ns.value_at_quantile(0.9),
        p99: latency_ns.value_at_quantile(0.99),
        p99_9: latency_ns.value_at_quantile(0.999),
        p99_99: latency_ns.value_at_quantile(0.9999),
        max: latency_ns.max(),
        stdev: latency_ns.stdev(),
        histogram: STANDARD.encode(packed),
    })
}

#[cfg(test)]
mod tests;
