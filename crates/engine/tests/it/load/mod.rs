//! The load generator against servers that are right, wrong, slow, silent or dying: its report must match what
//! happened, reply by reply, with each of its drivers.
//!
//! The HTTP servers are threads with plain blocking calls that count what they do; echo is served by the engine.

pub(crate) mod peer;
pub(crate) mod report;
pub(crate) mod server;

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Engine;
use crate::process::{self, PATIENCE};
use report::Report;
use serde_json::{Value, json};
use server::{Behaviour, Counts, Fault, Server, free_address};

const DRIVERS: [&str; 3] = ["epoll", "io_uring", "thread"];

/// When a run ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Requests(u64),
    AfterMs(u64),
}

/// A server, how it is loaded, and the expected report.
struct Case {
    name: &'static str,
    behaviour: Behaviour,
    connections: usize,
    end: End,
    timeout_ms: u64,
    correct: RangeInclusive<u64>,
    /// Errors by kind; there must be none of other kinds.
    errors: &'static [(&'static str, RangeInclusive<u64>)],
}

const ANY: RangeInclusive<u64> = 0..=u64::MAX;
const SOME: RangeInclusive<u64> = 1..=u64::MAX;

const CASES: &[Case] = &[
    Case {
        name: "a right server is counted exactly",
        behaviour: Behaviour::Right,
        connections: 10,
        end: End::Requests(1003),
        timeout_ms: 60_000,
        correct: 1003..=1003,
        errors: &[],
    },
    Case {
        name: "fewer requests than connections are sent as asked",
        behaviour: Behaviour::Right,
        connections: 10,
        end: End::Requests(7),
        timeout_ms: 60_000,
        correct: 7..=7,
        errors: &[],
    },
    Case {
        name: "one connection for a while",
        behaviour: Behaviour::Right,
        connections: 1,
        end: End::AfterMs(1000),
        timeout_ms: 60_000,
        correct: SOME,
        errors: &[],
    },
    Case {
        name: "fifty connections for a while",
        behaviour: Behaviour::Right,
        connections: 50,
        end: End::AfterMs(1000),
        timeout_ms: 60_000,
        correct: SOME,
        errors: &[],
    },
    Case {
        name: "a wrong byte in each 50th body",
        behaviour: Behaviour::Each50th(Fault::WrongByte),
        connections: 10,
        end: End::Requests(1000),
        timeout_ms: 60_000,
        correct: 980..=980,
        errors: &[("wrong", 20..=20)],
    },
    Case {
        name: "a 503 for each 50th request",
        behaviour: Behaviour::Each50th(Fault::Unavailable),
        connections: 10,
        end: End::Requests(1000),
        timeout_ms: 60_000,
        correct: 980..=980,
        errors: &[("status", 20..=20)],
    },
    Case {
        name: "each 50th reply cut short, then closed",
        behaviour: Behaviour::Each50th(Fault::Truncated),
        connections: 10,
        end: End::Requests(1000),
        timeout_ms: 60_000,
        correct: 980..=980,
        errors: &[("closed", 20..=20)],
    },
    Case {
        name: "each 50th connection reset",
        behaviour: Behaviour::Each50th(Fault::Reset),
        connections: 10,
        end: End::Requests(1000),
        timeout_ms: 60_000,
        correct: 980..=980,
        errors: &[("reset", 20..=20)],
    },
    Case {
        name: "replies that come byte by byte",
        behaviour: Behaviour::ByteByByte,
        connections: 10,
        end: End::Requests(200),
        timeout_ms: 60_000,
        correct: 200..=200,
        errors: &[],
    },
    Case {
        name: "a server that closes after each reply",
        behaviour: Behaviour::ClosesEach,
        connections: 10,
        end: End::Requests(500),
        timeout_ms: 60_000,
        correct: 500..=500,
        errors: &[],
    },
    Case {
        name: "a server that never answers",
        behaviour: Behaviour::Silent,
        connections: 4,
        end: End::Requests(8),
        timeout_ms: 200,
        correct: 0..=0,
        errors: &[("timeout", 8..=8)],
    },
    Case {
        // Few enough for any machine to receive them within the window.
        name: "a server that dies after 50 replies",
        behaviour: Behaviour::DiesAfter(50),
        connections: 10,
        end: End::AfterMs(1000),
        timeout_ms: 60_000,
        // A reply may be lost with its connection.
        correct: 40..=50,
        errors: &[("connect", SOME), ("reset", ANY), ("closed", ANY)],
    },
];

#[test]
fn the_epoll_driver_reports_what_the_server_did() {
    check_all("epoll");
}

#[test]
fn the_io_uring_driver_reports_what_the_server_did() {
    check_all("io_uring");
}

#[test]
fn the_thread_driver_reports_what_the_server_did() {
    check_all("thread");
}

/// Checks all cases at the same time, even if some fail.
fn check_all(driver: &'static str) {
    let started: Vec<_> =
        CASES.iter().map(|case| (case.name, thread::spawn(move || check(case, driver)))).collect();
    let failed: Vec<&str> =
        started.into_iter().filter_map(|(name, run)| run.join().is_err().then_some(name)).collect();
    assert!(failed.is_empty(), "{} cases failed with {driver}: {}", failed.len(), failed.join("; "));
}

