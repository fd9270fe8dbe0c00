//! The command line. Flags become the same specs that a program sends as JSON.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use contract::{
    Address, CONNECTIONS_MAX_DEFAULT, Echo, Framing, Http, Line, ReplyStatus, Rpc, ServeSpec, ServeWord,
    Version, WorkerKind, Workload,
};

use crate::failure::{Failure, Fault};
use crate::output;
use crate::units::parse_duration;
use crate::wrap::wrapped;

pub(crate) use self::load::LoadFlags;
pub(crate) use self::path::PathFlags;

mod load;
mod path;
mod tls;

/// Servers for every I/O model, and a load generator that checks every reply.
#[derive(Debug, Parser)]
#[command(name = "iolab-engine", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one server with one I/O model.
    Serve(ServeFlags),
    /// Load a server, verify every reply, and measure latencies.
    Load(Box<LoadFlags>),
    /// Emulate a network with delay, rate and loss on this machine.
    Path(PathFlags),
    /// Merge the reports of several generators that ran at the same time.
    Merge(MergeFlags),
    /// Print the models, options and kernel features available on this machine, as JSON.
    Describe(DescribeFlags),
    /// Print the core-to-core latency of two processors, in nanoseconds: a cache line there and back.
    Distance(DistanceFlags),
}

#[derive(Args, Debug)]
pub(crate) struct MergeFlags {
    /// Files of one or several reports, as .json or .ndjson; - is standard input.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Print the report as one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DescribeFlags {
    /// Print the JSON Schemas of all documents of the contract instead.
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,

    /// Print only this model.
    #[arg(long, short)]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) options: OptionFlags,
}

#[derive(Args, Debug)]
pub(crate) struct DistanceFlags {
    /// Number of a processor.
    pub(crate) one: usize,

    /// Number of another processor.
    pub(crate) other: usize,
}

#[derive(Args, Debug)]
pub(crate) struct OptionFlags {
    /// An option of the model; may be given several times.
    #[arg(long = "option", short, value_name = "NAME=VALUE", value_parser = parse_option, requires = "model")]
    options: Vec<(String, String)>,
}

#[derive(Args, Debug)]
pub(crate) struct ServeFlags {
    /// Read one line of JSON from standard input instead of flags, and end when it ends.
    #[arg(long, value_name = "-", value_parser = ["-"], exclusive = true)]
    pub(crate) spec: Option<String>,

    /// How the server waits and spreads connections; `iolab list models` shows the models and their options
    /// (as JSON: `iolab-engine describe`).
    #[arg(long, short, required_unless_present = "spec")]
    model: Option<String>,

    #[command(flatten)]
    options: OptionFlags,

    /// Protocol that the server speaks.
    #[arg(long, value_enum, default_value_t = Protocol::Http)]
    protocol: Protocol,

    /// Length of the body of GET / (http) [default: 1]
    #[arg(long, value_name = "N")]
    reply_bytes: Option<usize>,

    /// Status of GET /: 200, or 204 without a body (http) [default: 200]
    #[arg(long, value_name = "N", value_parser = parse_reply_status)]
    reply_status: Option<ReplyStatus>,

    #[command(flatten)]
    messages: MessageFlags,

    /// Additional computing for each call, as in 50us or 1ms (rpc) [default: none]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    work: Option<Duration>,

    /// Where to listen: 127.0.0.1:8080, [::1]:8080 or unix:/path; may be given several times. Port 0 lets the kernel
    /// choose.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: Vec<String>,

    /// Event loops or accepting threads, each with its own listening sockets.
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,

    /// Run each worker as a thread or as a process.
    #[arg(long, value_enum, default_value_t = WorkerKind::Thread)]
    worker_kind: WorkerKind,

    /// Processors to run on, as in 0,2-3 [default: all]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    cpus: Option<Cpus>,

    /// Maximum number of connections per worker; further ones are closed.
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX_DEFAULT)]
    connections_max: usize,
}

/// Flags of the protocols other than HTTP, for both sides.
#[derive(Args, Debug)]
struct MessageFlags {
    /// How the end of a message is recognised (echo) [default: raw]
    #[arg(long, value_enum)]
    framing: Option<Framing>,

    /// Length of a message (echo, without its frame; line, with its line feed) [default: 64; 12]
    #[arg(long, value_name = "N")]
    message_bytes: Option<usize>,

    /// Steps of computing for each call (rpc) [default: 1000]
    #[arg(long, value_name = "N")]
    target: Option<u32>,

