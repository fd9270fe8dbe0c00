//! `iolab-engine load --self-test`: the cost and the accuracy of the generator on this machine.
//!
//! Everything is measured: clock, histogram and timer in a loop. Then the generator loads a server of this engine on
//! another processor, first at full speed and then at fractions of that rate.

use std::collections::BTreeMap;
use std::env;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use contract::{
    Address, Arrivals, BoundBy, CONNECTIONS_MAX_DEFAULT, Driver, Generator, Http, LoadSpec, Pace,
    SEED_DEFAULT, ServeReady, ServeSpec, ServeWord, Stage, Version, WorkerKind, Workload,
};
use hdrhistogram::Histogram;
use proto::http;
use sys::clock::monotonic_ns;
use sys::epoll::Epoll;

use crate::failure::Failure;
use crate::output;
use crate::result::validity::Evidence;
use crate::spec::workload::forever;
use crate::units::{count, duration_ns};

/// Connections to the server: enough to keep it busy while the generator works.
const CONNECTIONS: usize = 50;
/// Fractions of the highest rate at which the lateness of sends is measured.
const PARTS: [f64; 2] = [0.1, 0.5];
const WINDOW: Duration = Duration::from_secs(1);
const WARMUP: Duration = Duration::from_millis(200);
/// How the generator waits for due times: it sleeps, or spins for this long.
const WAYS: [Duration; 2] = [Duration::ZERO, Duration::from_micros(100)];
const TIMER_WAITS: usize = 500;
const TIMER_WAIT: Duration = Duration::from_millis(1);
/// Below this, the generator could have done more.
const BUSY_PERCENT_MIN: f64 = 90.0;
const REPETITIONS: u64 = 1_000_000;

/// Measures and prints.
///
/// # Errors
/// If no server can be started or loaded.
pub(crate) fn command() -> Result<(), Failure> {
    let allowed = sys::cpu::allowed()?;
    let runs = Driver::ALL.len() * (1 + PARTS.len() * WAYS.len());
    let length = TIMER_WAIT * TIMER_WAITS as u32 + (WARMUP + WINDOW) * runs as u32;
    output::line(&format!("measuring the generator for some {} s", length.as_secs_f64().ceil()));
    sys::process::exact_timers()?;
    write_costs();
    write_timer()?;
    let (server_cpus, load_cpus) = match allowed[..] {
        [server, generator, ..] => {
            write_core_to_core(server, generator);
            (vec![server], vec![generator])
        }
        _ => {
            let text =
                "server and generator share the one processor there is: rates are those of both together";
            say("Placement", text);
            (vec![], vec![])
        }
    };
    let server = Server::start(&server_cpus)?;
    for driver in Driver::ALL {
        match ::load::missing_features(driver) {
            Ok(_) => write_driver(driver, &server, &load_cpus)?,
            Err(error) => say(driver.name(), &format!("cannot run here: {error}")),
        }
    }
    Ok(())
}

fn say(label: &str, text: &str) {
    output::line(&format!("{label:<12}{text}"));
}

/// The cost of a request apart from syscalls.
fn write_costs() {
    say("Clock", &format!("{} a reading", each(|_| black_box(monotonic_ns()))));
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    // Spread-out values, like latencies.
    let cost = each(|index| {
        histogram.saturating_record(100_000 + index % 977 * 1_000);
        index
    });
    say("Histogram", &format!("{cost} a value"));
}

fn each(mut work: impl FnMut(u64) -> u64) -> String {
    let begin_ns = monotonic_ns();
    for index in 0..REPETITIONS {
        black_box(work(index));
    }
    let ns = (monotonic_ns() - begin_ns) as f64 / REPETITIONS as f64;
    format!("{ns:.1} ns")
}

/// How late a wait ends when nothing happens.
fn write_timer() -> io::Result<()> {
    let mut epoll = Epoll::new()?;
    let mut late = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    for _ in 0..TIMER_WAITS {
        let due_ns = monotonic_ns() + TIMER_WAIT.as_nanos() as u64;
        epoll.wait(Some(TIMER_WAIT))?;
        late.saturating_record(monotonic_ns().saturating_sub(due_ns));
    }
    say("Timer", &format!("a wait of 1 ms ends late by {}", spread(&late)));
    Ok(())
}

/// The core-to-core latency between server and generator, which is part of the cost of each message. If a hypervisor
/// moves processors, it changes from second to second, and rates with it.
fn write_core_to_core(server: usize, generator: usize) {
    let text = match sys::cpu::round_trip_ns(server, generator) {
        Ok(ns) => {
            format!(
                "a cache line goes from processor {server} to {generator} and back in {}",
                duration_ns(ns)
            )
        }
        Err(error) => error.to_string(),
    };
    say("Distance", &text);
}

