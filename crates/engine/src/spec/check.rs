//! The one check of a spec, whether flags or a program gave it: refuses what no server and no load can be.
//!
//! The ranges are those of [`contract::limits`], which are also in the schemas. What depends on this machine is checked
//! where it is used.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

use contract::limits::{
    ADDRESSES, CONNECTIONS, DELAY_MS, DURATION_MS, IDLE, LOSS, MTU, PIPELINE, PLACE_CONNECTIONS,
    PLACE_THREADS, PROBES, PROCESSES, QUEUE_PACKETS, RATE_BITS_PER_S, RATE_PER_S, REQUESTS, SLICE_MS,
    SOURCES, SPIN_US, STAGES, TARGETS, THREADS, WARMUP_MS, WORK_NS,
};
use contract::{Driver, LoadSpec, Opening, Pace, PathSpec, ServeSpec, Shard, Stage, Verification, Workload};

use crate::failure::Failure;
use crate::spec::limits::INTERVALS_MAX;
use crate::units::{counted, duration_text};

/// How messages name a setting: programs know the fields of a spec, people the flags and their units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Names {
    Fields,
    Flags,
}

/// The name of a setting as a field and as a flag.
type Name = (&'static str, &'static str);

/// Checks the spec of a server.
///
/// # Errors
/// `bad_number`.
pub(crate) fn serve(spec: &ServeSpec, names: Names) -> Result<(), Failure> {
    names.within(("workers", "--workers"), spec.workers, THREADS)?;
    names.within(("connections_max", "--connections-max"), spec.connections_max, CONNECTIONS)?;
    let addresses = ("the number of addresses to listen on", "the number of addresses of --listen");
    names.within(addresses, spec.listen.len(), ADDRESSES)?;
    match &spec.workload {
        Workload::Rpc(rpc) => {
            names.lasting(("work_ns", "--work"), rpc.work_ns, WORK_NS, Duration::from_nanos)
        }
        _ => Ok(()),
    }
}

/// Checks the spec of a path.
///
/// # Errors
/// `bad_number`.
pub(crate) fn path(spec: &PathSpec, names: Names) -> Result<(), Failure> {
    names.within(("delay_ms", "--delay in ms"), spec.delay_ms, DELAY_MS)?;
    let rate = ("rate_bits_per_s", "--rate in bits a second");
    spec.rate_bits_per_s.map_or(Ok(()), |bits_per_s| names.within(rate, bits_per_s, RATE_BITS_PER_S))?;
    names.within(("queue_packets", "--queue"), spec.queue_packets, QUEUE_PACKETS)?;
    names.within(("loss", "--loss"), spec.loss, LOSS)?;
    names.within(("mtu", "--mtu"), spec.mtu, MTU)
}

/// Checks the spec of a load.
///
/// # Errors
/// `bad_number`, or `bad_spec` and `bad_flag` if two settings contradict each other.
pub(crate) fn load(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    counts(spec, names)?;
    place(spec, names)?;
    pace(spec, names)?;
    durations(spec, names)?;
    threads(spec, names)?;
    opening(spec, names)?;
    end(spec, names)
}

fn counts(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    let addresses = ("the number of addresses to connect to", "the number of addresses");
    let sources = ("the number of sources", "the number of addresses of --source");
    let rows = [
        (("connections", "-c"), Some(spec.connections), CONNECTIONS),
        (("idle", "--idle"), Some(spec.idle), IDLE),
        (("active", "--active"), spec.active, 1..=spec.connections),
        (("probes", "--probes"), Some(spec.probes), PROBES),
        (("pipeline", "-p"), Some(spec.pipeline), PIPELINE),
        (("threads", "-t"), Some(spec.threads), THREADS),
        (("processes", "--processes"), Some(spec.processes), PROCESSES),
        (addresses, Some(spec.connect.len()), TARGETS),
        (sources, Some(spec.sources.len()), SOURCES),
    ];
    for (name, number, range) in rows {
        number.map_or(Ok(()), |number| names.within(name, number, range))?;
    }
    let reconnecting = ("requests_per_connection", "--requests-per-connection");
    for (name, number) in [(("requests", "-n"), spec.requests), (reconnecting, spec.requests_per_connection)]
    {
        number.map_or(Ok(()), |number| names.within(name, number, REQUESTS))?;
    }
    let opening = ("connect_per_s", "--connect-rate");
    spec.connect_per_s.map_or(Ok(()), |rate_per_s| names.above_zero(opening, rate_per_s))
}