fn check(case: &Case, driver: &str) {
    let server = Server::start(case.behaviour);
    // A thread of the generator that starts late may get a wrong reply first, which would then be the expected one.
    let workload = json!({"protocol": "http", "host": "h", "expect_body": "right"});
    let mut spec = spec(driver, &server.address().to_string(), &workload, case.connections);
    spec["timeout_ms"] = case.timeout_ms.into();
    match case.end {
        End::Requests(requests) => spec["requests"] = requests.into(),
        End::AfterMs(duration_ms) => {
            spec["duration_ms"] = duration_ms.into();
            // Without a warm-up the server's counts and the report's cover the same time.
            spec["warmup_ms"] = 0.into();
        }
    }
    let report = Report::of(&spec);
    report.assert_physics();
    assert!(case.correct.contains(&report.requests("correct")), "{report}");
    for kind in ["connect", "reset", "closed", "timeout", "malformed", "status", "wrong"] {
        let named = case.errors.iter().find(|(name, _)| *name == kind);
        let expected = named.map_or(0..=0, |(_, expected)| expected.clone());
        assert!(expected.contains(&report.errors(kind)), "{kind}: {report}");
    }
    let counts = server.end();
    match case.end {
        End::Requests(requests) => {
            assert_eq!(report.requests("sent"), requests, "{report}");
            assert_eq!(counts.requests, requests, "requests the server saw: {report}");
            assert_eq!(report.bytes("received"), counts.bytes_sent, "{report}");
            assert_eq!(report.bytes("sent"), counts.bytes_received, "{report}");
        }
        End::AfterMs(_) => {
            // Requests missing in the report were in flight, or were lost with their connection.
            assert!(counts.requests <= report.requests("sent"), "{counts:?}, {report}");
            let (correct, lost) = (report.requests("correct"), report.requests("failed"));
            let most = correct + lost + report.requests("in_flight_end");
            assert!((correct..=most).contains(&counts.right), "{counts:?}, {report}");
        }
    }
}

/// Loads a correct server with a spec that `change` derives from the plain one. Expects as many correct replies as
/// requests, by the server's own count too.
fn check_right(
    driver: &str,
    connections: usize,
    requests: u64,
    change: impl Fn(&mut Value),
) -> (Report, Counts) {
    let server = Server::start(Behaviour::Right);
    let workload = json!({"protocol": "http", "host": "h"});
    let mut spec = spec(driver, &server.address().to_string(), &workload, connections);
    spec["requests"] = requests.into();
    change(&mut spec);
    let report = Report::of(&spec);
    report.assert_physics();
    let counts = server.end();
    assert_eq!((report.requests("sent"), report.requests("correct")), (requests, requests), "{report}");
    assert_eq!((counts.requests, counts.right), (requests, requests), "{report}");
    let bytes = ["received", "sent"].map(|name| report.bytes(name));
    assert_eq!(bytes, [counts.bytes_sent, counts.bytes_received], "{report}");
    assert_eq!(report.field("/statuses/200"), &json!(requests), "{report}");
    let of = |path: &str| report.field(path).as_u64().expect("a time");
    // The window begins before its first request; how long before depends on the machine.
    assert!((1..=of("/last_reply_ns") - of("/begin_ns")).contains(&of("/finish_ns")), "{report}");
    assert!(of("/elapsed_ns") >= of("/finish_ns"), "connections are opened before: {report}");
    (report, counts)
}

#[test]
fn requests_of_a_schedule_are_all_sent_and_their_latency_counts_from_when_they_were_due() {
    let stage = json!({"from_per_s": 1000.0, "to_per_s": 1000.0, "duration_ms": null});
    for driver in DRIVERS {
        for arrivals in ["even", "poisson"] {
            let pace = json!({"loop": "open", "arrivals": arrivals, "stages": [stage]});
            let (report, _) = check_right(driver, 8, 300, |spec| spec["pace"] = pace.clone());
            report.assert_schedule();
            // Requests due before the last send but beyond the requested number are not sent.
            assert!(report.field("/schedule/due").as_u64() >= Some(300), "{driver}, {arrivals}: {report}");
        }
    }
}

#[test]
fn a_schedule_that_ends_before_the_number_that_was_asked_for_ends_the_run() {
    let stage = json!({"from_per_s": 1000.0, "to_per_s": 1000.0, "duration_ms": 100});
    // The number of threads can be set; the thread driver has one for each connection.
    for (driver, threads) in [("epoll", 1), ("epoll", 2), ("io_uring", 1), ("io_uring", 2), ("thread", 1)] {
        // The number of random requests has a standard deviation of 10.
        for (arrivals, sent) in [("even", 100..=100), ("poisson", 50..=150)] {
            let server = Server::start(Behaviour::Right);
            let workload = json!({"protocol": "http", "host": "h"});
            let mut spec = spec(driver, &server.address().to_string(), &workload, 4);
            (spec["requests"], spec["threads"]) = (1000.into(), threads.into());
            spec["pace"] = json!({"loop": "open", "arrivals": arrivals, "stages": [stage]});
            let report = Report::of(&spec);
            report.assert_physics();
            report.assert_schedule();
            let counts = ["sent", "correct"].map(|name| report.requests(name));
            assert!(sent.contains(&counts[0]) && counts[0] == counts[1], "{driver}, {arrivals}: {report}");
            assert_eq!(report.field("/schedule/unsent_end"), &json!(0), "{driver}, {arrivals}: {report}");
            assert_eq!(server.end().right, counts[0], "{driver}, {arrivals}: {report}");
        }
    }
}

