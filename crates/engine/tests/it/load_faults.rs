//! Whatever is wrong with an address, a server or the path to it, a run by hand ends with one clear line, the right
//! exit code, and all its measurements: in its report and in every requested file.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::load::peer::Peer;
use crate::load::report::Report;
use crate::load::server::{Behaviour, Fault};
use crate::process::{Outcome, PATIENCE, command, engine, outcome, signal};
use crate::tls::identity::Identity;
use crate::tls::server::Behaviour as Tls;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

/// A peer, how it is loaded, and the expected message.
struct Case {
    name: &'static str,
    peer: Peer,
    url: &'static str,
    flags: &'static str,
    code: i32,
    /// A part of the only line on standard error; None if it stays empty.
    line: Option<&'static str>,
    /// None: the run did not begin, so nothing is written.
    seen: Option<Seen>,
}

/// The expected counts of a report.
struct Seen {
    correct: RangeInclusive<u64>,
    /// Errors by kind; there are none of other kinds.
    errors: &'static [(&'static str, RangeInclusive<u64>)],
    in_flight_end: RangeInclusive<u64>,
}

/// The longest text that still reads as one line.
const LINE_CHARS_MAX: usize = 300;
const CONNECTIONS: u64 = 4;
const NONE: RangeInclusive<u64> = 0..=0;
const ANY: RangeInclusive<u64> = 0..=u64::MAX;
const SOME: RangeInclusive<u64> = 1..=u64::MAX;
const ALL: RangeInclusive<u64> = 40..=40;
/// At most one for each connection.
const FEW: RangeInclusive<u64> = 0..=CONNECTIONS;
/// One for each connection.
const EACH: RangeInclusive<u64> = CONNECTIONS..=CONNECTIONS;

const FORTY: &str = "-n 40 --timeout 60s";
/// A window in which any machine, however busy, sends its first requests and learns their fate: a second for something
/// that takes an idle machine a few milliseconds.
const A_WHILE: &str = "-z 1s --warmup 0s --timeout 60s";

/// An invalid address.
const fn bad(name: &'static str, url: &'static str, line: &'static str) -> Case {
    Case { name, peer: Peer::Named, url, flags: FORTY, code: 2, line: Some(line), seen: None }
}

/// A run that cannot begin.
const fn barred(
    name: &'static str,
    peer: Peer,
    url: &'static str,
    flags: &'static str,
    line: &'static str,
) -> Case {
    Case { name, peer, url, flags, code: 1, line: Some(line), seen: None }
}

const BAD: &[Case] = &[
    bad("an address that is empty", "", "the address is empty: write it as in http://127.0.0.1:8080/"),
    bad("an address without a scheme", "127.0.0.1:80", "write http://127.0.0.1:80 or tcp://127.0.0.1:80"),
    bad("a slash too few", "http:/127.0.0.1/", "is not complete: write http://127.0.0.1/"),
    bad("a scheme that is none of ours", "ftp://127.0.0.1/", "write http://, https://, tcp:// or tls://"),
    bad("an address without a host", "http:///path", "has no host: write it as in http://127.0.0.1:8080/"),
    bad("a port that is no number", "http://127.0.0.1:http/", "write a number from 1 to 65535"),
    bad("a port that is too high", "http://127.0.0.1:65536/", "write a number from 1 to 65535"),
    bad("tcp:// without a port", "tcp://127.0.0.1", "has no port: write tcp://127.0.0.1:PORT"),
    bad("tcp:// with a path", "tcp://127.0.0.1:9/path", "tcp:// has no path: write tcp://127.0.0.1:9"),
    bad("IPv6 without brackets", "http://::1/", "write an IPv6 address in brackets"),
    bad("IPv6 with one bracket", "http://[::1/", "has no IPv6 address between [ and ]"),
    bad("a user name", "http://me:secret@127.0.0.1/", "leave out what is before the @"),
    bad("a space in the path", "http://127.0.0.1/a b", "has a space in it: write %20"),
    bad("a line feed in the path", "http://127.0.0.1/a\nHost: b", "has a space in it"),
    bad("a path that is not ASCII", "http://127.0.0.1/ä", "cannot be asked for: give a path"),
    bad("unix: without a path", "unix:", "has no path: write it as in unix:/tmp/server.sock"),
    Case {
        name: "a protocol that the address does not have",
        peer: Peer::Named,
        url: "tcp://127.0.0.1:9",
        flags: "-n 40 --protocol http",
        code: 2,
        line: Some("--protocol http needs http://127.0.0.1:9/"),
        seen: None,
    },
];

