use contract::Generator;

use super::*;

const WINDOW_NS: u64 = 2_000_000_000;

/// A valid run of a closed loop, or of an open one with 1,000 due requests.
fn measured(is_open: bool) -> ::load::Report {
    let mut measured = ::load::Report::empty(is_open);
    (measured.begin_ns, measured.end_ns) = (1_000_000_000, 1_000_000_000 + WINDOW_NS);
    measured.requests.sent = 1_000;
    measured.requests.correct = 1_000;
    measured.latency.record_n(1_000_000, 1_000).expect("it is in bounds");
    measured.generator = Generator { cpu_ns: WINDOW_NS / 2, wall_ns: WINDOW_NS, ..Generator::default() };
    measured
}

fn schedule(measured: &::load::Report) -> Schedule {
    let ::load::Backlog { unsent_begin, unsent_end, waited } = measured.backlog;
    let due = measured.requests.sent + unsent_end - unsent_begin;
    Schedule { due, unsent_begin, unsent_end, waited, asked_per_s: due as f64 / 2.0 }
}

fn evidence(measured: &::load::Report) -> Evidence<'_> {
    Evidence {
        measured,
        connections: 8,
        idle: 2,
        requests_per_connection: Some(500),
        ends_at_last_reply: false,
        gone: false,
        schedule: None,
        spins: false,
    }
}

/// Makes all counts consistent with those that a test has changed.
fn balance(run: &mut ::load::Report) {
    let went_wrong = run.errors.sum().max(run.requests.wrong + run.requests.failed);
    run.errors.reset += went_wrong - run.errors.sum();
    run.errors_by_phase.receive = went_wrong;
    let requests = &mut run.requests;
    requests.failed = went_wrong - requests.wrong;
    requests.sent = requests.correct + went_wrong + requests.in_flight_end - requests.in_flight_begin;
    (run.connections_open, run.connections_made) = (10, 20_000);
}

/// Changes a balanced run of 1,000 requests, and expects the counts that do not add up.
fn check_balance(change: impl FnOnce(&mut ::load::Report), name: &str) {
    let mut measured = measured(false);
    (measured.requests.wrong, measured.requests.failed) = (3, 4);
    balance(&mut measured);
    assert_eq!(evidence(&measured).unbalanced(), None);
    change(&mut measured);
    let expected = format!("the counts of {name} do not add up: this is a bug of the generator");
    assert_eq!(evidence(&measured).invalid_because().first(), Some(&expected));
}

#[test]
fn a_run_whose_counts_do_not_add_up_is_not_sound() {
    check_balance(|run| run.requests.sent += 1, "requests");
    check_balance(|run| run.requests.in_flight_begin += 1, "requests");
    check_balance(|run| run.errors.timeout += 1, "errors by kind");
    check_balance(|run| run.errors_by_phase.close += 1, "errors by phase");
    check_balance(|run| run.connections_open = 20_001, "connections");
    // Each of two connections carried 500 requests, so the others had no connection.
    check_balance(|run| (run.connections_open, run.connections_made) = (2, 2), "requests on each connection");
}

