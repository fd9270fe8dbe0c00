//! What a person sees after a load run: the rate, the latencies, what went wrong, and how far to trust it.

use std::fmt::{self, Write};

use hdrhistogram::Histogram;

use crate::contract::{Bound, BoundBy, Errors, Report, Schedule, Verify, Workload};
use crate::failure::{Failure, for_people};
use crate::units::{bytes, count, counted, duration_ns};

/// The distributions of a run by their names, the main one first.
pub(crate) type Rows<'a> = Vec<(&'static str, &'a Histogram<u64>)>;

/// What a summary shows of the times of a run.
pub(crate) fn rows(measured: &::load::Report) -> Rows<'_> {
    let mut rows = vec![("response", &measured.latency)];
    match &measured.views {
        Some(views) => rows.extend([
            ("service", &views.service),
            ("closed loop", &views.closed),
            ("lateness", &views.lateness),
        ]),
        None => rows[0].0 = "service",
    }
    if let Some(probe) = &measured.probe {
        rows.push(("probes", &probe.latency));
    }
    rows
}

/// The summary of a report. `subject` is the server as the user wrote it.
pub(crate) fn text(report: &Report, rows: &Rows<'_>, subject: &str) -> String {
    let mut text = String::new();
    write_all(&mut text, report, rows, subject).expect("writing to a string cannot fail");
    text.trim_end().to_owned()
}