const BARRED: &[Case] = &[
    // Two dots in a row are refused by the machine itself, without a name server.
    barred("a name that nobody has", Peer::Named, "http://a..b/", FORTY, "cannot find `a..b`: "),
    barred(
        "a port that refuses",
        Peer::Nobody,
        "http://ADDRESS/",
        FORTY,
        "nothing listens on ADDRESS: start the",
    ),
    barred(
        "a port that refuses TLS",
        Peer::Nobody,
        "https://ADDRESS/",
        FORTY,
        "nothing listens on ADDRESS: start",
    ),
    barred(
        "a path with no socket",
        Peer::Named,
        "unix:/nowhere/x",
        FORTY,
        "nothing listens on unix:/nowhere/x",
    ),
    barred(
        "an address without a way to it",
        Peer::Named,
        "http://255.255.255.255:9/",
        FORTY,
        "255.255.255.255:9: ",
    ),
    barred(
        "a source that is elsewhere",
        Peer::Nobody,
        "http://ADDRESS/",
        "-n 4 --source 192.0.2.1",
        "192.0.2.1 is not an address of this machine",
    ),
    barred(
        "a listener without room",
        Peer::Full,
        "http://ADDRESS/",
        "-n 40 --timeout 200ms",
        "ADDRESS did not accept a connection within 0.2 s",
    ),
    barred(
        "TLS asked of plain HTTP",
        Peer::Tls(Tls::SpeaksTlsOn(0), Identity::sound),
        "https://ADDRESS/",
        FORTY,
        "the server does not answer in TLS: write http:// (or tcp://)",
    ),
    barred(
        "TLS asked of SSH",
        Peer::Plain(Behaviour::Greets(SSH)),
        "https://ADDRESS/",
        FORTY,
        "the server does not answer in TLS: write http:// (or tcp://)",
    ),
    barred(
        "TLS asked of echo",
        Peer::Plain(Behaviour::Echoes),
        "https://ADDRESS/",
        FORTY,
        "the server does not answer in TLS: write http:// (or tcp://)",
    ),
    barred(
        "TLS asked of a server that never answers",
        Peer::Away,
        "https://ADDRESS/",
        "-n 40 --timeout 200ms",
        "did not finish the handshake within 0.2 s: if it does not speak TLS, write http://",
    ),
    barred(
        "a certificate of an unknown issuer",
        Peer::Tls(KEEPS, Identity::sound),
        "https://ADDRESS/",
        "-n 40 --cacert OTHER",
        "unknown certificate issuer: pass its certificate (--cacert FILE), or --insecure",
    ),
    barred(
        "a self-signed certificate",
        Peer::Tls(KEEPS, Identity::of_itself),
        "https://ADDRESS/",
        "-n 40 --cacert OTHER",
        "is self-signed: pass it (--cacert FILE), or --insecure",
    ),
    barred(
        "a certificate without a name",
        Peer::Tls(KEEPS, Identity::nameless),
        "https://ADDRESS/",
        "-n 40 --cacert CACERT --server-name localhost",
        "make one with a subjectAltName (openssl: -addext subjectAltName=DNS:localhost), or pass --insecure",
    ),
    barred(
        "a certificate for another name",
        Peer::Tls(KEEPS, Identity::sound),
        "https://ADDRESS/",
        "-n 40 --cacert CACERT --server-name other.test",
        "pass the name that it is for (--server-name NAME), or --insecure",
    ),
    barred(
        "an expired certificate",
        Peer::Tls(KEEPS, Identity::expired),
        "https://ADDRESS/",
        "-n 40 --cacert CACERT",
        "the server's certificate has expired: renew it, or pass --insecure",
    ),
    barred(
        "an expired self-signed certificate",
        Peer::Tls(KEEPS, Identity::of_itself_expired),
        "https://ADDRESS/",
        "-n 40 --cacert CACERT",
        "the server's certificate has expired: renew it",
    ),
];

