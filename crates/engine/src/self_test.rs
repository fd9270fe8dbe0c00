//! `iolab-engine load --self-test`: what the instrument itself costs and how exact it is, on this machine.
//!
//! Nothing here is assumed: clock, histogram and timer are used in a loop, and the generator loads a server of this
//! engine on a processor of its own, as fast as it goes and then at parts of that rate.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{env, thread};

use ::load::{Arrivals, Config, Driver, End, Pace, Stage};
use hdrhistogram::Histogram;
use proto::http;
use sys::clock::monotonic_ns;
use sys::epoll::Epoll;

use crate::contract::{
    self, Address, CONNECTIONS_MAX_DEFAULT, Http, ServeReady, ServeSpec, ServeWord, Version, WorkerKind,
    Workload,
};
use crate::failure::Failure;
use crate::output;
use crate::units::{count, duration_ns};
use crate::workload::forever;

/// Connections to the server: enough that it never rests while the generator works.
const CONNECTIONS: usize = 50;
/// Parts of the highest rate at which sends are timed.
const PARTS: [f64; 2] = [0.1, 0.5];
const WINDOW: Duration = Duration::from_secs(1);
const WARMUP: Duration = Duration::from_millis(200);
const SPIN: Duration = Duration::from_micros(100);
const TIMER_WAITS: usize = 500;
const TIMER_WAIT: Duration = Duration::from_millis(1);
const REPETITIONS: u64 = 1_000_000;

/// Measures and prints.
///
/// # Errors
/// Where no server can be started or loaded.
pub(crate) fn command() -> Result<(), Failure> {
    let has_two = thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let (server_cpus, load_cpus) = if has_two { (vec![0], vec![1]) } else { (vec![], vec![]) };
    sys::process::exact_timers()?;
    write_costs();
    write_timer()?;
    if !has_two {
        say(
            "Placement",
            "server and generator share the one processor there is: rates are those of both together",
        );
    }
    let server = Server::start(&server_cpus)?;
    for driver in [Driver::Epoll, Driver::IoUring] {
        match driver.lacks() {
            Ok(_) => write_driver(driver, &server, &load_cpus)?,
            Err(error) => say(driver.name(), &format!("cannot run here: {error}")),
        }
    }
    Ok(())
}

fn say(label: &str, text: &str) {
    output::line(&format!("{label:<12}{text}"));
}

/// What is done for each request beside the system calls.
fn write_costs() {
    say("Clock", &format!("{} a reading", each(|_| black_box(monotonic_ns()))));
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    // Values that lie apart, as latencies do.
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

/// How much later than asked a wait ends when nothing happens.
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

fn spread(histogram: &Histogram<u64>) -> String {
    let at = |quantile| duration_ns(histogram.value_at_quantile(quantile) as f64);
    format!("{} (median), {} (p99), {} (most)", at(0.5), at(0.99), duration_ns(histogram.max() as f64))
}

/// The highest rate against the server, and how late sends are at parts of it.
fn write_driver(driver: Driver, server: &Server, cpus: &[usize]) -> Result<(), Failure> {
    let config = Config {
        driver,
        addresses: vec![server.address.clone()],
        connections: CONNECTIONS,
        cpus: cpus.to_vec(),
        warmup: WARMUP,
        end: End::After(WINDOW),
        ..Config::default()
    };
    let report = run(&config)?;
    let rate_per_s = report.requests.correct as f64 / WINDOW.as_secs_f64();
    let generator = &report.generator;
    let cpu_ns = generator.cpu_ns as f64 / report.requests.correct.max(1) as f64;
    let busy = 100.0 * generator.cpu_ns as f64 / generator.wall_ns.max(1) as f64;
    let (rate, cpu) = (count(rate_per_s as u64), duration_ns(cpu_ns));
    say(
        driver.name(),
        &format!("{rate}/s over {CONNECTIONS} connections, busy {busy:.0} %, {cpu} of processor a request"),
    );
    for (part, spin) in PARTS.into_iter().flat_map(|part| [(part, Duration::ZERO), (part, SPIN)]) {
        let rate_per_s = (part * rate_per_s).round();
        let stage = Stage { from_per_s: rate_per_s, to_per_s: rate_per_s, duration: None };
        let pace = Pace::Open { arrivals: Arrivals::Poisson { seed: 1 }, stages: vec![stage] };
        let report = run(&Config { pace, spin, ..config.clone() })?;
        let lateness = &report.views.as_ref().expect("an open loop has views").lateness;
        let how = if spin.is_zero() { "sleeping" } else { "spinning" };
        say("", &format!("at {}/s, {how}: sends late by {}", count(rate_per_s as u64), spread(lateness)));
    }
    Ok(())
}

fn run(config: &Config) -> Result<::load::Report, Failure> {
    let workload = http::Workload::new(1, "/", "localhost", true, http::Verify::Bytes)
        .map_err(|message| Failure::work("failed", message))?;
    static STOP: AtomicBool = AtomicBool::new(false);
    ::load::run::<http::Http>(config, forever(workload), &STOP, &mut |_| ())
        .map_err(|failure| Failure::work(failure.kind, failure.message))
}

/// A server of this engine in a process of its own. It ends with its input.
struct Server {
    child: Child,
    address: sys::net::Address,
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
        let ready = told.map_err(Failure::from).and_then(|_| contract::read::<ServeReady>(&line));
        match ready {
            Ok(ready) => Ok(Self { child, address: ready.listen[0].0.clone() }),
            Err(_) => {
                // What it says of itself is more than what it is not.
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
        // Its input ends, and so does it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
