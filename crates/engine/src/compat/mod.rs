//! Familiar hands: the command line of another load generator in, the fields of its report out.
//!
//! A line such as `ab -n 1000 -c 10 -k URL` is translated into our own flags and then read as if it had been typed so:
//! there is one meaning of a flag, not two. Only the report has the other tool's labels, so that a script that greps
//! them finds them; its numbers are ours, by the other tool's formulas. A figure we do not take says so instead.
//!
//! A tool is a file: its flags, what they become, and its report. `flags.rs` and `figures.rs` are what tools share.

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

/// Another tool's command line, understood.
#[derive(Debug)]
pub(crate) struct Compat {
    /// The same run in the flags of `iolab load`, without the name of the command.
    pub(crate) argv: Vec<String>,
    pub(crate) tool: Tool,
}

/// Whose report it is, with the flags that show in it.
#[derive(Debug)]
pub(crate) enum Tool {
    Ab(ab::Ab),
    Hey,
    Wrk(wrk::Wrk),
    Oha(oha::Oha),
    EchoClient,
}

/// Reads another tool's command line, quoted as in a shell.
///
/// # Errors
/// `bad_flag`: a tool or a flag that is not known, or one that cannot be followed here.
pub(crate) fn parse(line: &str) -> Result<Compat, Failure> {
    let words = shlex::split(line)
        .ok_or_else(|| Failure::request("bad_flag", format!("a quote is not closed in --like `{line}`")))?;
    let (program, words) = words.split_first().ok_or_else(|| {
        Failure::request("bad_flag", "--like is empty: write it as in --like \"ab -n 1000 URL\"")
    })?;
    // A line from a script may name the program by its path.
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
    /// The report as the tool lays it out, without a final line feed.
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