#[test]
fn a_connection_that_is_free_is_not_waited_for_at_the_begin() {
    let stage = json!({"from_per_s": 200.0, "to_per_s": 200.0, "duration_ms": null});
    let pace = json!({"loop": "open", "arrivals": "even", "stages": [stage]});
    for driver in DRIVERS {
        // No connection is needed twice.
        let (report, _) = check_right(driver, 8, 8, |spec| spec["pace"] = pace.clone());
        assert_eq!(report.field("/schedule/waited"), &json!(0), "{driver}: {report}");
    }
}

#[test]
fn a_schedule_that_a_server_cannot_keep_up_with_shows_in_the_response_time_and_is_told() {
    // One connection to a server that sends its replies byte by byte.
    let server = Server::start(Behaviour::ByteByByte);
    for driver in DRIVERS {
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 1);
        (spec["duration_ms"], spec["warmup_ms"]) = (500.into(), 0.into());
        let stage = json!({"from_per_s": 20_000.0, "to_per_s": 20_000.0, "duration_ms": null});
        spec["pace"] = json!({"loop": "open", "arrivals": "even", "stages": [stage]});
        let report = Report::of(&spec);
        report.assert_physics();
        report.assert_schedule();
        let of = |path: &str| report.field(path).as_f64().expect("a number");
        assert!(of("/schedule/unsent_end") > 100.0, "{driver}: {report}");
        // Compares medians, which a few stalls of a busy machine do not change.
        assert!(of("/latency_ns/p50") > 3.0 * of("/views/service_ns/p50"), "{driver}: {report}");
        assert_ne!(report.field("/bound/by"), "rate", "{driver}: {report}");
        assert_ne!(report.field("/unsound"), &json!([]), "{driver}: {report}");
    }
    server.end();
}

#[test]
fn a_number_of_requests_that_a_server_cannot_keep_up_with_is_told_too() {
    let server = Server::start(Behaviour::ByteByByte);
    for driver in DRIVERS {
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 1);
        let stage = json!({"from_per_s": 20_000.0, "to_per_s": 20_000.0, "duration_ms": null});
        spec["pace"] = json!({"loop": "open", "arrivals": "even", "stages": [stage]});
        spec["requests"] = 500.into();
        let report = Report::of(&spec);
        report.assert_physics();
        report.assert_schedule();
        assert_eq!(report.requests("correct"), 500, "{driver}: {report}");
        assert_ne!(report.field("/bound/by"), "rate", "{driver}: {report}");
        assert_ne!(report.field("/unsound"), &json!([]), "{driver}: {report}");
    }
    server.end();
}

#[test]
fn a_server_that_falls_silent_is_told_though_no_percentile_knows_of_it() {
    for driver in ["epoll", "io_uring"] {
        let server = Server::start(Behaviour::SilentAfter(5));
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 200);
        // The five replies may take up to a second each, which is still less than half of the silence.
        (spec["duration_ms"], spec["warmup_ms"]) = (2_000.into(), 0.into());
        let stage = json!({"from_per_s": 100.0, "to_per_s": 100.0, "duration_ms": null});
        spec["pace"] = json!({"loop": "open", "arrivals": "even", "stages": [stage]});
        let report = Report::of(&spec);
        report.assert_physics();
        let reasons = report.field("/unsound").to_string();
        assert!(reasons.contains("had no reply at its end"), "{driver}: {report}");
        server.end();
    }
}

#[test]
fn connections_take_turns_where_fewer_are_active() {
    for driver in ["epoll", "io_uring"] {
        let (report, _) = check_right(driver, 20, 100, |spec| spec["active"] = 3.into());
        assert_eq!(report.field("/connections_open"), &json!(20), "{driver}: {report}");
    }
}

#[test]
fn several_requests_are_outstanding_in_a_pipeline() {
    for depth in [2, 16] {
        check_right("epoll", 5, 1003, |spec| spec["pipeline"] = depth.into());
    }
}

#[test]
fn connections_are_opened_anew_after_so_many_requests() {
    for driver in DRIVERS {
        for each in [1, 10] {
            let (_, counts) =
                check_right(driver, 5, 200, |spec| spec["requests_per_connection"] = each.into());
            // All five may be reopened at the end.
            let opened = 200 / each;
            assert!((opened..=opened + 5).contains(&counts.connections), "{driver}, {each}: {counts:?}");
        }
    }
}

#[test]
fn idle_connections_stay_open_and_all_come_from_where_they_are_told() {
    for driver in DRIVERS {
        let (report, counts) = check_right(driver, 4, 40, |spec| {
            spec["idle"] = 30.into();
            spec["sources"] = json!(["127.0.0.7", "127.0.0.8"]);
            spec["connect_per_s"] = 1000.0.into();
        });
        assert_eq!(report.field("/connections_open"), &json!(34), "{driver}: {report}");
        assert_eq!(counts.connections, 34, "{driver}: {report}");
    }
}

#[test]
fn probes_are_asked_apart_from_the_load_and_end_with_it() {
    for driver in ["epoll", "io_uring"] {
        let server = Server::start(Behaviour::Right);
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 2);
        (spec["requests"], spec["probes"]) = (4000.into(), 3.into());
        let report = Report::of(&spec);
        report.assert_physics();
        let counts = server.end();
        let probe = |name: &str| report.field(&format!("/probe/requests/{name}")).as_u64().expect("a count");
        assert_eq!(report.requests("correct"), 4000, "{driver}: {report}");
        assert_eq!(counts.connections, 5, "{driver}: {report}");
        assert_eq!(probe("correct") + probe("in_flight_end"), probe("sent"), "{driver}: {report}");
        assert!(
            (4000 + probe("correct")..=4000 + probe("sent")).contains(&counts.requests),
            "{driver}: {report}"
        );
    }
}

