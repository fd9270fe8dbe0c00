//! A path between a server and a load, as the lab and people use it. If this machine has no TUN, or no network
//! namespaces for this user, these tests say so and skip what needs them.
//!
//! Times only have lower bounds: how late a packet arrives depends on the machine.

use std::fs;
use std::process::{Command, Stdio};

use crate::process::{Outcome, Supervised, command, engine, outcome};
use serde_json::{Value, json};

/// A path that carries packets, and its `ready` event; None if this machine has none.
struct Path {
    process: Supervised,
    ready: Value,
}

impl Path {
    fn open(fields: &Value) -> Option<Self> {
        let mut spec = json!({"schema": 1, "role": "path"});
        spec.as_object_mut().expect("it is").extend(fields.as_object().expect("it is").clone());
        let mut process = Supervised::start("path", &spec.to_string());
        let ready = process.event();
        if ready["event"] == "failed" {
            assert_eq!(ready["kind"], "unavailable", "{ready}");
            eprintln!("skipped: {}", ready["message"]);
            return None;
        }
        Some(Self { process, ready })
    }

    /// An echo server at one end.
    fn server(&self) -> (Supervised, Value) {
        let spec = json!({
            "schema": 1, "role": "serve", "model": "epoll", "workload": {"protocol": "echo"},
            "listen": [format!("{}:0", self.ready["server"]["address"].as_str().expect("it is text"))],
            "netns": self.ready["server"]["netns"],
        });
        let mut server = Supervised::start("serve", &spec.to_string());
        let ready = server.event();
        assert_eq!(ready["event"], "ready", "{ready}");
        (server, ready["listen"].clone())
    }

    /// The last event of a load at the other end.
    fn load(&self, connect: &Value, fields: &Value) -> Value {
        let mut spec = json!({
            "schema": 1, "role": "load", "workload": {"protocol": "echo"}, "connect": connect,
            "connections": 1, "netns": self.ready["load"]["netns"],
        });
        spec.as_object_mut().expect("it is").extend(fields.as_object().expect("it is").clone());
        let mut load = Supervised::start("load", &spec.to_string());
        loop {
            let event = load.event();
            if event["event"] == "report" || event["event"] == "failed" {
                return event;
            }
        }
    }
}

#[test]
fn every_round_trip_takes_at_least_the_delay_both_ways() {
    let Some(mut path) = Path::open(&json!({"delay_ms": 10.0})) else { return };
    let (_server, connect) = path.server();
    let report = path.load(&connect, &json!({"requests": 5}));
    assert_eq!(report["requests"]["correct"], 5, "{report}");
    assert!(number(&report["latency_ns"]["min"]) >= 20_000_000, "{report}");
    let carried = path.process.answer();
    for direction in ["to_server", "to_load"] {
        // The handshake, five messages, and the end.
        assert!(number(&carried[direction]["packets"]) >= 7, "{carried}");
        for count in ["dropped", "lost", "overrun", "overflowed"] {
            assert_eq!(carried[direction][count], 0, "{carried}");
        }
        assert!(number(&carried[direction]["late_ns_max"]) > 0, "{carried}");
    }
    assert!(number(&carried["wall_ns"]) >= 100_000_000, "{carried}");
    assert!(number(&carried["cpu_ns"]) > 0, "{carried}");
    let later = path.process.answer();
    assert!(
        number(&later["to_server"]["packets"]) < 5,
        "a report is of what came after the last one: {later}"
    );
    path.process.end_input();
    assert_eq!(path.process.wait(), Some(0));
}

#[test]
fn several_processes_of_a_load_are_all_at_its_end() {
    let Some(path) = Path::open(&json!({})) else { return };
    let (_server, connect) = path.server();
    let report = path.load(&connect, &json!({"requests": 40, "connections": 4, "processes": 2}));
    assert_eq!((&report["requests"]["correct"], &report["processes"]), (&40.into(), &2.into()), "{report}");
}

#[test]
fn where_all_is_lost_nothing_can_be_reached() {
    let Some(mut path) = Path::open(&json!({"loss": 1.0})) else { return };
    let (_server, connect) = path.server();
    let failed = path.load(&connect, &json!({"requests": 1, "timeout_ms": 200}));
    assert_eq!(failed["kind"], "connect_timeout", "{failed}");
    let carried = path.process.answer();
    assert_eq!(carried["to_server"]["packets"], 0, "{carried}");
    assert!(number(&carried["to_server"]["lost"]) >= 1, "{carried}");
}

#[test]
fn no_packet_is_longer_than_the_mtu() {
    let Some(mut path) = Path::open(&json!({"mtu": 600})) else { return };
    let (_server, connect) = path.server();
    let workload = json!({"protocol": "echo", "message_bytes": 20_000});
    let report = path.load(&connect, &json!({"requests": 2, "workload": workload}));
    assert_eq!(report["requests"]["correct"], 2, "{report}");
    let carried = &path.process.answer()["to_server"];
    let (packets, bytes) = (number(&carried["packets"]), number(&carried["bytes"]));
    assert!(bytes > 40_000 && bytes <= packets * 600, "{carried}");
}

