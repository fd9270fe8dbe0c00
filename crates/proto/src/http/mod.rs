//! HTTP/1.1 and 1.0 (RFC 9110 and 9112): a small strict server, and a client that checks every byte.
//!
//! Nothing is guessed: a message that two parsers could interpret differently is refused and its connection closed,
//! because a benchmark that tolerates one model's mistake would reward it. If the standards leave a choice, the
//! stricter option is taken: a bare LF, a folded line, a repeated Content-Length and a version 1.2 are refused.

mod chunked;
mod client;
mod date;
mod fields;
mod request;
mod scan;
mod server;

use alloc::{boxed::Box, format, string::String, vec, vec::Vec};

use crate::Protocol;

pub use client::Client;
pub use date::Date;
pub use request::Request;
pub use server::Server;

/// The protocol `http`.
pub struct Http;

impl Protocol for Http {
    const NAME: &'static str = "http";
    type Workload = Workload;
    type Server = Server;
    type Client = Client;
}

/// How much of a reply the client half compares; its framing is always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// The status must be the expected one, and the body must equal the expected or the first body, byte for byte.
    Bytes,
    /// The status must be the expected one.
    Status,
}

/// What a server replies and a client requests.
pub struct Workload {
    /// Length of the body of `/`.
    pub reply_bytes: usize,
    /// The target of a client's request: a path, or a whole `http://` address.
    pub target: String,
    /// The `Host` of a client's request, unless it has its own.
    pub host: String,
    /// Whether a connection may carry more than one request.
    pub keep_alive: bool,
    /// How a client checks a reply.
    pub verify: Verify,
    pages: [Page; 3],
    /// Whether `/` has the status 204, which a client then expects.
    is_without_content: bool,
    request: Box<[u8]>,
    /// Whether the request is HEAD, so that replies have no body.
    is_head: bool,
    expect_status: Option<u16>,
    expect_body: Option<Box<[u8]>>,
}

impl Workload {
    /// The longest body of `/`: a reply is built whole, so every worker may hold one of these.
    pub const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// The longest body that `POST /echo` sends back: also a reply, and as long as a client's body may be.
    pub const ECHO_BYTES_MAX: usize = Self::REPLY_BYTES_MAX;

    /// Longer targets are refused (414). RFC 9112 recommends to accept at least 8,000 bytes.
    pub const TARGET_BYTES_MAX: usize = 8 * 1024;

    /// Builds the parts of replies, all with the status 200, and a plain `GET` request. A server uses `reply_bytes` and
    /// `keep_alive`, a client all but the first.
    ///
    /// # Errors
    /// One line with the invalid value, and what is valid.
    pub fn new(
        reply_bytes: usize,
        target: &str,
        host: &str,
        keep_alive: bool,
        verify: Verify,
    ) -> Result<Self, String> {
        if reply_bytes > Self::REPLY_BYTES_MAX {
            return Err(format!(
                "reply_bytes is {reply_bytes}, but a reply has at most {} bytes",
                Self::REPLY_BYTES_MAX
            ));
        }
        if !is_target(target) {
            return Err(format!(
                "target {target:?} cannot be asked for: give a path such as /plaintext, without spaces \
                 and #, in at most {TARGET_BYTES_MAX} bytes"
            ));
        }
        let workload = Self {
            reply_bytes,
            target: target.into(),
            host: host.into(),
            keep_alive,
            verify,
            pages: [
                Page::new("text/plain", vec![b'x'; reply_bytes]),
                Page::new("text/plain", b"Hello, World!".to_vec()),
                Page::new("application/json", br#"{"message":"Hello, World!"}"#.to_vec()),
            ],
            is_without_content: false,
            request: Box::default(),
            is_head: false,
            expect_status: None,
            expect_body: None,
        };
        workload.requesting(&Request::default())
    }

    /// Makes the status of `/` 204, which has no body. A client then accepts no other status, unless its request names
    /// one. For another target it must, because only `/` changes.
    ///
    /// # Errors
    /// One line: there is a body, or the target has another status.
    pub fn without_content(self) -> Result<Self, String> {
        if self.reply_bytes > 0 {
            return Err(format!(
                "reply_bytes is {}, but a reply with the status 204 has no body: give reply_bytes = 0",
                self.reply_bytes
            ));
        }
        let is_root = server::path(&self.target).and_then(page_number) == Some(ROOT);
        if !is_root && self.expect_status.is_none() {
            return Err(format!(
                "reply_status is 204, which is the status of / only, but the target is {}: ask for /, or name the \
                 status to expect (expect_status)",
                self.target
            ));
        }
        Ok(Self { is_without_content: true, ..self })
    }

    /// Builds another request for the target, with what a client expects in reply.
    ///
    /// # Errors
    /// One line with the invalid value, and what is valid.
    pub fn requesting(self, request: &Request<'_>) -> Result<Self, String> {
        request.check_expectations(self.verify)?;
        let host = request.host()?.unwrap_or(&self.host);
        Ok(Self {
            request: request.compose(&self.target, host, self.keep_alive)?,
            is_head: request.is_head(),
            expect_status: request.expect_status,
            expect_body: request.expect_body.map(Box::from),
            ..self
        })
    }

    /// The answer for a path, for servers that build their own heads; None if there is no such page.
    pub fn answer(&self, path: &str) -> Option<Answer<'_>> {
        page_number(path).map(|number| {
            let page = &self.pages[usize::from(number)];
            if self.is_empty(number) {
                Answer::NoContent
            } else {
                Answer::Page { content_type: page.content_type, body: &page.body }
            }
        })
    }