const SSH: &str = "SSH-2.0-OpenSSH_9.6\r\n";
const KEEPS: Tls = Tls::Keeps { body_bytes: 5 };

/// A run that begins, but has no correct reply.
const fn vain(
    name: &'static str,
    peer: Peer,
    url: &'static str,
    flags: &'static str,
    (line, seen): (&'static str, Seen),
) -> Case {
    Case { name, peer, url, flags, code: 1, line: Some(line), seen: Some(seen) }
}

/// A run with some correct replies.
const fn partial(name: &'static str, peer: Peer, flags: &'static str, seen: Seen) -> Case {
    Case { name, peer, url: "http://ADDRESS/", flags, code: 0, line: None, seen: Some(seen) }
}

/// A run whose server is gone before its end.
const fn gone(name: &'static str, peer: Peer, flags: &'static str, seen: Seen) -> Case {
    let line =
        Some("error: the server was gone after SERVED: none of 4 connections was open or could be opened");
    Case { code: 1, line, ..partial(name, peer, flags, seen) }
}

const fn only(errors: &'static [(&'static str, RangeInclusive<u64>)]) -> Seen {
    Seen { correct: NONE, errors, in_flight_end: NONE }
}

const VAIN: &[Case] = &[
    vain(
        "HTTP asked of SSH",
        Peer::Plain(Behaviour::Greets(SSH)),
        "http://ADDRESS/",
        FORTY,
        (
            "the first: a reply does not begin with HTTP/; check the port, and that the server",
            only(&[("malformed", SOME), ("closed", ANY), ("reset", ANY)]),
        ),
    ),
    vain(
        "HTTP asked of echo",
        Peer::Plain(Behaviour::Echoes),
        "http://ADDRESS/",
        FORTY,
        ("the first: a reply does not begin with HTTP/; check", only(&[("malformed", ALL)])),
    ),
    vain(
        "HTTP asked of TLS",
        Peer::Tls(KEEPS, Identity::sound),
        "http://ADDRESS/",
        FORTY,
        ("the first: the server speaks TLS: write https://", only(&[("malformed", SOME), ("reset", ANY)])),
    ),
    vain(
        "HTTP asked of TLS that hangs up",
        Peer::Tls(Tls::HangsUp, Identity::sound),
        "http://ADDRESS/",
        FORTY,
        ("if it speaks TLS, write https://", only(&[("closed", ANY), ("reset", ANY)])),
    ),
    vain(
        "echo asked of HTTP",
        Peer::Plain(Behaviour::Right),
        "tcp://ADDRESS",
        "-n 8 --timeout 100ms",
        ("does not answer; check it, and what it speaks, or raise --timeout", only(&[("timeout", 8..=8)])),
    ),
    vain(
        "echo asked of SSH",
        Peer::Plain(Behaviour::Greets(SSH)),
        "tcp://ADDRESS",
        "-n 8 --timeout 100ms",
        ("the first: a reply did not come in time", only(&[("timeout", 8..=8)])),
    ),
    vain(
        "every connection closed at once",
        Peer::Plain(Behaviour::ClosesAtOnce),
        "http://ADDRESS/",
        "-n 8",
        (
            "closed connections without a reply: if it speaks TLS, write https://",
            only(&[("closed", ANY), ("reset", ANY)]),
        ),
    ),
    vain(
        "every connection reset",
        Peer::Plain(Behaviour::Always(Fault::Reset)),
        "http://ADDRESS/",
        "-n 8",
        (
            "the first: the server reset the connection before its reply; the server closed connections without",
            only(&[("reset", 8..=8)]),
        ),
    ),
    vain(
        "every body short",
        Peer::Plain(Behaviour::Always(Fault::Truncated)),
        "http://ADDRESS/",
        FORTY,
        ("the first: the server closed the connection before its reply", only(&[("closed", ALL)])),
    ),
    vain(
        "every body another than the one that was asked for",
        Peer::Plain(Behaviour::Right),
        "http://ADDRESS/",
        "-n 40 --expect-body other",
        ("the first: a reply was well-formed but not the right one", only(&[("wrong", ALL)])),
    ),
    vain(
        "every status 503",
        Peer::Plain(Behaviour::Always(Fault::Unavailable)),
        "http://ADDRESS/",
        FORTY,
        (
            "the first: a reply had the status 503; look at the server's log, or expect it: --expect-status 503",
            only(&[("status", ALL)]),
        ),
    ),
    vain(
        "no answer within the time-out",
        Peer::Plain(Behaviour::Silent),
        "http://ADDRESS/",
        "-n 8 --timeout 100ms",
        ("the first: a reply did not come in time", only(&[("timeout", 8..=8)])),
    ),
    vain(
        "nobody who takes the connection",
        Peer::Away,
        "http://ADDRESS/",
        "-n 8 --timeout 100ms",
        ("the first: a reply did not come in time", only(&[("timeout", 8..=8)])),
    ),
    vain(
        "no answer within the run",
        Peer::Plain(Behaviour::Silent),
        "http://ADDRESS/",
        A_WHILE,
        (
            "does not answer; check it, and what it speaks, or wait for longer (-z, --timeout)",
            Seen { correct: NONE, errors: &[], in_flight_end: EACH },
        ),
    ),
    vain(
        "no answer within the warm-up nor after it",
        Peer::Plain(Behaviour::Silent),
        "http://ADDRESS/",
        // The timeout must expire before the warm-up, and not again in the second after it.
        "-z 1s --warmup 100ms --timeout 3s",
        (
            "error: no reply came within SILENCE: the server accepts connections and does not answer; check it, and \
             what it speaks, or wait for longer (-z, --timeout)",
            Seen { correct: NONE, errors: &[], in_flight_end: EACH },
        ),
    ),
    vain(
        "no answer within an open loop",
        Peer::Plain(Behaviour::Silent),
        "http://ADDRESS/",
        "-z 1s --warmup 0s --rate 200",
        (
            "error: no reply came within SILENCE: the server accepts connections and does not answer; check it,",
            Seen { correct: NONE, errors: &[], in_flight_end: EACH },
        ),
    ),
];

