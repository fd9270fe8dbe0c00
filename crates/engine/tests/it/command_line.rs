//! The command line for people: one clear line for every mistake, and exit codes that scripts can use.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{ENGINE, Engine};
use crate::process::{Supervised, command, engine, outcome, signal};
use serde_json::json;

#[test]
fn a_wrong_command_line_exits_with_2_and_one_line() {
    check_error("serve --modle epoll", 2, "a similar argument exists: '--model'");
    check_error("serve --model epol", 2, "did you mean epoll? one of: blocking, ");
    check_error("serve --model nginx", 2, "model `nginx` is not known; one of: blocking, ");
    check_error("serve --model io_uring -o rcv=oneshot", 2, "did you mean recv? one of: ");
    check_error("serve --model io_uring -o recv=once", 2, "one of: multishot, ");
    check_error(
        "serve --model blocking -o recv=once",
        2,
        "option of blocking `recv` is not known; one of: backlog",
    );
    check_error("serve --model epoll --workers 0", 2, "--workers is 0; it can be from 1 to 1024");
    check_error("serve --model epoll --connections-max 0", 2, "--connections-max is 0");
    check_error("serve --model epoll --reply-bytes 99999999", 2, "at most 16777216 bytes");
    check_error("serve --model epoll --reply-status 204 --reply-bytes 5", 2, "status 204 has no body");
    check_error("serve --model epoll --reply-status 500", 2, "reply_status is 500; it can be 200 or 204");
    check_error(
        "serve --model epoll --protocol echo --framing prefix --message-bytes 65536",
        2,
        "with framing prefix a message has 0 to 65535 bytes",
    );
    check_error("load http://127.0.0.1/ --insecure", 2, "goes with https://");
    check_error("load tcp://127.0.0.1:1 --message-bytes 0", 2, "1 to 16777216 bytes");
    check_error("load http://127.0.0.1:1/ -H Connection:close", 2, "--no-keepalive");
    check_error(
        "load http://127.0.0.1:1/ --connect-rate 0",
        2,
        "--connect-rate is 0; it can be anything above 0, up to 10000000",
    );
    check_error("load --self-test --json", 2, "measures the generator alone: leave out --json");
    check_error("load --self-test http://127.0.0.1/", 2, "leave out the address");
    check_error("distance 0 0", 2, "0 is one processor: name two");
    check_error("distance 0 99999", 2, "there is no processor 99999");
    check_error(
        "load http://127.0.0.1:1/ --source ::1",
        2,
        "a connection from ::1 cannot reach 127.0.0.1:1: give sources of IPv4",
    );
}

#[test]
fn work_that_fails_exits_with_1_and_one_line() {
    check_error(
        "load http://127.0.0.1:1/ -z 1s",
        1,
        "nothing listens on 127.0.0.1:1: start the server first",
    );
    check_error("load http://127.0.0.1:1/ -z 1s --driver io_uring", 1, "nothing listens on 127.0.0.1:1");
    // Also if connections from the other source can be opened.
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http"}"#);
    check_error(
        &format!("load http://{address}/ -c 4 -z 1s --source 127.0.0.1,192.0.2.1"),
        1,
        "192.0.2.1 is not an address of this machine: see `ip address`",
    );
    check_error("load http://name.invalid/", 1, "cannot find `name.invalid`");
    check_error(
        "serve --model epoll --listen 192.0.2.1:8080",
        1,
        "192.0.2.1 is not an address of this machine",
    );
}

#[test]
fn what_this_machine_cannot_do_exits_with_78_and_one_line() {
    check_error("load http://127.0.0.1:1/ --cpus 1023", 78, "cannot run on processors [1023]");
    check_error(
        "serve --model epoll --listen 127.0.0.1:0 --cpus 1023",
        78,
        "cannot run on processors [1023]",
    );
}

#[test]
fn more_connections_than_all_processes_have_descriptors_for_exit_with_78_and_one_line() {
    let script = r#"ulimit -n 100 && exec "$ENGINE" load http://127.0.0.1:1/ -c 10000"#;
    let output = Command::new("sh")
        .args(["-c", script])
        .env("ENGINE", env!("CARGO_BIN_EXE_iolab-engine"))
        .output()
        .expect("there is a shell");
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: 10,000 connections need more descriptors than the 100 this process may have: \
         take fewer connections, or raise the limit (ulimit -Hn)\n"
    );
}

#[test]
fn a_port_in_use_is_named_with_the_process_that_holds_it() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = holder.local_addr().expect("it is bound");
    let pid = std::process::id();
    for workers in [1, 2] {
        check_error(
            &format!("serve --model epoll --listen {address} --workers {workers}"),
            1,
            &format!("port {} of 127.0.0.1 is in use by {}", address.port(), own_name()),
        );
        check_error(&format!("serve --model epoll --listen {address}"), 1, &format!("(pid {pid}): end that"));
    }
}

/// The kernel's name of this process.
fn own_name() -> String {
    fs::read_to_string("/proc/self/comm").expect("there is one").trim().to_owned()
}

#[test]
fn a_port_that_another_engine_shares_among_its_workers_is_in_use_too() {
    let spec = r#"{"schema":1,"role":"serve","model":"epoll","workload":{"protocol":"echo"},
        "listen":["127.0.0.1:0"],"workers":2}"#
        .replace('\n', " ");
    let mut server = Supervised::start("serve", &spec);
    let ready = server.event();
    let listen = ready["listen"][0].as_str().expect("it says where");
    check_error(
        &format!("serve --model epoll --workers 2 --listen {listen}"),
        1,
        "is in use by iolab-engine",
    );
}

