//! Other tools' command lines, run by the engine against its own server: their labels, with numbers that agree with
//! each other and with the server's.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::Stdio;

use crate::process::{Outcome, PATIENCE, Supervised, command};
use serde_json::Value;

const HTTP: &str = r#"{"protocol":"http"}"#;
const ECHO: &str = r#"{"protocol":"echo"}"#;

#[test]
fn ab_opens_a_connection_for_each_request() {
    check(
        "ab -q -n 300 -c 10 http://ADDRESS/",
        HTTP,
        &[
            "Document Length:        1 bytes\n",
            "Concurrency Level:      10\n",
            "Complete requests:      300\n",
            "Failed requests:        0\n",
            "HTML transferred:       300 bytes\n",
        ],
        // While the kernel has not opened a connection yet, others are started in its place, as by ab.
        300..=309,
    );
}

#[test]
fn the_parts_of_a_request_s_time_are_measured_by_a_driver_that_can() {
    for (line, parts) in [
        ("ab -q -n 300 -c 10 http://ADDRESS/", ["Connect:   ", "Processing:", "Waiting:   "]),
        ("hey -n 300 -c 10 http://ADDRESS/", ["DNS+dialup:", "resp wait:", "resp read:"]),
    ] {
        for (flags, is_measured) in [("", true), ("--driver io_uring", false)] {
            let (_server, address) = Supervised::server("epoll", HTTP);
            let shown = run_beside(line, flags, address).stdout;
            for part in parts {
                let row = shown.lines().find(|row| row.contains(part.trim_end()));
                let row = row.unwrap_or_else(|| panic!("{part} is not in\n{shown}"));
                assert_eq!(!row.contains("not measured"), is_measured, "{line} {flags}: {row}");
            }
        }
    }
}

#[test]
fn ab_with_k_keeps_its_connections() {
    check(
        "ab -q -k -n 300 -c 10 http://ADDRESS/",
        HTTP,
        &["Complete requests:      300\n", "Requests per second:    ", "100%  "],
        10..=10,
    );
}

#[test]
fn ab_counts_a_status_that_is_an_error_apart() {
    check(
        "ab -k -n 300 -c 10 http://ADDRESS/missing",
        HTTP,
        &[
            "Document Path:          /missing\n",
            "Complete requests:      300\n",
            "Failed requests:        0\n",
            "Non-2xx responses:      300\n",
        ],
        10..=10,
    );
}

#[test]
fn hey_does_as_many_requests_as_it_is_told() {
    check(
        "hey -n 300 -c 10 http://ADDRESS/",
        HTTP,
        &[
            "Summary:\n",
            "  Requests/sec:\t",
            "  Total data:\t300 bytes\n  Size/request:\t1 bytes\n",
            "  99% in 0.",
            "  [200]\t300 responses",
        ],
        10..=10,
    );
}

#[test]
fn hey_gives_each_worker_the_same_number_of_requests() {
    check("hey -n 10 -c 4 http://ADDRESS/", HTTP, &["  [200]\t8 responses"], 4..=4);
}

