//! The load generator against TLS servers that are correct, wrong, or not TLS servers: its report must match what
//! happened, in bytes of the protocol.

pub(crate) mod identity;
pub(crate) mod server;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::Engine;
use crate::load::report::Report;
use crate::process;
use identity::Identity;
use serde_json::{Value, json};
use server::{Behaviour, Server};

const DRIVERS: [&str; 2] = ["epoll", "thread"];

const MEGABYTE: usize = 1 << 20;

/// The expected result of a run with a number of requests: correct replies, and failures of one kind.
struct Expected {
    correct: u64,
    failed: Option<(&'static str, u64)>,
}

fn all(correct: u64) -> Expected {
    Expected { correct, failed: None }
}

/// The counts of both sides.
struct Seen {
    report: Report,
    connections: u64,
    handshakes: u64,
}

/// Loads a server with a spec that `change` derives from the plain one. Expects these results, in requests and bytes by
/// the counts of both sides.
fn check(
    driver: &str,
    (behaviour, identity): (Behaviour, &Identity),
    (connections, expected): (usize, Expected),
    change: impl Fn(&mut Value),
) -> Seen {
    let server = Server::start(behaviour, &identity.server);
    let mut spec = spec(driver, &server.address.to_string(), identity, connections);
    let failed = expected.failed.map_or(0, |(_, number)| number);
    spec["requests"] = (expected.correct + failed).into();
    change(&mut spec);
    let report = Report::of(&spec);
    report.assert_physics();
    let counts = server.end();
    let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    let what = format!("{driver}, {behaviour:?}: {report}");
    assert_eq!(report.field("/tls"), &spec["tls"], "{what}");
    assert_eq!(report.requests("correct"), expected.correct, "{what}");
    for kind in ["connect", "reset", "closed", "timeout", "malformed", "tls", "status", "wrong"] {
        let number = expected.failed.map_or(0, |(name, number)| if name == kind { number } else { 0 });
        assert_eq!(report.errors(kind), number, "{kind}, {what}");
    }
    if failed == 0 {
        assert_eq!(report.bytes("received"), of(&counts.bytes_sent), "{what}");
        assert_eq!(report.bytes("sent"), of(&counts.bytes_received), "{what}");
        if behaviour != Behaviour::Echoes {
            assert_eq!(of(&counts.requests), expected.correct, "{what}");
        }
    }
    let (connections, handshakes) = (of(&counts.connections), of(&counts.handshakes));
    Seen { report, connections, handshakes }
}

fn spec(driver: &str, connect: &str, identity: &Identity, connections: usize) -> Value {
    json!({
        "schema": 1, "role": "load", "driver": driver, "workload": {"protocol": "http", "host": "h"},
        "connect": [connect], "connections": connections, "timeout_ms": 60_000,
        "tls": {"server_name": "localhost", "cacert": identity.cacert, "insecure": false},
    })
}

const KEEPS: Behaviour = Behaviour::Keeps { body_bytes: 5 };

#[test]
fn replies_are_counted_exactly_over_either_version() {
    for identity in [Identity::sound(), Identity::old()] {
        for driver in DRIVERS {
            let seen = check(driver, (KEEPS, &identity), (10, all(1003)), |_| ());
            assert_eq!((seen.connections, seen.handshakes), (10, 10), "{driver}: {}", seen.report);
            check(driver, (Behaviour::ClosesEach, &identity), (10, all(100)), |_| ());
        }
    }
}

#[test]
fn every_connection_pays_for_a_whole_handshake() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        let seen = check(driver, (KEEPS, &identity), (4, all(100)), |spec| {
            spec["requests_per_connection"] = 1.into();
        });
        // All four may be reopened at the end.
        assert!((100..=104).contains(&seen.connections), "{driver}: {}", seen.report);
        assert!((100..=seen.connections).contains(&seen.handshakes), "{driver}: {}", seen.report);
    }
}

#[test]
fn replies_are_whole_however_they_are_cut_into_records() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        check(driver, (Behaviour::ByteByByte, &identity), (4, all(40)), |_| ());
        for body_bytes in [4096, 16_384, 100_000, MEGABYTE] {
            check(driver, (Behaviour::Keeps { body_bytes }, &identity), (4, all(24)), |_| ());
        }
    }
}

