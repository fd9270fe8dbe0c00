//! What a person sees after a load run: the rate, the latencies, what went wrong, and how far to trust it.

use std::fmt::{self, Write};

use hdrhistogram::Histogram;

use crate::contract::{Errors, Generator, Report};
use crate::units::{bytes, count, counted, duration_ns};

/// The summary of a report. `subject` is the server as the user wrote it.
pub(crate) fn text(report: &Report, latency_ns: &Histogram<u64>, subject: &str) -> String {
    let mut text = String::new();
    write_all(&mut text, report, latency_ns, subject).expect("writing to a string cannot fail");
    text.trim_end().to_owned()
}

fn write_all(out: &mut String, report: &Report, latency_ns: &Histogram<u64>, subject: &str) -> fmt::Result {
    let window_ns = window_ns(report);
    let connections = counted(report.connections, "connection");
    let threads = counted(report.threads, "thread");
    let driver = ::load::Driver::from(report.driver).name();
    writeln!(out, "{subject}   {}, {connections}, {threads}, {driver}\n", duration_ns(window_ns))?;
    write_requests(out, report)?;
    if !latency_ns.is_empty() {
        write_percentiles(out, latency_ns)?;
        write_distribution(out, latency_ns)?;
    }
    write_generator(out, report)?;
    for warning in warnings(report) {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

fn write_requests(out: &mut String, report: &Report) -> fmt::Result {
    let window_s = window_ns(report) / 1e9;
    let requests = &report.requests;
    let rate = count(report.rate_per_s.round() as u64);
    let (correct, wrong, failed) = (count(requests.correct), count(requests.wrong), count(requests.failed));
    writeln!(out, "  Requests    {rate}/s   {correct} correct, {wrong} wrong, {failed} failed")?;
    for (label, amount) in [("Received", report.bytes.received), ("Sent", report.bytes.sent)] {
        let rate = if window_s > 0.0 { amount as f64 / window_s } else { 0.0 };
        writeln!(out, "  {label:<10}  {}/s   {}", bytes(rate), bytes(amount as f64))?;
    }
    writeln!(out, "  Errors      {}", errors(&report.errors))?;
    if let Some(first) = &report.first_error {
        writeln!(out, "              the first: {}", printable(first))?;
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
        ("wrong", errors.wrong),
    ];
    let seen: Vec<String> = (kinds.iter().filter(|(_, number)| *number > 0))
        .map(|(kind, number)| format!("{} {kind}", count(*number)))
        .collect();
    if seen.is_empty() { "none".into() } else { seen.join(", ") }
}

fn write_percentiles(out: &mut String, latency_ns: &Histogram<u64>) -> fmt::Result {
    writeln!(out, "  Latency     from the send to the whole, checked reply, in a closed loop")?;
    let (mut heads, mut values) = (String::new(), String::new());
    for &(name, one_in) in PERCENTILES {
        // A percentile beyond which there is no reply at all would only repeat the maximum.
        let known = latency_ns.len() >= one_in;
        let value = latency_ns.value_at_quantile(1.0 - 1.0 / one_in as f64) as f64;
        write!(heads, "{name:>10}")?;
        write!(values, "{:>10}", if known { duration_ns(value) } else { "-".into() })?;
    }
    writeln!(out, "       {:>10}{heads}{:>10}", "min", "max")?;
    let (min, max) = (latency_ns.min() as f64, latency_ns.max() as f64);
    writeln!(out, "       {:>10}{values}{:>10}", duration_ns(min), duration_ns(max))?;
    let (mean, stdev) = (duration_ns(latency_ns.mean()), duration_ns(latency_ns.stdev()));
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
    let Report { requests, generator, .. } = report;
    let mut warnings = Vec::new();
    if report.interrupted {
        warnings.push("it was interrupted: the numbers cover what was measured until then".to_owned());
    }
    if requests.correct == 0 {
        warnings.push("no reply was correct: there is nothing to compare".to_owned());
    } else if requests.wrong + requests.failed > 0 {
        warnings.push("not every reply was correct: the rate counts those that were".to_owned());
    }
    if report.connections_open < report.connections {
        let (open, asked) = (count(report.connections_open as u64), count(report.connections as u64));
        warnings.push(format!("only {open} of {asked} connections were open at the end"));
    }
    warnings.extend(generator_warnings(generator));
    warnings
}

fn generator_warnings(generator: &Generator) -> Vec<String> {
    let mut warnings = Vec::new();
    let busy = share(generator.cpu_ns, generator.wall_ns);
    if busy >= BUSY_SHARE_MAX {
        warnings.push(format!(
            "the generator was busy {:.0} % of the time: the server may be faster than this; try more threads (-t)",
            100.0 * busy
        ));
    }
    let delayed = share(generator.run_delay_ns, generator.wall_ns);
    if delayed >= DELAY_SHARE_MAX {
        warnings.push(format!(
            "the generator waited {:.0} % of the time for a processor: give it one of its own (--cpus)",
            100.0 * delayed
        ));
    }
    if generator.turn_ns_max >= TURN_NS_MAX {
        warnings.push(format!(
            "the generator was once away for {}: the slowest replies may be its own doing",
            duration_ns(generator.turn_ns_max as f64)
        ));
    }
    warnings
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
    &[("p50", 2), ("p90", 10), ("p99", 100), ("p99.9", 1_000), ("p99.99", 10_000)];

const STEPS: u32 = 10;
const BAR_WIDTH: u64 = 40;

/// Above this share of a processor a thread of the generator is likely to be what limits the rate.
const BUSY_SHARE_MAX: f64 = 0.9;
/// Above this share of the time, waiting for a processor shows in every percentile.
const DELAY_SHARE_MAX: f64 = 0.05;
/// A turn this long is not work: the scheduler, or the machine, took the processor away.
const TURN_NS_MAX: u64 = 10_000_000;

#[cfg(test)]
mod tests;