fn spread(histogram: &Histogram<u64>) -> String {
    let at = |quantile| duration_ns(histogram.value_at_quantile(quantile) as f64);
    format!("{} (median), {} (p99), {} (most)", at(0.5), at(0.99), duration_ns(histogram.max() as f64))
}

/// The highest rate against the server, and how late sends are at fractions of it.
fn write_driver(driver: Driver, server: &Server, cpus: &[usize]) -> Result<(), Failure> {
    let spec = LoadSpec {
        driver,
        connections: CONNECTIONS,
        cpus: cpus.to_vec(),
        warmup_ms: Some(WARMUP.as_millis() as u64),
        duration_ms: Some(WINDOW.as_millis() as u64),
        ..LoadSpec::new(Workload::Http(Http::default()), vec![server.address.clone()])
    };
    let report = run(&spec)?;
    let rate_per_s = report.requests.correct as f64 / WINDOW.as_secs_f64();
    say(driver.name(), &highest(&report));
    for (part, spin) in PARTS.into_iter().flat_map(|part| WAYS.map(|way| (part, way))) {
        let rate_per_s = (part * rate_per_s).round();
        let pace = Pace::Open {
            arrivals: Arrivals::Poisson,
            seed: SEED_DEFAULT,
            stages: vec![Stage::steady(rate_per_s)],
        };
        let report = run(&LoadSpec { pace, spin_us: spin.as_micros() as u64, ..spec.clone() })?;
        let lateness = &report.views.as_ref().expect("an open loop has views").lateness_ns;
        let how = if spin.is_zero() { "sleeping" } else { "spinning" };
        say("", &format!("at {}/s, {how}: sends late by {}", count(rate_per_s as u64), spread(lateness)));
    }
    Ok(())
}

/// The result of a closed loop. If the generator had time to spare, the rate is not its own limit.
fn highest(report: &::load::Report) -> String {
    let Generator { cpu_ns, .. } = report.generator;
    let (window_ns, correct) = (report.end_ns.saturating_sub(report.begin_ns), report.requests.correct);
    let rate = count((correct as f64 / WINDOW.as_secs_f64()) as u64);
    let cpu = duration_ns(cpu_ns as f64 / correct.max(1) as f64);
    // Threads that share a processor keep it busy together.
    let busy = 100.0 * cpu_ns as f64 / window_ns.max(1) as f64;
    let evidence = Evidence {
        measured: report,
        connections: CONNECTIONS,
        idle: 0,
        requests_per_connection: None,
        ends_at_last_reply: false,
        gone: false,
        schedule: None,
        spins: false,
    };
    let limit = match evidence.bound().by {
        _ if busy >= BUSY_PERCENT_MIN => "",
        BoundBy::Server => " (the server was the limit)",
        // It waited for its processor, which another program used.
        _ => " (the server or the machine was the limit)",
    };
    format!("{rate}/s over {CONNECTIONS} connections, busy {busy:.0} %{limit}, {cpu} of processor a request")
}

fn run(spec: &LoadSpec) -> Result<::load::Report, Failure> {
    let workload = http::Workload::new(1, "/", "localhost", true, http::Verify::Bytes)
        .map_err(|message| Failure::work("failed", message))?;
    static STOP: AtomicBool = AtomicBool::new(false);
    ::load::run::<http::Http>(spec, None, forever(workload), &STOP, &mut |_| None)
        .map_err(|failure| Failure::work(failure.kind, failure.message))
}

/// A server of this engine in a child process. It ends when its input ends.
struct Server {
    child: Child,
    address: Address,
}

impl Server {
    fn start(cpus: &[usize]) -> Result<Self, Failure> {
        let spec = ServeSpec {
            schema: Version,
            role: ServeWord::Is,
            model: "epoll".into(),
            options: BTreeMap::new(),
            workload: Workload::Http(Http::default()),
            listen: vec![Address(SocketAddr::from(([127, 0, 0, 1], 0)).into())],
            workers: 1,
            worker_kind: WorkerKind::Thread,
            cpus: cpus.to_vec(),
            netns: None,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            count_calls: false,
        };
        let mut child = Command::new(env::current_exe()?)
            .args(["serve", "--spec", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let told = writeln!(child.stdin.as_mut().expect("it is piped"), "{}", contract::line(&spec))
            .and_then(|()| BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line));
        match told.ok().and_then(|_| contract::read::<ServeReady>(&line).ok()) {
            Some(ready) => Ok(Self { child, address: ready.listen[0].clone() }),
            None => {
                // The line it has printed explains more than its exit status.
                let _ = child.kill().and_then(|()| child.wait());
                Err(Failure::work(
                    "failed",
                    format!("the server to test with does not start: {}", line.trim()),
                ))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server ends when its input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