    /// Length of the text of a call (rpc) [default: 11]
    #[arg(long, value_name = "N")]
    text_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Protocol {
    Http,
    Echo,
    Line,
    Rpc,
}

/// A list of processors. Clap treats a bare `Vec` as a flag that may be repeated.
#[derive(Clone, Debug, PartialEq)]
struct Cpus(Vec<usize>);

/// Parses the command line.
///
/// # Errors
/// The exit code, after the help or one line about the error has been printed.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        check_self_test(&matches)?;
        Cli::from_arg_matches(&matches)
    });
    parsed.map(|cli| cli.command).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::line(wrapped(&error.render().to_string()).trim_end());
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::say(wrapped(&error.render().to_string()).trim_end());
            ExitCode::from(Fault::Request as u8)
        }
        _ => {
            output::say(&one_line(&error));
            ExitCode::from(Fault::Request as u8)
        }
    })
}

/// Refuses another flag beside `--self-test`, and names it: clap would not.
fn check_self_test(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(given) = matches.subcommand_matches("load").filter(|given| given.get_flag("self_test")) else {
        return Ok(());
    };
    let command = Cli::command();
    let load = command.find_subcommand("load").expect("it is one of ours");
    let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    // Hidden flags come from the lab, so users cannot leave them out.
    let beside = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        id != "self_test" && !arg.is_hide_set() && is_given(id)
    };
    match load.get_arguments().find(beside) {
        None => Ok(()),
        Some(arg) => {
            let name = arg.get_long().map_or_else(|| "the address".to_owned(), |long| format!("--{long}"));
            let message = format!("--self-test measures the generator alone: leave out {name}");
            Err(Cli::command().error(ErrorKind::ArgumentConflict, message))
        }
    }
}

/// Parses the flags of `load` from another tool's translated command line, and our own flags beside it.
///
/// # Errors
/// `bad_flag`, in one line.
pub(crate) fn parse_load(words: &[String], own: impl Iterator<Item = String>) -> Result<LoadFlags, Failure> {
    let line = ["iolab-engine", "load"].into_iter().map(str::to_owned);
    let line = line.chain(words.iter().cloned()).chain(beside_like(own));
    let parsed = Cli::command().mut_subcommand("load", last_wins).try_get_matches_from(line);
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(Cli { command: Command::Load(flags) }) => Ok(*flags),
        Ok(_) => unreachable!("the command is load"),
        Err(error) => Err(Failure::request("bad_flag", one_line(&error).trim_start_matches("error: "))),
    }
}

/// Lets a later flag override an earlier one, or one that contradicts it: our own flags come after the translated ones
/// and win.
fn last_wins(load: clap::Command) -> clap::Command {
    load.args_override_self(true)
        .mut_arg("body", |body| body.overrides_with("body_file"))
        .mut_arg("cacert", |cacert| cacert.overrides_with("insecure"))
}

/// The words of a command line without `--like` and its value.
fn beside_like(words: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut is_value = false;
    words.filter(move |word| {
        let is_like = word == "--like";
        let is_left_out = is_like || is_value || word.starts_with("--like=");
        is_value = is_like;
        !is_left_out
    })
}

impl ServeFlags {
    /// The spec that a program would have sent.
    ///
    /// # Errors
    /// A flag of another protocol, an option given twice, an invalid address.
    pub(crate) fn to_spec(&self) -> Result<ServeSpec, Failure> {
        let default = Http::default();
        let reply_status = self.reply_status.unwrap_or_default();
        let natural_bytes = if reply_status == ReplyStatus::NoContent { 0 } else { default.reply_bytes };
        let reply_bytes = self.reply_bytes.unwrap_or(natural_bytes);
        let http = Http { reply_bytes, reply_status, ..default };
        let mut workload = self.messages.to_workload(self.protocol, http)?;
        let others = [
            ("--reply-bytes", self.reply_bytes.is_some(), Protocol::Http),
            ("--reply-status", self.reply_status.is_some(), Protocol::Http),
            ("--work", self.work.is_some(), Protocol::Rpc),
        ];
        refuse_others(&others, self.protocol)?;
        if let (Workload::Rpc(rpc), Some(work)) = (&mut workload, self.work) {
            rpc.work_ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        }
        Ok(ServeSpec {
            schema: Version,
            role: ServeWord::Is,
            model: self.model.clone().unwrap_or_default(),
            options: self.options.to_map()?,
            workload,
            listen: self.listen.iter().map(|text| listen_address(text)).collect::<Result<_, _>>()?,
            workers: self.workers,
            worker_kind: self.worker_kind,
            cpus: list(&self.cpus),
            netns: None,
            connections_max: self.connections_max,
            count_calls: false,
        })
    }
}

