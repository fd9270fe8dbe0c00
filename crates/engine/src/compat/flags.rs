//! Shared by all tools: parsing their flags and translating them into ours.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Parser};
use contract::limits::DURATION_MS;

use crate::failure::Failure;
use crate::spec::url::{Scheme, Url};
use crate::units::{duration_text, parse_duration};

/// Flags of a tool besides those with fields, each written as in the tool's own help: `-q`, or `-v LEVEL` if it takes a
/// value.
pub(super) struct Others {
    /// Accepted: they do not affect the measurement.
    pub(super) idle: &'static [&'static str],
    /// Refused, with the reason: they would affect it, and we cannot do the same.
    pub(super) refused: &'static [(&'static str, &'static str)],
}

/// Parses the flags of a tool.
///
/// # Errors
/// `bad_flag`: one line with the tool and the flag.
pub(super) fn read<F: Parser>(tool: &str, words: &[String], others: &Others) -> Result<F, Failure> {
    read_matches(tool, words, others).map(|(flags, _)| flags)
}

/// The same for a tool where the order of flags matters.
///
/// # Errors
/// As [`read`].
pub(super) fn read_matches<F: Parser>(
    tool: &str,
    words: &[String],
    others: &Others,
) -> Result<(F, ArgMatches), Failure> {
    let refused = others.refused.iter().map(|(flag, _)| *flag);
    let command = F::command()
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        // These tools use the last value of a repeated flag.
        .args_override_self(true)
        .args(others.idle.iter().copied().chain(refused).map(other));
    let wrong = |error: clap::Error| Failure::request("bad_flag", format!("{tool}: {}", one_line(&error)));
    let matches = command.try_get_matches_from(words).map_err(wrong)?;
    let given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    if let Some((flag, why)) = others.refused.iter().find(|(flag, _)| given(flag)) {
        let name = flag.split(' ').next().unwrap_or(flag);
        return Err(Failure::request("bad_flag", format!("{tool}: {name} cannot be followed here: {why}")));
    }
    let flags = F::from_arg_matches(&matches).map_err(wrong)?;
    Ok((flags, matches))
}

/// Whether a flag was given, and its last occurrence comes after another flag's.
pub(super) fn comes_after(flag: &str, other: &str, matches: &ArgMatches) -> bool {
    let last = |flag: &str| {
        let is_given = matches.value_source(flag) == Some(ValueSource::CommandLine);
        matches.indices_of(flag).filter(|_| is_given).and_then(Iterator::last)
    };
    last(flag) > last(other)
}

/// A flag without a field, by its text in the tool's help, which is also its id.
fn other(text: &'static str) -> Arg {
    let (flag, takes_value) = text.split_once(' ').map_or((text, false), |(flag, _)| (flag, true));
    let arg = Arg::new(text).action(if takes_value { ArgAction::Append } else { ArgAction::Count });
    let arg = if takes_value { arg.allow_hyphen_values(true) } else { arg };
    // Some programs write their long flags with one dash.
    let name = flag.trim_start_matches('-');
    if name.len() > 1 { arg.long(name) } else { arg.short(name.chars().next()) }
}

/// The error without the usage and the hints that follow it.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_owned()
}

/// Flags about the request that hey and oha share.
#[derive(Args, Debug)]
pub(super) struct RequestFlags {
    #[arg(short, long)]
    method: Option<String>,

    #[arg(short = 'H')]
    headers: Vec<String>,

    #[arg(short = 'A')]
    accept: Option<String>,

    #[arg(short = 'd', allow_hyphen_values = true, conflicts_with = "body_file")]
    body: Option<String>,

    #[arg(short = 'D')]
    body_file: Option<String>,

    #[arg(short = 'T')]
    content_type: Option<String>,

    /// As `user:password`.
    #[arg(short = 'a')]
    credentials: Option<String>,

    #[arg(long)]
    host: Option<String>,
}

impl RequestFlags {
    /// Translates them into our flags. A body without a type gets the tool's `natural` type, if it has one.
    pub(super) fn say(&self, natural: Option<&str>, argv: &mut Argv) {
        let has_body = self.body.is_some() || self.body_file.is_some();
        if self.method.is_some() || has_body {
            argv.flag("-m", self.method.as_deref().unwrap_or("GET"));
        }
        if let Some(body) = &self.body {
            argv.flag("-d", body);
        }
        if let Some(file) = &self.body_file {
            argv.flag("-D", file);
        }
        let natural = natural.filter(|_| has_body);
        if let Some(content_type) = self.content_type.as_deref().or(natural) {
            argv.header("Content-Type", content_type);
        }
        for (name, value) in [("Host", &self.host), ("Accept", &self.accept)] {
            if let Some(value) = value {
                argv.header(name, value);
            }
        }
        argv.credentials(self.credentials.as_deref());
        argv.headers(&self.headers);
    }
}

/// Our own flags for the same run, as they are built up.
pub(super) struct Argv(Vec<String>);

fn in_tls(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.tls)
}

impl Argv {
    /// A run against this address.
    pub(super) fn to(url: &str) -> Self {
        Self(vec![url.to_owned()])
    }

