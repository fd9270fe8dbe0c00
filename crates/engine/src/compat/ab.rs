//! `ab`, of the Apache HTTP server: a number of requests, a new connection for each unless `-k`.

use std::fmt::{self, Write};
use std::time::Duration;

use clap::Parser;
use contract::Report;
use hdrhistogram::Histogram;

use super::figures::{
    NOT_MEASURED, ended, latencies, or_not_measured, per_second, replies_with, sample_stdev, window_s,
};
use super::flags::{Argv, Others, check_http, comes_after, read_matches};
use crate::failure::Failure;
use crate::spec::url::Url;

pub(super) const NAME: &str = "ab";

#[derive(Debug, Parser)]
pub(crate) struct Ab {
    #[arg(short = 'n')]
    requests: Option<u64>,

    #[arg(short = 'c', default_value_t = 1)]
    concurrency: usize,

    /// In seconds.
    #[arg(short = 't')]
    time_limit: Option<u64>,

    /// In seconds.
    #[arg(short = 's', default_value_t = 30)]
    timeout: u64,

    /// The local address of the connections.
    #[arg(short = 'B')]
    source: Option<String>,

    #[arg(short = 'k')]
    keep_alive: bool,

    /// Bodies may differ in length.
    #[arg(short = 'l')]
    any_length: bool,

    #[arg(short = 'i')]
    head: bool,

    #[arg(short = 'm')]
    method: Option<String>,

    #[arg(short = 'p', conflicts_with_all = ["put_file", "head"])]
    post_file: Option<String>,

    #[arg(short = 'u', conflicts_with = "head")]
    put_file: Option<String>,

    #[arg(short = 'T', default_value = "text/plain")]
    content_type: String,

    #[arg(short = 'C')]
    cookies: Vec<String>,

    #[arg(short = 'H')]
    headers: Vec<String>,

    /// As `user:password`.
    #[arg(short = 'A')]
    credentials: Option<String>,

    /// Leaves the table of percentiles out.
    #[arg(short = 'd')]
    no_percentiles: bool,

    url: String,
}

const OTHERS: Others = Others {
    // A socket that breaks never ends a run of ours, which is what -r asks for.
    idle: &["-q", "-r", "-S", "-v LEVEL", "-I"],
    refused: &[
        ("-b SIZE", "the kernel sizes the buffers of the sockets"),
        ("-P CREDENTIALS", "proxies are not supported"),
        ("-X PROXY", "proxies are not supported"),
        ("-w", "there is no table in HTML; --json has every number"),
        ("-x ATTRIBUTES", "there is no table in HTML; --json has every number"),
        ("-y ATTRIBUTES", "there is no table in HTML; --json has every number"),
        ("-z ATTRIBUTES", "there is no table in HTML; --json has every number"),
        ("-g FILE", "latencies are kept as a histogram (in --json), not one by one"),
        ("-e FILE", "the percentiles are in what --json prints"),
        ("-Z CIPHERS", "the ciphers cannot be chosen"),
        ("-f PROTOCOL", "the version of TLS cannot be chosen"),
        ("-E FILE", "client certificates are not supported"),
    ],
};

/// The flags, and the same run in our own flags.
pub(super) fn parse(words: &[String]) -> Result<(Vec<String>, Ab), Failure> {
    let (mut ab, matches): (Ab, _) = read_matches(NAME, words, &OTHERS)?;
    if !ab.url.contains("://") {
        ab.url.insert_str(0, "http://");
    }
    check_http(NAME, &ab.url)?;
    let mut argv = Argv::to_anyone(&ab.url);
    argv.flag("-c", ab.concurrency);
    argv.opens_as_needed(&ab.url);
    ab.limit(comes_after("requests", "time_limit", &matches), &mut argv)?;
    argv.timeout(Duration::from_secs(ab.timeout));
    if let Some(source) = &ab.source {
        argv.flag("--source", source);
    }
    if !ab.keep_alive {
        argv.switch("--no-keepalive");
    }
    if ab.any_length {
        argv.flag("--verify", "status");
    }
    ab.request(&mut argv);
    Ok((argv.finish(), ab))
}