#[test]
fn a_load_by_hand_without_a_correct_reply_shows_what_came_and_fails() {
    let server = Server::start(Behaviour::Silent);
    let ended = process::engine(&format!("load http://{}/ -c 2 -n 4 --timeout 100ms", server.address()));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("0 correct, 0 wrong, 4 failed"), "{ended:?}");
    let begin = "error: no reply was correct; the first: a reply did not come in time; no reply came within ";
    let end = "the server accepts connections and does not answer; check it, and what it speaks, or raise --timeout\n";
    assert!(ended.stderr.starts_with(begin) && ended.stderr.ends_with(end), "{ended:?}");
    server.end();
}

#[test]
fn the_instrument_measures_itself() {
    let told = process::engine("load --self-test").stdout;
    let parts = ["Clock", "Histogram", "Timer", "epoll ", "io_uring", "thread ", "spinning: sends late by"];
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn the_run_is_told_slice_by_slice_and_the_slices_are_the_whole() {
    for driver in DRIVERS {
        let server = Server::start(Behaviour::Right);
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 4);
        (spec["duration_ms"], spec["warmup_ms"], spec["slice_ms"]) = (500.into(), 0.into(), 200.into());
        let engine = Engine::start(&spec);
        let (mut slices, mut report) = (Vec::new(), Value::Null);
        while let Some(event) = engine.event() {
            match event["event"].as_str() {
                Some("interval") => slices.push(event),
                Some("report") => report = event,
                _ => {}
            }
        }
        assert!((3..=4).contains(&slices.len()), "{driver}: {} slices", slices.len());
        let sum: u64 = slices.iter().filter_map(|slice| slice["correct"].as_u64()).sum();
        assert_eq!(Some(sum), report["requests"]["correct"].as_u64(), "{driver}");
        server.end();
    }
}

#[test]
fn a_server_that_closes_without_saying_so_neither_hangs_a_run_nor_loses_a_request() {
    const REQUESTS: u64 = 400;
    for driver in DRIVERS {
        let server = Server::start(Behaviour::ClosesEachUnsaid);
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 4);
        spec["requests"] = REQUESTS.into();
        let report = Report::of(&spec);
        let settled = report.requests("correct") + report.requests("failed");
        assert_eq!((report.requests("sent"), settled), (REQUESTS, REQUESTS), "{driver}: {report}");
        assert_eq!(report.requests("in_flight_end"), 0, "{driver}: {report}");
        server.end();
    }
}

#[test]
fn nothing_is_sent_on_a_connection_whose_end_came_with_the_last_reply() {
    // A thread would need another syscall for each request to notice.
    for driver in ["epoll", "io_uring"] {
        for in_flight in [4, 1] {
            // A machine that is too busy for an end to arrive with its reply shows nothing.
            let shows = (0..20).any(|_| sends_nothing_beyond_ends(driver, in_flight));
            assert!(shows, "{driver}: the machine is too slow to see it");
        }
    }
}

/// Sends requests, `in_flight` at a time, to a server that closes in the same packet as each reply. Returns whether all
/// were answered. A request may only be lost if the packet and the end were separated.
fn sends_nothing_beyond_ends(driver: &str, in_flight: usize) -> bool {
    const REQUESTS: u64 = 400;
    let server = Server::start(Behaviour::ClosesEachAtOnce);
    let workload = json!({"protocol": "http", "host": "h"});
    let mut spec = spec(driver, &server.address().to_string(), &workload, 4);
    (spec["requests"], spec["active"]) = (REQUESTS.into(), in_flight.into());
    let report = Report::of(&spec);
    report.assert_physics();
    let counts = server.end();
    let is_right = report.requests("correct") == REQUESTS && counts.requests == REQUESTS;
    assert!(is_right || counts.late_ends > 0, "{driver}: {counts:?}, {report}");
    is_right
}

#[test]
fn a_reply_that_is_overdue_is_none_however_short_the_timeout() {
    for driver in DRIVERS {
        let server = Server::start(Behaviour::SleepsFirst(Duration::from_millis(10)));
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 4);
        (spec["requests"], spec["timeout_ms"]) = (80.into(), 5.into());
        let report = report_once_opened(&spec);
        report.assert_physics();
        server.end();
        assert_eq!((report.requests("correct"), report.errors("timeout")), (0, 80), "{driver}: {report}");
    }
}

#[test]
fn every_request_to_a_silent_server_ends_however_short_the_timeout() {
    const REQUESTS: u64 = 50;
    for driver in DRIVERS {
        let server = Server::start(Behaviour::Silent);
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 1);
        (spec["requests"], spec["timeout_ms"]) = (REQUESTS.into(), 4.into());
        let report = report_once_opened(&spec);
        report.assert_physics();
        server.end();
        assert_eq!(report.errors("timeout"), REQUESTS, "{driver}: {report}");
    }
}

/// The report of a run with such a short timeout that a busy machine may not open a connection in time. Repeated until
/// one is open.
fn report_once_opened(spec: &Value) -> Report {
    let begin = Instant::now();
    loop {
        match Report::try_of(spec) {
            Ok(report) => return report,
            Err(told) => {
                assert!(told == ["failed"] && begin.elapsed() < PATIENCE, "only {told:?}, for {spec}");
            }
        }
    }
}

