//! The contract with the lab, as data: `docs/contract.md` in types. The only file that knows JSON.
//!
//! A document is a struct and its fields are the JSON fields, in order; the schemas in `schema/` are generated
//! from here. Unknown fields are refused, because a field that is ignored is a setting that was not measured.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use proto::Protocol;

pub(crate) use self::load::*;
use crate::failure::Failure;

mod load;

/// The build id of this engine: which sources it is made of.
pub(crate) const BUILD: &str = env!("IOLAB_BUILD");

/// Reads a spec.
///
/// # Errors
/// `bad_spec`, with what is wrong and where in the line.
pub(crate) fn read<T: DeserializeOwned>(line: &str) -> Result<T, Failure> {
    serde_json::from_str(line).map_err(|error| {
        Failure::request(
            "bad_spec",
            format!("the spec is wrong: {error}; docs/contract.md says how it must be"),
        )
    })
}

/// Reads the reports in a text, one after the other. Other events of a run may stand between them.
///
/// # Errors
/// What is wrong with one of them, and where.
pub(crate) fn reports(text: &str) -> Result<Vec<Report>, String> {
    /// What may stand beside reports in what a generator has told.
    const OTHERS: [&str; 4] = ["ready", "measuring", "interval", "measured"];
    #[derive(Deserialize)]
    struct Told {
        event: Option<String>,
    }
    let mut told = serde_json::Deserializer::from_str(text).into_iter::<Told>();
    let (mut reports, mut begin) = (Vec::new(), 0);
    while let Some(document) = told.next() {
        let Told { event } = document.map_err(|error| error.to_string())?;
        let document = &text[begin..told.byte_offset()];
        begin = told.byte_offset();
        if !event.is_some_and(|event| OTHERS.contains(&&*event)) {
            reports.push(serde_json::from_str(document).map_err(|error| error.to_string())?);
        }
    }
    Ok(reports)
}

/// Reads what a load generator has told; None if it is nothing that it tells.
pub(crate) fn told(line: &str) -> Option<LoadEvent> {
    serde_json::from_str(line).ok()
}

/// A document as one line of JSON.
pub(crate) fn line<T: Serialize>(document: &T) -> String {
    serde_json::to_string(document).expect("the contract's documents have string keys and finite numbers")
}

/// The `failed` event as one line of JSON.
pub(crate) fn failed_line(role: Role, failure: &Failure) -> String {
    let message = failure.message.clone();
    line(&Failed { schema: Version, event: FailedWord::Is, role, kind: failure.kind.to_owned(), message })
}

/// The schemas of all documents by their names, as JSON to be read by people too.
pub(crate) fn schemas() -> String {
    let schemas: BTreeMap<&str, Schema> = BTreeMap::from([
        ("serve-spec", schema_for!(ServeSpec)),
        ("load-spec", schema_for!(LoadSpec)),
        ("serve-ready", schema_for!(ServeReady)),
        ("load-ready", schema_for!(LoadReady)),
        ("served", schema_for!(Served)),
        ("measuring", schema_for!(Measuring)),
        ("interval", schema_for!(Interval)),
        ("measured", schema_for!(Measured)),
        ("report", schema_for!(Report)),
        ("failed", schema_for!(Failed)),
        ("description", schema_for!(Description)),
    ]);
    serde_json::to_string_pretty(&schemas).expect("a schema is JSON")
}

/// A document as JSON to be read by people too.
pub(crate) fn pretty<T: Serialize>(document: &T) -> String {
    serde_json::to_string_pretty(document).expect("the contract's documents have string keys")
}

/// The version of the contract. There is one, so it has no value to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Version;

impl Version {
    const NUMBER: u64 = 1;
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(Self::NUMBER)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            Self::NUMBER => Ok(Self),
            other => {
                Err(D::Error::custom(format!("schema {other} is not known to this engine, which knows 1")))
            }
        }
    }
}

impl JsonSchema for Version {
    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": Self::NUMBER, "description": "The version of the contract."})
    }
}

/// Types whose only value is one word: the fields that say what a document is.
macro_rules! words {
    ($($name:ident = $word:literal,)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[schemars(inline)]
        pub(crate) enum $name {
            #[serde(rename = $word)]
            Is,
        }
    )*};
}

words! {
    ServeWord = "serve",
    LoadWord = "load",
    ReadyWord = "ready",
    ServedWord = "served",
    MeasuringWord = "measuring",
    IntervalWord = "interval",
    MeasuredWord = "measured",
    ReportWord = "report",
    FailedWord = "failed",
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Serve,
    Load,
}

