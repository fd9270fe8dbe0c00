//! The flags of `load`.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, Args};
use contract::{
    Arrivals, Driver, Http, INTERVAL_MS_DEFAULT, LoadSpec, LoadWord, Opening, Pace, SEED_DEFAULT,
    Verification, Verify, Version, Workload,
};

use super::tls::TlsFlags;
use super::{Cpus, MessageFlags, Protocol, list, milliseconds, parse_cpus, refuse_others};
use crate::export::Target;
use crate::failure::Failure;
use crate::spec::check::{self, Names};
use crate::spec::rate::{self, Rate};
use crate::spec::url::{self, Scheme, Url};
use crate::units::{parse_duration, parse_milliseconds};

/// The headings of the help.
const LOAD: &str = "Load";
const CONNECTIONS: &str = "Connections";
const REQUESTS: &str = "Requests";
const GENERATOR: &str = "Generator";
const OUTPUT: &str = "Output";

#[derive(Args, Debug)]
#[command(args = flags_of_other_tools())]
pub(crate) struct LoadFlags {
    /// Read one line of JSON from standard input instead of flags, and end when it ends.
    #[arg(long, value_name = "-", value_parser = ["-"], exclusive = true)]
    pub(crate) spec: Option<String>,

    /// Address of the server: http://host:port/path, tcp://host:port for other protocols, https:// or tls:// for the
    /// same over TLS, or unix:/path.
    #[arg(required_unless_present_any = ["spec", "like", "self_test"])]
    url: Option<String>,

    /// Run an ab, hey, wrk, oha or echo-client command line and print that tool's report; other flags override it.
    #[arg(long, value_name = "LINE", conflicts_with = "url", help_heading = LOAD)]
    pub(crate) like: Option<String>,

    /// Connections, each with one request in flight.
    #[arg(long, short, value_name = "N", default_value_t = 50, help_heading = CONNECTIONS)]
    connections: usize,

