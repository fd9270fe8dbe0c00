//! What goes over the wire: requests, and the one right reply to each, byte for byte.
//!
//! The replies are written down here once, so all models are held to the same bytes and not to each other.

use serde_json::{Value, json};

/// The length of the body of `/` and of a large echoed message: 2,000 of them fill any socket.
pub(crate) const LARGE_BYTES: usize = 4096;

/// A protocol as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http,
    Raw,
    Prefix,
    Crlf,
}

/// A request, and its reply as [`is_right`] takes it.
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) reply: Vec<u8>,
}

impl Wire {
    pub(crate) const ALL: [Self; 4] = [Self::Http, Self::Raw, Self::Prefix, Self::Crlf];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Raw => "echo raw",
            Self::Prefix => "echo prefix",
            Self::Crlf => "echo crlf",
        }
    }

    /// The protocol's name in the output of `describe`.
    pub(crate) const fn protocol(self) -> &'static str {
        if matches!(self, Self::Http) { "http" } else { "echo" }
    }

    /// The workload of a server's spec.
    pub(crate) fn workload(self) -> Value {
        match self {
            Self::Http => json!({"protocol": "http", "reply_bytes": LARGE_BYTES}),
            Self::Raw => json!({"protocol": "echo", "framing": "raw"}),
            Self::Prefix => json!({"protocol": "echo", "framing": "prefix"}),
            Self::Crlf => json!({"protocol": "echo", "framing": "crlf"}),
        }
    }

    /// The `index`th of many small exchanges. Neighbours differ, so that a reply in the wrong place shows.
    pub(crate) fn small(self, index: usize) -> Exchange {
        if self != Self::Http {
            return self.echo(format!("message {index} of many").as_bytes());
        }
        let (target, reply) = match index % 3 {
            0 => ("/plaintext", page("text/plain", b"Hello, World!")),
            1 => ("/json", page("application/json", br#"{"message":"Hello, World!"}"#)),
            _ => ("/absent", head("404 Not Found", "Content-Length: 0\r\n")),
        };
        Exchange { request: get(target), reply }
    }

    /// The `index`th of many large exchanges.
    pub(crate) fn large(self, index: usize) -> Exchange {
        if self == Self::Http {
            return Exchange { request: get("/"), reply: page("text/plain", &[b'x'; LARGE_BYTES]) };
        }
        let mut message = format!("large message {index}: ").into_bytes();
        message.resize(LARGE_BYTES, b'a' + (index % 26) as u8);
        self.echo(&message)
    }

    /// A request in two parts and what comes back after the first: something to leave unread, which makes a
    /// client's close a reset.
    pub(crate) fn in_two_parts(self) -> [Vec<u8>; 2] {
        if self == Self::Http {
            let head = b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n";
            return [head.to_vec(), vec![b'x'; 100]];
        }
        [self.small(0).request, self.small(1).request]
    }

    /// What comes back for a request that ends in its middle.
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
            Self::Raw => Err("raw messages have no limit"),
            Self::Prefix => Err("a prefix of two bytes cannot exceed the limit"),
        }
    }

    fn echo(self, message: &[u8]) -> Exchange {
        let request = match self {
            Self::Prefix => [&(message.len() as u16).to_be_bytes(), message].concat(),
            Self::Crlf => [message, b"\r\n"].concat(),
            Self::Raw | Self::Http => message.to_vec(),
        };
        Exchange { reply: request.clone(), request }
    }
}

impl Exchange {
    /// The reply of a server that ends its HTTP connections: the same with a line more.
    pub(crate) fn closing(mut self) -> Self {
        let end = self.reply.windows(4).position(|window| window == b"\r\n\r\n").expect("a reply has a head");
        self.reply.splice(end + 2..end + 2, *b"Connection: close\r\n");
        self
    }
}

/// Whether what came is what was due, whatever date it bears.
pub(crate) fn is_right(due: &[u8], came: &[u8]) -> bool {
    // The date is near the front or nowhere, which spares a search through large messages.
    let front = &due[..due.len().min(128)];
    match front.windows(DATE.len()).position(|window| window == DATE) {
        None => due == came,
        Some(start) => {
            let end = start + DATE.len();
            due.len() == came.len()
                && due[..start] == came[..start]
                && came[start..end].ends_with(b" GMT")
                && due[end..] == came[end..]
        }
    }
}

/// Stands for the date of a reply.
const DATE: &[u8] = b"Thu, 01 Jan 1970 00:00:00 GMT";

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
}

fn page(content_type: &str, body: &[u8]) -> Vec<u8> {
    let fields = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
    [&head("200 OK", &fields), body].concat()
}

fn head(status: &str, fields: &str) -> Vec<u8> {
    let date = str::from_utf8(DATE).expect("the date is text");
    format!("HTTP/1.1 {status}\r\nServer: iolab\r\nDate: {date}\r\n{fields}\r\n").into_bytes()
}