    /// The same for a tool that accepts any certificate.
    pub(super) fn to_anyone(url: &str) -> Self {
        let mut argv = Self::to(url);
        if in_tls(url) {
            argv.switch("--insecure");
        }
        argv
    }

    /// Adds a flag without a value, once.
    pub(super) fn switch(&mut self, flag: &str) {
        if self.0.iter().all(|word| word != flag) {
            self.0.push(flag.to_owned());
        }
    }

    /// Opens each connection with its first request, and measures the parts of each request's time. Not with TLS, where
    /// the generator can do neither.
    pub(super) fn opens_as_needed(&mut self, url: &str) {
        if !in_tls(url) {
            self.flag("--open", "as_needed");
            self.switch("--details");
        }
    }

    /// Adds a flag and its value.
    pub(super) fn flag(&mut self, flag: &str, value: impl ToString) {
        let value = value.to_string();
        if value.starts_with('-') {
            // As a separate word it would be parsed as another flag.
            self.0.push(format!("{flag}={value}"));
        } else {
            self.0.extend([flag.to_owned(), value]);
        }
    }

    /// Adds a header.
    pub(super) fn header(&mut self, name: &str, value: &str) {
        self.flag("-H", format!("{name}: {value}"));
    }

    /// Adds complete headers, as `Name: value`. A Connection header becomes one of our flags.
    pub(super) fn headers(&mut self, headers: &[String]) {
        for header in headers {
            match connection(header).as_deref() {
                Some("close") => self.switch("--no-keepalive"),
                Some("keep-alive") => {}
                _ => self.flag("-H", header),
            }
        }
    }

    /// Adds the header of basic authentication, if there is a `user:password`.
    pub(super) fn credentials(&mut self, credentials: Option<&str>) {
        if let Some(credentials) = credentials {
            self.header("Authorization", &format!("Basic {}", STANDARD.encode(credentials)));
        }
    }

    /// Adds a rate. These tools send at even intervals.
    pub(super) fn rate(&mut self, per_s: f64) {
        self.flag("--rate", per_s);
        self.flag("--arrivals", "even");
    }

    /// Adds the timeout of a reply; zero means none.
    pub(super) fn timeout(&mut self, timeout: Duration) {
        let longest = Duration::from_millis(*DURATION_MS.end());
        self.flag("--timeout", duration_text(if timeout.is_zero() { longest } else { timeout }));
    }

    /// Adds the length of the window. None of these tools warms up, so the window begins with the run.
    pub(super) fn window(&mut self, duration: Duration) {
        self.flag("-z", duration_text(duration));
        self.flag("--warmup", "0s");
    }

    /// Adds threads for a tool with a number of processors. Each of our threads needs a connection.
    pub(super) fn threads(&mut self, threads: Option<usize>, connections: usize) {
        if let Some(threads) = threads {
            self.flag("-t", threads.min(connections));
        }
    }

    pub(super) fn finish(self) -> Vec<String> {
        self.0
    }
}

/// The value of a Connection header in lower case; None for other headers.
fn connection(header: &str) -> Option<String> {
    let (name, value) = header.split_once(':')?;
    name.trim().eq_ignore_ascii_case("connection").then(|| value.trim().to_ascii_lowercase())
}

/// Refuses an address that is invalid for an HTTP-only tool.
///
/// # Errors
/// `bad_flag`: it cannot be parsed, or belongs to another protocol.
pub(super) fn check_http(tool: &str, text: &str) -> Result<(), Failure> {
    let wrong = |message: String| Failure::request("bad_flag", format!("{tool}: {message}"));
    let url = Url::parse(text).map_err(wrong)?;
    if url.scheme == Scheme::Tcp {
        return Err(wrong(format!("`{text}` is not HTTP: write http://{}/", url.authority)));
    }
    Ok(())
}

/// Parses a duration of one or several parts, as `90`, `1m30s` or `1m 30s`. A bare number is in seconds.
///
/// # Errors
/// One line that says how to write a duration.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let mut left = text.trim();
    let mut sum = Duration::ZERO;
    loop {
        let unit_at = left.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(left.len());
        let after =
            left[unit_at..].find(|c: char| !c.is_ascii_alphabetic()).map_or(left.len(), |at| unit_at + at);
        let (part, rest) = left.split_at(after);
        let part = if unit_at == part.len() { format!("{}s", part.trim_end()) } else { part.to_owned() };
        sum = sum.checked_add(parse_duration(&part)?).ok_or_else(|| format!("`{text}` is too long"))?;
        left = rest.trim_start();
        if left.is_empty() {
            return Ok(sum);
        }
    }
}

/// Parses a count with an optional metric suffix: `1000`, `10k`, `1M`.
///
/// # Errors
/// One line that says how to write a count.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a count; write it as in 1000, 10k or 1M");
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let scale = match suffix {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(wrong)
}

/// As [`count`], for a number that must fit into `usize`, such as connections.
///
/// # Errors
/// One line that says how to write a count.
pub(super) fn size(text: &str) -> Result<usize, String> {
    usize::try_from(count(text)?).map_err(|_| format!("`{text}` is too large"))
}