    /// Send this many requests per second, whether or not replies arrive (open loop): 2000, 10k, 100-5000:30s (a
    /// ramp) or 100:10s,200:10s (steps). Latency then counts from the due time [default: a closed loop]
    #[arg(
        long, short = 'r', visible_alias = "qps", value_name = "RATE", value_parser = rate::parse,
        help_heading = LOAD
    )]
    rate: Option<Rate>,

    /// Random or evenly spaced send times at a rate [default: poisson]
    #[arg(long, value_enum, requires = "rate", help_heading = LOAD)]
    arrivals: Option<Arrivals>,

    /// Seed of the Poisson arrivals [default: 1]
    #[arg(long, value_name = "N", requires = "rate", help_heading = LOAD)]
    seed: Option<u64>,

    /// Connections that are busy at the same time, in turns [default: all]
    #[arg(long, value_name = "N", help_heading = CONNECTIONS)]
    active: Option<usize>,

    /// Additional connections that are opened and never used.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = CONNECTIONS)]
    idle: usize,

    /// Open connections before the run, or each when its first request is due, as ab does. With --requests, the run
    /// then ends with the last reply, even if other connections still wait.
    #[arg(long, value_enum, default_value_t = Opening::Before, help_heading = CONNECTIONS)]
    open: Opening,

    /// Open at most this many connections per second [default: as fast as possible]
    #[arg(long, value_name = "RATE", help_heading = CONNECTIONS)]
    connect_rate: Option<f64>,

    /// Extra low-rate connections on a separate thread: the latency that other clients see.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = GENERATOR)]
    probes: usize,

    /// Requests outstanding on a connection at the same time.
    #[arg(long, short = 'p', value_name = "N", default_value_t = 1, help_heading = CONNECTIONS)]
    pipeline: usize,

    /// Close a connection after this many requests, and reopen it [default: never]
    #[arg(long, value_name = "N", help_heading = CONNECTIONS)]
    requests_per_connection: Option<u64>,

    /// Local addresses of the connections, in turn, as in 127.0.0.1,127.0.0.2 [default: the kernel's choice]
    #[arg(long = "source", value_name = "LIST", value_delimiter = ',', help_heading = CONNECTIONS)]
    sources: Vec<IpAddr>,

    /// Busy-wait this long before a send is due, or after a reply in a closed loop, as in 50us.
    #[arg(
        long, value_name = "DURATION", value_parser = parse_duration, default_value = "0us",
        help_heading = GENERATOR
    )]
    spin: Duration,

    /// Threads of the generator.
    #[arg(long, short, value_name = "N", default_value_t = 1, help_heading = GENERATOR)]
    threads: usize,

    /// Processes of the generator; more are started if one process cannot have enough connections.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = GENERATOR)]
    processes: usize,

    /// How long to measure, as in 500ms, 10s, 1m; with --requests, at most this long [default: as long as
    /// the stages of a rate, or 10s]
    #[arg(long, short = 'z', value_parser = parse_milliseconds, help_heading = LOAD)]
    duration: Option<Duration>,

    /// Stop after this many requests instead, without warm-up.
    #[arg(long, short = 'n', value_name = "N", help_heading = LOAD)]
    requests: Option<u64>,

    /// Load before the measured window [default: 500ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_milliseconds, help_heading = LOAD)]
    warmup: Option<Duration>,

    /// Timeout of a reply.
    #[arg(
        long, value_name = "DURATION", value_parser = parse_milliseconds, default_value = "10s",
        help_heading = LOAD
    )]
    timeout: Duration,

    /// How the generator waits for replies.
    #[arg(long, value_enum, default_value_t = Driver::Epoll, help_heading = GENERATOR)]
    driver: Driver,

    /// Processors to run on, as in 0,2-3 [default: all]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus, help_heading = GENERATOR)]
    cpus: Option<Cpus>,

    /// Protocol of the requests [default: http for http://, echo for others]
    #[arg(long, value_enum, help_heading = REQUESTS)]
    protocol: Option<Protocol>,

    /// GET, POST or another (http) [default: GET, or POST where there is a body]
    #[arg(long, short = 'm', value_name = "WORD", help_heading = REQUESTS)]
    method: Option<String>,

    /// A header field of each request, as 'Name: value'; may be given several times (http)
    #[arg(
        long = "header", short = 'H', value_name = "FIELD", value_parser = parse_header,
        help_heading = REQUESTS
    )]
    headers: Vec<(String, String)>,

    /// The body of each request (http)
    #[arg(long, short = 'd', value_name = "TEXT", value_parser = parse_body, help_heading = REQUESTS)]
    body: Option<String>,

    /// A file with the body of each request (http)
    #[arg(long, short = 'D', value_name = "PATH", conflicts_with = "body", help_heading = REQUESTS)]
    body_file: Option<PathBuf>,

    /// The status that counts as success (http) [default: any 2xx]
    #[arg(long, value_name = "N", help_heading = REQUESTS)]
    expect_status: Option<u16>,

    /// The body that every reply must have (http) [default: the body of the first reply]
    #[arg(long, value_name = "TEXT", help_heading = REQUESTS)]
    expect_body: Option<String>,

    /// Every reply must repeat the body of the request, as POST /echo of iolab's servers does (http)
    #[arg(long, conflicts_with = "expect_body", help_heading = REQUESTS)]
    expect_echo: bool,

    /// What makes a reply correct (http) [default: bytes]
    #[arg(long, value_enum, help_heading = REQUESTS)]
    verify: Option<Verify>,

    /// Compare only what the first receive returns, as simple clients do: a reply in several pieces is wrong.
    #[arg(long, help_heading = REQUESTS)]
    one_receive: bool,

    /// Also measure the parts of each request's time: connect, write, wait for the reply, read it (driver epoll).
    #[arg(long, help_heading = REQUESTS)]
    details: bool,

    /// Open a connection for each request (http).
    #[arg(long, help_heading = CONNECTIONS)]
    no_keepalive: bool,

    #[command(flatten, next_help_heading = "TLS")]
    tls: TlsFlags,

    #[command(flatten, next_help_heading = "Other protocols than HTTP")]
    messages: MessageFlags,

    /// Measure the generator itself on this machine: clock, timer, highest rate, and how late its sends are.
    #[arg(long, help_heading = GENERATOR)]
    pub(crate) self_test: bool,

    /// Write the run to a file; the ending selects the format: .json, .ndjson, .csv, .hlog or .svg. May be given
    /// several times.
    #[arg(
        long = "write", short = 'o', value_name = "PATH", value_parser = Target::parse,
        help_heading = OUTPUT
    )]
    pub(crate) writes: Vec<Target>,

    /// Time that each row of such a file covers [default: 1s]
    #[arg(
        long, value_name = "DURATION", value_parser = parse_milliseconds, requires = "writes",
        help_heading = OUTPUT
    )]
    slice: Option<Duration>,

    /// Do not show progress.
    #[arg(long, short, help_heading = OUTPUT)]
    pub(crate) quiet: bool,

    /// Emit events, as lines of JSON, on an inherited descriptor.
    #[arg(long, value_name = "N", hide = true)]
    events_fd: Option<u32>,

    /// Print the report as one line of JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,

    /// Exit with code 1 if the run is invalid.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) strict: bool,
}