fn place(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    let Some(Shard { threads_before, threads, connections_before }) = spec.place else { return Ok(()) };
    if spec.processes > 1 {
        return Err(names.contradiction("a place is that of one process: leave processes out"));
    }
    let (of_all, before) = ("the threads of a place", "the connections before a place");
    names.within((of_all, of_all), threads, PLACE_THREADS)?;
    names.within((before, before), connections_before, PLACE_CONNECTIONS)?;
    if threads_before.saturating_add(spec.threads()) > threads {
        let process = counted(spec.threads(), "thread");
        return Err(bad_number(format!(
            "a process of {process} with {threads_before} before it is none of {threads}"
        )));
    }
    Ok(())
}

fn pace(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    let Pace::Open { stages, .. } = &spec.pace else { return Ok(()) };
    if spec.active.is_some() {
        let active = names.pick(("active", "--active"));
        return Err(
            names.contradiction(format!("a rate uses whichever connections are free: leave out {active}"))
        );
    }
    names.within(("the number of stages", "the number of stages of --rate"), stages.len(), STAGES)?;
    for (index, stage) in stages.iter().enumerate() {
        check_stage(stage, index + 1 == stages.len(), names)?;
    }
    if stages.iter().all(|stage| stage.from_per_s.max(stage.to_per_s) == 0.0) {
        return Err(bad_number("a rate of 0 sends no requests: give a higher one"));
    }
    Ok(())
}

fn check_stage(stage: &Stage, is_last: bool, names: Names) -> Result<(), Failure> {
    names.within(("a rate", "--rate"), stage.from_per_s, RATE_PER_S)?;
    names.within(("a rate", "--rate"), stage.to_per_s, RATE_PER_S)?;
    let length = ("the length of a stage in ms", "the length of a stage of --rate");
    match stage.duration_ms {
        Some(duration_ms) => names.lasting(length, duration_ms, DURATION_MS, Duration::from_millis),
        None if is_last && stage.from_per_s == stage.to_per_s => Ok(()),
        None => Err(names.contradiction(
            "only the last stage may lack a duration_ms, and only if its rate does not change",
        )),
    }
}

fn durations(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    window(spec.duration_ms, names)?;
    slice(spec.slice_ms, names)?;
    let rows = [
        (("warmup_ms", "--warmup"), spec.warmup_ms, WARMUP_MS),
        (("timeout_ms", "--timeout"), Some(spec.timeout_ms), DURATION_MS),
        (("interval_ms", "the length of an interval"), Some(spec.interval_ms), DURATION_MS),
    ];
    for (name, duration_ms, range) in rows {
        duration_ms.map_or(Ok(()), |ms| names.lasting(name, ms, range, Duration::from_millis))?;
    }
    names.lasting(("spin_us", "--spin"), spec.spin_us, SPIN_US, Duration::from_micros)
}

/// Checks a duration of the measurement.
///
/// # Errors
/// `bad_number`.
pub(crate) fn window(duration_ms: Option<u64>, names: Names) -> Result<(), Failure> {
    let name = ("duration_ms", "-z");
    duration_ms.map_or(Ok(()), |ms| names.lasting(name, ms, DURATION_MS, Duration::from_millis))
}

/// Checks a length of slices.
///
/// # Errors
/// `bad_number`.
pub(crate) fn slice(slice_ms: Option<u64>, names: Names) -> Result<(), Failure> {
    let name = ("slice_ms", "--slice");
    slice_ms.map_or(Ok(()), |ms| names.lasting(name, ms, SLICE_MS, Duration::from_millis))
}

/// Checks that there is work for each thread, and that the driver supports the settings.
fn threads(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    let busy = spec.active.unwrap_or(spec.connections);
    if spec.threads > busy {
        let threads = spec.threads;
        return Err(bad_number(format!(
            "{threads} threads cannot share {busy} connections: take fewer threads"
        )));
    }
    if spec.details && (!spec.driver.has_details() || spec.pipeline > 1) {
        let message = (
            "details go with the driver epoll and a pipeline of 1",
            "--details goes with --driver epoll, and without -p",
        );
        return Err(names.contradiction(format!("{}: leave out one of them", names.pick(message))));
    }
    if spec.driver == Driver::IoUring && spec.verify == Verification::OneReceive {
        // Its receive buffers are not aligned with replies, so a split reply may not be the server's doing.
        let message = (
            "verify one_receive does not go with the driver io_uring",
            "--one-receive does not go with --driver io_uring",
        );
        return Err(names.contradiction(format!("{}: leave out one of them", names.pick(message))));
    }
    if spec.driver != Driver::Epoll && spec.pipeline > 1 {
        let message = ("a pipeline goes with the driver epoll only", "-p goes with --driver epoll only");
        return Err(names.contradiction(format!("{}: leave out one of them", names.pick(message))));
    }
    // Each process has its own threads.
    if spec.driver == Driver::Thread && spec.connections.div_ceil(spec.processes) > *THREADS.end() {
        let name = ("connections of the driver thread", "-c of --driver thread");
        return names.within(name, spec.connections, THREADS);
    }
    Ok(())
}

