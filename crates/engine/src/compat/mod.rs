//! Compatibility: takes another load generator's command line, and prints its report.
//!
//! A line such as `ab -n 1000 -c 10 -k URL` is translated into our own flags, which are then parsed as usual, so each
//! flag has one meaning. Only the report has the other tool's labels, so that scripts that grep for them work. Its
//! numbers are ours, computed with the other tool's formulas. A figure that we do not measure says so.
//!
//! Each tool is a file with its flags, their translation and its report. Tools share `flags.rs` and `figures.rs`.

mod ab;
mod echo_client;
mod figures;
mod flags;
mod hey;
mod oha;
mod wrk;

use std::path::Path;

use contract::Report;
use hdrhistogram::Histogram;

use crate::failure::Failure;

/// Another tool's parsed command line.
#[derive(Debug)]
pub(crate) struct Compat {
    /// The same run in the flags of `iolab load`, without the command's name.
    pub(crate) argv: Vec<String>,
    pub(crate) tool: Tool,
}

/// Which tool's report to print, with the flags that affect it.
#[derive(Debug)]
pub(crate) enum Tool {
    Ab(ab::Ab),
    Hey,
    Wrk(wrk::Wrk),
    Oha(oha::Oha),
    EchoClient,
}

/// Parses another tool's command line, quoted as in a shell.
///
/// # Errors
/// `bad_flag`: an unknown tool or flag, or one that has no equivalent here.
pub(crate) fn parse(line: &str) -> Result<Compat, Failure> {
    let words = shlex::split(line)
        .ok_or_else(|| Failure::request("bad_flag", format!("a quote is not closed in --like `{line}`")))?;
    let (program, words) = words.split_first().ok_or_else(|| {
        Failure::request("bad_flag", "--like is empty: write it as in --like \"ab -n 1000 URL\"")
    })?;
    // A script may name the program by its path.
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (argv, tool) = match name {
        ab::NAME => ab::parse(words).map(|(argv, flags)| (argv, Tool::Ab(flags))),
        hey::NAME => hey::parse(words).map(|argv| (argv, Tool::Hey)),
        wrk::NAME => wrk::parse(words).map(|(argv, flags)| (argv, Tool::Wrk(flags))),
        oha::NAME => oha::parse(words).map(|(argv, flags)| (argv, Tool::Oha(flags))),
        echo_client::NAME => echo_client::parse(words).map(|argv| (argv, Tool::EchoClient)),
        _ => Err(Failure::unknown("bad_flag", "tool of --like", name, NAMES.iter().copied())),
    }?;
    Ok(Compat { argv, tool })
}

impl Compat {
    /// The report in the tool's layout, without a final line feed.
    pub(crate) fn text(&self, report: &Report, latency_ns: &Histogram<u64>) -> String {
        let mut text = String::new();
        let out = &mut text;
        match &self.tool {
            Tool::Ab(flags) => ab::write_report(out, flags, report, latency_ns),
            Tool::Hey => hey::write_report(out, report, latency_ns),
            Tool::Wrk(flags) => wrk::write_report(out, flags, report, latency_ns),
            Tool::Oha(flags) => oha::write_report(out, flags, report, latency_ns),
            Tool::EchoClient => echo_client::write_report(out, report),
        }
        .expect("writing to a string cannot fail");
        text.trim_end().to_owned()
    }
}

const NAMES: [&str; 5] = [ab::NAME, hey::NAME, wrk::NAME, oha::NAME, echo_client::NAME];

#[cfg(test)]
mod tests;
