//! Figures that several tools report, computed from one run.

use std::fmt::{self, Display, Write};

use contract::Report;
use hdrhistogram::Histogram;

/// Printed in place of a figure that we do not measure.
pub(super) const NOT_MEASURED: &str = "not measured";

/// A figure, or [`NOT_MEASURED`].
pub(super) fn or_not_measured(figure: Option<impl Display>) -> String {
    figure.map_or_else(|| NOT_MEASURED.to_owned(), |figure| figure.to_string())
}

/// Requests that have ended, answered or failed.
pub(super) fn ended(report: &Report) -> u64 {
    replies(report) + report.requests.failed
}

/// Requests that were answered, with any status.
pub(super) fn replies(report: &Report) -> u64 {
    report.requests.correct + report.requests.wrong
}

/// The length of the measured window.
pub(super) fn window_s(report: &Report) -> f64 {
    report.end_ns.saturating_sub(report.begin_ns) as f64 / 1e9
}

/// An amount per second of the window; 0 for an empty window.
pub(super) fn per_second(amount: u64, report: &Report) -> f64 {
    let window_s = window_s(report);
    if window_s > 0.0 { amount as f64 / window_s } else { 0.0 }
}

/// Replies whose status satisfies `is`.
pub(super) fn replies_with(is: impl Fn(u16) -> bool, report: &Report) -> u64 {
    report.statuses.iter().filter(|(status, _)| is(*status)).map(|(_, number)| number).sum()
}

/// Kinds of failures with their counts. They add up to `requests.failed`.
fn failures(report: &Report) -> Vec<(&'static str, u64)> {
    let errors = &report.errors;
    let kinds = [
        ("could not connect", errors.connect),
        ("connection reset", errors.reset),
        ("connection closed before the reply", errors.closed),
        ("no reply in time", errors.timeout),
        ("malformed reply", errors.malformed),
        ("TLS failed", errors.tls),
        ("wrong reply", errors.wrong),
    ];
    kinds.into_iter().filter(|(_, number)| *number > 0).collect()
}

/// The table of failures at the end of hey and oha, and the first failure. `more` is a row of one of these tools.
pub(super) fn write_failures(
    out: &mut String,
    report: &Report,
    more: Option<(&'static str, u64)>,
    separator: char,
) -> fmt::Result {
    let rows: Vec<_> = failures(report).into_iter().chain(more).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nError distribution:")?;
    for (kind, number) in rows {
        writeln!(out, "  [{number}]{separator}{kind}")?;
    }
    match &report.first_error {
        // A server may have chosen this text, so control characters are escaped.
        Some(first) => writeln!(out, "  the first: {}", first.escape_debug()),
        None => Ok(()),
    }
}

/// A row of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// The longest latency in this row.
    pub(super) end_ns: f64,
    pub(super) number: u64,
}

/// The histogram of hey and oha: the fastest reply alone, then ten steps of equal width up to the slowest. Empty
/// without replies.
pub(super) fn steps(latency_ns: &Histogram<u64>) -> Vec<Step> {
    if latency_ns.is_empty() {
        return Vec::new();
    }
    let (min, max) = (latency_ns.min() as f64, latency_ns.max() as f64);
    let width = (max - min) / f64::from(STEPS);
    let mut steps: Vec<Step> =
        (0..=STEPS).map(|step| Step { end_ns: min + width * f64::from(step), number: 0 }).collect();
    let last = steps.len() - 1;
    for value in latency_ns.iter_recorded() {
        // The lowest latency of its bucket, because the fastest reply is given the same way.
        let latency = latency_ns.lowest_equivalent(value.value_iterated_to()) as f64;
        let fits = steps.partition_point(|step| step.end_ns < latency).min(last);
        steps[fits].number += value.count_at_value();
    }
    steps
}

/// Writes the rows of a histogram: `head` formats each, followed by its bar of at most `width`.
pub(super) fn write_steps(
    out: &mut String,
    steps: &[Step],
    width: u64,
    head: impl Fn(&Step) -> String,
) -> fmt::Result {
    let most = steps.iter().map(|step| step.number).max().unwrap_or_default().max(1);
    for step in steps {
        let bar = "■".repeat((width * step.number / most) as usize);
        writeln!(out, "  {}|{bar}", head(step))?;
    }
    Ok(())
}

/// The percentage of values within one standard deviation of their mean.
pub(super) fn within_stdev_percent(values: impl Iterator<Item = (f64, u64)>, mean: f64, stdev: f64) -> f64 {
    let (mut near, mut all) = (0, 0);
    for (value, number) in values {
        all += number;
        near += if (value - mean).abs() <= stdev { number } else { 0 };
    }
    if all == 0 { 0.0 } else { 100.0 * near as f64 / all as f64 }
}

/// The standard deviation of the population that these values are a sample of; 0 for fewer than two values.
pub(super) fn sample_stdev(values: impl Iterator<Item = (f64, u64)>, mean: f64) -> f64 {
    let (mut squares, mut all) = (0.0, 0);
    for (value, number) in values {
        all += number;
        squares += (value - mean).powi(2) * number as f64;
    }
    if all < 2 { 0.0 } else { (squares / (all - 1) as f64).sqrt() }
}

/// Each recorded latency with its count.
pub(super) fn latencies(latency_ns: &Histogram<u64>) -> impl Iterator<Item = (f64, u64)> {
    latency_ns
        .iter_recorded()
        .map(|value| (latency_ns.median_equivalent(value.value_iterated_to()) as f64, value.count_at_value()))
}

/// An amount of data in powers of 1024, and the letter of the power, as these tools print it.
pub(super) fn binary(bytes: f64) -> (f64, &'static str) {
    let mut scaled = bytes;
    for letter in ["", "K", "M", "G"] {
        if scaled < 1024.0 {
            return (scaled, letter);
        }
        scaled /= 1024.0;
    }
    (scaled, "T")
}

const STEPS: u32 = 10;
