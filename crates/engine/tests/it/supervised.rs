//! A supervised engine as the lab uses it: a spec in, events out, and an end when it is due.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::server::own_address;
use crate::process::{PATIENCE, Supervised, command, signal};
use serde_json::Value;

#[test]
fn a_server_ends_with_its_input_and_leaves_the_port_free() {
    for model in ["blocking", "fork", "thread", "epoll"] {
        let (mut server, address) = Supervised::server_on(own_address(), model, r#"{"protocol":"echo"}"#);
        let connection = talk_to(address);
        server.end_input();
        assert_eq!(server.wait(), Some(0), "{model}");
        // The kernel ends what the server has forked, which takes a moment.
        let begin = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(begin.elapsed() < PATIENCE, "{model} has left a process that listens");
        }
        drop(connection);
    }
}

#[test]
fn a_load_generator_ends_with_its_input_and_not_with_its_window() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"echo"}"#);
    let mut load = Supervised::start("load", &load_spec(address, LONG));
    assert_eq!(load.event()["event"], "ready");
    load.end_input();
    assert_eq!(load.wait(), Some(0));
}

#[test]
fn an_engine_dies_with_the_process_that_started_it() {
    // A shell that starts the engine in the background and is killed. The engine's input stays open as long as this
    // test holds its own end.
    let script = r#"exec 3<&0; { echo "$SPEC"; exec cat <&3; } | "$ENGINE" serve --spec - & wait"#;
    let mut shell = std::process::Command::new("sh")
        .args(["-c", script])
        .env("ENGINE", env!("CARGO_BIN_EXE_iolab-engine"))
        .env(
            "SPEC",
            r#"{"schema":1,"role":"serve","model":"epoll","workload":{"protocol":"echo"},"listen":["127.0.0.1:0"]}"#,
        )
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let input = shell.stdin.take();
    let mut events = std::io::BufReader::new(shell.stdout.take().expect("it is piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut events, &mut line).expect("it is text");
    let ready: Value = serde_json::from_str(&line).expect("it is an event");
    let pid = ready["pid"].as_u64().expect("it is a number");
    let parent = parent_of(pid).expect("the engine runs");
    signal("KILL", u32::try_from(parent).expect("a pid"));
    let begin = Instant::now();
    while parent_of(pid).is_some() && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
    let gone = parent_of(pid).is_none();
    let _ = shell.kill();
    let _ = shell.wait();
    drop(input);
    assert!(gone, "the engine outlived the process that started it");
}

#[test]
fn a_run_is_told_from_ready_to_report() {
    for driver in ["epoll", "io_uring"] {
        let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http","reply_bytes":100}"#);
        let workload = r#"{"protocol":"http","reply_bytes":100}"#;
        let spec = format!(
            r#"{{"schema":1,"role":"load","driver":"{driver}","workload":{workload},"connect":["{address}"],
            "connections":3,"warmup_ms":100,"duration_ms":1000}}"#
        );
        let started_ns = sys::clock::monotonic_ns();
        let mut load = Supervised::start("load", &spec.replace('\n', " "));
        let ready = load.event();
        assert_eq!((&ready["event"], &ready["connections"]), (&"ready".into(), &3.into()), "{ready}");
        let measuring = load.event();
        assert_eq!(measuring["event"], "measuring");
        let measured = load.event();
        assert_eq!(measured["event"], "measured");
        // Each event comes at its time, never before; how long after depends on the machine.
        for (event, after_ms) in [(&measuring, 100), (&measured, 1_100)] {
            let after_ns = number(&event["monotonic_ns"]) - started_ns;
            assert!(after_ns >= after_ms * 1_000_000, "after {after_ns} ns: {event}");
        }
        let report = load.event();
        check_report(&report);
        assert_eq!(report["driver"], driver);
        assert_eq!(load.wait(), Some(0));
    }
}