/// What is asked and answered. Both roles take the same document; a server has no use for the fields that only
/// concern how a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub(crate) enum Workload {
    Http(Http),
    Echo(Echo),
    Line(Line),
    Rpc(Rpc),
}

impl Workload {
    /// The word of its protocol.
    pub(crate) const fn protocol(&self) -> &'static str {
        match self {
            Self::Http(_) => proto::http::Http::NAME,
            Self::Echo(_) => proto::echo::Echo::NAME,
            Self::Line(_) => proto::line::Line::NAME,
            Self::Rpc(_) => proto::rpc::Rpc::NAME,
        }
    }
}

/// Requests over HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Http {
    /// The length of the body of `/`, in bytes.
    pub(crate) reply_bytes: usize,
    /// What a client asks for: a path, and a query if there is one.
    pub(crate) target: String,
    /// The Host header a client sends; null stands for the address.
    pub(crate) host: Option<String>,
    /// Whether a client sends many requests over one connection, or opens one for each.
    pub(crate) keep_alive: bool,
    /// What a client holds a reply to.
    pub(crate) verify: Verify,
    pub(crate) method: String,
    /// Header fields of a client's requests beside Host, Content-Length and Connection: names and values.
    pub(crate) headers: Vec<(String, String)>,
    /// The body of a client's requests.
    pub(crate) body: String,
    /// The status that a client takes for a success; null stands for any 2xx.
    pub(crate) expect_status: Option<u16>,
    /// The body that every reply must have; null stands for that of the first.
    pub(crate) expect_body: Option<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            reply_bytes: 1,
            target: "/".into(),
            host: None,
            keep_alive: true,
            verify: Verify::Bytes,
            method: "GET".into(),
            headers: Vec::new(),
            body: String::new(),
            expect_status: None,
            expect_body: None,
        }
    }
}

/// What makes an HTTP reply correct.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verify {
    /// The status is the expected one and so is the body, byte for byte.
    Bytes,
    /// The status is the expected one.
    Status,
}

/// Messages that come back as they were sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Echo {
    pub(crate) framing: Framing,
    /// The length of a message without its frame, in bytes.
    pub(crate) message_bytes: usize,
}

impl Default for Echo {
    fn default() -> Self {
        Self { framing: Framing::Raw, message_bytes: 64 }
    }
}

/// Lines of text that come back as they were sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Line {
    /// The length of a line with its line feed, in bytes.
    pub(crate) message_bytes: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { message_bytes: 12 }
    }
}

/// Calls whose answer takes the server a stated amount of computing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rpc {
    /// Steps of computing that lead to the answer.
    pub(crate) target: u32,
    /// The length of the text that goes there and back, in bytes.
    pub(crate) text_bytes: usize,
    /// More computing for each call, in nanoseconds: the server finds out at its start how many steps that is.
    pub(crate) work_ns: u64,
}

impl Default for Rpc {
    fn default() -> Self {
        Self { target: 1000, text_bytes: 11, work_ns: 0 }
    }
}

/// How the end of an echoed message is found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Framing {
    /// Not at all: the server sends back what comes.
    Raw,
    /// By a length of two bytes, big-endian, before it.
    Prefix,
    /// By a carriage return and a line feed after it.
    Crlf,
}

/// What a server is to do: the line it reads from standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeSpec {
    pub(crate) schema: Version,
    pub(crate) role: ServeWord,
    /// The name of a model, as `describe` lists them.
    pub(crate) model: String,
    /// Options of the model and their values; those not named have their defaults.
    #[serde(default)]
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) workload: Workload,
    /// Where it listens, on one address or on several. Port 0 lets the kernel choose.
    pub(crate) listen: Vec<Address>,
    #[serde(default = "one")]
    pub(crate) workers: usize,
    #[serde(default)]
    pub(crate) worker_kind: WorkerKind,
    /// The processors it may run on; none: all of them.
    #[serde(default)]
    pub(crate) cpus: Vec<usize>,
    /// Connections a worker holds at most.
    #[serde(default = "connections_max")]
    pub(crate) connections_max: usize,
    /// Whether to count its system calls, which costs each of them a little time.
    #[serde(default)]
    pub(crate) count_calls: bool,
}

/// What a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerKind {
    /// A thread of the server's process.
    #[default]
    Thread,
    /// A process of its own, started again when it dies.
    Process,
}

