//! What a person sees after a load run: the rate, the latencies, the errors, and how far to trust them.

mod advice;

use std::fmt::{self, Write};

use contract::{BoundBy, Errors, Report, Schedule, Workload};
use hdrhistogram::Histogram;

pub(crate) use self::advice::failure;
use crate::failure::for_people;
use crate::units::{bytes, count, counted, duration_ns};
use crate::wrap::wrapped;

/// The distributions of a run by their names, the main one first.
pub(crate) type Rows<'a> = Vec<(&'static str, &'a Histogram<u64>)>;

/// The distributions in the summary.
pub(crate) fn rows(measured: &::load::Report) -> Rows<'_> {
    let mut rows = vec![("response", &*measured.latency)];
    match &measured.views {
        Some(views) => rows.extend([
            ("service", &*views.service_ns),
            ("closed loop", &*views.closed_ns),
            ("lateness", &*views.lateness_ns),
        ]),
        None => rows[0].0 = "service",
    }
    if let Some(times) = &measured.times {
        rows.extend([
            ("connect", &*times.connect_ns),
            ("write", &*times.write_ns),
            ("wait", &*times.wait_ns),
            ("read", &*times.read_ns),
        ]);
    }
    if let Some(probe) = &measured.probe {
        rows.push(("probes", &*probe.latency_ns));
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
    let mut connections = counted(report.connections, "connection");
    if report.idle > 0 {
        connections.push_str(&format!(" and {} idle", count(report.idle as u64)));
    }
    let mut threads = counted(report.threads, "thread");
    if report.processes > 1 {
        threads.push_str(&format!(" in {} processes", count(report.processes as u64)));
    }
    let driver = report.driver.name();
    let (asked, window) = (asked(&report.workload), duration_ns(window_ns));
    writeln!(out, "{subject}   {asked}{window}, {connections}, {threads}, {driver}")?;
    report.labels.iter().try_for_each(|label| writeln!(out, "{label}"))?;
    writeln!(out)?;
    write_distrust(out, report)?;
    write_requests(out, report)?;
    if !latency_ns.is_empty() {
        write_times(out, report, rows)?;
        write_distribution(out, latency_ns)?;
    }
    write_generator(out, report)?;
    writeln!(out, "{}\n", wrapped(&format!("  Limit       {}", limit(report))))?;
    for warning in advice::warnings(report) {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

/// The request unless it is a plain GET: `POST of 3 B, `.
fn asked(workload: &Workload) -> String {
    match workload {
        Workload::Http(http) if !http.body.is_empty() => {
            format!("{} of {}, ", http.method, bytes(http.body.len() as f64))
        }
        Workload::Http(http) if http.method != "GET" => format!("{}, ", http.method),
        _ => String::new(),
    }
}

/// Why the following figures cannot be trusted, if so.
fn write_distrust(out: &mut String, report: &Report) -> fmt::Result {
    if report.unsound.is_empty() {
        return Ok(());
    }
    writeln!(out, "These figures cannot be trusted:")?;
    for reason in &report.unsound {
        writeln!(out, "{}", wrapped(&format!("  - {reason}")))?;
    }
    writeln!(out)
}

fn write_requests(out: &mut String, report: &Report) -> fmt::Result {
    let requests = &report.requests;
    let (correct, wrong, failed) = (count(requests.correct), count(requests.wrong), count(requests.failed));
    writeln!(out, "  Requests    {}   {correct} correct, {wrong} wrong, {failed} failed", rate(report))?;
    if let Some(Schedule { waited, unsent_end, .. }) = report.schedule {
        let (waited, unsent) = (count(waited), count(unsent_end));
        writeln!(out, "              {waited} waited for a free connection, {unsent} unsent at the end")?;
    }
    if let (Some(finish_ns), Some(elapsed_ns)) = (report.finish_ns, report.elapsed_ns) {
        let (finish, elapsed) = (duration_ns(finish_ns as f64), duration_ns(elapsed_ns as f64));
        writeln!(out, "  Finished    in {finish}, from the first connect in {elapsed}")?;
    }
    for (label, amount) in [("Received", report.bytes.received), ("Sent", report.bytes.sent)] {
        let rate = bytes(report.per_second(amount));
        writeln!(out, "  {label:<10}  {}{rate}/s   {}", sign(report), bytes(amount as f64))?;
    }
    writeln!(out, "  Errors      {}", errors(&report.errors))?;
    if let Some(first) = &report.first_error {
        writeln!(out, "              the first: {}", printable(&for_people(first)))?;
    }
    writeln!(out)
}

/// The rate of correct replies. In an open loop also the rate that was actually due in the window, which is random,
/// besides the requested one.
pub(crate) fn rate(report: &Report) -> String {
    let shown = |per_s: f64| format!("{}/s", count(per_s.round() as u64));
    let mut rate = format!("{}{}", sign(report), shown(report.rate_per_s));
    if let Some(schedule) = &report.schedule {
        let asked = shown(schedule.asked_per_s);
        let due = shown(schedule.due as f64 / (window_ns(report) / 1e9).max(f64::MIN_POSITIVE));
        rate += &if due == asked {
            format!(" of {asked} asked")
        } else {
            format!(" of {due} due ({asked} asked)")
        };
    }
    if report.gone {
        rate += " until the server was gone";
    }
    rate
}

/// The sign before a rate that the generator limited: the server may be faster. The lab prints the same.
fn sign(report: &Report) -> &'static str {
    if report.bound.by == BoundBy::Generator { "≥ " } else { "" }
}

/// The errors by kind.
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
            "  Latency     from the send to the complete, verified reply; a closed loop hides stalls"
        )?;
    } else {
        writeln!(
            out,
            "  Latency     to the complete, verified reply: response time from when the request was due,"
        )?;
        writeln!(
            out,
            "              service time from when it was sent, also as a closed loop would have seen it,"
        )?;
        writeln!(out, "              and how late the generator sent it")?;
    }
    match (report.requests.correct, report.requests.wrong) {
        (0, _) => writeln!(out, "              of wrong replies: none was correct")?,
        (_, 0) => (),
        (correct, wrong) => {
            let (all, wrong) = (count(correct + wrong), count(wrong));
            writeln!(out, "              of all {all} replies, including {wrong} wrong ones")?;
        }
    }
    if report.times.is_some() {
        writeln!(out, "              connect, write, wait and read are the parts of the service time")?;
    }
    if report.probe.is_some() {
        writeln!(out, "              probes are extra connections at a low rate: what other clients see")?;
    }
    write_rows(out, rows)
}