/// More than all buffers between a generator and a server that does not read.
const BODY_BYTES: usize = 8 << 20;

/// Sends large bodies, with `flags`, to a server that sleeps for `asleep` before it reads each. Expects these numbers
/// of requests to be correct, to time out, and to be in flight at the end. Returns the length of the window.
fn check_asleep(driver: &str, asleep: Duration, flags: &str, counts: (u64, u64, u64)) -> Duration {
    /// The longest blocking call of a driver is a small part of this.
    const AWAY_NS_MAX: u64 = 500_000_000;
    let (correct, timeouts, in_flight) = counts;
    let server = Server::start(Behaviour::SleepsFirst(asleep));
    let body = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("a-large-body-{driver}"));
    std::fs::write(&body, "x".repeat(BODY_BYTES)).expect("the file is new, or the same");
    let (url, body) = (format!("http://{}/", server.address()), body.display());
    let flags = format!("--driver {driver} --json --method POST --body-file {body} {flags}");
    let told = process::engine(&format!("load {url} -c 1 {flags}"));
    server.end();
    let event = serde_json::from_str(&told.stdout).unwrap_or_else(|_| panic!("there is no report: {told:?}"));
    let report = Report::from_event(event);
    report.assert_physics();
    let requests = ["correct", "failed", "in_flight_end"].map(|name| report.requests(name));
    assert_eq!(requests, [correct, timeouts, in_flight], "{flags}: {report}");
    assert_eq!(report.errors("timeout"), timeouts, "{flags}: {report}");
    let of = |path: &str| report.field(path).as_u64().expect("a number");
    // Waiting for a processor counts as being away too, and is reported.
    let away_ns = of("/generator/turn_ns_max").saturating_sub(of("/generator/run_delay_ns"));
    assert!(away_ns < AWAY_NS_MAX, "to wait for a server is not to be away, for {away_ns} ns: {flags}");
    // Its thread may begin late, but not too early.
    Duration::from_nanos(of("/end_ns") - of("/intervals/begin_ns"))
}

#[test]
fn a_server_that_does_not_read_holds_up_neither_the_end_of_a_window_nor_a_timeout() {
    let (a_while, soon) = (Duration::from_millis(1_500), Duration::from_secs(2));
    // A run that waited for it would take as long.
    let for_ever = Duration::from_secs(120);
    thread::scope(|scope| {
        for driver in DRIVERS {
            scope.spawn(move || {
                let length = check_asleep(driver, for_ever, "-z 1500ms --warmup 0ms", (0, 0, 1));
                assert!((a_while..for_ever).contains(&length), "{driver}: {length:?}");
                let length = check_asleep(driver, soon, "-n 1 --timeout 60s", (1, 0, 0));
                assert!(length >= soon, "{driver}: {length:?}");
                let length = check_asleep(driver, for_ever, "-n 1 --timeout 1500ms", (0, 1, 0));
                assert!((a_while..for_ever).contains(&length), "{driver}: {length:?}");
            });
        }
    });
}

#[test]
fn a_server_that_closes_what_it_has_accepted_is_asked_again_in_time_and_not_at_once() {
    const CONNECTIONS: usize = 4;
    for driver in DRIVERS {
        let server = Server::start(Behaviour::ClosesAtOnce);
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, CONNECTIONS);
        (spec["duration_ms"], spec["warmup_ms"]) = (1_000.into(), 0.into());
        let report = Report::of(&spec);
        report.assert_physics();
        server.end();
        let of = |path: &str| report.field(path).as_u64().expect("a number");
        // Each is retried once every 20 ms, and those that were open before the run once more.
        let tries = Duration::from_nanos(of("/end_ns") - of("/begin_ns")).as_millis() as u64 / 20 + 2;
        let failures = CONNECTIONS as u64..=CONNECTIONS as u64 * tries;
        assert!(failures.contains(&report.requests("failed")), "{driver}, {failures:?}: {report}");
    }
}

/// A behaviour, its first request that fails, and the number of that request's connection.
struct First {
    behaviour: Behaviour,
    request: u64,
    connection: u64,
    phase: &'static str,
    saw: &'static [&'static str],
}

#[test]
fn the_first_request_that_goes_wrong_is_told_by_its_number_its_connection_and_its_phase() {
    let first =
        |behaviour, request, connection, phase, saw| First { behaviour, request, connection, phase, saw };
    let each_50th = |fault, saw| first(Behaviour::Each50th(fault), 50, 1, "receive", saw);
    let cases = [
        each_50th(Fault::WrongByte, &["wrong"]),
        each_50th(Fault::Unavailable, &["status"]),
        each_50th(Fault::Truncated, &["closed"]),
        each_50th(Fault::Reset, &["reset"]),
        first(Behaviour::SilentAfter(7), 8, 1, "receive", &["timeout"]),
        first(Behaviour::Echoes, 1, 1, "receive", &["malformed"]),
    ];
    for driver in DRIVERS {
        for First { behaviour, request, connection, phase, saw } in &cases {
            let server = Server::start(*behaviour);
            let workload = json!({"protocol": "http", "host": "h", "expect_body": "right"});
            // With one connection, requests reach the server in order.
            let mut spec = spec(driver, &server.address().to_string(), &workload, 1);
            (spec["requests"], spec["timeout_ms"]) = (100.into(), 1_000.into());
            if matches!(behaviour, Behaviour::SilentAfter(_)) {
                spec["requests"] = 8.into();
            }
            let report = Report::of(&spec);
            report.assert_physics();
            server.end();
            let first = report.field("/first_failure");
            let told = [&first["request"], &first["connection"], &first["phase"]];
            assert_eq!(told, [&json!(request), &json!(connection), &json!(phase)], "{driver}: {report}");
            assert!(saw.iter().any(|saw| first["saw"] == *saw), "{driver}: {report}");
        }
    }
}

