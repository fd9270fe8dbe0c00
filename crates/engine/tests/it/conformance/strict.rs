//! Strict HTTP: requests that break its rules, requests that only seem to, and bodies that are echoed.
//!
//! Every model but `hyper` uses the same parser. Where `hyper` answers differently, that is stated beside the case, and
//! listed in docs/models.md.

use std::io::{ErrorKind, Read};
use std::thread;

use serde_json::json;

use super::CONNECTIONS_MAX;
use super::subject::{Outcome, Subject};
use super::wire::{Exchange, get, head, is_right, page, posted};

/// A request that breaks a rule.
struct Case {
    name: &'static str,
    request: Vec<u8>,
    /// The status of the refusal, after which the connection ends.
    status: &'static str,
    hyper: Hyper,
}

/// hyper's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hyper {
    Same,
    /// It replies with this status instead.
    Answers(&'static str),
    /// It closes the connection without a reply.
    Closes,
}
use Hyper::{Answers, Closes, Same};

const BAD: &str = "400 Bad Request";
const TOO_LARGE: &str = "413 Content Too Large";
const NOT_IMPLEMENTED: &str = "501 Not Implemented";
const OTHER_VERSION: &str = "505 HTTP Version Not Supported";
const OK: Hyper = Answers("200 OK");

fn cases() -> Vec<Case> {
    [request_lines(), hosts(), lengths(), chunks()].into_iter().flatten().collect()
}

fn case(name: &'static str, request: impl Into<Vec<u8>>, status: &'static str, hyper: Hyper) -> Case {
    Case { name, request: request.into(), status, hyper }
}

fn request_lines() -> Vec<Case> {
    let of = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
    let long = "A".repeat(100_000);
    vec![
        case("version `HTTP/01.01`", of("GET / HTTP/01.01"), BAD, Same),
        case("version `HTTP/1.10`", of("GET / HTTP/1.10"), BAD, Same),
        case("version `http/1.1`", of("GET / http/1.1"), BAD, Same),
        case("version `HTTP/1.2`", of("GET / HTTP/1.2"), OTHER_VERSION, Answers(BAD)),
        case("version `HTTP/2.0`", of("GET / HTTP/2.0"), OTHER_VERSION, Answers(BAD)),
        case("method of 100 KB", of(&long), NOT_IMPLEMENTED, Answers("431 Request Header Fields Too Large")),
        case("target `/#top`", of("GET /#top HTTP/1.1"), BAD, OK),
        case("target `/?a=b#`", of("GET /?a=b# HTTP/1.1"), BAD, OK),
        case("target `http://a#top`", of("GET http://a#top HTTP/1.1"), BAD, OK),
        case("target `http:///`", of("GET http:/// HTTP/1.1"), BAD, Same),
        case("target `http://:80/`", of("GET http://:80/ HTTP/1.1"), BAD, OK),
        case("target `http://u@a/`", of("GET http://u@a/ HTTP/1.1"), BAD, OK),
        case("target `http://a:b/`", of("GET http://a:b/ HTTP/1.1"), BAD, OK),
        case("target `*` with GET", of("GET * HTTP/1.1"), BAD, Answers("404 Not Found")),
        case("target `a:80` with GET", of("GET a:80 HTTP/1.1"), BAD, Answers("404 Not Found")),
        case("target `/` with CONNECT", of("CONNECT / HTTP/1.1"), BAD, Answers("405 Method Not Allowed")),
        case("target `a:` with CONNECT", of("CONNECT a: HTTP/1.1"), BAD, Answers("405 Method Not Allowed")),
        case("bare LF", "GET / HTTP/1.1\nHost: a\n\n", BAD, OK),
        case("bare CR in a field", of("GET / HTTP/1.1\r\nA: b\rB: c"), BAD, Same),
        case("folded field", of("GET / HTTP/1.1\r\nA: b\r\n c"), BAD, Same),
        case("white space before a colon", of("GET / HTTP/1.1\r\nA : b"), BAD, Same),
    ]
}

fn hosts() -> Vec<Case> {
    let of = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n");
    vec![
        case("no Host", of(""), BAD, OK),
        case("empty Host", of("Host:\r\n"), BAD, OK),
        case("empty Host beside `http://a/`", "GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", BAD, OK),
        case("Host twice", of("Host: a\r\nHost: a\r\n"), BAD, OK),
        case("Host `u@a`", of("Host: u@a\r\n"), BAD, OK),
        case("Host `a/b`", of("Host: a/b\r\n"), BAD, OK),
        case("Host `a b`", of("Host: a b\r\n"), BAD, OK),
        case("Host `:80`", of("Host: :80\r\n"), BAD, OK),
        case("Host `a:80:81`", of("Host: a:80:81\r\n"), BAD, OK),
        case("Host `[::1`", of("Host: [::1\r\n"), BAD, OK),
    ]
}

