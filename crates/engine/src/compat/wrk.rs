//! `wrk`, and `wrk2`, which adds a rate: threads that share connections, for a time.

use std::fmt::{self, Write};
use std::time::Duration;

use clap::Parser;
use contract::Report;
use hdrhistogram::Histogram;

use super::figures::{
    NOT_MEASURED, binary, latencies, per_second, replies, replies_with, sample_stdev, window_s,
    within_stdev_percent,
};
use super::flags::{Argv, Others, check_http, count, duration, read, size};
use crate::failure::Failure;

pub(super) const NAME: &str = "wrk";

#[derive(Debug, Parser)]
pub(crate) struct Wrk {
    #[arg(short, long, default_value = "10", value_parser = size)]
    connections: usize,

    #[arg(short, long, default_value = "10s", value_parser = duration)]
    duration: Duration,

    #[arg(short, long, default_value = "2", value_parser = size)]
    threads: usize,

    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,

    #[arg(short = 'L', long)]
    latency: bool,

    #[arg(short = 'T', long, default_value = "2s", value_parser = duration)]
    timeout: Duration,

    /// Requests a second in all; of wrk2.
    #[arg(short = 'R', long, value_parser = count)]
    rate: Option<u64>,

    url: String,
}

const OTHERS: Others = Others { idle: &[], refused: &[("-s SCRIPT", SCRIPT), ("--script SCRIPT", SCRIPT)] };

const SCRIPT: &str = "the generator runs no Lua; -m, -H and --body-file of iolab load make other requests";

/// The flags, and the same run in our own flags.
pub(super) fn parse(words: &[String]) -> Result<(Vec<String>, Wrk), Failure> {
    let wrk: Wrk = read(NAME, words, &OTHERS)?;
    check_http(NAME, &wrk.url)?;
    let mut argv = Argv::to_anyone(&wrk.url);
    argv.flag("-c", wrk.connections);
    argv.flag("-t", wrk.threads);
    argv.window(wrk.duration);
    if let Some(rate) = wrk.rate {
        argv.rate(rate as f64);
    }
    argv.timeout(wrk.timeout);
    argv.flag("--verify", "status");
    argv.headers(&wrk.headers);
    Ok((argv.finish(), wrk))
}

pub(super) fn write_report(
    out: &mut String,
    wrk: &Wrk,
    report: &Report,
    latency_ns: &Histogram<u64>,
) -> fmt::Result {
    writeln!(out, "Running {} test @ {}", whole_time(wrk.duration), wrk.url)?;
    writeln!(out, "  {} threads and {} connections", wrk.threads, wrk.connections)?;
    writeln!(out, "  Thread Stats   Avg      Stdev     Max   +/- Stdev")?;
    write_latency(out, latency_ns)?;
    write_thread_rates(out, report)?;
    if wrk.latency && !latency_ns.is_empty() {
        writeln!(out, "  Latency Distribution")?;
        for percent in [50, 75, 90, 99] {
            let within_ns = latency_ns.value_at_quantile(f64::from(percent) / 100.0) as f64;
            writeln!(out, "  {percent:>5}%{:>10}", time(within_ns))?;
        }
    }
    let (seconds, read) = (window_s(report), data(report.bytes.received as f64));
    writeln!(out, "  {} requests in {}, {read} read", replies(report), time(seconds * 1e9))?;
    write_errors(out, report)?;
    writeln!(out, "Requests/sec: {:>10.2}", per_second(replies(report), report))?;
    writeln!(out, "Transfer/sec: {:>10}", data(per_second(report.bytes.received, report)))
}

fn write_latency(out: &mut String, latency_ns: &Histogram<u64>) -> fmt::Result {
    if latency_ns.is_empty() {
        return writeln!(out, "    Latency   {NOT_MEASURED}");
    }
    let mean = latency_ns.mean();
    let stdev = sample_stdev(latencies(latency_ns), mean);
    let near = within_stdev_percent(latencies(latency_ns), mean, stdev);
    let (mean, stdev, max) = (time(mean), time(stdev), time(latency_ns.max() as f64));
    writeln!(out, "    Latency{mean:>11}{stdev:>10}{max:>9}{near:>8.2}%")
}