/// A row for each distribution with its name, and a last line for the first of them.
fn write_rows(out: &mut String, rows: &Rows<'_>) -> fmt::Result {
    // A single row needs no name.
    let width =
        if rows.len() > 1 { rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default() } else { 0 };
    write!(out, "    {:width$}{:>10}", "", "min")?;
    PERCENTILES.iter().try_for_each(|(name, _)| write!(out, "{name:>10}"))?;
    writeln!(out, "{:>10}", "max")?;
    for (name, histogram) in rows {
        let name = if width > 0 { name } else { "" };
        write!(out, "    {name:width$}{:>10}", duration_ns(histogram.min() as f64))?;
        for &(_, one_in) in PERCENTILES {
            write!(out, "{:>10}", percentile(histogram, one_in))?;
        }
        writeln!(out, "{:>10}", duration_ns(histogram.max() as f64))?;
    }
    let (mean, stdev) = (duration_ns(rows[0].1.mean()), duration_ns(rows[0].1.stdev()));
    writeln!(out, "              mean {mean}, standard deviation {stdev}\n")
}

/// The time that one reply in `one_in` exceeds. A dash if there are too few replies.
pub(crate) fn percentile(times_ns: &Histogram<u64>, one_in: u64) -> String {
    if times_ns.len() < one_in {
        return "-".into();
    }
    duration_ns(times_ns.value_at_quantile(1.0 - 1.0 / one_in as f64) as f64)
}

/// Ten steps of equal ratio from the fastest reply to the 99th percentile, and a row for the slowest hundredth. With
/// steps of equal width up to the slowest reply, nearly all replies would be in the first. Omitted for few replies,
/// where the percentiles say as much.
fn write_distribution(out: &mut String, latency_ns: &Histogram<u64>) -> fmt::Result {
    if latency_ns.len() < SPREAD_REPLIES_MIN {
        return Ok(());
    }
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
    let is_empty = |row: &&(u64, u64)| row.1 == 0;
    let (before, after) =
        (rows.iter().take_while(is_empty).count(), rows.iter().rev().take_while(is_empty).count());
    let rows = &rows[before..rows.len() - after];
    let most = rows.iter().map(|(_, number)| *number).max().unwrap_or_default().max(1);
    for &(end_ns, number) in rows {
        let share = 100.0 * number as f64 / latency_ns.len() as f64;
        // A few replies must not be printed as none.
        let share = if number > 0 && share < 0.05 { "<0.1".into() } else { format!("{share:.1}") };
        let bar = "■".repeat((BAR_WIDTH * number).div_ceil(most) as usize);
        let row = format!("    to {:>10}  {share:>5} %  {bar}", duration_ns(end_ns as f64));
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

fn limit(report: &Report) -> String {
    let bound = &report.bound;
    match bound.by {
        // The reason is part of that sentence.
        BoundBy::Server if report.gone => bound.why.clone(),
        BoundBy::Server => format!("the server: {}", bound.why),
        // The reason is already printed above the table.
        BoundBy::Generator if report.unsound.contains(&bound.why) => "the generator (see above)".into(),
        BoundBy::Generator => bound.why.clone(),
        BoundBy::Rate => format!("the rate: {}", bound.why),
        BoundBy::Unclear => format!("unclear: {}", bound.why),
    }
}

fn window_ns(report: &Report) -> f64 {
    report.window_ns() as f64
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 { 0.0 } else { part_ns as f64 / whole_ns as f64 }
}

/// Replaces control characters in a text that a server may have chosen.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Percentiles by the share of slower replies: one in this many.
const PERCENTILES: &[(&str, u64)] =
    &[("p50", 2), ("p90", 10), ("p99", 100), ("p99.9", 1_000), ("p99.99", 10_000), ("p99.999", 100_000)];

/// Fewer replies are not drawn.
const SPREAD_REPLIES_MIN: u64 = 20;
const STEPS: u32 = 10;
const BAR_WIDTH: u64 = 40;

#[cfg(test)]
mod tests;