#[test]
fn a_record_that_comes_in_slowly_puts_off_neither_a_time_out_nor_the_end() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        for (timeout_ms, timeouts, in_flight_end) in [(60_000, 0..=0, 2..=2), (200, 2..=14, 0..=2)] {
            // The timeout also limits the handshake. On a busy machine that takes longer, and then the run never
            // begins.
            let report = (0..20).find_map(|_| dribbled(driver, &identity, timeout_ms));
            let report =
                report.unwrap_or_else(|| panic!("{driver}: no handshake ends within {timeout_ms} ms"));
            report.assert_physics();
            let time = |name: &str| report.field(name).as_u64().expect("it is a number");
            // Threads may begin late, but not too early; only a blocked run takes this long.
            let window_ms = (time("/end_ns") - time("/intervals/begin_ns")) / 1_000_000;
            assert!((1_500..60_000).contains(&window_ms), "{window_ms} ms, {driver}: {report}");
            assert!(timeouts.contains(&report.errors("timeout")), "{driver}: {report}");
            assert!(in_flight_end.contains(&report.requests("in_flight_end")), "{driver}: {report}");
        }
    }
}

/// The report of a run of 1.5 s against a server whose records take longer; None if a handshake took too long.
fn dribbled(driver: &str, identity: &Identity, timeout_ms: u64) -> Option<Report> {
    let server = Server::start(Behaviour::Dribbles, &identity.server);
    let mut spec = spec(driver, &server.address.to_string(), identity, 2);
    // Each connection has time for seven timeouts, and any machine for the first.
    (spec["duration_ms"], spec["warmup_ms"]) = (1_500.into(), 0.into());
    spec["timeout_ms"] = timeout_ms.into();
    let report = Report::try_of(&spec).ok();
    server.end();
    report
}

#[test]
fn requests_that_are_larger_than_a_session_may_hold_go_out_whole() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        // Each request is queued before its session has completed the handshake.
        let workload = json!({"protocol": "echo", "framing": "raw", "message_bytes": MEGABYTE});
        check(driver, (Behaviour::Echoes, &identity), (3, all(12)), |spec| {
            spec["workload"] = workload.clone();
            spec["requests_per_connection"] = 1.into();
        });
    }
}

#[test]
fn several_requests_are_outstanding_in_a_pipeline() {
    let identity = Identity::sound();
    for depth in [2, 64] {
        check("epoll", (KEEPS, &identity), (5, all(1003)), |spec| spec["pipeline"] = depth.into());
    }
}

#[test]
fn echo_of_every_size_is_right_and_does_not_stall() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        for message_bytes in [1, 4096, 16_384, 65_536, MEGABYTE] {
            let workload = json!({"protocol": "echo", "framing": "raw", "message_bytes": message_bytes});
            let seen = check(driver, (Behaviour::Echoes, &identity), (3, all(12)), |spec| {
                spec["workload"] = workload.clone();
            });
            assert_eq!(seen.report.bytes("sent"), 12 * message_bytes as u64, "{driver}: {}", seen.report);
        }
    }
}

#[test]
fn new_keys_are_taken_at_any_time() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        check(driver, (Behaviour::ChangesKeys, &identity), (3, all(90)), |_| ());
    }
}

#[test]
fn an_end_counts_only_if_it_is_announced() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        check(driver, (Behaviour::EndsBodies { announced: true }, &identity), (4, all(40)), |_| ());
        let expected = Expected { correct: 0, failed: Some(("closed", 40)) };
        let cut_off = (Behaviour::EndsBodies { announced: false }, &identity);
        let seen = check(driver, cut_off, (4, expected), |_| ());
        let first = seen.report.field("/first_error").as_str().expect("there was an error");
        assert!(first.contains("close_notify"), "{driver}: {first}");
    }
}

#[test]
fn a_server_that_closes_without_saying_so_neither_hangs_a_run_nor_loses_a_request() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        for announced in [true, false] {
            let server = Server::start(Behaviour::ClosesEachUnsaid { announced }, &identity.server);
            let mut spec = spec(driver, &server.address.to_string(), &identity, 4);
            spec["requests"] = 200.into();
            let report = Report::of(&spec);
            report.assert_physics();
            let settled = report.requests("correct") + report.requests("failed");
            assert_eq!((report.requests("sent"), settled), (200, 200), "{driver}: {report}");
            assert_eq!(report.errors("tls"), 0, "{driver}: {report}");
            server.end();
        }
    }
}

