use super::*;
use crate::contract::{self, Generator, Http};

#[test]
fn a_clean_run_is_shown_without_warnings() {
    check(
        |_| (),
        &[(1_000, 9_500), (100_000, 490), (1_000_000, 10)],
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

  Requests    5 000/s   10 000 correct, 0 wrong, 0 failed
  Received    16.0 MB/s   32.0 MB
  Sent        8.00 MB/s   16.0 MB
  Errors      none

  Latency     from the send to the whole, checked reply; a closed loop does not show stalls
           min       p50       p90       p99     p99.9    p99.99   p99.999       max
       1.00 µs   1.00 µs   1.00 µs    100 µs    100 µs   1.00 ms         -   1.00 ms
              mean 6.85 µs, standard deviation 38.0 µs

    to    1.58 µs   95.0 %  ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■
    to    2.51 µs    0.0 %
    to    3.98 µs    0.0 %
    to    6.31 µs    0.0 %
    to    10.0 µs    0.0 %
    to    15.9 µs    0.0 %
    to    25.1 µs    0.0 %
    to    39.8 µs    0.0 %
    to    63.1 µs    0.0 %
    to     100 µs    4.9 %  ■■■
    to    1.00 ms    0.1 %  ■

  Generator   50 % of a processor, 100 µs a reply; 3.00 MB of memory

  Limit       the server: the generator waited for replies 50 % of the time",
    );
}

