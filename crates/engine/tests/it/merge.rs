//! Merged reports equal those of one generator that saw everything, in any order and grouping.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::Engine;
use crate::load::report::Report;
use crate::process::{self, Outcome, Supervised, command};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde_json::{Value, json};

#[test]
fn merging_is_recording_the_whole_in_whatever_order_and_groups() {
    for seed in 1..=8 {
        let mut random = fastrand::Rng::with_seed(seed);
        for example in ["report", "report.open"] {
            let runs: Vec<Run> = (0..random.usize(2..=5)).map(|_| Run::random(&mut random)).collect();
            let whole = Run::sum(&runs).report(example);
            let parts: Vec<Value> = runs.iter().map(|run| run.report(example)).collect();
            assert_same(&merged(&parts), &whole, &format!("all at once, {example}, seed {seed}"));
            let mut parts = parts;
            random.shuffle(&mut parts);
            while parts.len() > 1 {
                let group: Vec<Value> = parts.drain(..random.usize(2..=parts.len())).collect();
                let place = random.usize(..=parts.len());
                parts.insert(place, merged(&group));
            }
            assert_same(&parts[0], &whole, &format!("in groups, {example}, seed {seed}"));
        }
    }
}

/// The measurements of one part of a load. Its window and its intervals are those of all parts.
#[derive(Clone, Default)]
struct Run {
    connections: u64,
    rate_per_s: f64,
    statuses: [u64; 2],
    waited: u64,
    intervals: [u64; 20],
    latencies_ns: Vec<u64>,
}

impl Run {
    fn random(random: &mut fastrand::Rng) -> Self {
        Self {
            connections: random.u64(1..100),
            // Multiples of 1/4, so that sums are exact.
            rate_per_s: f64::from(random.u32(1..100)) / 4.0,
            statuses: [random.u64(1..1000), random.u64(1..1000)],
            waited: random.u64(..10),
            intervals: std::array::from_fn(|_| random.u64(..50)),
            latencies_ns: (0..random.usize(..200)).map(|_| 1 << random.u32(..40)).collect(),
        }
    }

    fn sum(runs: &[Self]) -> Self {
        let mut whole = Self::default();
        for run in runs {
            whole.connections += run.connections;
            whole.rate_per_s += run.rate_per_s;
            whole.waited += run.waited;
            whole.latencies_ns.extend(&run.latencies_ns);
            whole.statuses.iter_mut().zip(run.statuses).for_each(|(sum, number)| *sum += number);
            whole.intervals.iter_mut().zip(run.intervals).for_each(|(sum, number)| *sum += number);
        }
        whole
    }

    /// One of the contract's example reports with this run's measurements. Derived figures stay as they are, and wrong,
    /// because merging must recompute them.
    fn report(&self, example: &str) -> Value {
        let mut report = self::example(example);
        for field in ["connections", "connections_open", "connections_made", "threads", "processes", "idle"] {
            report[field] = self.connections.into();
        }
        (report["begin_ns"], report["end_ns"]) = (1_000_000_000.into(), 2_000_000_000.into());
        let replies = self.latencies_ns.len() as u64;
        let requests = json!({"sent": replies, "correct": replies, "wrong": 0, "failed": 0, "in_flight_begin": 0,
            "in_flight_end": 0});
        report["requests"] = requests;
        for field in ["age_begin_ns", "age_end_ns", "age_failed_ns"] {
            report[field] = self.connections.into();
        }
        for field in ["cpu_ns", "wall_ns", "run_delay_ns", "turns", "rss_bytes_max"] {
            report["generator"][field] = (self.connections * 1_000_000).into();
        }
        (report["bytes"]["sent"], report["bytes"]["received"]) = (replies.into(), replies.into());
        report["statuses"] = json!({"200": self.statuses[0], "404": self.statuses[1]});
        report["intervals"] = json!({"begin_ns": 1_000_000_000_u64, "length_ns": 50_000_000_u64,
            "completed": self.intervals});
        let mut histogram =
            Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
        self.latencies_ns.iter().for_each(|latency_ns| histogram.saturating_record(*latency_ns));
        report["latency_ns"]["histogram"] = packed(&histogram).into();
        if !report["views"].is_null() {
            for view in ["service_ns", "closed_ns", "lateness_ns"] {
                report["views"][view]["histogram"] = packed(&histogram).into();
            }
            report["schedule"]["waited"] = self.waited.into();
            for end in ["from_per_s", "to_per_s"] {
                report["pace"]["stages"][0][end] = self.rate_per_s.into();
            }
        }
        report
    }
}