/// Checks that connections opened as needed have no settings for opening them before.
///
/// With TLS, the handshake takes the first request, so neither its phase nor the parts of its time would be right.
fn opening(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    let not_in_tls = [
        (("open as_needed", "--open as_needed"), spec.open == Opening::AsNeeded),
        (("details", "--details"), spec.details),
    ];
    if let Some((name, _)) = not_in_tls.iter().find(|(_, is_given)| *is_given && spec.tls.is_some()) {
        let name = names.pick(*name);
        return Err(names.contradiction(format!("{name} does not go with TLS: leave out one of them")));
    }
    let before = [
        (("warmup_ms", "--warmup"), spec.warmup_ms.is_some_and(|warmup_ms| warmup_ms > 0)),
        (("connect_per_s", "--connect-rate"), spec.connect_per_s.is_some()),
    ];
    match before.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) if spec.open == Opening::AsNeeded => {
            let (name, open) = (names.pick(*name), names.pick(("open", "--open")));
            let message = format!(
                "connections that are opened as needed are not open before: leave out {name} or {open}"
            );
            Err(names.contradiction(message))
        }
        _ => Ok(()),
    }
}

/// Checks that exactly one thing ends the window, and that the report has room for its intervals.
fn end(spec: &LoadSpec, names: Names) -> Result<(), Failure> {
    match (spec.duration_ms, spec.requests) {
        (Some(duration_ms), None) => {
            let run_ms = spec.warmup_ms() + duration_ms;
            let name = "the number of intervals";
            names.within((name, name), run_ms / spec.interval_ms, 0..=INTERVALS_MAX)
        }
        (None, Some(_)) if spec.warmup_ms.is_some_and(|warmup_ms| warmup_ms > 0) => {
            Err(names
                .contradiction("warmup_ms goes with duration_ms; with requests it must be 0 or left out"))
        }
        (None, Some(_)) => Ok(()),
        _ => Err(names.contradiction("give either duration_ms or requests")),
    }
}

impl Names {
    fn pick(self, (field, flag): Name) -> &'static str {
        match self {
            Self::Fields => field,
            Self::Flags => flag,
        }
    }

    /// Refuses a number outside its range.
    fn within<T: PartialOrd + Display>(
        self,
        name: Name,
        number: T,
        range: RangeInclusive<T>,
    ) -> Result<(), Failure> {
        if range.contains(&number) {
            return Ok(());
        }
        let (least, most) = range.into_inner();
        Err(bad_number(format!("{} is {number}; it can be from {least} to {most}", self.pick(name))))
    }

    /// The same for a duration, which a program gives in fixed units and a person with a unit.
    fn lasting(
        self,
        name: Name,
        units: u64,
        range: RangeInclusive<u64>,
        duration: impl Fn(u64) -> Duration,
    ) -> Result<(), Failure> {
        match self {
            Self::Fields => self.within(name, units, range),
            Self::Flags => {
                let [least, most, time] =
                    [*range.start(), *range.end(), units].map(|units| Time(duration(units)));
                self.within(name, time, least..=most)
            }
        }
    }

    /// The same for a rate, which has no minimum.
    fn above_zero(self, name: Name, rate_per_s: f64) -> Result<(), Failure> {
        let most = *RATE_PER_S.end();
        if rate_per_s > 0.0 && rate_per_s <= most {
            return Ok(());
        }
        let name = self.pick(name);
        Err(bad_number(format!("{name} is {rate_per_s}; it can be anything above 0, up to {most}")))
    }

    /// The failure for settings that contradict each other.
    fn contradiction(self, message: impl Into<String>) -> Failure {
        Failure::request(self.pick(("bad_spec", "bad_flag")), message)
    }
}

fn bad_number(message: impl Into<String>) -> Failure {
    Failure::request("bad_number", message)
}

/// A duration, printed as the flags take it.
#[derive(PartialEq, PartialOrd)]
struct Time(Duration);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration_text(self.0))
    }
}

#[cfg(test)]
mod tests;