#[test]
fn what_went_wrong_is_told_by_kind_and_the_numbers_are_doubted() {
    check(
        |report| {
            report.requests.wrong = 3;
            report.requests.failed = 12;
            report.errors.wrong = 3;
            report.errors.reset = 2;
            report.errors.timeout = 10;
            report.first_error = Some("bad\u{1b}[2J".into());
            report.connections_open = 48;
            report.interrupted = true;
            report.unsound = vec!["not every reply was correct: the rate counts those that were".into()];
        },
        &[(1_000, 9_999)],
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

  Requests    5 000/s   10 000 correct, 3 wrong, 12 failed
  Received    16.0 MB/s   32.0 MB
  Sent        8.00 MB/s   16.0 MB
  Errors      2 reset, 10 timed out, 3 with wrong bytes
              the first: bad\u{fffd}[2J

  Latency     from the send to the whole, checked reply; a closed loop does not show stalls
           min       p50       p90       p99     p99.9    p99.99   p99.999       max
       1.00 µs   1.00 µs   1.00 µs   1.00 µs   1.00 µs         -         -   1.00 µs
              mean 1.00 µs, standard deviation 0 ns

    to    1.00 µs  100.0 %  ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■

  Generator   50 % of a processor, 100 µs a reply; 3.00 MB of memory

  Limit       the server: the generator waited for replies 50 % of the time

warning: it was interrupted: the numbers cover what was measured until then
warning: only 48 of 50 connections were open at the end
warning: not every reply was correct: the rate counts those that were",
    );
}

#[test]
fn a_run_without_replies_shows_no_latency() {
    check(
        |report| {
            report.rate_per_s = 0.0;
            report.requests.correct = 0;
            report.errors.connect = 1_234;
            report.connections_open = 0;
            report.unsound = vec!["no reply was correct: there is nothing to compare".into()];
        },
        &[],
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

  Requests    0/s   0 correct, 0 wrong, 0 failed
  Received    16.0 MB/s   32.0 MB
  Sent        8.00 MB/s   16.0 MB
  Errors      1 234 could not connect

  Generator   50 % of a processor; 3.00 MB of memory

  Limit       the server: the generator waited for replies 50 % of the time

warning: the server was gone at the end: none of 50 connections was open or could be opened
warning: no reply was correct: there is nothing to compare",
    );
}

#[test]
fn a_run_without_a_correct_reply_says_why_and_what_to_do() {
    let silent = |report: &mut Report| report.bytes.received = 0;
    check_nothing(
        |report| {
            silent(report);
            report.errors.reset = 3;
            report.first_error = Some("Connection reset by peer (os error 104)".into());
        },
        "no reply was correct; the first: Connection reset by peer; \
         the server ended connections without a word: if it speaks TLS, write https://",
    );
    check_nothing(
        silent,
        "no reply came before the end; the server sent nothing: check what it speaks, or measure for longer (-z)",
    );
    check_nothing(
        |report| {
            silent(report);
            report.errors.connect = report.requests.sent + report.requests.in_flight_begin;
            report.first_error = Some("Connection refused (os error 111)".into());
        },
        "no reply was correct; the first: Connection refused",
    );
    check_nothing(
        |report| {
            report.errors.malformed = 9;
            report.first_error = Some("a reply does not begin with HTTP/".into());
        },
        "no reply was correct; the first: a reply does not begin with HTTP/; \
         check that this is the port of a server that speaks what it is asked",
    );
    check_nothing(
        |report| {
            report.statuses = [("301".into(), 7)].into();
            report.first_error = Some("a reply had the status 301".into());
        },
        "no reply was correct; the first: a reply had the status 301; \
         no redirect is followed: ask for what the server points to, or take --expect-status 301",
    );
    check_nothing(
        |report| {
            report.errors.wrong = 7;
            report.first_error = Some("a reply was well-formed but not the right one".into());
        },
        "no reply was correct; the first: a reply was well-formed but not the right one; \
         bodies differ from the first: for a page that changes take --verify status",
    );
}

/// What the example report, over HTTP and changed by `change`, ends with where nothing in it is correct.
fn check_nothing(change: impl FnOnce(&mut Report), expected: &str) {
    let mut report = report();
    report.workload = Workload::Http(Http::default());
    report.requests.correct = 0;
    change(&mut report);
    assert_eq!(nothing_correct(&report).message, expected);
}

/// Compares the summary of the contract's example report, changed by `change`, and of replies given as pairs of
/// latency in nanoseconds and number, with what a person should see.
fn check(change: impl FnOnce(&mut Report), latencies_ns: &[(u64, u64)], expected: &str) {
    let mut report = report();
    change(&mut report);
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    for &(latency_ns, number) in latencies_ns {
        histogram.record_n(latency_ns, number).expect("it is in bounds");
    }
    let shown = text(&report, &vec![("service", &histogram)], "http://127.0.0.1:8080/");
    assert_eq!(shown, expected, "\nshown:\n{shown}\n");
}

/// The example report with round numbers and a generator that had a processor of its own.
fn report() -> Report {
    let mut report: Report = contract::read(include_str!("../../../../schema/examples/report.json"))
        .expect("the example is valid");
    (report.begin_ns, report.end_ns) = (1_000_000_000, 3_000_000_000);
    (report.requests.sent, report.requests.correct, report.rate_per_s) = (10_000, 10_000, 5_000.0);
    (report.bytes.sent, report.bytes.received) = (16_000_000, 32_000_000);
    report.unsound.clear();
    report.bound =
        Bound { by: BoundBy::Server, why: "the generator waited for replies 50 % of the time".into() };
    report.generator = Generator {
        cpu_ns: 1_000_000_000,
        wall_ns: 2_000_000_000,
        run_delay_ns: 1_000_000,
        turn_ns_max: 900_000,
        turns: 20_000,
        rss_bytes_max: 3_000_000,
    };
    report
}

#[test]
fn a_long_limit_is_folded_between_words() {
    let mut out = String::new();
    write_folded(&mut out, "Limit", &["ten-digits"; 9].join(" ")).unwrap();
    let line = ["ten-digits"; 7].join(" ");
    assert_eq!(out, format!("  Limit       {line}\n              ten-digits ten-digits\n\n"));
    out.clear();
    write_folded(&mut out, "Limit", "short").unwrap();
    assert_eq!(out, "  Limit       short\n\n");
}