#[test]
fn sessions_that_cannot_begin_in_a_run_are_errors_of_connecting() {
    let identity = Identity::sound();
    let cases =
        [(Behaviour::SpeaksTlsOn(4), "tls", "write http://"), (Behaviour::ResetsAfter(4), "reset", "reset")];
    for driver in DRIVERS {
        for (behaviour, kind, part) in cases {
            let expected = Expected { correct: 4, failed: Some((kind, 12)) };
            let seen = check(driver, (behaviour, &identity), (4, expected), |spec| {
                spec["requests_per_connection"] = 1.into();
            });
            let report = seen.report;
            let first = report.field("/first_error").as_str().expect("there was an error");
            assert!(first.contains(part), "{driver}: {first}");
            let counted = ["/errors_by_phase/connect", "/connections_made"].map(|name| report.field(name));
            assert_eq!(counted, [&json!(12), &json!(4)], "{driver}, {behaviour:?}: {report}");
        }
    }
}

#[test]
fn idle_connections_stay_open() {
    let identity = Identity::sound();
    for driver in DRIVERS {
        let seen = check(driver, (KEEPS, &identity), (4, all(40)), |spec| spec["idle"] = 6.into());
        assert_eq!(seen.report.field("/connections_open"), &json!(10), "{driver}: {}", seen.report);
        assert_eq!(seen.connections, 10, "{driver}: {}", seen.report);
    }
}

#[test]
fn a_certificate_that_is_not_checked_may_be_any() {
    for identity in [Identity::sound(), Identity::expired()] {
        check("epoll", (KEEPS, &identity), (2, all(20)), |spec| {
            spec["tls"] = json!({"server_name": "nobody.test", "cacert": null, "insecure": true});
        });
    }
}

#[test]
fn a_certificate_that_is_its_own_authority_is_taken_where_it_is_named() {
    let identity = Identity::of_itself();
    for driver in DRIVERS {
        check(driver, (KEEPS, &identity), (2, all(20)), |_| ());
    }
    let by_other_name = |spec: &mut Value| spec["tls"]["server_name"] = "other.test".into();
    check_failure(KEEPS, &identity, by_other_name, &["other.test", "--server-name"]);
    let other = Identity::of_itself();
    let by_other = |spec: &mut Value| spec["tls"]["cacert"] = json!(other.cacert);
    check_failure(KEEPS, &identity, by_other, &["is self-signed", "--cacert", "--insecure"]);
}

#[test]
fn a_certificate_in_the_file_must_be_valid_and_name_its_host() {
    let named = |identity: &Identity, parts: &[&str]| check_failure(KEEPS, identity, |_| (), parts);
    named(&Identity::of_itself_expired(), &["has expired: renew it", "--insecure"]);
    named(&Identity::of_itself_to_come(), &["is not valid yet", "clocks", "--insecure"]);
    named(&Identity::nameless(), &["-addext subjectAltName=DNS:localhost", "--insecure"]);
    let by_address = |spec: &mut Value| spec["tls"]["server_name"] = "127.0.0.1".into();
    check_failure(KEEPS, &Identity::nameless(), by_address, &["-addext subjectAltName=IP:127.0.0.1"]);
}