#[test]
fn connections_are_counted_from_the_first_that_was_opened() {
    for driver in DRIVERS {
        // Each connection carries ten requests, and the 50th request, on the fifth of them, is reset.
        let server = Server::start(Behaviour::Each50th(Fault::Reset));
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 1);
        (spec["requests"], spec["requests_per_connection"], spec["idle"]) = (95.into(), 10.into(), 3.into());
        let report = Report::of(&spec);
        report.assert_physics();
        let counts = server.end();
        let first = report.field("/first_failure");
        // The idle ones are opened after the first.
        assert_eq!((&first["request"], &first["connection"]), (&json!(50), &json!(8)), "{driver}: {report}");
        let made = report.field("/connections_made");
        assert_eq!(made, &json!(counts.connections), "{driver}: {report}");
        assert_eq!(made, &json!(3 + 10), "{driver}: {report}");
    }
}

#[test]
fn a_connection_that_cannot_be_opened_at_the_start_is_told_with_what_was_seen() {
    for driver in DRIVERS {
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &free_address(), &workload, 3);
        spec["requests"] = 10.into();
        for processes in [1, 2] {
            spec["processes"] = processes.into();
            let failed = Engine::start(&spec).event().expect("it says how it ended");
            assert_eq!((&failed["event"], &failed["kind"]), (&json!("failed"), &json!("connection_refused")));
            let first = &failed["first_failure"];
            let told = [&first["phase"], &first["saw"], &first["request"]];
            assert_eq!(told, [&json!("connect"), &json!("refused"), &json!(0)], "{driver}: {failed}");
            // Which thread or process reports first depends on the machine.
            let connection = first["connection"].as_u64().expect("a number");
            assert!((1..=3).contains(&connection), "{driver}: {failed}");
        }
    }
}

#[test]
fn a_server_that_is_gone_is_seen_in_the_phase_of_connecting() {
    for driver in DRIVERS {
        let server = Server::start(Behaviour::DiesAfter(20));
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &server.address().to_string(), &workload, 2);
        (spec["duration_ms"], spec["warmup_ms"]) = (500.into(), 0.into());
        let report = Report::of(&spec);
        report.assert_physics();
        server.end();
        assert!(report.errors("connect") > 0, "{driver}: {report}");
        let connect = report.field("/errors_by_phase/connect");
        assert_eq!(connect, report.field("/errors/connect"), "{driver}: {report}");
        // The two that were open, and those that the kernel accepted before the server closed its listener, which were
        // reset or closed. A ring may not have reported its last two attempts.
        let untold = if driver == "io_uring" { 2 } else { 0 };
        let most = 2 + report.errors("reset") + report.errors("closed") + untold;
        let made = report.field("/connections_made").as_u64().expect("a number");
        assert!((2..=most).contains(&made), "{driver}: {report}");
    }
}

#[test]
fn connections_are_opened_as_needed_and_as_many_requests_are_sent_as_were_asked_for() {
    const REQUESTS: u64 = 200;
    for driver in DRIVERS {
        for each in [None, Some(1)] {
            let server = Server::start(Behaviour::Right);
            let workload = json!({"protocol": "http", "host": "h"});
            let mut spec = spec(driver, &server.address().to_string(), &workload, 5);
            (spec["requests"], spec["open"]) = (REQUESTS.into(), "as_needed".into());
            (spec["requests_per_connection"], spec["idle"]) = (each.into(), 2.into());
            let report = Report::of(&spec);
            report.assert_physics();
            let counts = server.end();
            assert_eq!(
                (report.requests("correct"), counts.requests),
                (REQUESTS, REQUESTS),
                "{driver}: {report}"
            );
            assert_eq!(
                report.requests("sent"),
                REQUESTS + report.requests("in_flight_end"),
                "{driver}: {report}"
            );
            assert_eq!(
                report.field("/labels"),
                &json!(["connections opened as needed"]),
                "{driver}: {report}"
            );
            let made = report.field("/connections_made").as_u64().expect("a number");
            let needed = each.map_or(5, |_| REQUESTS) + 2;
            assert!((needed..needed + 5).contains(&made), "{driver}: {report}");
            // Unneeded connections are not opened.
            spec["requests"] = 2.into();
            let server = Server::start(Behaviour::Right);
            spec["connect"] = json!([server.address().to_string()]);
            assert_eq!(Report::of(&spec).requests("correct"), 2, "{driver}");
            let most = if driver == "epoll" { 5 } else { 2 } + 2;
            assert!(server.end().connections <= most, "{driver}");
        }
    }
}