/// Dies after few requests, so that any window includes its end.
const DIES: Peer = Peer::Plain(Behaviour::DiesAfter(20));
/// A reply may be lost with its connection.
const BEFORE_DEATH: RangeInclusive<u64> = 20 - CONNECTIONS..=20;
const OF_DEATH: &[(&str, RangeInclusive<u64>)] = &[("connect", SOME), ("reset", ANY), ("closed", ANY)];

const PARTIAL: &[Case] = &[
    gone(
        "a server that dies",
        DIES,
        A_WHILE,
        Seen { correct: BEFORE_DEATH, errors: OF_DEATH, in_flight_end: FEW },
    ),
    gone(
        "a server that dies in an open loop",
        DIES,
        "-z 1s --warmup 0s --rate 1k",
        Seen { correct: BEFORE_DEATH, errors: OF_DEATH, in_flight_end: FEW },
    ),
    Case {
        name: "a server that dies before someone strict",
        peer: DIES,
        url: "http://ADDRESS/",
        flags: "-z 1s --warmup 0s --strict",
        code: 1,
        line: Some("error: --strict: the server was gone after SERVED: none of 4 connections was"),
        seen: Some(Seen { correct: BEFORE_DEATH, errors: OF_DEATH, in_flight_end: FEW }),
    },
    gone(
        "a server of this engine that is killed",
        Peer::Killed(CONNECTIONS),
        "-z 3s --warmup 0s",
        Seen { correct: SOME, errors: OF_DEATH, in_flight_end: FEW },
    ),
    partial(
        "some connections reset",
        Peer::Plain(Behaviour::Each50th(Fault::Reset)),
        "-n 500",
        Seen { correct: 490..=490, errors: &[("reset", 10..=10)], in_flight_end: NONE },
    ),
    partial(
        "some bodies wrong",
        Peer::Plain(Behaviour::Each50th(Fault::WrongByte)),
        "-n 500 --expect-body right",
        Seen { correct: 490..=490, errors: &[("wrong", 10..=10)], in_flight_end: NONE },
    ),
    partial(
        "some bodies short",
        Peer::Plain(Behaviour::Each50th(Fault::Truncated)),
        "-n 500",
        Seen { correct: 490..=490, errors: &[("closed", 10..=10)], in_flight_end: NONE },
    ),
    partial(
        "some statuses 503 in an open loop",
        Peer::Plain(Behaviour::Each50th(Fault::Unavailable)),
        "-n 500 --rate 2k",
        Seen { correct: 490..=490, errors: &[("status", 10..=10)], in_flight_end: NONE },
    ),
    partial(
        "a status 503 that is expected",
        Peer::Plain(Behaviour::Always(Fault::Unavailable)),
        "-n 40 --expect-status 503",
        Seen { correct: ALL, errors: &[], in_flight_end: NONE },
    ),
    partial(
        "a server that falls silent",
        Peer::Plain(Behaviour::SilentAfter(20)),
        A_WHILE,
        Seen { correct: 20..=20, errors: &[], in_flight_end: EACH },
    ),
    partial(
        "a server that falls silent for longer than the time-out",
        Peer::Plain(Behaviour::SilentAfter(20)),
        // A reply has a second to arrive.
        "-n 32 --timeout 1s",
        Seen { correct: 20..=20, errors: &[("timeout", 12..=12)], in_flight_end: NONE },
    ),
    Case {
        name: "TLS that later connections are not given",
        peer: Peer::Tls(Tls::SpeaksTlsOn(CONNECTIONS), Identity::sound),
        url: "https://ADDRESS/",
        flags: "-n 16 --requests-per-connection 1 --cacert CACERT",
        code: 0,
        line: None,
        seen: Some(Seen { correct: EACH, errors: &[("tls", 12..=12)], in_flight_end: NONE }),
    },
];