#[test]
fn a_load_by_hand_ends_with_a_summary() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http"}"#);
    let outcome = engine(&format!("load http://{address}/ -c 2 -n 100"));
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{outcome:?}");
    for part in
        [&*format!("http://{address}/   "), "100 correct, 0 wrong, 0 failed", "Errors      none", "p99.9"]
    {
        assert!(outcome.stdout.contains(part), "{part} is not in\n{}", outcome.stdout);
    }
}

#[test]
fn a_load_by_hand_can_end_with_one_line_of_json() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"echo"}"#);
    let outcome = engine(&format!("load tcp://{address} -c 2 -n 100 --json"));
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("it is one document");
    assert_eq!(report["event"], "report");
    assert_eq!(report["requests"]["correct"], 100);
    assert_eq!(report["bytes"]["received"], 6400);
    assert_eq!(outcome.stdout.lines().count(), 1);
}

#[test]
fn a_load_by_hand_can_have_a_long_body_in_several_processes() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("body.bin");
    // Each of these takes six characters in JSON.
    fs::write(&path, "\u{1}".repeat(1 << 20)).expect("the build folder can be written");
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http"}"#);
    let outcome =
        engine(&format!("load http://{address}/ -m POST -D {} --processes 2 -c 2 -n 4", path.display()));
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{outcome:?}");
    assert!(outcome.stdout.contains("4 correct, 0 wrong, 0 failed"), "{outcome:?}");
}

#[test]
fn of_the_first_wrong_body_it_is_said_what_was_expected_and_what_came() {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"http"}"#);
    let outcome = engine(&format!("load http://{address}/ -c 2 -n 10 --expect-body other"));
    assert_eq!(outcome.code, Some(1));
    let text = "not the right one: expected 5 bytes `other`, got 1 byte `x`";
    assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
}

#[test]
fn a_load_whose_terminal_goes_reports_what_it_has_measured() {
    check_hangup("--default-signal=HUP", true);
}

#[test]
fn a_load_that_is_to_outlive_its_terminal_does() {
    check_hangup("--ignore-signal=HUP", false);
}

#[test]
fn a_server_by_hand_says_where_it_listens_and_that_others_can_reach_it() {
    check_greeting("127.0.0.1:0", "serving tcp://127.0.0.1:", "");
    check_greeting("0.0.0.0:0", "serving tcp://0.0.0.0:", "warning: other machines can reach 0.0.0.0:");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (reader, writer) = io::pipe().expect("there are descriptors");
    drop(reader);
    let output =
        command("describe").stdout(writer).stderr(Stdio::piped()).output().expect("it can be started");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn help_and_version_exit_with_0_and_no_command_with_2() {
    assert_eq!(engine("--help").code, Some(0));
    let help = engine("load --help").stdout;
    for part in ["--connections <N>", "\nConnections:\n", "\nTLS:\n", "POST where there is a body"] {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    assert!(engine("--version").stdout.starts_with("iolab-engine "));
    // Started under another name, it uses that one.
    let named = outcome(command("load --help").arg0("iolab")).stdout;
    assert!(named.contains("Usage: iolab load [OPTIONS]"), "{named}");
    let outcome = engine("");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("Usage: iolab-engine <COMMAND>"), "{outcome:?}");
}

/// Checks the exit code and a part of the only line on standard error; standard output must stay empty.
fn check_error(arguments: &str, code: i32, part: &str) {
    let outcome = engine(arguments);
    assert_eq!(outcome.code, Some(code), "{arguments}: {outcome:?}");
    assert_eq!(outcome.stdout, "", "{arguments}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{arguments}: {}", outcome.stderr);
    assert!(outcome.stderr.starts_with("error: "), "{arguments}: {}", outcome.stderr);
    assert!(outcome.stderr.contains(part), "{arguments}\n  said     {}\n  expected {part}", outcome.stderr);
}

/// Sends SIGHUP to a load twice, as a closing terminal does. `meaning` is the option of `env` for this signal.
fn check_hangup(meaning: &str, is_interrupted: bool) {
    let (_server, address) = Supervised::server("epoll", r#"{"protocol":"echo"}"#);
    // A run that should be interrupted does not end by itself.
    let duration_ms = if is_interrupted { 3_600_000 } else { 1_000 };
    let spec = json!({
        "schema": 1, "role": "load", "workload": {"protocol": "echo"}, "connect": [address.to_string()],
        "connections": 2, "warmup_ms": 0, "duration_ms": duration_ms,
    });
    let engine = Engine::start_by(Command::new("env").args([meaning, ENGINE]), &spec);
    for event in ["ready", "measuring"] {
        assert_eq!(engine.event().expect("it runs")["event"], event);
    }
    signal("HUP", engine.pid());
    signal("HUP", engine.pid());
    let mut events = std::iter::from_fn(|| engine.event());
    let report = events.find(|event| event["event"] == "report").expect("it ends with a report");
    assert_eq!(report["interrupted"], is_interrupted, "{report}");
}

/// Checks how the output of a server begins, on standard output and standard error, before it serves.
fn check_greeting(listen: &str, stdout: &str, stderr: &str) {
    use std::io::{BufRead, BufReader};
    let mut server = command(&format!("serve --model epoll --protocol echo --listen {listen}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut greeting = String::new();
    BufReader::new(server.stdout.take().expect("it is piped")).read_line(&mut greeting).expect("it is text");
    server.kill().expect("it is our child");
    let output = server.wait_with_output().expect("it is our child");
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(greeting.starts_with(stdout), "{greeting}");
    assert!(greeting.contains("with epoll, 1 worker"), "{greeting}");
    assert!(warning.starts_with(stderr) && warning.is_empty() == stderr.is_empty(), "{warning}");
}
