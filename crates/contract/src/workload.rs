//! The requests and replies of each protocol.

use std::borrow::Cow;

use clap::ValueEnum;
use proto::{Protocol, echo, http, line, rpc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::limits::{STATUS, WORK_NS};

/// Requests and replies. Both roles take the same document; a server ignores the fields that only a client needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Workload {
    Http(Http),
    Echo(Echo),
    Line(Line),
    Rpc(Rpc),
}

impl Workload {
    /// The name of its protocol.
    pub const fn protocol(&self) -> &'static str {
        match self {
            Self::Http(_) => http::Http::NAME,
            Self::Echo(_) => echo::Echo::NAME,
            Self::Line(_) => line::Line::NAME,
            Self::Rpc(_) => rpc::Rpc::NAME,
        }
    }
}

/// Requests over HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// The length of the body of `/`, in bytes.
    #[schemars(range(max = http::Workload::REPLY_BYTES_MAX))]
    pub reply_bytes: usize,
    /// The status of the reply to `/`. With 204 it has no body: `reply_bytes` is 0, and a client accepts no other
    /// status unless it names one.
    pub reply_status: ReplyStatus,
    /// The target of a client's requests: a path, with an optional query.
    #[schemars(length(max = http::Workload::TARGET_BYTES_MAX), regex(pattern = r##"^(/|http://)[!"$-~]*$"##))]
    pub target: String,
    /// The Host header a client sends; null stands for the address.
    #[schemars(length(max = http::Request::HOST_BYTES_MAX))]
    pub host: Option<String>,
    /// Whether a client sends many requests over one connection, or opens one for each.
    pub keep_alive: bool,
    /// How a client verifies a reply.
    pub verify: Verify,
    #[schemars(length(min = 1))]
    pub method: String,
    /// Header fields of a client's requests besides Host, Content-Length and Connection: names and values.
    #[schemars(length(max = http::Request::HEADERS_MAX))]
    pub headers: Vec<(String, String)>,
    /// The body of a client's requests; its limit is in bytes of UTF-8.
    #[schemars(length(max = http::Request::BODY_BYTES_MAX))]
    pub body: String,
    /// The status that counts as success; null stands for any 2xx.
    #[schemars(range(min = *STATUS.start(), max = *STATUS.end()))]
    pub expect_status: Option<u16>,
    /// The body that every reply must have; null stands for the body of the first reply.
    pub expect_body: Option<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            reply_bytes: 1,
            reply_status: ReplyStatus::Ok,
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

/// The status of a reply to a request that is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "u16", try_from = "u16")]
pub enum ReplyStatus {
    #[default]
    Ok = 200,
    NoContent = 204,
}

impl From<ReplyStatus> for u16 {
    fn from(status: ReplyStatus) -> Self {
        status as Self
    }
}

impl TryFrom<u16> for ReplyStatus {
    type Error = String;

    fn try_from(status: u16) -> Result<Self, String> {
        match status {
            200 => Ok(Self::Ok),
            204 => Ok(Self::NoContent),
            _ => Err(format!("reply_status is {status}; it can be 200 or 204")),
        }
    }
}

impl JsonSchema for ReplyStatus {
    fn schema_name() -> Cow<'static, str> {
        "ReplyStatus".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "enum": [Self::Ok as u16, Self::NoContent as u16]})
    }
}

/// What makes an HTTP reply correct.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// The status is the expected one and so is the body, byte for byte.
    Bytes,
    /// The status is the expected one.
    Status,
}

/// Messages that come back unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Echo {
    pub framing: Framing,
    /// The length of a message without its frame, in bytes. Each framing has its own limits within this range.
    #[schemars(range(max = echo::Workload::MESSAGE_BYTES_MAX))]
    pub message_bytes: usize,
}

impl Default for Echo {
    fn default() -> Self {
        Self { framing: Framing::Raw, message_bytes: 64 }
    }
}

/// Lines of text that come back unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// The length of a line with its line feed, in bytes.
    #[schemars(range(min = 1, max = line::Workload::LINE_BYTES_MAX))]
    pub message_bytes: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { message_bytes: 12 }
    }
}

/// Calls with a configurable amount of computing for each answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rpc {
    /// Steps of computing that lead to the answer.
    #[schemars(range(max = rpc::Workload::TARGET_MAX))]
    pub target: u32,
    /// The length of the text that goes there and back, in bytes.
    #[schemars(range(max = rpc::Workload::TEXT_BYTES_MAX))]
    pub text_bytes: usize,
    /// Additional computing for each call, in nanoseconds: the server calibrates the number of steps at its start.
    #[schemars(range(min = *WORK_NS.start(), max = *WORK_NS.end()))]
    pub work_ns: u64,
}

impl Default for Rpc {
    fn default() -> Self {
        Self { target: 1000, text_bytes: 11, work_ns: 0 }
    }
}

/// How the end of an echoed message is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// No framing: the server sends back what arrives.
    Raw,
    /// By a length of two bytes, big-endian, before it.
    Prefix,
    /// By a carriage return and a line feed after it.
    Crlf,
}