#[test]
fn a_time_limit_of_ab_ends_a_run_that_still_goes_on_and_no_other() {
    check("ab -q -k -c 10 -t 60 -n 300 http://ADDRESS/", HTTP, &["Complete requests:      300\n"], 10..=10);
    let (_server, address) = Supervised::server("epoll", HTTP);
    let line = "ab -q -k -c 10 -t 1 -n 1000000000 http://ADDRESS/";
    let took_s = figure(&run(line, address).stdout, "Time taken for tests:");
    // A busy machine may be late at either end.
    assert!((0.0..PATIENCE.as_secs_f64()).contains(&took_s), "it took {took_s} s");
    let report: Value =
        serde_json::from_str(&run_beside(line, "--json", address).stdout).expect("it is one document");
    assert_eq!(report["interrupted"], false, "nobody has interrupted it");
    assert!(report["requests"]["correct"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_header_that_closes_connections_closes_them() {
    check("hey -n 20 -c 4 -H 'Connection: close' http://ADDRESS/", HTTP, &["  [200]\t20 responses"], 20..=20);
    check("wrk -c4 -d1s -H 'Connection: keep-alive' http://ADDRESS/", HTTP, &[" requests in "], 4..=4);
}

#[test]
fn a_flag_beside_the_line_wins_over_what_the_line_means() {
    let (mut server, address) = Supervised::server("epoll", HTTP);
    let outcome = run_beside("hey -n 300 -c 10 http://ADDRESS/", "-c 5", address);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(server.answer()["workers"][0]["connections"], 5);
}

#[test]
fn oha_does_as_many_requests_as_it_is_told() {
    check(
        "oha --no-tui -n 300 -c 10 http://ADDRESS/",
        HTTP,
        &["  Success rate:\t100.00%\n", "  Size/request:\t1 B\n", "  99.99% in ", "  [200] 300 responses"],
        10..=10,
    );
}

#[test]
fn wrk_runs_for_a_time() {
    check(
        "wrk -t2 -c10 -d1s --latency http://ADDRESS/",
        HTTP,
        &["Running 1s test @ http://127.0.0.1:", "  2 threads and 10 connections\n", " requests in "],
        10..=10,
    );
}

#[test]
fn the_echo_client_has_a_connection_for_each_thread() {
    check(
        "echo-client -s HOST -p PORT -t 5 -n 1000",
        ECHO,
        &["success: 1000, failed: 0, time_used: "],
        5..=5,
    );
}

#[test]
fn the_figures_of_ab_follow_from_each_other() {
    let (_server, address) = Supervised::server("epoll", HTTP);
    let shown = run("ab -k -n 20000 -c 10 http://ADDRESS/", address).stdout;
    let took_s = figure(&shown, "Time taken for tests:");
    let per_second = figure(&shown, "Requests per second:");
    let mean_ms = figure(&shown, "Time per request:");
    let kbytes_per_s = figure(&shown, "Transfer rate:");
    let transferred = figure(&shown, "Total transferred:");
    // The time has three decimals, so values derived from it are no more exact.
    let exactness = 0.0006 / took_s;
    // The rates have two decimals.
    let check_rate = |shown: f64, expected: f64| check_near(shown, expected, exactness + 0.006 / shown);
    check_rate(per_second, 20_000.0 / took_s);
    check_near(mean_ms, 10.0 * 1e3 / per_second, 0.001 / mean_ms + 0.006 / per_second);
    check_rate(kbytes_per_s, transferred / 1024.0 / took_s);
    assert_eq!(transferred % 20_000.0, 0.0, "every reply has the same length");
}

#[test]
fn the_figures_of_the_echo_client_follow_from_each_other() {
    let (_server, address) = Supervised::server("epoll", ECHO);
    let shown = run("echo-client -s HOST -p PORT -t 5 -n 20000", address).stdout;
    let used_ms = figure(&shown.replace(',', " "), "time_used:");
    let qps = figure(&shown, "qps:");
    assert_eq!(qps, (20_000.0 * 1000.0 / used_ms).floor(), "{shown}");
}

#[test]
fn a_line_that_cannot_be_followed_exits_with_2_and_one_line() {
    check_error("ab -X proxy:80 http://ADDRESS/", "error: ab: -X cannot be followed here: ");
    check_error("siege -c 10 http://ADDRESS/", "error: tool of --like `siege` is not known; one of: ab, hey");
    check_error("ab -n ten http://ADDRESS/", "error: ab: invalid value 'ten' for '-n");
}

/// Runs a line with the server's address in place of ADDRESS, or of HOST and PORT.
fn run(line: &str, address: SocketAddr) -> Outcome {
    run_beside(line, "", address)
}

/// Runs a line with our own flags beside it.
fn run_beside(line: &str, flags: &str, address: SocketAddr) -> Outcome {
    let line = line
        .replace("ADDRESS", &address.to_string())
        .replace("HOST", &address.ip().to_string())
        .replace("PORT", &address.port().to_string());
    let mut command = command("load --like");
    let output = command
        .arg(line)
        .args(flags.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .expect("the engine can be started");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("its output is text"),
        stderr: String::from_utf8(output.stderr).expect("its errors are text"),
    }
}

/// Runs a line against a server. Its report must have these parts, and the server must have accepted this many
/// connections.
fn check(line: &str, workload: &str, parts: &[&str], connections: RangeInclusive<u64>) {
    let (mut server, address) = Supervised::server("epoll", workload);
    let outcome = run(line, address);
    assert_eq!(outcome.code, Some(0), "{line}: {outcome:?}");
    assert!(outcome.stderr.starts_with("as: iolab load "), "{line}: {outcome:?}");
    for part in parts {
        assert!(outcome.stdout.contains(part), "{line}: {part:?} is not in\n{}", outcome.stdout);
    }
    let served = server.answer();
    let seen = served["workers"][0]["connections"].as_u64().expect("a number");
    assert!(connections.contains(&seen), "{line}: {served}");
}

fn check_error(line: &str, part: &str) {
    let outcome = run(line, SocketAddr::from(([127, 0, 0, 1], 1)));
    assert_eq!((outcome.code, &*outcome.stdout), (Some(2), ""), "{line}: {outcome:?}");
    assert!(outcome.stderr.starts_with(part), "{line}: {outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{line}: {outcome:?}");
}

fn check_near(shown: f64, expected: f64, share: f64) {
    assert!((shown - expected).abs() <= expected * share, "{shown} is not {expected}, give or take {share}");
}

/// The number after a label.
fn figure(shown: &str, label: &str) -> f64 {
    let (_, after) = shown.split_once(label).unwrap_or_else(|| panic!("{label} is not in\n{shown}"));
    let word = after.split_whitespace().next().unwrap_or_default();
    word.parse().unwrap_or_else(|error| panic!("{label} {word}: {error}"))
}