impl Ab {
    /// Sets what ends the run: a number of requests, or a time limit if that comes first. A time limit implies its own
    /// number of requests, unless a number is given after it.
    ///
    /// # Errors
    /// `bad_flag`: fewer requests than connections, with the message of `ab`.
    fn limit(&self, counts_after_limit: bool, argv: &mut Argv) -> Result<(), Failure> {
        let requests = match self.time_limit {
            Some(_) if !counts_after_limit => REQUESTS_WITH_TIME_LIMIT,
            _ => self.requests.unwrap_or(1),
        };
        let concurrency = self.concurrency;
        if concurrency as u64 > requests {
            let message = "ab: Cannot use concurrency level greater than total number of requests";
            return Err(Failure::request(
                "bad_flag",
                format!("{message}: -n {requests} for -c {concurrency}"),
            ));
        }
        argv.flag("-n", requests);
        if let Some(seconds) = self.time_limit.filter(|seconds| *seconds > 0) {
            argv.flag("-z", format!("{seconds}s"));
        }
        Ok(())
    }

    fn request(&self, argv: &mut Argv) {
        let (natural, file) = match (&self.post_file, &self.put_file) {
            (Some(file), _) => (Some("POST"), Some(file)),
            (None, Some(file)) => (Some("PUT"), Some(file)),
            (None, None) if self.head => (Some("HEAD"), None),
            (None, None) => (None, None),
        };
        if let Some(method) = self.method.as_deref().or(natural) {
            argv.flag("-m", method);
        }
        if let Some(file) = file {
            argv.flag("-D", file);
            argv.header("Content-Type", &self.content_type);
        }
        for cookie in &self.cookies {
            argv.header("Cookie", cookie);
        }
        argv.credentials(self.credentials.as_deref());
        argv.headers(&self.headers);
    }
}

pub(super) fn write_report(
    out: &mut String,
    ab: &Ab,
    report: &Report,
    latency_ns: &Histogram<u64>,
) -> fmt::Result {
    let url = Url::parse(&ab.url).expect("it was read before");
    let body_bytes = report.bytes.bodies;
    row(out, "Server Software:", NOT_MEASURED)?;
    row(out, "Server Hostname:", &url.host)?;
    row(out, "Server Port:", url.port)?;
    writeln!(out)?;
    row(out, "Document Path:", &url.target)?;
    row(out, "Document Length:", document_length(ab, report, body_bytes))?;
    writeln!(out)?;
    row(out, "Concurrency Level:", ab.concurrency)?;
    row(out, "Time taken for tests:", format_args!("{:.3} seconds", window_s(report)))?;
    write_counts(out, ab, report)?;
    row(out, "Total transferred:", format_args!("{} bytes", report.bytes.received))?;
    let has_body = ab.post_file.is_some() || ab.put_file.is_some();
    if has_body {
        row(out, "Total body sent:", report.bytes.sent)?;
    }
    row(out, "HTML transferred:", or_not_measured(body_bytes.map(|bytes| format!("{bytes} bytes"))))?;
    write_rates(out, ab, report)?;
    if has_body {
        let [sent, all] = [report.bytes.sent, report.bytes.sent + report.bytes.received];
        writeln!(out, "{:24}{:.2} kb/s sent", "", per_second(sent, report) / 1024.0)?;
        writeln!(out, "{:24}{:.2} kb/s total", "", per_second(all, report) / 1024.0)?;
    }
    write_times(out, report, latency_ns)?;
    if ab.no_percentiles || latency_ns.is_empty() { Ok(()) } else { write_percentiles(out, latency_ns) }
}

/// The counts. A reply with an error status counts as complete, not as failed.
fn write_counts(out: &mut String, ab: &Ab, report: &Report) -> fmt::Result {
    let errors = &report.errors;
    let receive = errors.reset + errors.closed + errors.timeout + errors.tls;
    let failed = errors.connect + receive + errors.wrong + errors.malformed;
    row(out, "Complete requests:", ended(report))?;
    row(out, "Failed requests:", failed)?;
    if failed > 0 {
        let (connect, wrong, malformed) = (errors.connect, errors.wrong, errors.malformed);
        writeln!(
            out,
            "   (Connect: {connect}, Receive: {receive}, Length: {wrong}, Exceptions: {malformed})"
        )?;
    }
    let unsuccessful = replies_with(|status| !(200..300).contains(&status), report);
    if unsuccessful > 0 {
        row(out, "Non-2xx responses:", unsuccessful)?;
    }
    if ab.keep_alive {
        row(out, "Keep-Alive requests:", NOT_MEASURED)?;
    }
    Ok(())
}

