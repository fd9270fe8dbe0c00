//! Advice after a run that went wrong: why to doubt its numbers, what to do, and whether it has failed.

use contract::{Address, Http, Opening, Report, Verification, Verify, Workload};

use super::{duration_ns, printable};
use crate::failure::{Failure, for_people};
use crate::result::validity::none_open;
use crate::units::count;

/// Warnings besides the reasons why a run is invalid.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.interrupted {
        warnings.push("it was interrupted: the numbers cover what was measured until then".to_owned());
    }
    if report.tls.as_ref().is_some_and(|tls| tls.insecure) {
        warnings.push("the server's certificate was not checked (--insecure)".to_owned());
    }
    warnings.extend(advice(report));
    warnings.extend(closed(report));
    warnings
}

/// The failure of a run that finished but did not work: no reply was correct, or the server was gone at the end.
pub(crate) fn failure(report: &Report) -> Option<Failure> {
    if report.requests.correct == 0 {
        return Some(Failure::work("no_correct_reply", nothing_correct(report)));
    }
    report.gone.then(|| {
        // The limit of such a run includes the time.
        let reason = none_open(&report.bound.why, report.connections + report.idle);
        Failure::work("server_gone", reason)
    })
}

fn nothing_correct(report: &Report) -> String {
    let first = report.first_error.as_ref().map(|first| {
        let first = printable(&for_people(first));
        format!("no reply was correct; the first: {first}")
    });
    match (first, advice(report)) {
        (Some(first), Some(advice)) => format!("{first}; {advice}"),
        (Some(first), None) => first,
        (None, Some(advice)) => advice,
        (None, None) => "no reply came before the end".into(),
    }
}

/// That connections were missing at the end, and that the server closed them if nothing else can have.
fn closed(report: &Report) -> Option<String> {
    let asked = report.connections + report.idle;
    if report.connections_open >= asked || report.gone || !is_kept_open(report) {
        return None;
    }
    let (open, asked) = (count(report.connections_open as u64), count(asked as u64));
    let errors = &report.errors;
    // After each of these errors the generator itself closes a connection, or has none.
    let by_us = errors.connect + errors.timeout + errors.malformed + errors.tls;
    let others = if by_us == 0 { ": the server closed the others" } else { "" };
    Some(format!("only {open} of {asked} connections were open at the end{others}"))
}

/// Whether the connections should stay open all the time.
fn is_kept_open(report: &Report) -> bool {
    !matches!(&report.workload, Workload::Http(http) if !http.keep_alive)
        && report.requests_per_connection.is_none()
        && report.open == Opening::Before
}

/// What to do about errors whose kind allows advice.
fn advice(report: &Report) -> Option<String> {
    let Report { errors, requests, .. } = report;
    let http = if let Workload::Http(http) = &report.workload { Some(http) } else { None };
    if report.bytes.received == 0 {
        return advice_on_silence(report, http.is_some());
    }
    if errors.malformed > 0 && requests.correct + requests.wrong == 0 {
        let text = "check the port, and that the server speaks this protocol";
        return Some(if http.is_some() {
            text.into()
        } else {
            format!("{text}; {}", how_to_speak_http(report))
        });
    }
    if errors.wrong > 0 && report.verify == Verification::OneReceive {
        return Some(
            "a reply in several pieces counts as wrong: leave out --one-receive to compare it whole".into(),
        );
    }
    let Some(http) = http else {
        return (requests.correct == 0 && requests.wrong > 0).then(|| how_to_speak_http(report));
    };
    advice_on_status(report, http).or_else(|| {
        let is_changing = errors.wrong > 0 && http.verify == Verify::Bytes && http.expect_body.is_none();
        is_changing
            .then(|| "bodies differ from the first: for a page that changes take --verify status".into())
    })
}

/// What to do if not a single byte arrived.
fn advice_on_silence(report: &Report, is_http: bool) -> Option<String> {
    let Report { errors, requests, .. } = report;
    if errors.closed + errors.reset > 0 && report.tls.is_none() {
        let scheme = if is_http { "https" } else { "tls" };
        return Some(format!(
            "the server closed connections without a reply: if it speaks TLS, write {scheme}://"
        ));
    }
    if report.interrupted || requests.sent + requests.in_flight_begin <= errors.connect {
        return None;
    }
    // Intervals begin before the warm-up. That ends when every connection has had a reply or a timeout.
    let was_silent = report.intervals.completed.iter().all(|&completed| completed == 0);
    let since_ns = if was_silent { report.intervals.begin_ns } else { report.begin_ns };
    let silence_ns = report.end_ns.saturating_sub(since_ns).max(report.unanswered_ns_max);
    let limit = if report.errors.timeout > 0 { "raise --timeout" } else { "wait for longer (-z, --timeout)" };
    Some(format!(
        "no reply came within {}: the server accepts connections and does not answer; \
         check it, and what it speaks, or {limit}",
        duration_ns(silence_ns as f64)
    ))
}

/// What to do about unexpected statuses.
fn advice_on_status(report: &Report, http: &Http) -> Option<String> {
    if http.expect_status.is_some() {
        return None;
    }
    if let Some(status) = report.statuses.iter().map(|(status, _)| status).find(|status| status / 100 == 3) {
        let text = "redirects are not followed: request the page that the server names";
        return Some(format!("{text}, or take --expect-status {status}"));
    }
    if report.requests.correct > 0 || report.errors.status == 0 {
        return None;
    }
    let bad = report.statuses.iter().filter(|(status, _)| status / 100 != 2);
    let (status, _) = bad.max_by_key(|(_, times)| *times)?;
    let text = match status {
        400 if report.tls.is_none() => "the server may want https://",
        401 | 403 => "send credentials (-H)",
        405 => "check the method and the path",
        500.. => "look at the server's log",
        _ => "check the path",
    };
    Some(format!("{text}, or expect it: --expect-status {status}"))
}

fn how_to_speak_http(report: &Report) -> String {
    let is_path = report.connect.iter().any(|Address(address)| matches!(address, sys::net::Address::Unix(_)));
    let how = if is_path { "take --protocol http" } else { "write http://" };
    format!("if it speaks HTTP, {how}")
}