fn write_all(out: &mut String, report: &Report, rows: &Rows<'_>, subject: &str) -> fmt::Result {
    let latency_ns = rows[0].1;
    let window_ns = window_ns(report);
    let connections = counted(report.connections, "connection");
    let mut threads = counted(report.threads, "thread");
    if report.processes > 1 {
        threads.push_str(&format!(" in {} processes", count(report.processes as u64)));
    }
    let driver = ::load::Driver::from(report.driver).name();
    writeln!(out, "{subject}   {}, {connections}, {threads}, {driver}\n", duration_ns(window_ns))?;
    write_requests(out, report)?;
    if !latency_ns.is_empty() {
        write_times(out, report, rows)?;
        write_distribution(out, latency_ns)?;
    }
    write_generator(out, report)?;
    write_folded(out, "Limit", &limit(&report.bound))?;
    for warning in warnings(report) {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

/// A paragraph with its label, folded like the rest of the page, and an empty line.
fn write_folded(out: &mut String, label: &str, text: &str) -> fmt::Result {
    const WIDTH: usize = 100;
    const INDENT: usize = 14;
    write!(out, "  {label:<11}")?;
    let mut column = INDENT - 1;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column + 1 + length > WIDTH {
            write!(out, "\n{:1$}", "", INDENT - 1)?;
            column = INDENT - 1;
        }
        write!(out, " {word}")?;
        column += 1 + length;
    }
    writeln!(out, "\n")
}

fn write_requests(out: &mut String, report: &Report) -> fmt::Result {
    let window_s = window_ns(report) / 1e9;
    let requests = &report.requests;
    let rate = count(report.rate_per_s.round() as u64);
    let (correct, wrong, failed) = (count(requests.correct), count(requests.wrong), count(requests.failed));
    let asked = report.schedule.as_ref().map_or(String::new(), |schedule| {
        format!(" of {}/s asked", count(schedule.asked_per_s.round() as u64))
    });
    writeln!(out, "  Requests    {rate}/s{asked}   {correct} correct, {wrong} wrong, {failed} failed")?;
    if let Some(Schedule { waited, unsent_end, .. }) = report.schedule {
        let (waited, unsent) = (count(waited), count(unsent_end));
        writeln!(out, "              {waited} waited for a free connection, {unsent} unsent at the end")?;
    }
    for (label, amount) in [("Received", report.bytes.received), ("Sent", report.bytes.sent)] {
        let rate = if window_s > 0.0 { amount as f64 / window_s } else { 0.0 };
        writeln!(out, "  {label:<10}  {}/s   {}", bytes(rate), bytes(amount as f64))?;
    }
    writeln!(out, "  Errors      {}", errors(&report.errors))?;
    if let Some(first) = &report.first_error {
        writeln!(out, "              the first: {}", printable(&for_people(first)))?;
    }
    writeln!(out)
}

/// Errors that happened, by kind.
fn errors(errors: &Errors) -> String {
    let kinds = [
        ("could not connect", errors.connect),
        ("reset", errors.reset),
        ("closed early", errors.closed),
        ("timed out", errors.timeout),
        ("malformed", errors.malformed),
        ("broken in TLS", errors.tls),
        ("with another status", errors.status),
        ("with wrong bytes", errors.wrong),
    ];
    let seen: Vec<String> = (kinds.iter().filter(|(_, number)| *number > 0))
        .map(|(kind, number)| format!("{} {kind}", count(*number)))
        .collect();
    if seen.is_empty() { "none".into() } else { seen.join(", ") }
}

fn write_times(out: &mut String, report: &Report, rows: &Rows<'_>) -> fmt::Result {
    if report.views.is_none() {
        writeln!(
            out,
            "  Latency     from the send to the whole, checked reply; a closed loop does not show stalls"
        )?;
    } else {
        writeln!(
            out,
            "  Latency     to the whole, checked reply: the response time from when a request was due, the"
        )?;
        writeln!(
            out,
            "              service time from its send, also as a closed loop would have seen it; and how late"
        )?;
        writeln!(out, "              the generator itself was with its sends")?;
    }
    if report.probe.is_some() {
        writeln!(out, "              probes are connections apart from the load, asked seldom")?;
    }
    write_rows(out, rows)
}

/// A row for each distribution, with its name, and a last line for the first of them.
fn write_rows(out: &mut String, rows: &Rows<'_>) -> fmt::Result {
    // One alone needs no name.
    let width =
        if rows.len() > 1 { rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default() } else { 0 };
    write!(out, "    {:width$}{:>10}", "", "min")?;
    PERCENTILES.iter().try_for_each(|(name, _)| write!(out, "{name:>10}"))?;
    writeln!(out, "{:>10}", "max")?;
    for (name, histogram) in rows {
        let name = if width > 0 { name } else { "" };
        write!(out, "    {name:width$}{:>10}", duration_ns(histogram.min() as f64))?;
        for &(_, one_in) in PERCENTILES {
            // A percentile beyond which there is no reply at all would only repeat the maximum.
            let known = histogram.len() >= one_in;
            let value = histogram.value_at_quantile(1.0 - 1.0 / one_in as f64) as f64;
            write!(out, "{:>10}", if known { duration_ns(value) } else { "-".into() })?;
        }
        writeln!(out, "{:>10}", duration_ns(histogram.max() as f64))?;
    }
    let (mean, stdev) = (duration_ns(rows[0].1.mean()), duration_ns(rows[0].1.stdev()));
    writeln!(out, "              mean {mean}, standard deviation {stdev}\n")
}

/// Ten steps of equal ratio from the fastest reply to the 99th percentile, and a row for the slowest hundredth.
/// Steps of equal width up to the slowest reply would leave nearly all of them in the first.
fn write_distribution(out: &mut String, latency_ns: &Histogram<u64>) -> fmt::Result {
    let low = latency_ns.min().max(1) as f64;
    let high = (latency_ns.value_at_quantile(0.99) as f64).max(low);
    let ends =
        (1..=STEPS).map(|step| (low * (high / low).powf(f64::from(step) / f64::from(STEPS))).round() as u64);
    let mut rows: Vec<(u64, u64)> = ends.chain([latency_ns.max()]).map(|end_ns| (end_ns, 0)).collect();
    rows.dedup_by_key(|(end_ns, _)| *end_ns);
    for value in latency_ns.iter_recorded() {
        let fits = rows.partition_point(|(end_ns, _)| *end_ns < value.value_iterated_to());
        let last = rows.len() - 1;
        rows[fits.min(last)].1 += value.count_at_value();
    }
    let most = rows.iter().map(|(_, number)| *number).max().unwrap_or_default().max(1);
    for (end_ns, number) in rows {
        let share = 100.0 * number as f64 / latency_ns.len() as f64;
        let bar = "■".repeat((BAR_WIDTH * number).div_ceil(most) as usize);
        let row = format!("    to {:>10}  {share:>5.1} %  {bar}", duration_ns(end_ns as f64));
        writeln!(out, "{}", row.trim_end())?;
    }
    writeln!(out)
}

fn write_generator(out: &mut String, report: &Report) -> fmt::Result {
    let generator = &report.generator;
    let share = 100.0 * share(generator.cpu_ns, generator.wall_ns) * report.threads as f64;
    let replies = report.requests.correct + report.requests.wrong;
    let each = if replies == 0 {
        String::new()
    } else {
        format!(", {} a reply", duration_ns(generator.cpu_ns as f64 / replies as f64))
    };
    let memory = bytes(generator.rss_bytes_max as f64);
    writeln!(out, "  Generator   {share:.0} % of a processor{each}; {memory} of memory\n")
}

/// Reasons to doubt the numbers above.
fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.interrupted {
        warnings.push("it was interrupted: the numbers cover what was measured until then".to_owned());
    }
    if report.tls.as_ref().is_some_and(|tls| tls.insecure) {
        warnings.push("the server's certificate was not checked (--insecure)".to_owned());
    }
    warnings.extend(advice(report));
    let asked = report.connections + report.idle;
    if report.connections_open < asked && is_kept_open(report) {
        let (open, asked) = (count(report.connections_open as u64), count(asked as u64));
        warnings.push(if report.connections_open == 0 && report.errors.connect > 0 {
            format!("the server was gone at the end: none of {asked} connections was open or could be opened")
        } else {
            format!("only {open} of {asked} connections were open at the end")
        });
    }
    // What limited it has been said.
    warnings.extend(report.unsound.iter().filter(|reason| **reason != report.bound.why).cloned());
    warnings
}