impl LoadFlags {
    /// The server as the user wrote it, for the summary.
    pub(crate) fn subject(&self) -> &str {
        self.url.as_deref().unwrap_or_default()
    }

    /// The spec that a program would have sent. Names are resolved here, once.
    ///
    /// # Errors
    /// An address that cannot be parsed or resolved, or a flag of another protocol.
    pub(crate) fn to_spec(&self) -> Result<LoadSpec, Failure> {
        let url = Url::parse(self.subject()).map_err(|message| Failure::request("bad_flag", message))?;
        if self.requests.is_some() && self.warmup.is_some_and(|warmup| !warmup.is_zero()) {
            let message = "--warmup needs --duration: with a number of requests (-n), every request counts";
            return Err(Failure::request("bad_flag", message));
        }
        let window = self.window()?;
        // These settings have no field in the spec.
        check::window(self.duration.map(milliseconds), Names::Flags)?;
        check::slice(self.slice.map(milliseconds), Names::Flags)?;
        let workload = self.to_workload(&url)?;
        let longest = window.unwrap_or_default().saturating_add(self.warmup.unwrap_or_default());
        Ok(LoadSpec {
            schema: Version,
            role: LoadWord::Is,
            driver: self.driver,
            workload,
            tls: self.tls.of(&url)?,
            connect: vec![url::resolve(&url)?],
            sources: self.sources.clone(),
            connections: self.connections,
            idle: self.idle,
            open: self.open,
            connect_per_s: self.connect_rate,
            pace: self.pace(),
            active: self.active,
            pipeline: self.pipeline,
            requests_per_connection: self.requests_per_connection,
            probes: self.probes,
            spin_us: u64::try_from(self.spin.as_micros()).unwrap_or(u64::MAX),
            threads: self.threads,
            processes: self.processes,
            place: None,
            cpus: list(&self.cpus),
            netns: None,
            warmup_ms: self.warmup.filter(|_| self.requests.is_none()).map(milliseconds),
            duration_ms: window.filter(|_| self.requests.is_none()).map(milliseconds),
            requests: self.requests,
            timeout_ms: milliseconds(self.timeout),
            details: self.details,
            verify: if self.one_receive { Verification::OneReceive } else { Verification::Whole },
            interval_ms: INTERVAL_MS_DEFAULT.max(milliseconds(longest) / INTERVALS_BY_HAND),
            slice_ms: self.slice_ms(),
            held: false,
        })
    }

    /// Drops the details in another tool's report if this driver or pipeline cannot measure them.
    pub(crate) fn leave_out_impossible_details(&mut self) {
        self.details &= self.driver.has_details() && self.pipeline == 1;
    }

    /// The time limit of a run with a number of requests.
    ///
    /// # Errors
    /// If the time does not fit the rate.
    pub(crate) fn time_limit(&self) -> Result<Option<Duration>, Failure> {
        self.window().map(|window| window.filter(|_| self.requests.is_some()))
    }

    /// How long to measure, or at most. None if only a number of requests ends the run.
    fn window(&self) -> Result<Option<Duration>, Failure> {
        let default = self.requests.is_none().then_some(DURATION_DEFAULT);
        let stages = self.rate.as_ref().and_then(Rate::duration);
        let window = self.duration.or(stages).or(default);
        if let (Some(rate), Some(window)) = (&self.rate, window) {
            rate.check_window(Duration::from_millis(milliseconds(window)))
                .map_err(|message| Failure::request("bad_flag", message))?;
        }
        Ok(window)
    }

    /// The length of the slices, if something shows or stores them.
    fn slice_ms(&self) -> Option<u64> {
        let is_sliced = self.event_pipe().is_some() || self.writes.iter().any(Target::has_slices);
        is_sliced.then(|| milliseconds(self.slice.unwrap_or(SLICE_DEFAULT)))
    }

    /// The descriptor for events, unless the run is quiet.
    pub(crate) fn event_pipe(&self) -> Option<u32> {
        self.events_fd.filter(|_| !self.quiet && !self.json)
    }

    fn pace(&self) -> Pace {
        self.rate.as_ref().map_or(Pace::Closed, |rate| Pace::Open {
            arrivals: self.arrivals.unwrap_or_default(),
            seed: self.seed.unwrap_or(SEED_DEFAULT),
            stages: rate.0.clone(),
        })
    }

