//! One load from several processes: their common report matches the server's counts, and they begin, end and fail as
//! one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ENGINE, Engine};
use crate::load::report::Report;
use crate::load::server::{Behaviour, Fault, Server, free_address};
use crate::process::{PATIENCE, Supervised, command, signal};
use serde_json::{Value, json};

const DRIVERS: [&str; 3] = ["epoll", "io_uring", "thread"];

#[test]
fn requests_of_several_processes_are_counted_exactly() {
    for driver in DRIVERS {
        for processes in [2, 3] {
            check(Behaviour::Right, |spec| {
                (spec["driver"], spec["processes"]) = (driver.into(), processes.into());
            });
        }
    }
}

#[test]
fn idle_and_busy_connections_and_threads_are_shared_out() {
    let (report, connections) = check(Behaviour::Right, |spec| {
        (spec["processes"], spec["threads"], spec["active"]) = (3.into(), 5.into(), 6.into());
        (spec["idle"], spec["sources"]) = (7.into(), json!(["127.0.0.7", "127.0.0.8"]));
    });
    assert_eq!(connections, 17, "{report}");
    assert_eq!(report.field("/connections_open"), &json!(17), "{report}");
    assert_eq!(report.field("/threads"), &json!(5), "{report}");
}

#[test]
fn errors_of_several_processes_are_counted_exactly() {
    let (report, _) = check(Behaviour::Each50th(Fault::Unavailable), |spec| spec["processes"] = 2.into());
    assert_eq!((report.requests("correct"), report.errors("status")), (983, 20), "{report}");
    assert_eq!(report.field("/statuses"), &json!({"200": 983, "503": 20}), "{report}");
}

#[test]
fn a_schedule_is_shared_out() {
    for arrivals in ["even", "poisson"] {
        let stage = json!({"from_per_s": 1500.0, "to_per_s": 1500.0, "duration_ms": null});
        let pace = json!({"loop": "open", "arrivals": arrivals, "seed": 5, "stages": [stage]});
        let (report, _) = check(Behaviour::Right, |spec| {
            (spec["processes"], spec["pace"]) = (3.into(), pace.clone());
        });
        report.assert_schedule();
        assert_eq!(report.field("/pace"), &pace, "{report}");
    }
}

#[test]
fn as_many_requests_are_due_of_several_processes_as_of_one() {
    let due = |processes: u64| {
        let server = Server::start(Behaviour::Right);
        let mut spec = spec(&server.address().to_string());
        // 47 are due in the window: were each process evenly spaced by itself, it would be a multiple of their number.
        let stage = json!({"from_per_s": 94.0, "to_per_s": 94.0, "duration_ms": null});
        spec["pace"] = json!({"loop": "open", "arrivals": "even", "stages": [stage]});
        (spec["processes"], spec["warmup_ms"], spec["duration_ms"]) =
            (processes.into(), 100.into(), 500.into());
        let report = Report::of(&spec);
        report.assert_schedule();
        server.end();
        report.field("/schedule/due").clone()
    };
    let expected = due(1);
    for processes in [2, 5] {
        assert_eq!(due(processes), expected, "{processes} processes");
    }
}

/// Sends 1003 requests over ten connections with a spec changed by `change`, and expects the report and the server to
/// agree. Returns the report and the server's number of connections.
fn check(behaviour: Behaviour, change: impl Fn(&mut Value)) -> (Report, u64) {
    const REQUESTS: u64 = 1003;
    let server = Server::start(behaviour);
    let mut spec = spec(&server.address().to_string());
    spec["requests"] = REQUESTS.into();
    change(&mut spec);
    let report = Report::of(&spec);
    report.assert_physics();
    let counts = server.end();
    assert_eq!((report.requests("sent"), counts.requests), (REQUESTS, REQUESTS), "{report}");
    assert_eq!(report.requests("correct"), counts.right, "{report}");
    assert_eq!(report.bytes("received"), counts.bytes_sent, "{report}");
    assert_eq!(report.bytes("sent"), counts.bytes_received, "{report}");
    for field in ["processes", "connections"] {
        assert_eq!(report.field(&format!("/{field}")), &spec[field], "{report}");
    }
    (report, counts.connections)
}