/// Expects a merged report to equal `whole`, after that was merged alone to recompute its derived figures.
fn assert_same(merged: &Value, whole: &Value, place: &str) {
    assert_eq!(merged, &self::merged(std::slice::from_ref(whole)), "{place}");
    let replies = whole["requests"]["correct"].as_f64().expect("a number");
    assert_eq!(merged["rate_per_s"].as_f64(), Some(replies), "the window is a second: {place}");
}

#[test]
fn a_report_alone_comes_out_as_it_went_in() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http"}"#);
    let ramp = json!({"from_per_s": 0.1, "to_per_s": 1000.0 / 3.0, "duration_ms": 300});
    let last = json!({"from_per_s": 900.7, "to_per_s": 900.7, "duration_ms": null});
    let paces = [
        json!({"loop": "closed"}),
        json!({"loop": "open", "arrivals": "poisson", "seed": 9, "stages": [ramp, last]}),
    ];
    for pace in paces {
        let report = reported(&json!({
            "schema": 1, "role": "load", "workload": {"protocol": "http"}, "connect": [address.to_string()],
            "connections": 6, "threads": 2, "spin_us": 20, "pace": pace, "duration_ms": 500, "warmup_ms": 100,
        }));
        assert_eq!(merged(std::slice::from_ref(&report)), report);
    }
}

#[test]
fn reports_of_generators_that_ran_together_keep_the_physics_of_one() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http"}"#);
    let spec = |connections: u64| {
        json!({
            "schema": 1, "role": "load", "workload": {"protocol": "http"}, "connect": [address.to_string()],
            "connections": connections, "duration_ms": 800, "warmup_ms": 100, "held": true,
        })
    };
    // Held runs begin at the same moment, even if they were started at different times.
    let mut engines = [5, 9].map(|connections| Engine::start(&spec(connections)));
    engines.iter().for_each(|engine| assert_eq!(engine.event().expect("it is ready")["event"], "ready"));
    let start_ns = sys::clock::monotonic_ns() + 100_000_000;
    engines.iter_mut().for_each(|engine| engine.say(&start_ns.to_string()));
    let parts = engines.map(|mut engine| {
        while engine.event().expect("it goes on")["event"] != "measured" {}
        engine.say("");
        last(&engine)
    });
    let sum = |path: &str| parts.iter().filter_map(|part| part.pointer(path)?.as_u64()).sum::<u64>();
    let report = merged(&parts);
    for path in
        ["/requests/sent", "/requests/correct", "/connections", "/bytes/received", "/generator/cpu_ns"]
    {
        assert_eq!(report.pointer(path).and_then(Value::as_u64), Some(sum(path)), "{path}");
    }
    assert_eq!(report["processes"], 2);
    Report::from_event(report).assert_physics();
}

#[test]
fn runs_of_a_number_of_requests_are_one_of_their_sum() {
    let part = |by_ns| {
        let mut report = example("report").later(by_ns);
        report["requests_asked"] = 40.into();
        // A run without a reply has no other sign of it.
        (report["last_reply_ns"], report["elapsed_ns"]) = (Value::Null, Value::Null);
        report
    };
    let whole = merged(&[part(0), part(1), part(2)]);
    assert_eq!((&whole["requests_asked"], &whole["finish_ns"]), (&json!(120), &Value::Null));
}