    /// Whether a page has no content.
    fn is_empty(&self, page: u8) -> bool {
        self.is_without_content && page == ROOT
    }

    /// Whether a client accepts a reply with this status.
    fn expects(&self, status: u16) -> bool {
        match self.expect_status {
            Some(expected) => status == expected,
            None if self.is_without_content => status == 204,
            None => (200..300).contains(&status),
        }
    }
}

/// Longer heads are refused (431): a worker must buffer a head whole, and no honest one comes near.
const HEAD_BYTES_MAX: usize = 16 * 1024;

const TARGET_BYTES_MAX: usize = Workload::TARGET_BYTES_MAX;

/// More fields than this are refused (431), so that the parser's table fits a small stack.
const FIELDS_MAX: usize = 64;

/// The parts of a route's reply: all but the status line, the server's name and the date.
struct Page {
    content_type: &'static str,
    /// From the end of the date to the end of the head, for each [`Persistence`].
    rests: [Box<[u8]>; 3],
    body: Box<[u8]>,
}

impl Page {
    fn new(content_type: &'static str, body: Vec<u8>) -> Self {
        let rest = |persistence: Persistence| {
            let line = persistence.line();
            let length = body.len();
            format!("\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{line}\r\n")
                .into_bytes()
                .into_boxed_slice()
        };
        let rests = [rest(Persistence::Keep), rest(Persistence::KeepOld), rest(Persistence::Close)];
        Self { content_type, rests, body: body.into_boxed_slice() }
    }
}

/// The reply to a request for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The status 200 and this body.
    Page { content_type: &'static str, body: &'a [u8] },
    /// The status 204.
    NoContent,
}

/// The path that echoes posted bodies.
pub const ECHO_PATH: &str = "/echo";

/// The number of the page `/`.
const ROOT: u8 = 0;

/// The number of the workload's page at a path.
fn page_number(path: &str) -> Option<u8> {
    match path {
        "/" => Some(ROOT),
        "/plaintext" => Some(1),
        "/json" => Some(2),
        _ => None,
    }
}

/// Whether the connection stays open after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persistence {
    /// HTTP/1.1 stays open without saying so.
    Keep,
    /// HTTP/1.0 stays open only if both sides say so.
    KeepOld,
    Close,
}

impl Persistence {
    /// The field that says so.
    fn line(self) -> &'static str {
        match self {
            Self::Keep => "",
            Self::KeepOld => "Connection: keep-alive\r\n",
            Self::Close => "Connection: close\r\n",
        }
    }
}

fn is_target(target: &str) -> bool {
    let has_form = target.starts_with('/') || target.starts_with("http://");
    let is_clean = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    has_form && target.len() <= TARGET_BYTES_MAX && target.bytes().all(is_clean)
}