fn lengths() -> Vec<Case> {
    let of = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n");
    let digits = "9".repeat(400);
    vec![
        case("Content-Length 2^63", of("Content-Length: 9223372036854775808\r\n"), TOO_LARGE, Closes),
        case(
            "Content-Length 2^64-1",
            of("Content-Length: 18446744073709551615\r\n"),
            TOO_LARGE,
            Answers("431 Request Header Fields Too Large"),
        ),
        case("Content-Length 2^64", of("Content-Length: 18446744073709551616\r\n"), BAD, Same),
        case("Content-Length of 400 digits", of(&format!("Content-Length: {digits}\r\n")), BAD, Same),
        case("Content-Length `+5`", of("Content-Length: +5\r\n"), BAD, Same),
        case("Content-Length `5, 5`", of("Content-Length: 5, 5\r\n"), BAD, Same),
        case("Content-Length twice", of("Content-Length: 5\r\nContent-Length: 5\r\n"), BAD, OK),
        case(
            "Content-Length and `chunked`",
            of("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            BAD,
            OK,
        ),
        case("`chunked, chunked`", of("Transfer-Encoding: chunked, chunked\r\n"), BAD, OK),
        case("`chunked, identity`", of("Transfer-Encoding: chunked, identity\r\n"), BAD, Same),
        case("`identity`", of("Transfer-Encoding: identity\r\n"), NOT_IMPLEMENTED, Answers(BAD)),
        case("`gzip, chunked`", of("Transfer-Encoding: gzip, chunked\r\n"), NOT_IMPLEMENTED, OK),
        case(
            "`chunked` in HTTP/1.0",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            BAD,
            Same,
        ),
        case(
            "16 MiB and a byte for `/echo`",
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 16777217\r\n\r\n",
            TOO_LARGE,
            Answers("413 Payload Too Large"),
        ),
    ]
}

fn chunks() -> Vec<Case> {
    let of = |target: &str, body: &str| {
        format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n")
    };
    let sized = |line: &str| of("/", &format!("{line}\r\nhello\r\n"));
    vec![
        case("chunk extension `5;`", sized("5;"), BAD, OK),
        case("chunk extension `5;;a`", sized("5;;a"), BAD, OK),
        case("chunk extension `5;=b`", sized("5;=b"), BAD, OK),
        case("chunk extension `5;a/b`", sized("5;a/b"), BAD, OK),
        case("chunk extension `5;a b`", sized("5;a b"), BAD, OK),
        case("chunk extension `5;a=`", sized("5;a="), BAD, OK),
        case("chunk extension `5;a=\"b`", sized("5;a=\"b"), BAD, OK),
        case("chunk extension `5;a=\"b\"c`", sized("5;a=\"b\"c"), BAD, OK),
        case("chunk extension `5;a` and a space", sized("5;a "), BAD, OK),
        case("chunk extension `5;` for `/echo`", of("/echo", "5;\r\nhello\r\n"), BAD, OK),
        case("chunk size `5` and a space", sized("5 "), BAD, OK),
        case("chunk size `0x5`", sized("0x5"), BAD, Closes),
        case("chunk size 2^63", sized("8000000000000000"), BAD, Closes),
        case("chunk size 2^64", sized("10000000000000000"), BAD, Closes),
        case("bare LF after a chunk size", of("/", "5\nhello\r\n"), BAD, Closes),
        case("trailer without a colon", of("/", "0\r\ntrailer\r\n\r\n"), BAD, Closes),
    ]
}

/// The rows of a table of hyper's differences.
pub(crate) fn differences() -> Vec<String> {
    let row = |case: Case| match case.hyper {
        Same => None,
        Answers(status) => Some(format!("| {} | {} | {status} |", case.name, case.status)),
        Closes => Some(format!("| {} | {} | no reply, the connection ends |", case.name, case.status)),
    };
    cases().into_iter().filter_map(row).collect()
}

/// Every case is refused as stated, whole and in two pieces.
pub(crate) fn refuses(subject: &Subject) -> Outcome {
    for case in cases() {
        for pieces in [1, 2] {
            let came = answer_to(subject, &case.request, pieces)
                .map_err(|error| format!("{}: {error}", case.name))?;
            let is_hyper = subject.variant.model == "hyper";
            if !(if is_hyper { case.is_done_by_hyper(&came) } else { case.is_refused(&came) }) {
                let came = String::from_utf8_lossy(&came);
                return Err(format!("{}, in {pieces} pieces, gets {came:?}", case.name));
            }
        }
    }
    Ok(())
}

impl Case {
    fn is_refused(&self, came: &[u8]) -> bool {
        is_right(&head(self.status, "Content-Length: 0\r\nConnection: close\r\n"), came)
    }

    fn is_done_by_hyper(&self, came: &[u8]) -> bool {
        match self.hyper {
            Same => self.is_refused(came),
            Answers(status) => came.starts_with(format!("HTTP/1.1 {status}\r\n").as_bytes()),
            Closes => came.is_empty(),
        }
    }
}

/// Sends a request in pieces, ends our side, and returns everything received.
fn answer_to(subject: &Subject, request: &[u8], pieces: usize) -> Outcome<Vec<u8>> {
    let mut client = subject.connect()?;
    for piece in request.chunks(request.len().div_ceil(pieces)) {
        // A server that has refused a request need not accept the rest.
        if client.send(piece).is_err() {
            break;
        }
        thread::yield_now();
    }
    // It may have closed already, which shows below.
    let _ = client.half_close();
    let mut came = Vec::new();
    match client.socket.read_to_end(&mut came) {
        // It keeps reading for a while, but not for this many bytes.
        Err(error) if error.kind() != ErrorKind::ConnectionReset || request.len() <= DISCARDED_BYTES => {
            Err(format!("after {} bytes: {error}", came.len()))
        }
        _ => Ok(came),
    }
}

/// The least that a server reads from a peer after a refusal.
const DISCARDED_BYTES: usize = 64 * 1024;

/// Unusual but valid requests are served.
pub(crate) fn serves(subject: &Subject) -> Outcome {
    let hello = || page("text/plain", b"Hello, World!");
    let get = |host: &str| format!("GET /plaintext HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let chunked = |chunks: &str| {
        let head = "POST /plaintext HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{chunks}\r\n")
    };
    for request in [
        get("a:"),
        get("[::1]:80"),
        get("%41-._~!$&'()*+,;=:80"),
        "GET http://b:80/plaintext?x HTTP/1.1\r\nHost: a\r\n\r\n".into(),
        "\r\nGET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n".into(),
        chunked("05;a\r\nhello\r\n0;b=c;d=\"e\"\r\n"),
        chunked("5 ; a = \"b; \\\"c\\\"\"\t;d\r\nhello\r\n000\r\nTrailer: x\r\n"),
    ] {
        let exchange = subject.owed(Exchange { request: request.clone().into(), reply: hello() });
        subject.connect()?.ask(&exchange).map_err(|error| format!("{request:?}: {error}"))?;
    }
    Ok(())
}

