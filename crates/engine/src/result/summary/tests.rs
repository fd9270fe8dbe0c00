use contract::{Bound, Generator, Http, Statuses, Workload};

use super::*;

#[test]
fn a_clean_run_is_shown_without_warnings() {
    check(
        |_| (),
        &[(1_000, 9_500), (100_000, 490), (1_000_000, 10)],
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

  Requests    5,000/s   10,000 correct, 0 wrong, 0 failed
  Received    16.0 MB/s   32.0 MB
  Sent        8.00 MB/s   16.0 MB
  Errors      none

  Latency     from the send to the complete, verified reply; a closed loop hides stalls
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
            report.unsound = vec!["some replies were wrong: the rate counts only correct ones".into()];
        },
        &[(1_000, 9_999)],
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

These figures cannot be trusted:
  - some replies were wrong: the rate counts only correct ones

  Requests    5,000/s   10,000 correct, 3 wrong, 12 failed
  Received    16.0 MB/s   32.0 MB
  Sent        8.00 MB/s   16.0 MB
  Errors      2 reset, 10 timed out, 3 with wrong bytes
              the first: bad\u{fffd}[2J

  Latency     from the send to the complete, verified reply; a closed loop hides stalls
              of all 10,003 replies, including 3 wrong ones
           min       p50       p90       p99     p99.9    p99.99   p99.999       max
       1.00 µs   1.00 µs   1.00 µs   1.00 µs   1.00 µs         -         -   1.00 µs
              mean 1.00 µs, standard deviation 0 ns

    to    1.00 µs  100.0 %  ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■

  Generator   50 % of a processor, 100 µs a reply; 3.00 MB of memory

  Limit       the server: the generator waited for replies 50 % of the time

warning: it was interrupted: the numbers cover what was measured until then
warning: only 48 of 50 connections were open at the end",
    );
}

#[test]
fn a_run_without_replies_shows_no_latency() {
    check(
        |report| {
            report.rate_per_s = 0.0;
            report.requests.correct = 0;
            report.errors.connect = 1_234;
            report.intervals.completed.fill(0);
            report.unsound =
                vec!["no reply was correct: these numbers do not show how fast the server is".into()];
        },
        &[],
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

These figures cannot be trusted:
  - no reply was correct: these numbers do not show how fast the server is

  Requests    0/s   0 correct, 0 wrong, 0 failed
  Received    16.0 MB/s   32.0 MB
  Sent        8.00 MB/s   16.0 MB
  Errors      1,234 could not connect

  Generator   50 % of a processor; 3.00 MB of memory

  Limit       the server: the generator waited for replies 50 % of the time",
    );
}

#[test]
fn a_server_that_was_gone_is_named_above_the_table_and_as_its_limit() {
    check(
        |report| {
            gone(report);
            report.requests.failed = 52;
            report.errors = Errors { connect: 2, reset: 50, ..errors_of_none() };
            report.unsound.push("some replies were wrong: the rate counts only correct ones".into());
        },
        &[(1_000, 9)],
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

These figures cannot be trusted:
  - the server was gone after 500 ms of 2.00 s: none of 50 connections was open or could be opened
  - some replies were wrong: the rate counts only correct ones

  Requests    20,000/s until the server was gone   10,000 correct, 0 wrong, 52 failed
  Received    64.0 MB/s   32.0 MB
  Sent        32.0 MB/s   16.0 MB
  Errors      2 could not connect, 50 reset

  Latency     from the send to the complete, verified reply; a closed loop hides stalls
           min       p50       p90       p99     p99.9    p99.99   p99.999       max
       1.00 µs   1.00 µs         -         -         -         -         -   1.00 µs
              mean 1.00 µs, standard deviation 0 ns

  Generator   50 % of a processor, 100 µs a reply; 3.00 MB of memory

  Limit       the server was gone after 500 ms of 2.00 s",
    );
}

/// Changes a report to one of a server that was gone after a quarter of the window.
fn gone(report: &mut Report) {
    let why = "the server was gone after 500 ms of 2.00 s";
    (report.gone, report.connections_open) = (true, 0);
    report.last_reply_ns = Some(report.begin_ns + 500_000_000);
    report.rate_per_s = report.per_second(report.requests.correct);
    report.bound = Bound { by: BoundBy::Server, why: why.into() };
    report.unsound = vec![format!("{why}: none of 50 connections was open or could be opened")];
}

fn errors_of_none() -> Errors {
    Errors { connect: 0, reset: 0, closed: 0, timeout: 0, malformed: 0, tls: 0, status: 0, wrong: 0 }
}