#[test]
fn the_kernels_settings_inside_are_those_asked_for_and_the_machines_stay() {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    let before = (read("tcp_syncookies"), read("tcp_congestion_control"));
    for (asked, cookies) in [("--no-syn-cookies", "0"), ("--queue=5 --rate=1mbit", "1")] {
        // The server's end is the namespace of the path's own process, which is the parent of the command.
        let script = r#"
            cat /proc/sys/net/ipv4/tcp_congestion_control
            nsenter --net=/proc/$PPID/ns/net cat /proc/sys/net/ipv4/tcp_syncookies 2>&1"#;
        let Some(ended) = path_with_command(asked, script) else { return };
        let lines: Vec<&str> = ended.stdout.lines().collect();
        if !ended.stderr.contains("without cubic") {
            assert_eq!(lines.first(), Some(&"cubic"), "{ended:?}");
        }
        if ended.code == Some(0) {
            assert_eq!(lines.get(1), Some(&cookies), "{ended:?}");
        } else {
            eprintln!("skipped: this user has no nsenter, or may not use it: {lines:?}");
        }
    }
    assert_eq!(before, (read("tcp_syncookies"), read("tcp_congestion_control")));
}

#[test]
fn a_command_has_the_path_to_itself_and_its_exit_code_is_passed_on() {
    let script = "echo $IOLAB_PATH_SERVER; cat /proc/net/dev; exit 7";
    let Some(ended) = path_with_command("--delay=1ms", script) else { return };
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.stdout.starts_with("192.0.2.1\n") && ended.stdout.contains("path0:"), "{ended:?}");
    let devices = ended.stdout.lines().filter(|line| line.contains(':')).count();
    let own = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    assert!(!own.contains("path0:"), "the machine's own network has no part of it");
    assert!(devices >= 2, "loopback and the path: {ended:?}");
    for line in ["to the server: ", "to the client: "] {
        assert!(ended.stderr.contains(line), "{ended:?}");
    }
}

#[test]
fn a_command_that_a_signal_ended_has_the_code_that_a_shell_gives_it() {
    let Some(ended) = path_with_command("--delay=1ms", "kill -KILL $$") else { return };
    assert_eq!(ended.code, Some(137), "{ended:?}");
    let outcome = outcome(command("path -- /no/such/program").stderr(Stdio::piped()));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("/no/such/program cannot be started: No such file"), "{outcome:?}");
}

/// Root without its privileges stands for any user who may open /dev/net/tun.
#[test]
fn a_user_without_rights_in_the_machines_network_has_a_user_namespace_for_it() {
    let mut without_rights = Command::new("setpriv");
    without_rights.args(["--bounding-set=-sys_admin,-net_admin", "--inh-caps=-sys_admin,-net_admin"]);
    without_rights.args([env!("CARGO_BIN_EXE_iolab-engine"), "path", "--", "cat", "/proc/net/dev"]);
    let Ok(output) = without_rights.stdin(Stdio::null()).output() else {
        eprintln!("skipped: there is no setpriv");
        return;
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() != Some(0) {
        let is_forbidden =
            stderr.contains("no path can be made on this machine: ") || stderr.contains("setpriv:");
        assert!(is_forbidden, "{stderr}");
        eprintln!("skipped: {stderr}");
        return;
    }
    assert!(stdout.contains("path0:"), "{stdout}{stderr}");
}

#[test]
fn a_namespace_that_is_not_there_is_one_line() {
    let spec = json!({
        "schema": 1, "role": "serve", "model": "epoll", "workload": {"protocol": "echo"},
        "listen": ["127.0.0.1:0"], "netns": "/no/such/netns",
    });
    let failed = Supervised::start("serve", &spec.to_string()).event();
    assert_eq!((&failed["event"], &failed["kind"]), (&"failed".into(), &"no_netns".into()), "{failed}");
    let message = failed["message"].as_str().expect("it is text");
    assert!(
        message.starts_with("cannot enter the network namespace /no/such/netns: No such file"),
        "{message}"
    );
}

#[test]
fn a_path_that_cannot_be_is_refused() {
    check_refused("--delay 24.5", "`24.5` has no unit");
    check_refused("--delay 11s", "--delay in ms is 11000; it can be from 0 to 10000");
    check_refused("--rate 10", "`10` is not a rate; write it as in 56kbit, 10mbit or 1gbit");
    check_refused("--rate 10bit", "--rate in bits a second is 10; it can be from 1000 to 10000000000");
    check_refused("--queue 5", "--rate");
    check_refused("--rate 1mbit --queue 0", "--queue is 0; it can be from 1 to 100000");
    check_refused("--loss 0.1", "`0.1` is not a share in per cent; write it as in 0.1%, up to 100%");
    check_refused("--mtu 100", "--mtu is 100; it can be from 576 to 65535");
    check_refused("--dealy 1ms", "--delay");
}

fn check_refused(flags: &str, part: &str) {
    let refused = engine(&format!("path {flags}"));
    assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains(part), "{flags}\n  said     {}\n  expected {part}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
}

/// Runs a shell script at the client's end of a path; None if this machine has none.
fn path_with_command(flags: &str, script: &str) -> Option<Outcome> {
    let ended = outcome(command(&format!("path {flags} -- sh -c")).arg(script));
    if ended.code == Some(78) {
        eprintln!("skipped: {}", ended.stderr.trim());
        return None;
    }
    Some(ended)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}
