//! `oha`: hey's flags and report, with more percentiles and units that suit the times.

use std::fmt::{self, Write};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use contract::Report;
use hdrhistogram::Histogram;

use super::figures::{
    NOT_MEASURED, Step, binary, ended, or_not_measured, per_second, replies, steps, window_s, write_failures,
    write_steps,
};
use super::flags::{Argv, Others, RequestFlags, check_http, count, duration, read};
use crate::failure::Failure;

pub(super) const NAME: &str = "oha";

#[derive(Debug, Parser)]
pub(crate) struct Oha {
    #[arg(short = 'n', default_value = "200", value_parser = count)]
    requests: u64,

    #[arg(short = 'c', default_value_t = 50)]
    connections: usize,

    /// Where it is given, the number of requests does not count.
    #[arg(short = 'z', value_parser = duration)]
    duration: Option<Duration>,

    /// Requests a second in all.
    #[arg(short = 'q')]
    rate: Option<f64>,

    #[arg(short = 't', value_parser = duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    request: RequestFlags,

    #[arg(long)]
    disable_keepalive: bool,

    #[arg(long)]
    insecure: bool,

    #[arg(long)]
    cacert: Option<String>,

    #[arg(long)]
    worker_threads: Option<usize>,

    #[arg(short = 'u', long)]
    time_unit: Option<Unit>,

    #[arg(long, default_value = "text", value_parser = ["text"])]
    output_format: String,

    url: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    Ns,
    Us,
    Ms,
    S,
    M,
    H,
}

const OTHERS: Others = Others {
    // Latency always counts from the due time, nothing is drawn during the run, and we never request compression.
    idle: &["--latency-correction", "--no-tui", "--no-color", "--fps FPS", "--disable-compression"],
    refused: &[
        ("-p N", HTTP_1),
        ("--http2", HTTP_1),
        ("--http-version VERSION", HTTP_1),
        ("-w", ONGOING),
        ("--wait-ongoing-requests-after-deadline", ONGOING),
        ("--burst-delay DURATION", "requests come one by one; --rate of iolab load has steps and ramps"),
        ("--burst-rate N", "requests come one by one; --rate of iolab load has steps and ramps"),
        ("--rand-regex-url", ONE_REQUEST),
        ("--urls-from-file", ONE_REQUEST),
        ("--max-repeat N", ONE_REQUEST),
        ("--dump-urls N", ONE_REQUEST),
        ("-Z FILE", ONE_REQUEST),
        ("-F FORM", "forms are not supported; write the body to a file and send it with -D and -T"),
        ("--form FORM", "forms are not supported; write the body to a file and send it with -D and -T"),
        ("--connect-timeout DURATION", "-t applies to connections and replies"),
        ("-r LIMIT", "redirects are not followed"),
        ("--redirect LIMIT", "redirects are not followed"),
        ("--connect-to ADDRESS", "give the address to connect to, and the name with --host"),
        ("--ipv6", "give an IPv6 address"),
        ("--ipv4", "give an IPv4 address"),
        ("--no-pre-lookup", "a name is resolved once, before the run"),
        ("--unix-socket PATH", "give unix:PATH to iolab load"),
        ("-x PROXY", "proxies are not supported"),
        ("-o FILE", "the report goes to standard output"),
        ("--output FILE", "the report goes to standard output"),
        ("--db-url FILE", "latencies are kept as a histogram (in --json), not one by one"),
        ("--stats-success-breakdown", "latencies are not kept by status"),
        ("--debug", "the generator only measures"),
    ],
};

const HTTP_1: &str = "the generator speaks HTTP/1.1";
const ONGOING: &str = "the window ends when the time is up";
const ONE_REQUEST: &str = "all requests of a run are the same";

/// The flags, and the same run in our own flags.
pub(super) fn parse(words: &[String]) -> Result<(Vec<String>, Oha), Failure> {
    let oha: Oha = read(NAME, words, &OTHERS)?;
    check_http(NAME, &oha.url)?;
    let mut argv = Argv::to(&oha.url);
    if oha.insecure {
        argv.switch("--insecure");
    }
    if let Some(cacert) = &oha.cacert {
        argv.flag("--cacert", cacert);
    }
    argv.flag("-c", oha.connections);
    argv.threads(oha.worker_threads, oha.connections);
    match oha.duration {
        Some(duration) => argv.window(duration),
        None => argv.flag("-n", oha.requests),
    }
    if let Some(rate) = oha.rate {
        argv.rate(rate);
    }
    argv.timeout(oha.timeout.unwrap_or_default());
    if oha.disable_keepalive {
        argv.switch("--no-keepalive");
    }
    argv.flag("--verify", "status");
    oha.request.say(None, &mut argv);
    Ok((argv.finish(), oha))
}