#[test]
fn rates_that_the_generator_has_limited_are_at_least_so_high() {
    let shown = |by: BoundBy| {
        let mut report = report();
        report.bound = Bound { by, why: "the generator was busy 95 % of the time".into() };
        report.unsound = vec![report.bound.why.clone()];
        text(&report, &vec![("service", &histogram(&[(1_000, 5)]))], "http://a/")
    };
    let limited = shown(BoundBy::Generator);
    for line in [
        "\n  - the generator was busy 95 % of the time\n",
        "\n  Requests    ≥ 5,000/s   10,000 correct",
        "\n  Received    ≥ 16.0 MB/s   32.0 MB\n",
        "\n  Sent        ≥ 8.00 MB/s   16.0 MB\n",
        "\n  Limit       the generator (see above)",
    ] {
        assert!(limited.contains(line), "{line}: {limited}");
    }
    for by in [BoundBy::Server, BoundBy::Rate, BoundBy::Unclear] {
        assert!(!shown(by).contains('≥'), "{by:?}");
    }
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
         the server closed connections without a reply: if it speaks TLS, write https://",
    );
    check_nothing(
        silent,
        "no reply came within 2.00 s: the server accepts connections and does not answer; \
         check it, and what it speaks, or wait for longer (-z, --timeout)",
    );
    let never_answers = |report: &mut Report| {
        silent(report);
        report.intervals.begin_ns = 500_000_000;
        report.intervals.completed.fill(0);
        report.unanswered_ns_max = 2_500_000_000;
    };
    check_nothing(
        never_answers,
        "no reply came within 2.50 s: the server accepts connections and does not answer; \
         check it, and what it speaks, or wait for longer (-z, --timeout)",
    );
    check_nothing(
        |report| {
            silent(report);
            report.errors.timeout = 4;
            report.first_error = Some("a reply did not come in time".into());
        },
        "no reply was correct; the first: a reply did not come in time; no reply came within 2.00 s: the server \
         accepts connections and does not answer; check it, and what it speaks, or raise --timeout",
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
         check the port, and that the server speaks this protocol",
    );
    check_nothing(
        |report| {
            report.statuses = Statuses::from_iter([(301, 7)]);
            report.first_error = Some("a reply had the status 301".into());
        },
        "no reply was correct; the first: a reply had the status 301; \
         redirects are not followed: request the page that the server names, or take --expect-status 301",
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

#[test]
fn a_status_that_nobody_expected_says_what_to_do() {
    let check = |statuses: &[(u16, u64)], advice: &str| {
        let change = |report: &mut Report| {
            report.statuses = statuses.iter().copied().collect();
            report.errors.status = 7;
            report.first_error = Some("x".into());
        };
        check_nothing(change, &format!("no reply was correct; the first: x; {advice}"));
    };
    check(&[(404, 7)], "check the path, or expect it: --expect-status 404");
    check(&[(405, 7)], "check the method and the path, or expect it: --expect-status 405");
    check(&[(403, 7)], "send credentials (-H), or expect it: --expect-status 403");
    check(&[(400, 7)], "the server may want https://, or expect it: --expect-status 400");
    check(&[(200, 9), (404, 3), (503, 4)], "look at the server's log, or expect it: --expect-status 503");
}

#[test]
fn whoever_answers_in_http_what_is_not_asked_in_it_is_told_how_to() {
    let check = |connect: &str, advice: &str| {
        let mut report = report();
        report.workload = Workload::Echo(contract::Echo::default());
        report.connect = vec![connect.parse().expect("it is an address")];
        report.requests.correct = 0;
        report.errors.malformed = 9;
        report.first_error = Some("bytes came after the end of the reply".into());
        let text = failure(&report).expect("nothing was correct").message;
        let end = format!("the server speaks this protocol; if it speaks HTTP, {advice}");
        assert!(text.ends_with(&end), "{text}");
    };
    check("127.0.0.1:80", "write http://");
    check("unix:/tmp/socket", "take --protocol http");
}

#[test]
fn a_server_that_was_gone_fails_the_run_and_says_since_when() {
    let mut report = report();
    assert!(failure(&report).is_none());
    gone(&mut report);
    report.unsound.insert(0, "a process of the generator ended: its results are missing".into());
    let text =
        "the server was gone after 500 ms of 2.00 s: none of 50 connections was open or could be opened";
    let failure = failure(&report).expect("it is gone");
    assert_eq!((failure.kind, &*failure.message), ("server_gone", text));
    assert!(advice::warnings(&report).is_empty(), "it is said above the table");
}

#[test]
fn connections_that_are_missing_at_the_end_are_the_servers_doing_where_nothing_else_closes_them() {
    let mut report = report();
    (report.idle, report.connections_open) = (10_000, 3_828);
    let closed = "only 3,828 of 10,050 connections were open at the end: the server closed the others";
    assert_eq!(advice::warnings(&report), [closed]);
    report.errors.timeout = 1;
    assert_eq!(advice::warnings(&report), ["only 3,828 of 10,050 connections were open at the end"]);
}

#[test]
fn an_open_loop_is_held_against_what_was_due_and_not_only_what_was_asked() {
    let check = |due: u64, asked_per_s: f64, expected: &str| {
        let mut report = report();
        report.rate_per_s = 4_944.0;
        report.schedule = Some(Schedule { due, unsent_begin: 0, unsent_end: 0, waited: 0, asked_per_s });
        assert_eq!(rate(&report), expected);
    };
    check(9_888, 5_000.0, "4,944/s of 4,944/s due (5,000/s asked)");
    check(10_000, 5_000.0, "4,944/s of 5,000/s asked");
    let mut report = report();
    gone(&mut report);
    report.schedule =
        Some(Schedule { due: 40_000, unsent_begin: 0, unsent_end: 30_000, waited: 0, asked_per_s: 20_000.0 });
    assert_eq!(rate(&report), "20,000/s of 20,000/s asked until the server was gone");
}

#[test]
fn the_spread_of_few_replies_is_not_drawn_and_no_empty_row_begins_or_ends_it() {
    let spread = |latencies_ns: &[(u64, u64)]| {
        let mut out = String::new();
        write_distribution(&mut out, &histogram(latencies_ns)).expect("writing to a string cannot fail");
        out
    };
    assert_eq!(spread(&[(1_000, 19)]), "");
    let drawn = spread(&[(1_000_000, 20)]);
    assert_eq!(drawn.lines().filter(|line| line.contains('%')).count(), 1, "{drawn}");
    let rare = spread(&[(1_000, 9_999), (100_000, 1)]);
    assert!(rare.contains("<0.1 %  ■\n"), "{rare}");
}

#[test]
fn a_summary_tells_of_idle_connections_of_what_is_sent_and_that_its_times_are_of_wrong_replies() {
    let shown = |change: fn(&mut Report)| {
        let mut report = report();
        change(&mut report);
        text(&report, &vec![("service", &histogram(&[(1_000, 5)]))], "http://a/")
    };
    let head = shown(|report| report.idle = 10_000);
    assert!(head.starts_with("http://a/   2.00 s, 50 connections and 10,000 idle, 1 thread"), "{head}");
    let asked = |method: &str, body: &str| {
        let mut report = report();
        let (method, body) = (method.to_owned(), body.to_owned());
        report.workload = Workload::Http(Http { method, body, ..Http::default() });
        text(&report, &vec![("service", &histogram(&[(1_000, 5)]))], "http://a/")
    };
    assert!(asked("GET", "").starts_with("http://a/   2.00 s, "));
    assert!(asked("HEAD", "").starts_with("http://a/   HEAD, 2.00 s, "));
    assert!(asked("POST", "1s").starts_with("http://a/   POST of 2 B, 2.00 s, "));
    let wrong = "of wrong replies: none was correct";
    assert!(!head.contains(wrong));
    assert!(shown(|report| report.requests.correct = 0).contains(wrong));
}

/// Expects the failure of the example report, over HTTP, changed by `change`, and without a correct reply.
fn check_nothing(change: impl FnOnce(&mut Report), expected: &str) {
    let mut report = report();
    report.workload = Workload::Http(Http::default());
    report.requests.correct = 0;
    change(&mut report);
    assert_eq!(failure(&report).expect("nothing is correct").message, expected);
}

/// Compares the summary of the contract's example report, changed by `change`, with the expected text. Replies are
/// pairs of latency in nanoseconds and count.
fn check(change: impl FnOnce(&mut Report), latencies_ns: &[(u64, u64)], expected: &str) {
    let mut report = report();
    change(&mut report);
    let histogram = histogram(latencies_ns);
    let shown = text(&report, &vec![("service", &histogram)], "http://127.0.0.1:8080/");
    assert_eq!(shown, expected, "\nshown:\n{shown}\n");
}

fn histogram(latencies_ns: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    for &(latency_ns, number) in latencies_ns {
        histogram.record_n(latency_ns, number).expect("it is in bounds");
    }
    histogram
}

/// The example report with round numbers and a generator that had its own processor.
fn report() -> Report {
    let mut report: Report = contract::read(include_str!("../../../../../schema/examples/report.json"))
        .expect("the example is valid");
    (report.begin_ns, report.end_ns) = (1_000_000_000, 3_000_000_000);
    (report.requests.sent, report.requests.correct, report.rate_per_s) = (10_000, 10_000, 5_000.0);
    (report.bytes.sent, report.bytes.received) = (16_000_000, 32_000_000);
    (report.intervals.begin_ns, report.unanswered_ns_max) = (report.begin_ns, 0);
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
