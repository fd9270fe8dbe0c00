//! The bytes on the wire: requests, and the one correct reply to each.
//!
//! The replies are written down here once, so all models are compared with the same bytes and not with each other.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

/// The length of the body of `/` and of a large echoed message: 4,000 of them exceed the buffers of a server's socket
/// at their usual maximum.
pub(crate) const LARGE_BYTES: usize = 4096;

/// A protocol as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http,
    Raw,
    Prefix,
    Crlf,
    Line,
    Rpc,
}

/// A request, and its reply as [`is_right`] compares it.
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) reply: Vec<u8>,
}

impl Wire {
    pub(crate) const ALL: [Self; 6] =
        [Self::Http, Self::Raw, Self::Prefix, Self::Crlf, Self::Line, Self::Rpc];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Raw => "echo raw",
            Self::Prefix => "echo prefix",
            Self::Crlf => "echo crlf",
            Self::Line => "line",
            Self::Rpc => "rpc",
        }
    }

    /// The protocol's name in the output of `describe`.
    pub(crate) const fn protocol(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Raw | Self::Prefix | Self::Crlf => "echo",
            Self::Line => "line",
            Self::Rpc => "rpc",
        }
    }

    /// The workload of a server's spec.
    pub(crate) fn workload(self) -> Value {
        match self {
            Self::Http => json!({"protocol": "http", "reply_bytes": LARGE_BYTES}),
            Self::Raw => json!({"protocol": "echo", "framing": "raw"}),
            Self::Prefix => json!({"protocol": "echo", "framing": "prefix"}),
            Self::Crlf => json!({"protocol": "echo", "framing": "crlf"}),
            Self::Line | Self::Rpc => json!({"protocol": self.protocol()}),
        }
    }

    /// The `index`th of many small exchanges. Neighbours differ, so that a misplaced reply is detected.
    pub(crate) fn small(self, index: usize) -> Exchange {
        let text = format!("message {index} of many");
        match self {
            Self::Http => match index % 4 {
                0 => Exchange { request: get("/plaintext"), reply: page("text/plain", b"Hello, World!") },
                1 => {
                    let body = br#"{"message":"Hello, World!"}"#;
                    Exchange { request: get("/json"), reply: page("application/json", body) }
                }
                2 => posted(text.as_bytes(), index % 8 == 2),
                _ => {
                    let reply = head("404 Not Found", "Content-Length: 0\r\n");
                    Exchange { request: get("/absent"), reply }
                }
            },
            Self::Rpc => call(index as u32 % 100, &text),
            _ => self.echo(text.as_bytes()),
        }
    }

    /// The `index`th of many large exchanges.
    pub(crate) fn large(self, index: usize) -> Exchange {
        if self == Self::Http {
            return Exchange { request: get("/"), reply: page("text/plain", &[b'x'; LARGE_BYTES]) };
        }
        let mut message = format!("large message {index}: ");
        // One byte less than the longest line, which includes its end.
        let filling = LARGE_BYTES - 1 - message.len();
        // `repeat` copies blocks: in a debug build, pushing letter by letter takes most of a test's time.
        message += &char::from(b'a' + (index % 26) as u8).to_string().repeat(filling);
        if self == Self::Rpc { call(index as u32 % 100, &message) } else { self.echo(message.as_bytes()) }
    }

    /// A request in two parts. The first has a reply to leave unread, which turns a client's close into a reset.
    pub(crate) fn in_two_parts(self) -> [Vec<u8>; 2] {
        if self == Self::Http {
            let head = b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n";
            return [head.to_vec(), vec![b'x'; 100]];
        }
        [self.small(0).request, self.small(1).request]
    }

    /// The reply to a request that ends in the middle.
    pub(crate) fn reply_to_part(self, part: &[u8]) -> Vec<u8> {
        if self == Self::Raw { part.to_vec() } else { Vec::new() }
    }

    /// Input beyond the protocol's limit, and the reply to it. `Err` says why there is none.
    pub(crate) fn oversized(self) -> Result<Exchange, &'static str> {
        match self {
            Self::Http => {
                let mut request = b"GET / HTTP/1.1\r\nHost: h\r\nX: ".to_vec();
                request.resize(32 * 1024, b'x');
                let fields = "Content-Length: 0\r\nConnection: close\r\n";
                Ok(Exchange { request, reply: head("431 Request Header Fields Too Large", fields) })
            }
            Self::Crlf => Ok(Exchange { request: vec![b'x'; 1024 * 1024 + 3], reply: Vec::new() }),
            Self::Line => {
                let reply = b"error: a line has at most 4096 bytes\n".to_vec();
                Ok(Exchange { request: vec![b'x'; 4097], reply })
            }
            Self::Rpc => {
                let mut request = 0x0010_0001_u32.to_be_bytes().to_vec();
                request.resize(8 * 1024, b'x');
                Ok(Exchange { request, reply: frame(r#"{"error": "a request has 1 to 1048576 bytes"}"#) })
            }
            Self::Raw => Err("raw messages have no limit"),
            Self::Prefix => Err("a prefix of two bytes cannot exceed the limit"),
        }
    }

    fn echo(self, message: &[u8]) -> Exchange {
        let request = match self {
            Self::Prefix => [&(message.len() as u16).to_be_bytes(), message].concat(),
            Self::Crlf => [message, b"\r\n"].concat(),
            Self::Line => [message, b"\n"].concat(),
            Self::Raw | Self::Http | Self::Rpc => message.to_vec(),
        };
        Exchange { reply: request.clone(), request }
    }
}

impl Exchange {
    /// The reply of a server that ends its HTTP connections: one line more.
    pub(crate) fn closing(mut self) -> Self {
        let end = self.reply.windows(4).position(|window| window == b"\r\n\r\n").expect("a reply has a head");
        self.reply.splice(end + 2..end + 2, *b"Connection: close\r\n");
        self
    }
}

/// Whether a reply is the expected one: byte for byte, or for HTTP by its meaning, because hyper writes its own heads.
/// The same fields may then come in another order, with any date, and a refusal need not name the server.
pub(crate) fn is_right(due: &[u8], came: &[u8]) -> bool {
    if due == came {
        return true;
    }
    let (Some(due), Some(came)) = (Reply::parse(due), Reply::parse(came)) else { return false };
    let refuses = due.status.starts_with("HTTP/1.1 4") && due.fields.contains(&CLOSE);
    let fields =
        due.fields.iter().filter(|field| !refuses || came.fields.contains(field) || field.0 != "Server");
    due.status == came.status && fields.eq(&came.fields) && due.body == came.body
}

/// An HTTP reply in parts.
struct Reply<'bytes> {
    status: &'bytes str,
    /// Names and values, sorted by name, without the value of the date.
    fields: Vec<(&'bytes str, &'bytes str)>,
    body: &'bytes [u8],
}