pub(super) fn write_report(
    out: &mut String,
    oha: &Oha,
    report: &Report,
    latency_ns: &Histogram<u64>,
) -> fmt::Result {
    let unit = oha.time_unit.unwrap_or_else(|| Unit::suiting(latency_ns.max()));
    let time = |ns: f64| if latency_ns.is_empty() { NOT_MEASURED.to_owned() } else { unit.text(ns) };
    writeln!(out, "Summary:")?;
    writeln!(out, "  Success rate:\t{}", success_rate(report))?;
    writeln!(out, "  Total:\t{}", unit.text(window_s(report) * 1e9))?;
    writeln!(out, "  Slowest:\t{}", time(latency_ns.max() as f64))?;
    writeln!(out, "  Fastest:\t{}", time(latency_ns.min() as f64))?;
    writeln!(out, "  Average:\t{}", time(latency_ns.mean()))?;
    writeln!(out, "  Requests/sec:\t{:.4}", per_second(ended(report), report))?;
    write_sizes(out, report)?;
    writeln!(out, "\nResponse time histogram:")?;
    write_histogram(out, unit, &steps(latency_ns))?;
    writeln!(out, "\nResponse time distribution:")?;
    for percent in PERCENTILES {
        let within_ns = latency_ns.value_at_quantile(percent / 100.0) as f64;
        writeln!(out, "  {percent:.2}% in {}", time(within_ns))?;
    }
    writeln!(out, "\n\nDetails (average, fastest, slowest):")?;
    writeln!(out, "  DNS+dialup:\t{NOT_MEASURED}\n  DNS-lookup:\t{NOT_MEASURED}")?;
    writeln!(out, "\nStatus code distribution:")?;
    for (status, number) in report.statuses.iter() {
        writeln!(out, "  [{status}] {number} responses")?;
    }
    let in_flight = Some(("aborted due to deadline", report.requests.in_flight_end));
    write_failures(out, report, in_flight.filter(|(_, number)| *number > 0), ' ')
}

/// The share of requests that were answered, with any status.
fn success_rate(report: &Report) -> String {
    match ended(report) {
        0 => NOT_MEASURED.to_owned(),
        ended => format!("{:.2}%", 100.0 * replies(report) as f64 / ended as f64),
    }
}

/// The steps with their counts in an aligned column.
fn write_histogram(out: &mut String, unit: Unit, steps: &[Step]) -> fmt::Result {
    let count = |number: u64| format!("[{number}]");
    let edges = steps.last().map_or(0, |step| unit.edge(step.end_ns).len());
    let counts = steps.iter().map(|step| count(step.number).len()).max().unwrap_or_default();
    let head = |step: &Step| format!("{:>edges$} {:<counts$} ", unit.edge(step.end_ns), count(step.number));
    write_steps(out, steps, BAR_WIDTH, head)
}

fn write_sizes(out: &mut String, report: &Report) -> fmt::Result {
    let bytes = report.bytes.bodies;
    let each = bytes.and_then(|bytes| bytes.checked_div(replies(report)));
    let rate = bytes.map(|bytes| data(per_second(bytes, report)));
    writeln!(out, "\n  Total data:\t{}", or_not_measured(bytes.map(|bytes| data(bytes as f64))))?;
    writeln!(out, "  Size/request:\t{}", or_not_measured(each.map(|bytes| data(bytes as f64))))?;
    writeln!(out, "  Size/sec:\t{}", or_not_measured(rate))
}

fn data(bytes: f64) -> String {
    match binary(bytes) {
        (bytes, "") => format!("{bytes:.0} B"),
        (scaled, letter) => format!("{scaled:.2} {letter}iB"),
    }
}

impl Unit {
    /// The unit of a whole report: the largest one below its slowest request.
    fn suiting(slowest_ns: u64) -> Self {
        let is_longer = |unit: &Self| slowest_ns as f64 > unit.ns();
        [Self::H, Self::M, Self::S, Self::Ms, Self::Us].into_iter().find(is_longer).unwrap_or(Self::Ns)
    }

    const fn ns(self) -> f64 {
        match self {
            Self::Ns => 1.0,
            Self::Us => 1e3,
            Self::Ms => 1e6,
            Self::S => 1e9,
            Self::M => 60e9,
            Self::H => 3600e9,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
            Self::S => "sec",
            Self::M => "min",
            Self::H => "hr",
        }
    }

    fn text(self, ns: f64) -> String {
        format!("{:.4} {}", ns / self.ns(), self.name())
    }

    /// The edge of a step of the histogram.
    fn edge(self, ns: f64) -> String {
        format!("{:.3} {}", ns / self.ns(), self.name())
    }
}

const PERCENTILES: [f64; 9] = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
const BAR_WIDTH: u64 = 32;