#[test]
fn a_run_for_a_while_is_told_as_one_and_its_slices_are_the_whole() {
    let server = Server::start(Behaviour::Right);
    let mut spec = spec(&server.address().to_string());
    (spec["processes"], spec["duration_ms"], spec["warmup_ms"]) = (2.into(), 500.into(), 100.into());
    spec["slice_ms"] = 200.into();
    let engine = Engine::start(&spec);
    let (mut told, mut slices, mut report) = (Vec::new(), Vec::new(), Value::Null);
    while let Some(event) = engine.event() {
        match event["event"].as_str().expect("an event has a name") {
            "interval" => slices.push(event),
            name => {
                told.push(name.to_owned());
                report = event;
            }
        }
    }
    assert_eq!(told, ["ready", "measuring", "measured", "report"]);
    let indices: Vec<u64> = slices.iter().filter_map(|slice| slice["index"].as_u64()).collect();
    assert_eq!(indices, Vec::from_iter(0..slices.len() as u64), "in their order");
    assert!((3..=4).contains(&slices.len()), "{} slices", slices.len());
    let sum: u64 = slices.iter().filter_map(|slice| slice["correct"].as_u64()).sum();
    assert_eq!(Some(sum), report["requests"]["correct"].as_u64());
    server.end();
}

#[test]
fn a_held_run_waits_for_its_owner_before_any_process_begins_and_before_any_ends() {
    let server = Server::start(Behaviour::Right);
    let mut spec = spec(&server.address().to_string());
    (spec["processes"], spec["requests"], spec["held"]) = (2.into(), 100.into(), true.into());
    let mut engine = Supervised::start("load", &spec.to_string());
    assert_eq!(engine.event()["event"], "ready");
    engine.say();
    assert_eq!(engine.event()["event"], "measuring");
    assert_eq!(engine.event()["event"], "measured");
    let children = children(engine.pid());
    assert_eq!(children.len(), 2, "both rest");
    assert_eq!(engine.answer()["event"], "report");
    assert_eq!(engine.wait(), Some(0));
    assert!(!children.iter().any(|child| is_alive(*child)), "none is left");
    assert_eq!(server.end().requests, 100);
}

#[test]
fn there_are_as_many_processes_as_the_descriptors_demand() {
    let server = Server::start(Behaviour::Right);
    let mut spec = spec(&server.address().to_string());
    (spec["connections"], spec["requests"]) = (90.into(), 900.into());
    // 64 of the hundred are reserved.
    let limited = ["-c", r#"ulimit -n 100 && exec "$0" "$@""#, ENGINE];
    let engine = Engine::start_by(Command::new("sh").args(limited), &spec);
    let told: Vec<Value> = std::iter::from_fn(|| engine.event()).collect();
    let report = told.last().expect("it reports");
    assert_eq!((&report["processes"], &report["connections_open"]), (&json!(3), &json!(90)), "{told:?}");
    assert_eq!(report["requests"]["correct"], 900, "{told:?}");
    assert_eq!(server.end().connections, 90);
}

#[test]
fn a_process_that_dies_ends_the_others_and_what_they_have_measured_is_reported() {
    let server = Server::start(Behaviour::Right);
    let mut engine = begun(&server);
    let children = children(engine.pid());
    wait_for_replies(&server);
    signal("KILL", children[1]);
    let report = Report::from_event(event(&engine));
    assert_eq!(report.field("/interrupted"), &json!(true), "{report}");
    assert_eq!(report.field("/unsound/0"), &json!(missing(children[1])), "{report}");
    report.assert_physics();
    let counts = server.end();
    assert!((1..counts.requests).contains(&report.requests("correct")), "{report}");
    let failed = event(&engine);
    assert_eq!((&failed["event"], &failed["message"]), (&json!("failed"), &json!(missing(children[1]))));
    check_ended(&mut engine, &children);
}

#[test]
fn a_person_keeps_what_is_left_of_a_run_of_which_a_process_has_died() {
    let server = Server::start(Behaviour::Right);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crowd");
    fs::create_dir_all(&folder).expect("the build folder can be written");
    let (whole, slices) = (folder.join("run.json"), folder.join("run.ndjson"));
    for path in [&whole, &slices] {
        // Missing the first time.
        let _ = fs::remove_file(path);
    }
    let line = format!(
        "load http://{}/ -c 4 --processes 2 -z 1h --warmup 0s --slice 100ms --json -o {} -o {}",
        server.address(),
        whole.display(),
        slices.display()
    );
    let child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = || fs::read_to_string(&slices).map_or(0, |text| text.lines().count());
    wait_until("two slices are over", || lines() >= 2);
    wait_for_replies(&server);
    let dead = children(child.id())[0];
    signal("KILL", dead);
    let output = child.wait_with_output().expect("it is our child");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), stderr), (Some(1), format!("error: {}\n", missing(dead))));
    let told: Value = serde_json::from_str(&stdout).expect("it is a report");
    let kept = fs::read_to_string(&whole).expect("it is there");
    assert_eq!(serde_json::from_str::<Value>(&kept).expect("it is JSON"), told);
    assert_eq!(told["unsound"][0], missing(dead), "{told}");
    assert!(told["requests"]["correct"].as_u64() > Some(0), "{told}");
    server.end();
}