/// Changes a valid run, and expects its limit and the reasons why it is invalid, by parts of the sentences.
fn check(is_open: bool, change: impl FnOnce(&mut ::load::Report), by: BoundBy, why: &str, unsound: &[&str]) {
    let mut measured = measured(is_open);
    change(&mut measured);
    balance(&mut measured);
    let schedule = is_open.then(|| schedule(&measured));
    let gone = measured.errors.connect > 0;
    let evidence = Evidence { gone, schedule: schedule.as_ref(), ..evidence(&measured) };
    let bound = evidence.bound();
    assert_eq!(bound.by, by, "{}", bound.why);
    assert!(bound.why.contains(why), "{}", bound.why);
    let reasons = evidence.invalid_because();
    assert_eq!(reasons.len(), unsound.len(), "{reasons:?}");
    for (reason, part) in reasons.iter().zip(unsound) {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn a_generator_that_waits_for_replies_is_bound_by_the_server() {
    check(false, |_| (), BoundBy::Server, "waited for replies 50 % of the time", &[]);
}

#[test]
fn a_generator_without_rest_or_without_a_processor_is_the_limit() {
    let busy = "busy 95 % of the time";
    check(false, |run| run.generator.cpu_ns = 1_900_000_000, BoundBy::Generator, busy, &[busy]);
    let starved = "waited 10 % of the time for a processor";
    for is_open in [false, true] {
        let change = |run: &mut ::load::Report| run.generator.run_delay_ns = 200_000_000;
        check(is_open, change, BoundBy::Generator, starved, &[starved]);
    }
}

#[test]
fn a_generator_that_lacked_a_processor_and_mostly_waited_for_replies_is_doubted_and_not_the_limit() {
    let starved = |busy_ns: u64| {
        move |run: &mut ::load::Report| {
            (run.generator.cpu_ns, run.generator.run_delay_ns) = (busy_ns, 120_000_000);
        }
    };
    let reason = "waited 6 % of the time for a processor";
    check(false, starved(760_000_000), BoundBy::Server, "waited for replies 56 % of the time", &[reason]);
    check(true, starved(760_000_000), BoundBy::Rate, "every request was sent on time", &[reason]);
    for is_open in [false, true] {
        check(is_open, starved(880_000_000), BoundBy::Generator, reason, &[reason]);
    }
    // Other work on its processor, which slows every reply.
    let beside = |run: &mut ::load::Report| {
        (run.generator.cpu_ns, run.generator.run_delay_ns) = (240_000_000, 520_000_000);
    };
    check(false, beside, BoundBy::Generator, "waited 26 % of the time", &["waited 26 % of the time"]);
    // Less than a twentieth is normal on any machine.
    check(false, |run| run.generator.run_delay_ns = 99_000_000, BoundBy::Server, "45 % of the time", &[]);
}

#[test]
fn nothing_limits_a_run_in_which_most_replies_are_wrong() {
    let wrong = |wrong: u64| {
        move |run: &mut ::load::Report| {
            (run.requests.correct, run.requests.wrong) = (1_000 - wrong, wrong);
            run.generator.cpu_ns = 1_900_000_000;
        }
    };
    let busy = "busy 95 % of the time: the server may be faster";
    check(false, wrong(500), BoundBy::Generator, busy, &[busy, "some replies were wrong"]);
    let unclear = "most replies were wrong";
    check(false, wrong(501), BoundBy::Unclear, unclear, &["some replies were wrong"]);
    check(false, wrong(1_000), BoundBy::Unclear, unclear, &["no reply was correct"]);
}

#[test]
fn a_run_that_is_over_at_once_says_nothing_of_its_limit() {
    let short = |run: &mut ::load::Report| {
        run.end_ns = run.begin_ns + 99_000_000;
        run.generator.wall_ns = 99_000_000;
        (run.generator.cpu_ns, run.generator.run_delay_ns) = (20_000_000, 60_000_000);
    };
    for is_open in [false, true] {
        check(is_open, short, BoundBy::Unclear, "the run was too short to say", &[]);
    }
}

#[test]
fn whoever_has_done_all_that_was_asked_is_bound_by_the_rate_however_busy() {
    check(true, |_| (), BoundBy::Rate, "every request was sent on time", &[]);
    let lain = "busy 100 % of the time: replies may have waited to be read";
    check(true, |run| run.generator.cpu_ns = 1_990_000_000, BoundBy::Rate, "on time", &[lain]);
}

#[test]
fn requests_that_find_no_connection_are_the_servers_doing() {
    let change = |run: &mut ::load::Report| run.backlog.unsent_end = 1_000;
    let why = "500/s went out of the 1,000/s that were due";
    check(true, change, BoundBy::Server, why, &["1,000 of 2,000 due requests were left unsent"]);
    // Neither chance nor an earlier backlog matters.
    check(true, |run| run.backlog.unsent_end = 90, BoundBy::Rate, "", &[]);
    check(true, |run| run.backlog.unsent_end = 110, BoundBy::Server, "", &["were left unsent"]);
    let inherited = |run: &mut ::load::Report| {
        (run.backlog.unsent_begin, run.backlog.unsent_end) = (500, 500);
    };
    check(true, inherited, BoundBy::Rate, "", &[]);
}

#[test]
fn sends_that_are_late_make_the_generator_the_limit() {
    let why = "sent one request in a hundred 2.00 ms or more after its time";
    check(true, late(2_000_000, 20), BoundBy::Generator, why, &[why]);
    check(true, late(2_000_000, 5), BoundBy::Rate, "", &[]);
    check(true, late(900_000, 20), BoundBy::Rate, "", &[]);
}

/// This many sends of a thousand are late; the others are practically on time.
fn late(lateness_ns: u64, times: u64) -> impl FnOnce(&mut ::load::Report) {
    move |run| {
        let views = run.views.as_mut().expect("it is an open loop");
        views.lateness_ns.record_n(1_000, 1_000 - times).expect("it is in bounds");
        views.lateness_ns.record_n(lateness_ns, times).expect("it is in bounds");
    }
}

#[test]
fn a_rate_that_was_held_says_how_late_its_sends_were_where_that_shows() {
    // Every reply took 1 ms.
    let shown = "one in a hundred 777 µs late or more: this may explain slow replies (--spin)";
    check(true, late(777_000, 20), BoundBy::Rate, &format!("every due request was sent, {shown}"), &[]);
    check(true, late(777_000, 5), BoundBy::Rate, "every request was sent on time", &[]);
    check(true, late(90_000, 20), BoundBy::Rate, "every request was sent on time", &[]);
}

#[test]
fn requests_without_a_reply_are_told_where_no_percentile_knows_of_them() {
    let mute = |in_flight: u64, oldest_ns: u64| {
        move |run: &mut ::load::Report| {
            (run.requests.in_flight_end, run.unanswered_ns_max) = (in_flight, oldest_ns);
        }
    };
    let why = "200 requests had no reply at its end, the oldest for 900 ms";
    check(true, mute(200, 900_000_000), BoundBy::Rate, "", &[why]);
    check(false, mute(1, 1_500_000_000), BoundBy::Server, "", &["1 requests had no reply"]);
    // The longest latency was 1 ms: these are only in flight, or too few to matter.
    check(true, mute(200, 1_900_000), BoundBy::Rate, "", &[]);
    check(true, mute(5, 900_000_000), BoundBy::Rate, "", &[]);
}

#[test]
fn a_server_that_was_gone_is_the_limit_whatever_the_generator_did() {
    let reason =
        "the server was gone after 500 ms of 2.00 s: none of 10 connections was open or could be opened";
    let gone = |run: &mut ::load::Report| {
        run.errors.connect = 1;
        run.last_reply_ns = run.begin_ns + WINDOW_NS / 4;
    };
    for is_open in [false, true] {
        check(is_open, gone, BoundBy::Server, "the server was gone after 500 ms of 2.00 s", &[reason]);
    }
    let busy = |run: &mut ::load::Report| {
        gone(run);
        run.generator.cpu_ns = 1_900_000_000;
    };
    check(false, busy, BoundBy::Server, "the server was gone", &[reason, "busy 95 % of the time"]);
    // What it left unsent is a part of that.
    let unsent = |run: &mut ::load::Report| {
        gone(run);
        run.backlog.unsent_end = 1_000;
    };
    check(true, unsent, BoundBy::Server, "the server was gone", &[reason]);
    let at_once = "the server was gone before its first reply in the window";
    let none = "no reply was correct";
    let before = |run: &mut ::load::Report| (run.errors.connect, run.requests.correct) = (1, 0);
    check(false, before, BoundBy::Server, at_once, &[at_once, none]);
}

#[test]
fn a_run_that_lost_time_or_replies_is_not_sound() {
    let away = |run: &mut ::load::Report| run.generator.turn_ns_max = 400_000_000;
    check(false, away, BoundBy::Server, "", &["once paused for 400 ms"]);
    check(false, |run| run.requests.wrong = 1, BoundBy::Server, "", &["some replies were wrong"]);
    check(false, |run| run.requests.failed = 2, BoundBy::Server, "", &["some replies were wrong"]);
    check(false, |run| run.requests.failed = 1, BoundBy::Server, "", &[]);
    let none = |run: &mut ::load::Report| run.requests.correct = 0;
    check(false, none, BoundBy::Unclear, "no reply came", &["no reply was correct"]);
}
