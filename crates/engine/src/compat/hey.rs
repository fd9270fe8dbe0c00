//! `hey`: a number of workers with a connection each, for a number of requests or a time.

use std::fmt::{self, Write};
use std::time::Duration;

use clap::Parser;
use contract::Report;
use hdrhistogram::Histogram;

use super::figures::{
    NOT_MEASURED, Step, ended, per_second, replies, steps, window_s, write_failures, write_steps,
};
use super::flags::{Argv, Others, RequestFlags, check_http, duration, read};
use crate::failure::Failure;

pub(super) const NAME: &str = "hey";

#[derive(Debug, Parser)]
struct Hey {
    #[arg(short = 'n', default_value_t = 200)]
    requests: u64,

    #[arg(short = 'c', default_value_t = 50)]
    workers: usize,

    /// Requests a second of each worker; 0 is no limit.
    #[arg(short = 'q', default_value_t = 0.0)]
    rate: f64,

    /// Where it is given, the number of requests does not count.
    #[arg(short = 'z', value_parser = duration)]
    duration: Option<Duration>,

    /// In seconds; 0 is no limit.
    #[arg(short = 't', default_value_t = 20)]
    timeout: u64,

    #[command(flatten)]
    request: RequestFlags,

    #[arg(long)]
    disable_keepalive: bool,

    #[arg(long)]
    cpus: Option<usize>,

    url: String,
}

const OTHERS: Others = Others {
    // We never request compression and follow no redirect.
    idle: &["-disable-compression", "-disable-redirects"],
    refused: &[
        ("-o FORMAT", "latencies are kept as a histogram (in --json), not one by one"),
        ("-x PROXY", "proxies are not supported"),
        ("-h2", "the generator speaks HTTP/1.1"),
    ],
};

/// The same run in our own flags.
pub(super) fn parse(words: &[String]) -> Result<Vec<String>, Failure> {
    let words: Vec<String> = words.iter().map(|word| with_two_dashes(word)).collect();
    let hey: Hey = read(NAME, &words, &OTHERS)?;
    check_http(NAME, &hey.url)?;
    let mut argv = Argv::to_anyone(&hey.url);
    argv.flag("-c", hey.workers);
    argv.opens_as_needed(&hey.url);
    argv.threads(hey.cpus, hey.workers);
    match hey.duration {
        Some(duration) => argv.window(duration),
        None => argv.flag("-n", hey.requests_done()?),
    }
    if hey.rate > 0.0 {
        argv.rate(hey.rate * hey.workers as f64);
    }
    argv.timeout(Duration::from_secs(hey.timeout));
    if hey.disable_keepalive {
        argv.switch("--no-keepalive");
    }
    argv.flag("--verify", "status");
    hey.request.say(Some("text/html"), &mut argv);
    Ok(argv.finish())
}

impl Hey {
    /// The number of requests that are sent: each worker sends the same number, and the remainder is dropped.
    fn requests_done(&self) -> Result<u64, Failure> {
        let workers = self.workers as u64;
        match self.requests.checked_div(workers) {
            Some(each) if each > 0 => Ok(each * workers),
            _ => {
                let message =
                    format!("hey: -n {} is less than a request for each of -c {workers}", self.requests);
                Err(Failure::request("bad_flag", message))
            }
        }
    }
}

/// Go programs accept long flags with one dash.
fn with_two_dashes(word: &str) -> String {
    const LONG: [&str; 6] =
        ["host", "cpus", "h2", "disable-keepalive", "disable-compression", "disable-redirects"];
    let name = word.strip_prefix('-').map(|name| name.split('=').next().unwrap_or(name));
    if name.is_some_and(|name| LONG.contains(&name)) { format!("-{word}") } else { word.to_owned() }
}

pub(super) fn write_report(out: &mut String, report: &Report, latency_ns: &Histogram<u64>) -> fmt::Result {
    writeln!(out, "\nSummary:")?;
    writeln!(out, "  Total:\t{:.4} secs", window_s(report))?;
    for (label, ns) in [
        ("Slowest", latency_ns.max() as f64),
        ("Fastest", latency_ns.min() as f64),
        ("Average", latency_ns.mean()),
    ] {
        if latency_ns.is_empty() {
            writeln!(out, "  {label}:\t{NOT_MEASURED}")?;
        } else {
            writeln!(out, "  {label}:\t{} secs", seconds(ns))?;
        }
    }
    writeln!(out, "  Requests/sec:\t{:.4}", per_second(ended(report), report))?;
    write_sizes(out, report)?;
    writeln!(out, "\nResponse time histogram:")?;
    let head = |step: &Step| format!("{} [{}]\t", seconds(step.end_ns), step.number);
    write_steps(out, &steps(latency_ns), BAR_WIDTH, head)?;
    writeln!(out, "\n\nLatency distribution:")?;
    for percent in PERCENTILES.into_iter().filter(|_| !latency_ns.is_empty()) {
        let within_ns = latency_ns.value_at_quantile(f64::from(percent) / 100.0) as f64;
        writeln!(out, "  {percent}% in {} secs", seconds(within_ns))?;
    }
    write_details(out, report)?;
    writeln!(out, "\nStatus code distribution:")?;
    for (status, number) in report.statuses.iter() {
        writeln!(out, "  [{status}]\t{number} responses")?;
    }
    write_failures(out, report, None, '\t')
}

/// The parts of a request's time. Names are resolved once, before the run.
fn write_details(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(out, "\nDetails (average, fastest, slowest):")?;
    let times = report.times.as_ref();
    for (part, times_ns) in [
        ("DNS+dialup", times.map(|times| &times.connect_ns)),
        ("DNS-lookup", None),
        ("req write", times.map(|times| &times.write_ns)),
        ("resp wait", times.map(|times| &times.wait_ns)),
        ("resp read", times.map(|times| &times.read_ns)),
    ] {
        match times_ns.filter(|times_ns| !times_ns.is_empty()) {
            None => writeln!(out, "  {part}:\t{NOT_MEASURED}")?,
            Some(times_ns) => {
                let figures = [times_ns.mean(), times_ns.min() as f64, times_ns.max() as f64];
                let [average, fastest, slowest] = figures.map(seconds);
                writeln!(out, "  {part}:\t{average} secs, {fastest} secs, {slowest} secs")?;
            }
        }
    }
    Ok(())
}

/// The sizes of bodies, which the tool omits if there were none.
fn write_sizes(out: &mut String, report: &Report) -> fmt::Result {
    let replies = replies(report);
    match report.bytes.bodies {
        Some(0) => Ok(()),
        Some(bytes) if replies > 0 => {
            writeln!(out, "\n  Total data:\t{bytes} bytes\n  Size/request:\t{} bytes", bytes / replies)
        }
        _ => writeln!(out, "\n  Total data:\t{NOT_MEASURED}\n  Size/request:\t{NOT_MEASURED}"),
    }
}

/// Two digits more than the tool prints: on the same machine most replies take less than its last digit shows.
fn seconds(ns: f64) -> String {
    format!("{:.6}", ns / 1e9)
}

const PERCENTILES: [u32; 7] = [10, 25, 50, 75, 90, 95, 99];
const BAR_WIDTH: u64 = 40;