const CLOSE: (&str, &str) = ("Connection", "close");

impl<'bytes> Reply<'bytes> {
    fn parse(bytes: &'bytes [u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let mut lines = str::from_utf8(&bytes[..end]).ok()?.split("\r\n");
        let status = lines.next().filter(|line| line.starts_with("HTTP/1."))?;
        let mut fields = lines.map(|line| line.split_once(": ")).collect::<Option<Vec<_>>>()?;
        for (name, value) in &mut fields {
            if *name == "Date" && (*value == DATE || is_now(value)) {
                *value = "";
            }
        }
        fields.sort_unstable();
        Some(Self { status, fields, body: &bytes[end + 4..] })
    }
}

/// A call for `target` with a text, and its reply.
fn call(target: u32, text: &str) -> Exchange {
    let answer =
        (0..target).fold(target, |x, _| (x ^ (x >> 15)).wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    Exchange {
        request: frame(&format!(r#"{{"target": {target}, "text": "{text}"}}"#)),
        reply: frame(&format!(r#"{{"answer": {answer}, "text": "{text}"}}"#)),
    }
}

fn frame(payload: &str) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes(), payload.as_bytes()].concat()
}

/// Whether a date is the current one, allowing for a busy machine.
fn is_now(date: &str) -> bool {
    const SLACK: Duration = Duration::from_secs(120);
    let Ok(date) = httpdate::parse_http_date(date) else { return false };
    let now = SystemTime::now();
    date <= now && now.duration_since(date).is_ok_and(|age| age < SLACK)
}

/// Stands for the date of a reply.
const DATE: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

pub(crate) fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
}

/// A body for `/echo`, in chunks of a thousand bytes or with its length.
pub(crate) fn posted(body: &[u8], is_chunked: bool) -> Exchange {
    let mut request = b"POST /echo HTTP/1.1\r\nHost: h\r\n".to_vec();
    if is_chunked {
        request.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in body.chunks(1000) {
            request.extend([format!("{:x};a=\"b\"\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        }
        request.extend(b"0\r\n\r\n");
    } else {
        request.extend(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend(body);
    }
    Exchange { request, reply: page("application/octet-stream", body) }
}

pub(crate) fn page(content_type: &str, body: &[u8]) -> Vec<u8> {
    let fields = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
    [&head("200 OK", &fields), body].concat()
}

pub(crate) fn head(status: &str, fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nServer: iolab\r\nDate: {DATE}\r\n{fields}\r\n").into_bytes()
}