/// What a run without a single correct reply ends with, so that no script takes it for one that worked.
pub(crate) fn nothing_correct(report: &Report) -> Failure {
    let what = match &report.first_error {
        Some(first) => format!("no reply was correct; the first: {}", printable(&for_people(first))),
        None => "no reply came before the end".to_owned(),
    };
    let advice = advice(report).map_or(String::new(), |advice| format!("; {advice}"));
    Failure::work("no_correct_reply", what + &advice)
}

/// What to do about what went wrong, where its kind says it.
fn advice(report: &Report) -> Option<String> {
    let Report { errors, requests, .. } = report;
    let http = if let Workload::Http(http) = &report.workload { Some(http) } else { None };
    let is_silent = report.bytes.received == 0;
    if is_silent && errors.closed + errors.reset > 0 && report.tls.is_none() {
        let scheme = if http.is_some() { "https" } else { "tls" };
        return Some(format!(
            "the server ended connections without a word: if it speaks TLS, write {scheme}://"
        ));
    }
    if is_silent && !report.interrupted && requests.sent + requests.in_flight_begin > errors.connect {
        let limit = if errors.timeout > 0 { "raise --timeout" } else { "measure for longer (-z)" };
        return Some(format!("the server sent nothing: check what it speaks, or {limit}"));
    }
    if errors.malformed > 0 && requests.correct + requests.wrong == 0 {
        return Some("check that this is the port of a server that speaks what it is asked".into());
    }
    let http = http?;
    if let Some(status) = report.statuses.keys().find(|status| status.starts_with('3'))
        && http.expect_status.is_none()
    {
        let text = "no redirect is followed: ask for what the server points to";
        return Some(format!("{text}, or take --expect-status {status}"));
    }
    let is_changing = errors.wrong > 0 && http.verify == Verify::Bytes && http.expect_body.is_none();
    is_changing.then(|| "bodies differ from the first: for a page that changes take --verify status".into())
}

/// Whether the connections were to stay open all the time.
fn is_kept_open(report: &Report) -> bool {
    !matches!(&report.workload, Workload::Http(http) if !http.keep_alive)
        && report.requests_per_connection.is_none()
}

fn limit(bound: &Bound) -> String {
    match bound.by {
        BoundBy::Server => format!("the server: {}", bound.why),
        BoundBy::Generator => bound.why.clone(),
        BoundBy::Rate => format!("the rate: {}", bound.why),
        BoundBy::Unclear => format!("unclear: {}", bound.why),
    }
}

fn window_ns(report: &Report) -> f64 {
    report.end_ns.saturating_sub(report.begin_ns) as f64
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 { 0.0 } else { part_ns as f64 / whole_ns as f64 }
}

/// A text that a server may have decided, without what would steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Percentiles by the share of replies that are slower: one in so many.
const PERCENTILES: &[(&str, u64)] =
    &[("p50", 2), ("p90", 10), ("p99", 100), ("p99.9", 1_000), ("p99.99", 10_000), ("p99.999", 100_000)];

const STEPS: u32 = 10;
const BAR_WIDTH: u64 = 40;

#[cfg(test)]
mod tests;