/// Expects a run to fail before it begins, with one line that has these parts.
fn check_failure(behaviour: Behaviour, identity: &Identity, change: impl Fn(&mut Value), parts: &[&str]) {
    for driver in DRIVERS {
        let server = Server::start(behaviour, &identity.server);
        let mut spec = spec(driver, &server.address.to_string(), identity, 2);
        spec["requests"] = 10.into();
        change(&mut spec);
        let event = Engine::start(&spec).event().expect("it says something");
        assert_eq!((&event["event"], &event["kind"]), (&json!("failed"), &json!("tls")), "{event}");
        let message = event["message"].as_str().expect("a message is text");
        assert!(!message.contains('\n') && message.contains(&server.address.to_string()), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
        server.end();
    }
}

#[test]
fn a_server_that_cannot_be_trusted_is_a_clear_failure() {
    let (sound, other, expired) = (Identity::sound(), Identity::sound(), Identity::expired());
    let by_other = |spec: &mut Value| spec["tls"]["cacert"] = json!(other.cacert);
    check_failure(KEEPS, &sound, by_other, &["unknown certificate issuer", "--cacert", "--insecure"]);
    let by_other_name = |spec: &mut Value| spec["tls"]["server_name"] = "other.test".into();
    check_failure(KEEPS, &sound, by_other_name, &["other.test", "localhost", "--server-name"]);
    check_failure(KEEPS, &expired, |_| (), &["has expired: renew it", "--insecure"]);
}

#[test]
fn a_server_that_does_not_speak_tls_is_a_clear_failure() {
    let identity = Identity::sound();
    check_failure(Behaviour::SpeaksTlsOn(0), &identity, |_| (), &["does not answer in TLS", "http://"]);
    check_failure(Behaviour::HangsUp, &identity, |_| (), &["handshake", "http://"]);
    let soon = |spec: &mut Value| spec["timeout_ms"] = 200.into();
    check_failure(Behaviour::Waits, &identity, soon, &["handshake within 0.2 s", "http://"]);
}

#[test]
fn a_server_in_tls_that_is_asked_without_is_a_clear_error() {
    let identity = Identity::sound();
    let server = Server::start(KEEPS, &identity.server);
    for driver in ["epoll", "io_uring", "thread"] {
        let mut spec = spec(driver, &server.address.to_string(), &identity, 2);
        (spec["requests"], spec["tls"]) = (4.into(), Value::Null);
        let report = Report::of(&spec);
        report.assert_physics();
        assert_eq!(report.requests("failed"), 4, "{driver}: {report}");
        let first = report.field("/first_error").as_str().expect("there was an error");
        assert!(first.contains("https://"), "{driver}: {first}");
    }
    server.end();
    // Others say nothing.
    let silent = Server::start(Behaviour::HangsUp, &identity.server);
    check_by_hand(&format!("http://{}/ -n 4 -c 1", silent.address), 1, "write https://");
    silent.end();
}

/// Runs `load` by hand with these flags, and expects its exit code and a part of its output.
fn check_by_hand(flags: &str, code: i32, part: &str) {
    let outcome = process::engine(&format!("load {flags}"));
    let told = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(code), "{flags}: {told}");
    assert!(told.contains(part), "{flags}: {told}");
}

#[test]
fn a_person_says_it_by_the_address_and_three_flags() {
    let identity = Identity::sound();
    let server = Server::start(KEEPS, &identity.server);
    let (port, cacert) = (server.address.port(), identity.cacert.display());
    check_by_hand(&format!("https://localhost:{port}/ -n 20 -c 2 --cacert {cacert}"), 0, "20 correct");
    check_by_hand(&format!("https://127.0.0.1:{port} -n 20 -c 2 --cacert {cacert}"), 0, "20 correct");
    let elsewhere = format!("https://127.0.0.1:{port}/ -n 20 -c 2 --cacert {cacert} --server-name");
    check_by_hand(&format!("{elsewhere} localhost"), 0, "20 correct");
    check_by_hand(&format!("{elsewhere} other.test"), 1, "--server-name");
    let insecure = format!("https://127.0.0.1:{port}/ -n 20 -c 2 --insecure");
    check_by_hand(&insecure, 0, "certificate was not checked");
    check_by_hand(&format!("{insecure} --driver io_uring"), 2, "--driver epoll");
    check_by_hand(&format!("{insecure} --cacert {cacert}"), 2, "cannot be used with");
    check_by_hand(&format!("http://127.0.0.1:{port}/ --insecure"), 2, "goes with https://");
    check_by_hand(&format!("https://127.0.0.1:{port}/ --cacert /nowhere.pem"), 2, "/nowhere.pem");
    check_by_hand(&format!("https://127.0.0.1:{port}/ --cacert /dev/null"), 2, "BEGIN CERTIFICATE");
    check_by_hand(&format!("https://127.0.0.1:{port}/ --server-name a..b"), 2, "--server-name");
    server.end();
}