/// Where a server listens: `127.0.0.1:8080`, `[::1]:8080` or `unix:/path/to/socket`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address(pub(crate) sys::net::Address);

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "`127.0.0.1:8080`, `[::1]:8080` or `unix:/path/to/socket`."})
    }
}

impl From<WorkerKind> for models::WorkerKind {
    fn from(kind: WorkerKind) -> Self {
        match kind {
            WorkerKind::Thread => Self::Thread,
            WorkerKind::Process => Self::Process,
        }
    }
}

/// A server accepts connections.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServeReady {
    pub(crate) schema: Version,
    pub(crate) event: ReadyWord,
    pub(crate) role: ServeWord,
    /// The model with its options that are not default, as `io_uring[recv=oneshot]`.
    pub(crate) model: String,
    /// The addresses with the ports it has got.
    pub(crate) listen: Vec<Address>,
    pub(crate) pid: u32,
    pub(crate) build: String,
    pub(crate) workers: usize,
    pub(crate) worker_kind: WorkerKind,
    /// Connections a worker serves at the same time; null: as many as the system and `connections_max` allow.
    pub(crate) holds: Option<usize>,
    /// What is wrong with this variant, where it is one that was published with a defect.
    pub(crate) defects: Vec<String>,
    /// Features of the kernel it does without.
    pub(crate) lacks: Vec<String>,
}

/// What a server has done so far. It is told when a line comes on standard input, and when the server ends.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Served {
    pub(crate) schema: Version,
    pub(crate) event: ServedWord,
    pub(crate) role: ServeWord,
    pub(crate) workers: Vec<ServedWorker>,
    /// How often a worker process was started again.
    pub(crate) restarts: u64,
    /// System calls of all workers so far, if they are counted and the kernel lets us.
    pub(crate) calls: Option<u64>,
}

/// What one worker has done so far.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServedWorker {
    /// Connections it has taken, those that have ended among them.
    pub(crate) connections: u64,
    /// Connections it has closed at once, by the limit that made it.
    pub(crate) refused: BTreeMap<String, u64>,
}

/// It cannot go on, and says why.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failed {
    pub(crate) schema: Version,
    pub(crate) event: FailedWord,
    pub(crate) role: Role,
    /// A word for programs.
    pub(crate) kind: String,
    /// One line for people, that says what to do.
    pub(crate) message: String,
}

/// What this engine can do on this machine.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    pub(crate) schema: Version,
    pub(crate) build: String,
    pub(crate) version: String,
    pub(crate) models: Vec<ModelDescription>,
    pub(crate) drivers: Vec<DriverDescription>,
    pub(crate) protocols: Vec<String>,
}

/// An I/O model.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelDescription {
    pub(crate) name: String,
    pub(crate) about: String,
    /// What it takes beyond any Linux; empty for most.
    pub(crate) needs: String,
    pub(crate) protocols: Vec<String>,
    pub(crate) options: Vec<OptionDescription>,
    /// Connections a worker serves at the same time; null: as many as the system and `connections_max` allow. Over
    /// HTTP a model that serves one ends each connection with its reply, so that others have their turn.
    pub(crate) holds: Option<usize>,
    pub(crate) available: bool,
    /// Why it is not available, if so.
    pub(crate) why_not: Option<String>,
    /// Features of the kernel it does without.
    pub(crate) lacks: Vec<String>,
}

/// A choice a model offers.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionDescription {
    pub(crate) name: String,
    /// The default comes first; for a number it is the only one.
    pub(crate) values: Vec<String>,
    /// The least and the most of a number; null for words.
    pub(crate) min: Option<usize>,
    pub(crate) max: Option<usize>,
    pub(crate) about: String,
    /// What is wrong with values that are kept because they were published.
    pub(crate) defects: BTreeMap<String, String>,
}

/// A driver of the load generator.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DriverDescription {
    pub(crate) name: Driver,
    pub(crate) about: String,
    pub(crate) available: bool,
    /// Why it is not available, if so.
    pub(crate) why_not: Option<String>,
    /// Features of the kernel it does without.
    pub(crate) lacks: Vec<String>,
}

pub(crate) const CONNECTIONS_MAX_DEFAULT: usize = 16_384;

fn one() -> usize {
    1
}

fn connections_max() -> usize {
    CONNECTIONS_MAX_DEFAULT
}

#[cfg(test)]
mod tests;