    fn to_workload(&self, url: &Url) -> Result<Workload, Failure> {
        let natural = if url.scheme == Scheme::Http { Protocol::Http } else { Protocol::Echo };
        let protocol = self.protocol.unwrap_or(natural);
        let (http, other) = if url.tls { ("https", "tls") } else { ("http", "tcp") };
        let needed = match (url.scheme, protocol) {
            (Scheme::Tcp, Protocol::Http) => Some(format!("{http}://{}/", url.authority)),
            (Scheme::Http, Protocol::Echo | Protocol::Line | Protocol::Rpc) => {
                Some(format!("{other}://{}", url.authority))
            }
            _ => None,
        };
        if let Some(needed) = needed {
            let message = format!("--protocol {} needs {needed}", protocol.name());
            return Err(Failure::request("bad_flag", message));
        }
        self.refuse_http_flags(protocol)?;
        self.refuse_duration_as_body()?;
        let default = Http::default();
        let body = self.body()?;
        let http = Http {
            target: url.target.clone(),
            host: Some(url.host_field()),
            keep_alive: !self.no_keepalive,
            verify: self.verify.unwrap_or(Verify::Bytes),
            method: self.method.clone().unwrap_or_else(|| natural_method(self.has_body()).to_owned()),
            headers: self.headers.clone(),
            expect_status: self.expect_status,
            expect_body: if self.expect_echo { Some(body.clone()) } else { self.expect_body.clone() },
            body,
            reply_bytes: default.reply_bytes,
            reply_status: default.reply_status,
        };
        self.messages.to_workload(protocol, http)
    }

    /// Refuses flags of HTTP with another protocol.
    fn refuse_http_flags(&self, protocol: Protocol) -> Result<(), Failure> {
        let flags = [
            ("--verify", self.verify.is_some()),
            ("--no-keepalive", self.no_keepalive),
            ("--method", self.method.is_some()),
            ("--header", !self.headers.is_empty()),
            ("--body", self.body.is_some()),
            ("--body-file", self.body_file.is_some()),
            ("--expect-status", self.expect_status.is_some()),
            ("--expect-body", self.expect_body.is_some()),
            ("--expect-echo", self.expect_echo),
        ];
        refuse_others(&flags.map(|(flag, given)| (flag, given, Protocol::Http)), protocol)
    }

    /// Refuses `-d 10s`: in wrk this flag is the duration, and "10s" is no likely body.
    fn refuse_duration_as_body(&self) -> Result<(), Failure> {
        let body = self.body.as_deref().filter(|body| self.method.is_none() && parse_duration(body).is_ok());
        body.map_or(Ok(()), |body| {
            let message = format!(
                "-d is the body of a request: for a duration write -z {body}; to send it write -m POST -d {body}"
            );
            Err(Failure::request("bad_flag", message))
        })
    }

    fn has_body(&self) -> bool {
        self.body.is_some() || self.body_file.is_some()
    }

    fn body(&self) -> Result<String, Failure> {
        let Some(path) = &self.body_file else { return Ok(self.body.clone().unwrap_or_default()) };
        std::fs::read_to_string(path).map_err(|error| {
            let message = match error.kind() {
                ErrorKind::InvalidData => "it is not text (UTF-8)".to_owned(),
                _ => error.to_string(),
            };
            Failure::request("bad_flag", format!("--body-file: cannot read {}: {message}", path.display()))
        })
    }
}

/// Flags of other tools that write a file. They are refused with the flag to use here.
fn flags_of_other_tools() -> [Arg; 2] {
    [("output", "-o foo.json"), ("csv", "-o foo.csv")].map(|(name, instead)| {
        let refusal = UnknownArgumentValueParser::suggest(format!("to write a file, use {instead}"));
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .num_args(0..=1)
            .default_missing_value("-")
            .value_parser(refusal)
            .hide(true)
    })
}

/// The default method, as with `curl` or `ab`.
const fn natural_method(has_body: bool) -> &'static str {
    if has_body { "POST" } else { "GET" }
}

/// A literal body. In `curl`, a leading `@` means the name of a file, so that is refused.
fn parse_body(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some("" | "-") => Err("to send what is in a file, write -D FILE".into()),
        Some(path) => Err(format!("to send what is in a file, write -D {path}")),
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, _)) if name.eq_ignore_ascii_case("connection") => {
            Err("header Connection cannot be given: connections are kept open, or not with --no-keepalive"
                .into())
        }
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not 'Name: value', as in 'Accept: text/html'")),
    }
}

/// `hey` and `wrk` surprise with their defaults; most people use ten seconds.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// Familiar rows: one per second.
const SLICE_DEFAULT: Duration = Duration::from_secs(1);

/// Slices in a report by hand: enough to draw, and 20 ms each for runs of up to 200 s.
const INTERVALS_BY_HAND: u64 = 10_000;