#[test]
fn a_person_gets_the_summary_of_the_whole() {
    let outcome = merge(&[], &[example("report"), example("report").later(1000)]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert!(
        outcome.stdout.contains("100 connections, 2 threads in 2 processes, epoll"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("288,076 correct, 0 wrong, 0 failed"), "{}", outcome.stdout);
}

#[test]
fn files_may_hold_one_report_or_several() {
    let first = file("one.json", &format!("{:#}", example("report")));
    let others = [example("report").later(1), example("report").later(2)].map(|report| report.to_string());
    let more = file("more.ndjson", &others.join("\n"));
    let words = [first.to_str(), more.to_str()].map(|path| path.expect("it is text"));
    let outcome = merge(&[words[0], words[1], "-", "--json"], &[example("report").later(3)]);
    let report: Value = serde_json::from_str(&outcome.stdout).expect(&outcome.stderr);
    assert_eq!(report["connections"], 200);
}

#[test]
fn what_a_run_has_told_before_its_report_is_passed_over() {
    let interval = json!({"schema": 1, "event": "interval", "role": "load", "index": 0});
    let outcome =
        merge(&["--json"], &[interval.clone(), example("report"), interval, example("report").later(1)]);
    let report: Value = serde_json::from_str(&outcome.stdout).expect(&outcome.stderr);
    assert_eq!(report["connections"], 100);
}

#[test]
fn the_events_that_a_load_writes_to_a_file_can_be_merged() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http"}"#);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("events.ndjson").display().to_string();
    let flags = format!("load http://{address}/ -c 2 -z 300ms --warmup 0s --slice 100ms -o {path}");
    assert_eq!(process::engine(&flags).code, Some(0));
    let outcome = merge(&[&path, "-", "--json"], &[]);
    assert!(outcome.stderr.contains("-: there is no report in it"), "{outcome:?}");
    let outcome = process::engine(&format!("merge --json {path}"));
    let report: Value = serde_json::from_str(&outcome.stdout).expect(&outcome.stderr);
    assert_eq!(report["connections"], 2);
}

#[test]
fn reports_that_are_not_of_one_load_are_refused() {
    let with = |path: &str, value: Value| {
        let mut report = example("report").later(1000);
        *report.pointer_mut(path).expect(path) = value;
        report
    };
    let refuse = |other: Value, part: &str| check_refused(&[example("report"), other], part);
    refuse(with("/build", "fedcba9876543210".into()), "they have different builds");
    refuse(
        with("/workload", json!({"protocol": "line", "message_bytes": 12})),
        "they have different protocols",
    );
    refuse(with("/workload/message_bytes", 65.into()), "they have different workloads");
    refuse(with("/driver", "io_uring".into()), "they have different drivers");
    refuse(with("/pipeline", 2.into()), "they have different depths of pipeline");
    refuse(with("/requests_per_connection", 2.into()), "they have different requests per connection");
    refuse(with("/requests_asked", 40.into()), "they have different ways of ending");
    refuse(with("/intervals/length_ns", 1.into()), "they have different lengths of intervals");
    refuse(with("/schema", 2.into()), "schema 2 is not known to this engine");
    refuse(with("/event", "failed".into()), "unknown variant `failed`");
    refuse(with("/statuses", json!({"9": 1})), "9 is no status");
    refuse(with("/latency_ns/histogram", "AAAA".into()), "a histogram cannot be read");
    refuse(example("report.open"), "they have different paces");
    refuse(example("report"), "report 2 cannot be merged with report 1: they are the same report");
    refuse(example("report").later(1_100_000_000), "their windows overlap by less than half");
    check_refused(&[], "there is no report in it");
    check_refused(&["begin_s,end_s,rate".into()], "merge reads what -o writes to .json and .ndjson");
    check_refused(&[json!({"event": "interval"})], "that is the last line of a run that has ended");
    // In any position: `merge a b c b`.
    let [a, b, c] = [1, 2, 3].map(|by_ns| example("report").later(by_ns));
    check_refused(&[a, b.clone(), c, b], "report 4 cannot be merged with report 2: they are the same report");
}

fn check_refused(reports: &[Value], part: &str) {
    let outcome = merge(&["--json"], reports);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{part}: {}", outcome.stderr);
    let line = outcome.stderr.strip_suffix('\n').unwrap_or_default();
    assert!(line.starts_with("error: ") && line.contains(part) && !line.contains('\n'), "{part}: {line}");
}

/// Shifts a report in time.
trait Later {
    fn later(self, by_ns: u64) -> Self;
}

impl Later for Value {
    fn later(mut self, by_ns: u64) -> Self {
        for field in ["/begin_ns", "/end_ns", "/intervals/begin_ns"] {
            let time_ns = self.pointer_mut(field).expect("a report has times");
            *time_ns = (time_ns.as_u64().expect("a number") + by_ns).into();
        }
        self
    }
}

/// Merges reports.
fn merged(reports: &[Value]) -> Value {
    let outcome = merge(&["--json"], reports);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&outcome.stdout).expect("it is JSON")
}

/// Runs `merge` with these reports on standard input, which is the only one if no file is named.
fn merge(words: &[&str], reports: &[Value]) -> Outcome {
    let mut command = command("merge");
    command.args(words);
    if !words.contains(&"-") {
        command.arg("-");
    }
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("the engine can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    for report in reports {
        writeln!(stdin, "{report}").expect("the engine reads its input");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it is our child");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("its output is text"),
        stderr: String::from_utf8(output.stderr).expect("its errors are text"),
    }
}

/// The report of a run.
fn reported(spec: &Value) -> Value {
    last(&Engine::start(spec))
}

/// The last event of an engine.
fn last(engine: &Engine) -> Value {
    let events = std::iter::from_fn(|| engine.event());
    events.last().expect("the engine tells something")
}

/// An example of the contract.
fn example(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/examples");
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).expect("it is in the checkout");
    serde_json::from_str(&text).expect("it is JSON")
}

/// A file for this test only.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the folder can be written");
    path
}

fn packed(histogram: &Histogram<u64>) -> String {
    let mut packed = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut packed).expect("memory can be written");
    STANDARD.encode(packed)
}