impl MessageFlags {
    /// The workload of a protocol: `http`, or the message described by these flags.
    fn to_workload(&self, protocol: Protocol, http: Http) -> Result<Workload, Failure> {
        let lines = if protocol == Protocol::Line { Protocol::Line } else { Protocol::Echo };
        let others = [
            ("--framing", self.framing.is_some(), Protocol::Echo),
            ("--message-bytes", self.message_bytes.is_some(), lines),
            ("--target", self.target.is_some(), Protocol::Rpc),
            ("--text-bytes", self.text_bytes.is_some(), Protocol::Rpc),
        ];
        refuse_others(&others, protocol)?;
        let (echo, line, rpc) = (Echo::default(), Line::default(), Rpc::default());
        Ok(match protocol {
            Protocol::Http => Workload::Http(http),
            Protocol::Echo => Workload::Echo(Echo {
                framing: self.framing.unwrap_or(echo.framing),
                message_bytes: self.message_bytes.unwrap_or(echo.message_bytes),
            }),
            Protocol::Line => {
                Workload::Line(Line { message_bytes: self.message_bytes.unwrap_or(line.message_bytes) })
            }
            Protocol::Rpc => Workload::Rpc(Rpc {
                target: self.target.unwrap_or(rpc.target),
                text_bytes: self.text_bytes.unwrap_or(rpc.text_bytes),
                ..rpc
            }),
        })
    }
}

impl OptionFlags {
    /// The options by their names.
    ///
    /// # Errors
    /// If one is given twice.
    pub(crate) fn to_map(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut options = BTreeMap::new();
        for (name, value) in &self.options {
            if let Some(other) = options.insert(name.clone(), value.clone()) {
                let message = format!("option {name} is given twice, as {other} and as {value}: keep one");
                return Err(Failure::request("bad_flag", message));
            }
        }
        Ok(options)
    }
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Echo => "echo",
            Self::Line => "line",
            Self::Rpc => "rpc",
        }
    }
}

/// Refuses flags of another protocol: a flag that is ignored would be a setting that is not measured.
fn refuse_others(flags: &[(&str, bool, Protocol)], protocol: Protocol) -> Result<(), Failure> {
    match flags.iter().find(|(_, given, of)| *given && *of != protocol) {
        None => Ok(()),
        Some((flag, ..)) => {
            let name = protocol.name();
            let message = format!("{flag} has no effect with --protocol {name}: leave it out");
            Err(Failure::request("bad_flag", message))
        }
    }
}

/// Parses an address, or resolves a name.
fn listen_address(text: &str) -> Result<Address, Failure> {
    text.parse().or_else(|message| {
        let resolved = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        let failure = || Failure::request("bad_flag", format!("cannot listen: {message}"));
        resolved.map(|address| Address(address.into())).ok_or_else(failure)
    })
}

fn list(cpus: &Option<Cpus>) -> Vec<usize> {
    cpus.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default()
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not NAME=VALUE, as in recv=oneshot")),
    }
}

fn parse_reply_status(text: &str) -> Result<ReplyStatus, String> {
    let status: u16 = text.parse().map_err(|_| format!("`{text}` is not a status; it can be 200 or 204"))?;
    ReplyStatus::try_from(status)
}

fn parse_cpus(text: &str) -> Result<Cpus, String> {
    let wrong = || format!("`{text}` is not a list of processors; write it as in 0,2-3");
    let number = |text: &str| text.parse::<u16>().map(usize::from).map_err(|_| wrong());
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(Cpus(cpus))
}

/// The error and its hint in one line. Clap uses several, and adds the usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    // Omit clap's tip to pass the flag as a value: the user misspelt a flag.
    let is_said = |line: &&str| {
        !(line.is_empty() || line.starts_with("For more information") || line.starts_with("tip: to pass '"))
    };
    let parts: Vec<&str> = lines.filter(is_said).collect();
    let hint = match error.kind() {
        ErrorKind::MissingRequiredArgument => "; --help shows how",
        _ => "",
    };
    format!("{}{hint}", parts.join(" "))
}

#[cfg(test)]
mod tests;