#[test]
fn a_run_of_which_no_process_is_left_fails() {
    let server = Server::start(Behaviour::Right);
    let mut engine = begun(&server);
    let children = children(engine.pid());
    // Stopped first, so that none can report the death of another.
    children.iter().for_each(|child| signal("STOP", *child));
    children.iter().for_each(|child| signal("KILL", *child));
    let failed = event(&engine);
    let message = failed["message"].as_str().expect("a message is text");
    assert_eq!(failed["event"], "failed", "{failed}");
    assert!(message.ends_with(" of the generator ended before its report: signal: 9 (SIGKILL)"), "{failed}");
    check_ended(&mut engine, &children);
    server.end();
}

#[test]
fn a_process_that_dies_before_anything_is_measured_fails_the_whole() {
    let server = Server::start(Behaviour::Right);
    let mut spec = spec(&server.address().to_string());
    (spec["processes"], spec["requests"], spec["held"]) = (3.into(), 100.into(), true.into());
    let mut engine = Supervised::start("load", &spec.to_string());
    assert_eq!(engine.event()["event"], "ready");
    let children = children(engine.pid());
    signal("KILL", children[2]);
    wait_until("it is dead", || !is_alive(children[2]));
    let failed = engine.answer();
    let message =
        format!("process {} of the generator ended before its report: signal: 9 (SIGKILL)", children[2]);
    assert_eq!((&failed["event"], &failed["message"]), (&json!("failed"), &json!(message)), "{failed}");
    assert_eq!(engine.wait(), Some(1));
    assert!(!children.iter().any(|child| is_alive(*child)), "none is left");
    server.end();
}

/// The message about a killed process.
fn missing(pid: u32) -> String {
    format!(
        "process {pid} of the generator ended before its report: signal: 9 (SIGKILL): its results are missing"
    )
}

/// Expects no further event, the exit code of a failure, and no process left.
fn check_ended(engine: &mut Engine, children: &[u32]) {
    assert_eq!(engine.event(), None, "nothing comes after it");
    wait_until("it ends", || engine.ended().is_some_and(|status| status.code() == Some(1)));
    assert!(!children.iter().any(|child| is_alive(*child)), "none is left");
}

#[test]
fn a_signal_ends_all_and_what_they_have_measured_is_reported() {
    let server = Server::start(Behaviour::Right);
    let mut engine = begun(&server);
    let children = children(engine.pid());
    wait_for_replies(&server);
    signal("INT", engine.pid());
    let report = event(&engine);
    assert_eq!((&report["event"], &report["interrupted"]), (&json!("report"), &json!(true)), "{report}");
    assert!(report["requests"]["correct"].as_u64() > Some(0), "{report}");
    wait_until("it ends", || engine.ended().is_some_and(|status| status.success()));
    assert!(!children.iter().any(|child| is_alive(*child)), "none is left");
    server.end();
}

#[test]
fn no_process_outlives_the_first_one() {
    let server = Server::start(Behaviour::Right);
    let engine = begun(&server);
    let children = children(engine.pid());
    drop(engine);
    wait_until("all have ended", || !children.iter().any(|child| is_alive(*child)));
    server.end();
}

#[test]
fn a_port_where_nothing_listens_is_one_clear_failure() {
    let address = free_address();
    let mut spec = spec(&address);
    (spec["processes"], spec["requests"]) = (3.into(), 10.into());
    let mut engine = Engine::start(&spec);
    let failed = event(&engine);
    let message = format!("nothing listens on {address}: start the server first, or check the port");
    assert_eq!(
        (&failed["event"], &failed["kind"], &failed["message"]),
        (&json!("failed"), &json!("connection_refused"), &json!(message)),
        "{failed}"
    );
    assert_eq!(engine.event(), None, "nothing comes after it");
    wait_until("it ends", || engine.ended().is_some_and(|status| status.code() == Some(1)));
}

/// A long run from three processes whose window has begun.
fn begun(server: &Server) -> Engine {
    let mut spec = spec(&server.address().to_string());
    (spec["processes"], spec["duration_ms"], spec["warmup_ms"]) = (3.into(), 3_600_000.into(), 0.into());
    let engine = Engine::start(&spec);
    assert_eq!(event(&engine)["event"], "ready");
    assert_eq!(event(&engine)["event"], "measuring");
    assert_eq!(children(engine.pid()).len(), 3);
    engine
}

fn event(engine: &Engine) -> Value {
    engine.event().expect("the engine says something")
}

/// The child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).expect("the process is there");
    children.split_whitespace().map(|child| child.parse().expect("it is a number")).collect()
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits for so many replies that more have been read than there are connections.
fn wait_for_replies(server: &Server) {
    wait_until("replies have come", || server.right() >= 1000);
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn spec(connect: &str) -> Value {
    json!({
        "schema": 1, "role": "load", "workload": {"protocol": "http", "host": "h"}, "connect": [connect],
        "connections": 10,
    })
}