/// The rate of one thread, sampled as often as the tool does. Ours is the total rate divided by the threads; a single
/// thread varies more.
fn write_thread_rates(out: &mut String, report: &Report) -> fmt::Result {
    let rates = sampled_rates(report);
    if rates.is_empty() {
        return writeln!(out, "    Req/Sec   {NOT_MEASURED}");
    }
    let each = || rates.iter().map(|rate| (*rate, 1));
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let stdev = sample_stdev(each(), mean);
    let max = rates.iter().copied().fold(0.0, f64::max);
    let near = within_stdev_percent(each(), mean, stdev);
    let (mean, stdev, max) = (metric(mean), metric(stdev), metric(max));
    writeln!(out, "    Req/Sec{mean:>11}{stdev:>10}{max:>9}{near:>8.2}%")
}

/// Requests per second of one thread in each whole sample of the window.
fn sampled_rates(report: &Report) -> Vec<f64> {
    let intervals = &report.intervals;
    let length_ns = intervals.length_ns.max(1);
    let first = report.begin_ns.saturating_sub(intervals.begin_ns).div_ceil(length_ns) as usize;
    let whole = (report.end_ns.saturating_sub(intervals.begin_ns) / length_ns) as usize;
    let slices = intervals.completed.get(first..whole.min(intervals.completed.len())).unwrap_or_default();
    let slices_each = (SAMPLE_NS / length_ns).max(1);
    let sample_s = (slices_each * length_ns) as f64 / 1e9;
    let rate = |sample: &[u64]| sample.iter().sum::<u64>() as f64 / sample_s / report.threads as f64;
    slices.chunks_exact(slices_each as usize).map(rate).collect()
}

/// The errors, which the tool prints only if there were some.
fn write_errors(out: &mut String, report: &Report) -> fmt::Result {
    let errors = &report.errors;
    let read = errors.reset + errors.closed + errors.malformed + errors.tls;
    if errors.connect + read + errors.timeout > 0 {
        // The report does not keep whether a read or a write noticed a broken connection.
        let (connect, timeout) = (errors.connect, errors.timeout);
        writeln!(
            out,
            "  Socket errors: connect {connect}, read {read}, write {NOT_MEASURED}, timeout {timeout}"
        )?;
    }
    let refused = replies_with(|status| status >= 400, report);
    if refused > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {refused}")?;
    }
    Ok(())
}

/// A time with two decimals and a suitable unit.
fn time(ns: f64) -> String {
    match ns {
        ..1e6 => format!("{:.2}us", ns / 1e3),
        ..1e9 => format!("{:.2}ms", ns / 1e6),
        ..60e9 => format!("{:.2}s", ns / 1e9),
        ..3600e9 => format!("{:.2}m", ns / 60e9),
        _ => format!("{:.2}h", ns / 3600e9),
    }
}

/// The length of a test, in hours or minutes if it is a whole number of them.
fn whole_time(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 3600 && seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds >= 60 && seconds % 60 == 0 => format!("{}m", seconds / 60),
        _ => format!("{}s", duration.as_secs_f64()),
    }
}

/// A number with two decimals and a metric suffix.
fn metric(number: f64) -> String {
    match number {
        ..1e3 => format!("{number:.2}"),
        ..1e6 => format!("{:.2}k", number / 1e3),
        _ => format!("{:.2}M", number / 1e6),
    }
}

fn data(bytes: f64) -> String {
    let (scaled, letter) = binary(bytes);
    format!("{scaled:.2}{letter}B")
}

/// The tool's sampling interval of the rate.
const SAMPLE_NS: u64 = 100_000_000;