/// If configured so, a server answers `/` with 204, without a body or its length, and other pages as usual. This takes
/// another server than the one under test.
pub(crate) fn answers_without_content(subject: &Subject) -> Outcome {
    let workload = json!({"protocol": "http", "reply_bytes": 0, "reply_status": 204});
    let server = Subject::start_answering(&workload, &subject.variant, subject.wire, CONNECTIONS_MAX)?;
    let empty = || server.owed(Exchange { request: get("/"), reply: head("204 No Content", "") });
    let full =
        || server.owed(Exchange { request: get("/plaintext"), reply: page("text/plain", b"Hello, World!") });
    for _ in 0..3 {
        server.connect()?.ask(&empty())?;
        server.connect()?.ask(&full())?;
    }
    if !server.closes {
        // The next reply follows the one without a body directly.
        let mut client = server.connect()?;
        [empty(), full(), empty(), empty()].iter().try_for_each(|exchange| client.ask(exchange))?;
    }
    Ok(())
}

/// Bodies posted to `/echo` come back at any size; other methods are refused.
pub(crate) fn echoes(subject: &Subject) -> Outcome {
    for length in [0, 1, 1024, 16 * 1024, 100_000, 1024 * 1024] {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        for is_chunked in [false, true] {
            let exchange = subject.owed(posted(&body, is_chunked));
            let text = |error| format!("{length} bytes, chunked {is_chunked}: {error}");
            subject.connect()?.ask(&exchange).map_err(text)?;
        }
    }
    for (method, status, fields) in [
        ("GET", "405 Method Not Allowed", "Content-Length: 0\r\nAllow: POST, OPTIONS\r\n"),
        ("PUT", "405 Method Not Allowed", "Content-Length: 0\r\nAllow: POST, OPTIONS\r\n"),
        ("OPTIONS", "204 No Content", "Allow: POST, OPTIONS\r\n"),
    ] {
        let request = format!("{method} /echo HTTP/1.1\r\nHost: a\r\n\r\n").into();
        let exchange = subject.owed(Exchange { request, reply: head(status, fields) });
        subject.connect()?.ask(&exchange).map_err(|error| format!("{method}: {error}"))?;
    }
    Ok(())
}