#[test]
fn a_held_run_waits_for_a_line_before_its_warm_up_and_before_it_closes_its_connections() {
    let (mut server, address) = Supervised::server("epoll", r#"{"protocol":"echo"}"#);
    // In a second any machine gets a reply.
    for (run, end) in [r#""duration_ms":1000,"warmup_ms":100"#, r#""requests":100"#].into_iter().enumerate() {
        let mut load = Supervised::start("load", &load_spec(address, &format!(r#""held":true,{end}"#)));
        assert_eq!(load.event()["event"], "ready");
        thread::sleep(Duration::from_millis(50));
        let go_ns = sys::clock::monotonic_ns();
        load.say();
        let measuring = load.event();
        assert_eq!(measuring["event"], "measuring");
        assert!(number(&measuring["monotonic_ns"]) >= go_ns, "it did not wait for the line: {measuring}");
        assert_eq!(load.event()["event"], "measured");
        thread::sleep(Duration::from_millis(50));
        assert_eq!(open_connections(load.pid()), 2, "it has closed some");
        assert_eq!(server.answer()["workers"][0]["connections"], 2 * (run + 1), "it has opened others");
        load.say();
        check_report(&load.event());
        assert_eq!(load.wait(), Some(0));
    }
}

/// How many sockets a process has open, in any of its threads: each may have its own table.
fn open_connections(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let links = tasks.flatten().flat_map(|task| fs::read_dir(task.path().join("fd"))).flatten().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    let sockets = targets.filter(|target| target.to_string_lossy().starts_with("socket:"));
    // The engine has inherited those of this test.
    let own = fs::read_dir("/proc/self/fd").expect("this runs").flatten();
    let own: Vec<_> = own.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    sockets.filter(|target| !own.contains(target)).count()
}

#[test]
fn a_held_run_that_is_stopped_reports_at_once() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"echo"}"#);
    let mut load = Supervised::start("load", &load_spec(address, &format!(r#""held":true,{LONG}"#)));
    assert_eq!(load.event()["event"], "ready");
    signal("TERM", load.pid());
    assert_eq!(load.event()["interrupted"], true);
    assert_eq!(load.wait(), Some(0));
    let mut load = Supervised::start("load", &load_spec(address, r#""held":true,"requests":10"#));
    assert_eq!(load.event()["event"], "ready");
    load.say();
    assert_eq!(load.event()["event"], "measuring");
    assert_eq!(load.event()["event"], "measured");
    signal("TERM", load.pid());
    check_report(&load.event());
    assert_eq!(load.wait(), Some(0));
}

#[test]
fn a_signal_ends_a_run_early_with_a_report_of_what_there_is() {
    for name in ["INT", "TERM"] {
        let (_server, address) = Supervised::server("epoll", r#"{"protocol":"echo"}"#);
        let fields = format!(r#"{LONG},"warmup_ms":0,"slice_ms":100"#);
        let mut load = Supervised::start("load", &load_spec(address, &fields));
        assert_eq!(load.event()["event"], "ready");
        assert_eq!(load.event()["event"], "measuring");
        while number(&load.event()["correct"]) == 0 {}
        signal(name, load.pid());
        let mut report = load.event();
        while report["event"] != "report" {
            report = load.event();
        }
        assert_eq!(report["interrupted"], true, "{report}");
        check_report(&report);
        assert_eq!(load.wait(), Some(0), "{name}");
    }
}

#[test]
fn a_server_dies_of_sigterm() {
    let (mut server, _) = Supervised::server("epoll", r#"{"protocol":"echo"}"#);
    signal("TERM", server.pid());
    assert_eq!(server.wait(), None, "it ended by itself");
}

#[test]
fn a_wrong_spec_is_refused_with_the_reason() {
    let serve = |fields: &str| format!(r#"{{"schema":1,"role":"serve","listen":["127.0.0.1:0"],{fields}}}"#);
    let echo = r#""workload":{"protocol":"echo"}"#;
    check_refused("serve", "", "bad_spec", "reads one line of JSON");
    check_refused("serve", "hello", "bad_spec", "expected value at line 1 column 1");
    check_refused("serve", &"x".repeat(103_000_000), "bad_spec", "longer than 102760448 bytes");
    check_refused("serve", &serve(r#""model":"epoll""#), "bad_spec", "missing field `workload`");
    check_refused(
        "serve",
        &serve(&format!(r#""model":"epoll","color":1,{echo}"#)),
        "bad_spec",
        "field `color`",
    );
    check_refused(
        "serve",
        &serve(&format!(r#""model":"epol",{echo}"#)),
        "unknown_model",
        "did you mean epoll?",
    );
    check_refused(
        "serve",
        &serve(&format!(r#""model":"io_uring","options":{{"recv":"once"}},{echo}"#)),
        "unknown_value",
        "one of: multishot, oneshot",
    );
    check_refused(
        "serve",
        &serve(r#""model":"epoll","workload":{"protocol":"echo","size":1}"#),
        "bad_spec",
        "unknown field `size`",
    );
    check_refused(
        "serve",
        &serve(r#""model":"epoll","workload":{"protocol":"gopher"}"#),
        "bad_spec",
        "unknown variant `gopher`",
    );
    check_refused("serve", r#"{"schema":2}"#, "bad_spec", "schema 2 is not known");
    check_refused("load", &serve(echo), "bad_spec", "serve");
    let load = load_spec("127.0.0.1:1".parse().expect("an address"), r#""requests":1,"duration_ms":1"#);
    check_refused("load", &load, "bad_spec", "give either duration_ms or requests");
}

/// An unreachable server, like any failure while working, is reported as an event with exit code 1.
#[test]
fn a_failure_is_an_event_too() {
    let mut load =
        Supervised::start("load", &load_spec("127.0.0.1:1".parse().expect("an address"), r#""requests":1"#));
    let failed = load.event();
    assert_eq!((&failed["event"], &failed["role"]), (&"failed".into(), &"load".into()), "{failed}");
    assert_eq!(failed["kind"], "connection_refused");
    assert_eq!(load.wait(), Some(1));
}

/// A window that no test waits for: a run that ends sooner was ended.
const LONG: &str = r#""duration_ms":3600000"#;

fn load_spec(address: SocketAddr, fields: &str) -> String {
    let workload = r#"{"protocol":"echo"}"#;
    format!(
        r#"{{"schema":1,"role":"load","workload":{workload},"connect":["{address}"],"connections":2,{fields}}}"#
    )
}

fn check_refused(role: &str, spec: &str, kind: &str, part: &str) {
    let mut child = command(&format!("{role} --spec -"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the engine can be started");
    // It may refuse its input before all of it is written.
    let _ = child.stdin.take().expect("it is piped").write_all(spec.as_bytes());
    let output = child.wait_with_output().expect("it is our child");
    let failed: Value = serde_json::from_slice(&output.stdout).expect("one event");
    assert_eq!(output.status.code(), Some(2), "{spec}: {failed}");
    assert_eq!((&failed["event"], &failed["role"]), (&"failed".into(), &role.into()), "{failed}");
    assert_eq!(failed["kind"], kind, "{failed}");
    let message = failed["message"].as_str().expect("it is text");
    assert!(message.contains(part), "{spec}\n  said     {message}\n  expected {part}");
}

/// The invariants of every report from a server without faults.
fn check_report(report: &Value) {
    let requests = &report["requests"];
    let count = |name: &str| number(&requests[name]);
    assert!(count("correct") > 0, "{report}");
    assert_eq!(
        count("sent") + count("in_flight_begin"),
        count("correct") + count("wrong") + count("failed") + count("in_flight_end"),
        "{requests}"
    );
    assert_eq!((count("wrong"), count("failed")), (0, 0), "{report}");
    let seconds = (number(&report["end_ns"]) - number(&report["begin_ns"])) as f64 / 1e9;
    let rate_per_s = report["rate_per_s"].as_f64().expect("it is a number");
    assert!((rate_per_s * seconds - count("correct") as f64).abs() < 1e-3, "{rate_per_s} over {seconds} s");
    let latency = |name: &str| number(&report["latency_ns"][name]);
    let order = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"].map(latency);
    assert!(order.is_sorted() && order[0] > 0, "{order:?}");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// A connection that has been served once, so that its process exists if the model starts one.
fn talk_to(address: SocketAddr) -> TcpStream {
    let mut connection = TcpStream::connect(address).expect("the server is ready");
    connection.write_all(b"hello").expect("it is connected");
    let mut reply = [0; 5];
    connection.read_exact(&mut reply).expect("it is echoed");
    assert_eq!(&reply, b"hello");
    connection
}

/// The parent of a process; None if it has ended.
fn parent_of(pid: u64) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()))
    };
    if field("State:")?.starts_with('Z') { None } else { field("PPid:")?.parse().ok() }
}