/// The three formulas of `ab`, each over all requests that have ended.
fn write_rates(out: &mut String, ab: &Ab, report: &Report) -> fmt::Result {
    let done = ended(report);
    row(out, "Requests per second:", format_args!("{:.2} [#/sec] (mean)", per_second(done, report)))?;
    let across_ms = window_s(report) * 1e3 / done as f64;
    let mean_ms = ab.concurrency as f64 * across_ms;
    for (ms, meaning) in [(mean_ms, "mean"), (across_ms, "mean, across all concurrent requests")] {
        if done == 0 {
            row(out, "Time per request:", NOT_MEASURED)?;
        } else {
            row(out, "Time per request:", format_args!("{ms:.3} [ms] ({meaning})"))?;
        }
    }
    let received = per_second(report.bytes.received, report) / 1024.0;
    row(out, "Transfer rate:", format_args!("{received:.2} [Kbytes/sec] received"))
}

/// The parts of a request's time. A connection that is already open takes no connect time.
fn write_times(out: &mut String, report: &Report, latency_ns: &Histogram<u64>) -> fmt::Result {
    writeln!(out, "\nConnection Times (ms)")?;
    writeln!(out, "{:14}{:>9} {:>9} {:>8} {:>9} {:>9}", "", "min", "mean", "[+/-sd]", "median", "max")?;
    let times = report.times.as_ref();
    for (part, times_ns) in [
        ("Connect:", times.map(|times| &*times.connect_ns)),
        ("Processing:", times.map(|times| &*times.processing_ns)),
        ("Waiting:", times.map(|times| &*times.wait_ns)),
        ("Total:", Some(latency_ns)),
    ] {
        match times_ns.filter(|times_ns| !times_ns.is_empty()) {
            None => writeln!(out, "{part:<14}{NOT_MEASURED:>9}")?,
            Some(times_ns) => write_time(out, part, times_ns)?,
        }
    }
    Ok(())
}

fn write_time(out: &mut String, part: &str, times_ns: &Histogram<u64>) -> fmt::Result {
    let (min, max) = (ms(times_ns.min()), ms(times_ns.max()));
    let mean = times_ns.mean() / 1e6;
    let stdev = sample_stdev(latencies(times_ns), times_ns.mean()) / 1e6;
    let median = ms(times_ns.value_at_quantile(0.5));
    writeln!(out, "{part:<14}{min:>9.3} {mean:>9.3} {stdev:>8.3} {median:>9.3} {max:>9.3}")
}

fn write_percentiles(out: &mut String, latency_ns: &Histogram<u64>) -> fmt::Result {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percent in [50, 66, 75, 80, 90, 95, 98, 99] {
        let served_ms = ms(latency_ns.value_at_quantile(f64::from(percent) / 100.0));
        writeln!(out, " {percent:>3}%  {served_ms:>9.3}")?;
    }
    writeln!(out, " {:>3}%  {:>9.3} (longest request)", 100, ms(latency_ns.max()))
}

/// The length of every reply, if lengths were compared and all were equal.
fn document_length(ab: &Ab, report: &Report, body_bytes: Option<u64>) -> String {
    let correct = report.requests.correct;
    match body_bytes {
        _ if ab.any_length => "Variable".to_owned(),
        Some(bytes) if correct > 0 && report.requests.wrong == 0 => format!("{} bytes", bytes / correct),
        _ => NOT_MEASURED.to_owned(),
    }
}

fn row(out: &mut String, label: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(out, "{label:<24}{value}")
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// As its manual says: "this implies a -n 50000 internally".
const REQUESTS_WITH_TIME_LIMIT: u64 = 50_000;