#[test]
fn a_connection_that_cannot_be_opened_when_it_is_needed_is_a_failed_request() {
    const REQUESTS: u64 = 10;
    for driver in DRIVERS {
        let workload = json!({"protocol": "http", "host": "h"});
        let mut spec = spec(driver, &free_address(), &workload, 2);
        (spec["requests"], spec["open"]) = (REQUESTS.into(), "as_needed".into());
        let report = Report::of(&spec);
        report.assert_physics();
        let failed = report.requests("failed");
        assert_eq!((failed, report.errors("connect")), (REQUESTS, REQUESTS), "{driver}: {report}");
        assert_eq!(report.field("/connections_made"), &json!(0), "{driver}: {report}");
        assert_eq!(report.bytes("sent"), 0, "{driver}: {report}");
        let first = report.field("/first_failure");
        assert_eq!(
            (&first["phase"], &first["saw"]),
            (&json!("connect"), &json!("refused")),
            "{driver}: {report}"
        );
    }
}

#[test]
fn the_parts_of_a_request_s_time_add_up_to_it() {
    const REQUESTS: u64 = 200;
    for (each, open) in [(None, "before"), (None, "as_needed"), (Some(1), "as_needed")] {
        for (processes, behaviour) in
            [(1, Behaviour::Right), (1, Behaviour::ByteByByte), (2, Behaviour::Right)]
        {
            let server = Server::start(behaviour);
            let workload = json!({"protocol": "http", "host": "h"});
            let mut spec = spec("epoll", &server.address().to_string(), &workload, 4);
            (spec["requests"], spec["requests_per_connection"]) = (REQUESTS.into(), each.into());
            (spec["open"], spec["details"], spec["processes"]) = (open.into(), true.into(), processes.into());
            let report = Report::of(&spec);
            report.assert_physics();
            server.end();
            assert_eq!(report.requests("correct"), REQUESTS, "{report}");
            let mean = |part: &str| report.field(&format!("{part}/mean")).as_f64().expect("a number");
            let parts =
                ["connect_ns", "write_ns", "wait_ns", "read_ns"].map(|part| mean(&format!("/times/{part}")));
            let all: f64 = parts.iter().sum();
            // Histograms have three digits.
            let latency = mean("/latency_ns");
            assert!((all - latency).abs() <= 0.01 * latency, "{parts:?}: {report}");
            let processing = mean("/times/processing_ns");
            assert!((all - parts[0] - processing).abs() <= 0.01 * latency, "{parts:?}: {report}");
            let longest =
                |part: &str| report.field(&format!("/times/{part}/max")).as_u64().expect("a number");
            assert_eq!(longest("connect_ns") > 0, open == "as_needed", "{report}");
            assert!(longest("write_ns") > 0 && longest("wait_ns") > 0, "{report}");
        }
    }
}

#[test]
fn a_reply_that_one_receive_does_not_bring_is_wrong_where_no_more_is_looked_at() {
    const REQUESTS: u64 = 20;
    // A small reply arrives in one packet. A large one exceeds what a driver receives in one call.
    for (body_bytes, correct) in [(100, REQUESTS), (1_000_000, 0)] {
        let workload = json!({"protocol": "http", "reply_bytes": body_bytes, "host": "h"});
        let (_server, address) = process::Supervised::server("epoll", &workload.to_string());
        for driver in ["epoll", "thread"] {
            let mut spec = spec(driver, &address.to_string(), &workload, 2);
            spec["requests"] = REQUESTS.into();
            let whole = Report::of(&spec);
            assert_eq!(whole.requests("correct"), REQUESTS, "{driver}: {whole}");
            spec["verify"] = "one_receive".into();
            let report = Report::of(&spec);
            report.assert_physics();
            assert_eq!(report.requests("correct"), correct, "{driver}: {report}");
            assert_eq!(report.errors("wrong"), REQUESTS - correct, "{driver}: {report}");
            // Each reply is received to its end, and not mixed up with the next.
            assert_eq!(report.bytes("bodies"), REQUESTS * body_bytes, "{driver}: {report}");
            let labels = json!(["checked after one receive, as published"]);
            assert_eq!((report.field("/labels"), whole.field("/labels")), (&labels, &json!([])), "{driver}");
        }
    }
}

#[test]
fn echo_of_every_size_is_right_and_does_not_stall() {
    for model in ["epoll", "io_uring"] {
        for message_bytes in [1, 64, 4096, 65_536, 1_048_576] {
            let (_server, address, workload) = echo(model, message_bytes);
            for connections in [1, 50] {
                // The drivers run at the same time: what holds for one must also hold beside the others.
                thread::scope(|scope| {
                    for driver in DRIVERS {
                        let spec = spec(driver, &address, &workload, connections);
                        scope.spawn(move || check_echo(&spec, message_bytes));
                    }
                });
            }
        }
    }
}

#[test]
fn however_a_closed_loop_is_shaped_what_is_in_flight_is_rate_times_latency() {
    const MESSAGE_BYTES: u64 = 64;
    let (_server, address, workload) = echo("epoll", MESSAGE_BYTES);
    for (shape, drivers) in [
        (json!({"pipeline": 16}), &DRIVERS[..1]),
        (json!({"pipeline": 4, "active": 3}), &DRIVERS[..1]),
        (json!({"active": 3}), &DRIVERS[..2]),
        (json!({"processes": 2}), &DRIVERS),
        (json!({"threads": 2}), &DRIVERS[..2]),
        (json!({"requests_per_connection": 50}), &DRIVERS),
    ] {
        thread::scope(|scope| {
            for driver in drivers {
                let mut spec = spec(driver, &address, &workload, 8);
                spec.as_object_mut().expect("it is").extend(shape.as_object().expect("it is").clone());
                scope.spawn(move || check_echo(&spec, MESSAGE_BYTES));
            }
        });
    }
}