#[test]
fn whatever_is_wrong_is_told_in_one_line_by_the_epoll_driver() {
    check_all("epoll");
}

#[test]
fn whatever_is_wrong_is_told_in_one_line_by_the_io_uring_driver() {
    check_all("io_uring");
}

#[test]
fn whatever_is_wrong_is_told_in_one_line_by_the_thread_driver() {
    check_all("thread");
}

/// Checks every case, several at a time, even if some fail.
fn check_all(driver: &str) {
    // Most of a case is waiting.
    const PARALLEL: usize = 6;
    if !runs_here(driver) {
        return;
    }
    let cases: Vec<&Case> = [BAD, BARRED, VAIN, PARTIAL].into_iter().flatten().collect();
    let (left, failed) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("nobody panics with it").next();
                    let Some(case) = next else { break };
                    if thread::scope(|scope| scope.spawn(|| check(case, driver)).join()).is_err() {
                        failed.lock().expect("nobody panics with it").push(case.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    assert!(failed.is_empty(), "{} cases failed with {driver}: {}", failed.len(), failed.join("; "));
}

/// Whether this machine supports the driver.
fn runs_here(driver: &str) -> bool {
    let told = engine("describe").stdout;
    let description: Value = serde_json::from_str(&told).expect("it is JSON");
    let drivers = description["drivers"].as_array().expect("it is a list");
    let found = drivers.iter().find(|found| found["name"] == driver).expect("it is known");
    if found["available"] != true {
        eprintln!("skipped: {}", found["why_not"]);
    }
    found["available"] == true
}

fn check(case: &Case, driver: &str) {
    let running = case.peer.start();
    let folder = folder(&format!("{driver}-{}", case.name));
    let (url, flags) = (running.fill(case.url), running.fill(case.flags));
    let flags = format!("load --driver {driver} -c {CONNECTIONS} --json {flags} {}", writes(&folder));
    let ended = outcome(command(&flags).arg(&url));
    let what = format!("{}, {driver}: {ended:?}", case.name);
    // A ring has no TLS, which is reported first.
    let is_refused = driver == "io_uring" && url.starts_with("https:") && case.code != 2;
    let (code, line, seen) = match is_refused {
        true => (2, Some("TLS does not go with the driver io_uring: take --driver epoll"), None),
        false => (case.code, case.line, case.seen.as_ref()),
    };
    assert_eq!(ended.code, Some(code), "{what}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    match line {
        None => assert_eq!(lines, [""; 0], "{what}"),
        Some(part) => {
            let part = fill_times(&running.fill(part), &ended.stdout);
            assert_eq!(lines.len(), 1, "{what}");
            assert!(lines[0].starts_with("error: ") && lines[0].contains(&part), "{part}: {what}");
            assert!(!lines[0].contains("os error") && lines[0].chars().count() < LINE_CHARS_MAX, "{what}");
        }
    }
    match seen {
        None => check_unwritten(&ended, &folder, &what),
        Some(seen) => {
            let report = check_written(&ended, &folder, &what);
            check_seen(&report, seen, &what);
            let is_gone = line.is_some_and(|line| line.contains("the server was gone"));
            assert_eq!(report.field("/gone"), &Value::Bool(is_gone), "{what}");
            assert!(!is_gone || report.field("/bound/by") == "server", "{what}");
        }
    }
    running.end();
}

/// Fills in times as people read them. SILENCE is the time without a reply: the window, with the warm-up if that had
/// none either, or the wait of the oldest request. SERVED is the time until the last reply, and the window. They come
/// from the report itself, because the machine makes a window shorter or longer than requested. Without a report
/// nothing is filled in.
fn fill_times(text: &str, told: &str) -> String {
    let Ok(report) = serde_json::from_str::<Value>(told) else { return text.to_owned() };
    let number = |name: &str| report[name].as_u64().unwrap_or_default();
    let since_begin = |name: &str| number(name).saturating_sub(number("begin_ns"));
    let intervals = &report["intervals"];
    let was_silent = intervals["completed"].as_array().is_some_and(|all| all.iter().all(|count| count == 0));
    let since_ns =
        if was_silent { intervals["begin_ns"].as_u64().unwrap_or_default() } else { number("begin_ns") };
    let silence = shown((number("end_ns").saturating_sub(since_ns)).max(number("unanswered_ns_max")));
    let served = format!("{} of {}", shown(since_begin("last_reply_ns")), shown(since_begin("end_ns")));
    text.replace("SILENCE", &silence).replace("SERVED", &served)
}

/// A time of the order of a window, with three digits.
fn shown(ns: u64) -> String {
    let digits = |value: f64| match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    match ns as f64 {
        ns @ ..999.5e3 => format!("{} µs", digits(ns / 1e3)),
        ns @ ..999.5e6 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

fn check_unwritten(ended: &Outcome, folder: &Path, what: &str) {
    assert_eq!(ended.stdout, "", "{what}");
    assert_eq!(fs::read_dir(folder).expect("it is there").count(), 0, "no file is left: {what}");
}

/// Expects one report, which all files contain completely, and returns it.
fn check_written(ended: &Outcome, folder: &Path, what: &str) -> Report {
    let read = |ending: &str| fs::read_to_string(folder.join(format!("run.{ending}"))).expect(ending);
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| panic!("{what}"));
    let told = json(&ended.stdout);
    assert_eq!(json(&read("json")), told, "{what}");
    let events: Vec<Value> = read("ndjson").lines().map(json).collect();
    let (last, intervals) = events.split_last().expect("there are lines");
    assert_eq!(*last, told, "{what}");
    for kind in ["correct", "wrong", "failed"] {
        let sum: u64 = intervals.iter().filter_map(|interval| interval[kind].as_u64()).sum();
        assert_eq!(Some(sum), told["requests"][kind].as_u64(), "{kind}, {what}");
    }
    let columns: Vec<usize> = read("csv").lines().map(|row| row.split(',').count()).collect();
    assert_eq!(columns, vec![12; intervals.len() + 1], "{what}");
    let log = read("hlog");
    let rows = IntervalLogIterator::new(log.as_bytes()).map(|row| row.expect("it is a log"));
    assert_eq!(rows.filter(|row| matches!(row, LogEntry::Interval(_))).count(), intervals.len(), "{what}");
    Report::from_event(told)
}

fn check_seen(report: &Report, seen: &Seen, what: &str) {
    report.assert_physics();
    for (name, expected) in [("correct", &seen.correct), ("in_flight_end", &seen.in_flight_end)] {
        assert!(expected.contains(&report.requests(name)), "{name}: {what}");
    }
    for kind in ["connect", "reset", "closed", "timeout", "malformed", "tls", "status", "wrong"] {
        let named = seen.errors.iter().find(|(name, _)| *name == kind);
        let expected = named.map_or(NONE, |(_, expected)| expected.clone());
        assert!(expected.contains(&report.errors(kind)), "{kind}: {what}");
    }
}

#[test]
fn whoever_stops_a_run_keeps_what_it_had_measured() {
    for driver in ["epoll", "io_uring", "thread"].into_iter().filter(|driver| runs_here(driver)) {
        for flags in ["", "--rate 500", "--processes 2"] {
            check_stop(driver, "INT", Behaviour::Right, flags, SOME);
        }
        check_stop(driver, "TERM", Behaviour::Right, "", SOME);
        check_stop(driver, "INT", Behaviour::Silent, "", NONE);
        check_stop(driver, "INT", Behaviour::DiesAfter(100), "", 1..=100);
    }
}

/// Stops a long run with a signal after its first slice, and expects it to end well with a complete report.
fn check_stop(driver: &str, name: &str, behaviour: Behaviour, flags: &str, correct: RangeInclusive<u64>) {
    let running = Peer::Plain(behaviour).start();
    let what = format!("{name}, {driver}, {behaviour:?}, {flags}");
    let folder = folder(&what);
    let url = running.fill("http://ADDRESS/");
    let flags = format!("{flags} -z 60s --warmup 0s --slice 100ms {}", writes(&folder));
    let child = command(&format!("load --driver {driver} -c {CONNECTIONS} --json {flags} {url}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the engine starts");
    let begin = Instant::now();
    while !fs::read_to_string(folder.join("run.ndjson")).is_ok_and(|text| text.contains('\n')) {
        assert!(begin.elapsed() < PATIENCE, "no slice is over: {what}");
        thread::sleep(Duration::from_millis(10));
    }
    signal(name, child.id());
    let output = child.wait_with_output().expect("it is our child");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    let ended = Outcome { code: output.status.code(), stdout, stderr };
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{what}: {ended:?}");
    let report = check_written(&ended, &folder, &what);
    report.assert_physics();
    assert!(correct.contains(&report.requests("correct")), "{what}: {report}");
    assert_eq!(report.field("/interrupted"), &Value::Bool(true), "{what}: {report}");
    running.end();
}

/// Flags that write all events of a run and its report.
fn writes(folder: &Path) -> String {
    ["json", "ndjson", "csv", "hlog"].map(|ending| format!("-o {}/run.{ending}", folder.display())).join(" ")
}

/// A new, empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults").join(name);
    // Missing the first time.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the build folder can be written");
    path
}
