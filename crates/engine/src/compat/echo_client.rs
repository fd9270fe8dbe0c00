//! The threaded echo client of the note that compares io_uring with epoll. Each connection sends its part of the
//! messages one at a time and compares the replies.

use std::fmt::{self, Write};

use clap::Parser;
use contract::Report;

use super::figures::{ended, or_not_measured};
use super::flags::{Argv, Others, read};
use crate::failure::Failure;

pub(super) const NAME: &str = "echo-client";

#[derive(Debug, Parser)]
struct EchoClient {
    /// An address or a name.
    #[arg(short = 's', required = true)]
    server: String,

    #[arg(short = 'p', required = true)]
    port: u16,

    /// Threads, each with a connection.
    #[arg(short = 't', required = true)]
    threads: usize,

    /// Messages of all threads together.
    #[arg(short = 'n', required = true)]
    messages: u64,
}

const OTHERS: Others = Others { idle: &[], refused: &[] };

/// The same run in our own flags.
pub(super) fn parse(words: &[String]) -> Result<Vec<String>, Failure> {
    let client: EchoClient = read(NAME, words, &OTHERS)?;
    let EchoClient { server, port, threads, messages } = &client;
    let brackets = if server.contains(':') { ("[", "]") } else { ("", "") };
    let mut argv = Argv::to(&format!("tcp://{}{server}{}:{port}", brackets.0, brackets.1));
    argv.flag("-c", threads);
    argv.flag("--open", "as_needed");
    argv.flag("-n", messages);
    argv.flag("--message-bytes", MESSAGE_BYTES);
    argv.flag("--driver", "thread");
    // The client compares what one receive returns.
    argv.switch("--one-receive");
    Ok(argv.finish())
}

/// The four numbers of the client. Its rate uses whole milliseconds, and failed requests count in it.
pub(super) fn write_report(out: &mut String, report: &Report) -> fmt::Result {
    let used_ms = used_ns(report) / 1_000_000;
    let failed = report.requests.wrong + report.requests.failed;
    let qps = or_not_measured((ended(report) * 1000).checked_div(used_ms));
    let success = report.requests.correct;
    writeln!(out, "success: {success}, failed: {failed}, time_used: {used_ms}, qps: {qps}")
}

/// The client's time: from its first connect to the end of its last request. That may be a failure after the last
/// reply.
fn used_ns(report: &Report) -> u64 {
    let first_connect_ns = report
        .last_reply_ns
        .zip(report.elapsed_ns)
        .map(|(last_reply_ns, elapsed_ns)| last_reply_ns.saturating_sub(elapsed_ns));
    // Without a reply: connections are opened as needed, so the first one starts with the first request.
    report.end_ns.saturating_sub(first_connect_ns.unwrap_or(report.begin_ns))
}

/// The client sends a name of 13 letters five times.
const MESSAGE_BYTES: usize = 65;