#[test]
fn in_an_open_loop_rate_times_latency_is_what_the_server_had_in_flight() {
    for driver in DRIVERS {
        // A machine that keeps the generator waiting shows nothing.
        let shows = (0..10).any(|_| sees_what_the_server_had_in_flight(driver));
        assert!(shows, "{driver}: it sees more than the server had, or the machine is too busy");
    }
}

/// Returns whether the generator saw no more requests in flight than the server, within a tolerance. It must never see
/// fewer.
fn sees_what_the_server_had_in_flight(driver: &str) -> bool {
    /// How much more the generator may see: the path to the server and back, and waiting for processors. That is 75 ms
    /// of the server's sleep on average, where an idle machine takes less than one.
    const TOLERANCE: f64 = 0.25;
    let stage = json!({"from_per_s": 250.0, "to_per_s": 250.0, "duration_ms": null});
    let server = Server::start(Behaviour::SleepsFirst(Duration::from_millis(300)));
    let workload = json!({"protocol": "http", "host": "h"});
    let mut spec = spec(driver, &server.address().to_string(), &workload, 150);
    spec["requests"] = 150.into();
    spec["pace"] = json!({"loop": "open", "arrivals": "poisson", "stages": [stage]});
    let report = Report::of(&spec);
    report.assert_physics();
    report.assert_schedule();
    let busy_s = server.end().busy.as_secs_f64();
    let of = |path: &str| report.field(path).as_f64().expect("a number");
    let window_s = (of("/end_ns") - of("/begin_ns")) / 1e9;
    let by_law = of("/rate_per_s") * of("/views/service_ns/mean") / 1e9;
    let expected = busy_s / window_s;
    assert!(by_law >= 0.99 * expected, "{driver}: {by_law} in flight, the server had {expected}: {report}");
    by_law <= (1.0 + TOLERANCE) * expected
}

/// An echo server of the engine, its address, and the workload for it.
fn echo(model: &str, message_bytes: u64) -> (Engine, String, Value) {
    let workload = json!({"protocol": "echo", "framing": "raw", "message_bytes": message_bytes});
    let server = Engine::start(&json!({
        "schema": 1, "role": "serve", "model": model, "workload": workload, "listen": ["127.0.0.1:0"],
    }));
    let ready = server.event().expect("the server starts");
    let address = ready["listen"][0].as_str().expect("it is ready").to_owned();
    (server, address, workload)
}

/// Fewer replies say nothing about a rate.
const REPLIES_MIN: u64 = 20;

/// Loads an echo server with longer and longer windows until one has enough replies, because their number in a given
/// time depends on the machine.
fn check_echo(spec: &Value, message_bytes: u64) {
    const DURATION_MS_MAX: u64 = 30_000;
    let mut spec = spec.clone();
    (spec["warmup_ms"], spec["duration_ms"], spec["timeout_ms"]) = (20.into(), 80.into(), 60_000.into());
    let mut report = Report::of(&spec);
    // On a busy machine a warm-up may end before all requests are sent, and a window before many replies arrive.
    while report.requests("correct") < REPLIES_MIN || !report.is_busy() {
        for name in ["warmup_ms", "duration_ms"] {
            let longer_ms = 2 * spec[name].as_u64().expect("it is a number");
            assert!(longer_ms < DURATION_MS_MAX, "it stalls: {report}");
            spec[name] = longer_ms.into();
        }
        report = Report::of(&spec);
    }
    report.assert_physics();
    report.assert_steady();
    assert_eq!(report.requests("wrong") + report.requests("failed"), 0, "{report}");
    let sent = report.bytes("sent").abs_diff(report.requests("sent") * message_bytes);
    // The edges of the window cut requests that a socket does not accept at once, or whose connection is still opening.
    let cut = (report.requests("in_flight_begin") + report.requests("in_flight_end")) * message_bytes;
    assert!(sent <= cut, "sent bytes and requests do not agree: {report}");
    let received = report.bytes("received").abs_diff(report.requests("correct") * message_bytes);
    let in_flight = report.requests("in_flight_end") * message_bytes;
    assert!(received <= in_flight, "received bytes and replies do not agree: {report}");
}

#[test]
fn a_port_where_nothing_listens_is_a_clear_failure() {
    for driver in DRIVERS {
        let address = free_address();
        let mut spec = spec(driver, &address, &json!({"protocol": "http"}), 10);
        spec["requests"] = 10.into();
        let mut engine = Engine::start(&spec);
        let event = engine.event().expect("it says something");
        assert_eq!(
            (&event["event"], &event["kind"]),
            (&json!("failed"), &json!("connection_refused")),
            "{event}"
        );
        assert!(event["message"].as_str().is_some_and(|message| message.contains(&address)), "{event}");
        assert_eq!(engine.event(), None, "nothing comes after it");
        assert_eq!(wait_for_end(&mut engine).code(), Some(1));
    }
}

fn wait_for_end(engine: &mut Engine) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = engine.ended() {
            return status;
        }
        assert!(begin.elapsed() < PATIENCE, "the engine does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

fn spec(driver: &str, connect: &str, workload: &Value, connections: usize) -> Value {
    json!({
        "schema": 1, "role": "load", "driver": driver, "workload": workload, "connect": [connect],
        "connections": connections,
    })
}
