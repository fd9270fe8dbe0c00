//! The server half: three pages and an echo, any method of RFC 9110, and a proper refusal for everything else.

use core::fmt::Write;
use core::mem::MaybeUninit;

use httparse::{Header, Request};
use memchr::{memchr, memchr2};

use super::chunked::Chunked;
use super::fields::{Fault, Fields, Status, is_host, port};
use super::scan::{Scan, has_clean_lines};
use super::{ECHO_PATH, FIELDS_MAX, HEAD_BYTES_MAX, Persistence, TARGET_BYTES_MAX, Workload, page_number};
use crate::{Next, Output};

/// One connection as the server sees it: a few dozen bytes, because thousands of them may be idle.
pub struct Server {
    workload: &'static Workload,
    state: State,
}

enum State {
    /// At or in the head of a request; `scanned` bytes of it have been scanned before.
    Head { scan: Scan, scanned: u16 },
    /// In a body whose length is known.
    Length { left_bytes: u64, due: Reply },
    /// In a chunked body.
    Chunked { body: Chunked, due: Reply },
    /// In a body to echo. It stays unconsumed until it is complete, so the session buffers it, and a body that arrives
    /// whole is copied once.
    Echo { due: Reply },
    /// The same for a chunked body; `scanned_bytes` of it have been scanned before.
    EchoChunked { body: Chunked, scanned_bytes: u32, due: Reply },
    /// The last reply has been given; further input is not read.
    Closed,
}

/// The reply that is due once a request is complete.
#[derive(Clone, Copy)]
struct Reply {
    kind: Kind,
    persistence: Persistence,
    head_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A page of the workload, by its number.
    Page(u8),
    /// A page of the workload that has no content.
    NoContent,
    /// The body of the request and its length: for a chunked one, the length so far.
    Echo(u32),
    /// The allowed methods.
    Options(Methods),
    NotAllowed(Methods),
    Refusal(Status),
}

/// The methods of a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Methods {
    OfPage,
    OfEcho,
}

impl Methods {
    fn of(path: &str) -> Self {
        if path == ECHO_PATH { Self::OfEcho } else { Self::OfPage }
    }

    /// The field that lists them.
    const fn line(self) -> &'static [u8] {
        match self {
            Self::OfPage => b"Allow: GET, HEAD, POST, PUT, OPTIONS\r\n",
            Self::OfEcho => b"Allow: POST, OPTIONS\r\n",
        }
    }
}

/// The result of a step.
enum Step {
    Used(usize),
    /// The head is incomplete, or the connection is closed.
    Nothing,
}

impl crate::Server<Workload> for Server {
    fn new(workload: &'static Workload) -> Self {
        Self { workload, state: BETWEEN_REQUESTS }
    }

    fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next) {
        let mut used = 0;
        while used < input.len() {
            if output.room_bytes() == 0 {
                return (used, Next::Send);
            }
            match self.step(&input[used..], output) {
                Step::Used(length) => used += length,
                Step::Nothing => break,
            }
        }
        (used, if let State::Closed = self.state { Next::Close } else { Next::Receive })
    }
}

const BETWEEN_REQUESTS: State = State::Head { scan: Scan::head(), scanned: 0 };

type Headers<'input> = [MaybeUninit<Header<'input>>; FIELDS_MAX];

impl Server {
    /// Consumes a head, or the received part of a body.
    fn step(&mut self, input: &[u8], output: &mut Output) -> Step {
        let (used, due) = match &mut self.state {
            State::Head { scan, scanned } => {
                let (scan, scanned) = (*scan, *scanned);
                return self.on_head(scan, scanned, input, output);
            }
            State::Length { left_bytes, due } => {
                let length = usize::try_from(*left_bytes).unwrap_or(usize::MAX).min(input.len());
                *left_bytes -= length as u64;
                (length, (*left_bytes == 0).then_some(*due))
            }
            State::Chunked { body, due } => match body.advance(input, |_| Ok(())) {
                Ok((length, whole)) => (length, whole.then_some(*due)),
                Err(fault) => return self.refuse(fault.status, output),
            },
            State::Echo { due } => {
                let due = *due;
                return self.on_echo(due, input, output);
            }
            State::EchoChunked { body, scanned_bytes, due } => {
                let (body, scanned_bytes, due) = (*body, *scanned_bytes, *due);
                return self.on_echo_chunked(body, scanned_bytes, due, input, output);
            }
            State::Closed => return Step::Nothing,
        };
        if let Some(reply) = due {
            self.answer(reply, output);
        }
        Step::Used(used)
    }

    fn on_head(&mut self, mut scan: Scan, scanned: u16, input: &[u8], output: &mut Output) -> Step {
        let window = &input[..input.len().min(HEAD_BYTES_MAX)];
        let mut headers: Headers<'_> = [const { MaybeUninit::uninit() }; FIELDS_MAX];

        // Nearly every head arrives complete and valid, and is parsed at once.
        if scanned == 0
            && let Some((request, length)) = parse(window, &mut headers)
        {
            return self.on_request(&request, length, output);
        }
        for byte in &window[usize::from(scanned)..] {
            match scan.feed(*byte) {
                Ok(false) => {}
                Ok(true) => match parse(window, &mut headers) {
                    Some((request, length)) => return self.on_request(&request, length, output),
                    None => return self.refuse(Status::BadRequest, output),
                },
                Err(fault) => return self.refuse(fault.status, output),
            }
        }
        if window.len() == HEAD_BYTES_MAX {
            // No known method is this long (RFC 9112, section 3).
            let is_method = scan.is_in_method();
            let status = if is_method { Status::NotImplemented } else { Status::FieldsTooLarge };
            return self.refuse(status, output);
        }
        self.state = State::Head { scan, scanned: window.len() as u16 };
        Step::Nothing
    }

    /// Decides on the reply to a head, and gives it if no body comes first.
    fn on_request(&mut self, request: &Request<'_, '_>, length: usize, output: &mut Output) -> Step {
        let method = request.method.unwrap_or_default();
        // The target is checked first, so a scan that stops there gives the same answer.
        let kind = match route(method, request.path.unwrap_or_default()) {
            Kind::Refusal(Status::BadRequest) => return self.refuse(Status::BadRequest, output),
            Kind::Page(number) if self.workload.is_empty(number) => Kind::NoContent,
            kind => kind,
        };
        let old = request.version == Some(0);
        let fields = match Fields::read(request.headers) {
            Ok(fields) => fields,
            Err(fault) => return self.refuse(fault.status, output),
        };
        let host_is_right = fields.host.map_or(old, is_host);
        if !host_is_right || (old && fields.chunked) {
            return self.refuse(Status::BadRequest, output);
        }
        let expects_continue = match fields.expect {
            // HTTP/1.0 has no expectations.
            Some(expectation) if !old => {
                if !expectation.eq_ignore_ascii_case(b"100-continue") {
                    return self.refuse(Status::ExpectationFailed, output);
                }
                true
            }
            _ => false,
        };
        let mut due = Reply {
            kind,
            persistence: persistence(self.workload, old, method, &fields),
            head_only: method == "HEAD",
        };

        let content_length = fields.content_length.unwrap_or(0);
        if let Kind::Echo(length) = &mut due.kind {
            if content_length > Workload::ECHO_BYTES_MAX as u64 {
                return self.refuse(Status::ContentTooLarge, output);
            }
            *length = content_length as u32;
        }
        if !fields.chunked && content_length == 0 {
            self.answer(due, output);
            return Step::Used(length);
        }
        if expects_continue {
            // Sent even if the body is here already, which RFC 9110 leaves open. So the reply does not depend on how
            // the network split the request.
            output.push(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let is_echo = matches!(due.kind, Kind::Echo(_));
        self.state = match (is_echo, fields.chunked) {
            (false, false) => State::Length { left_bytes: content_length, due },
            (false, true) => State::Chunked { body: Chunked::new(), due },
            (true, false) => State::Echo { due },
            (true, true) => State::EchoChunked { body: Chunked::new(), scanned_bytes: 0, due },
        };
        Step::Used(length)
    }

    /// Echoes a body once it is complete.
    fn on_echo(&mut self, due: Reply, input: &[u8], output: &mut Output) -> Step {
        let Kind::Echo(length) = due.kind else { unreachable!("only an echo is due in this state") };
        let Some(body) = input.get(..length as usize) else { return Step::Nothing };
        self.answer(due, output);
        output.push(body);
        Step::Used(body.len())
    }

    /// Scans a chunked body for its end, each byte once, and echoes its content once it is complete.
    fn on_echo_chunked(
        &mut self,
        mut body: Chunked,
        scanned_bytes: u32,
        mut due: Reply,
        input: &[u8],
        output: &mut Output,
    ) -> Step {
        let Kind::Echo(content_bytes) = &mut due.kind else {
            unreachable!("only an echo is due in this state");
        };
        let window = &input[..input.len().min(ECHO_WIRE_BYTES_MAX)];
        let scanned = body.advance(&window[scanned_bytes as usize..], |data| {
            *content_bytes += data.len() as u32;
            if *content_bytes as usize > Workload::ECHO_BYTES_MAX { Err(ECHO_TOO_LONG) } else { Ok(()) }
        });
        match scanned {
            Err(fault) => self.refuse(fault.status, output),
            Ok((used, true)) => {
                self.answer(due, output);
                let body = &window[..scanned_bytes as usize + used];
                let again = Chunked::new().advance(body, |data| {
                    output.push(data);
                    Ok(())
                });
                debug_assert_eq!(again, Ok((body.len(), true)), "the second look differs from the first");
                Step::Used(body.len())
            }
            Ok(_) if window.len() == ECHO_WIRE_BYTES_MAX => self.refuse(ECHO_TOO_LONG.status, output),
            Ok(_) => {
                self.state = State::EchoChunked { body, scanned_bytes: window.len() as u32, due };
                Step::Nothing
            }
        }
    }

    /// Gives a reply, and starts the next request unless it is the last.
    fn answer(&mut self, reply: Reply, output: &mut Output) {
        match reply.kind {
            Kind::Page(number) => {
                let page = &self.workload.pages[usize::from(number)];
                output.push(b"HTTP/1.1 200 OK\r\nServer: iolab\r\nDate: ");
                output.push_date();
                output.push(&page.rests[reply.persistence as usize]);
                if !reply.head_only {
                    output.push(&page.body);
                }
            }
            Kind::Echo(length) => {
                output.push(b"HTTP/1.1 200 OK\r\nServer: iolab\r\nDate: ");
                output.push_date();
                let line = reply.persistence.line();
                let fields = "\r\nContent-Type: application/octet-stream\r\nContent-Length:";
                write!(output, "{fields} {length}\r\n{line}\r\n").expect("an output takes any text");
            }
            Kind::NoContent => push_empty(NO_CONTENT, &[reply.persistence.line().as_bytes()], output),
            Kind::Options(methods) => {
                let fields = [methods.line(), reply.persistence.line().as_bytes()];
                push_empty(NO_CONTENT, &fields, output);
            }
            Kind::NotAllowed(methods) => {
                let fields = [NO_BODY, methods.line(), reply.persistence.line().as_bytes()];
                push_empty(status_line(Status::MethodNotAllowed), &fields, output);
            }
            Kind::Refusal(status) => {
                let fields = [NO_BODY, reply.persistence.line().as_bytes()];
                push_empty(status_line(status), &fields, output);
            }
        }
        self.state = if reply.persistence == Persistence::Close { State::Closed } else { BETWEEN_REQUESTS };
    }

    /// Refuses a request whose end cannot be trusted, and closes.
    fn refuse(&mut self, status: Status, output: &mut Output) -> Step {
        let reply = Reply { kind: Kind::Refusal(status), persistence: Persistence::Close, head_only: false };
        self.answer(reply, output);
        Step::Used(0)
    }
}

/// The status line of a reply without a body or a length (RFC 9110, section 8.6).
const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content";

/// The field of other replies without a body.
const NO_BODY: &[u8] = b"Content-Length: 0\r\n";

/// A chunked body to echo is buffered as received, and its chunks may have one byte each. So chunk lines, extensions
/// and trailers may take as much as the content.
const ECHO_WIRE_BYTES_MAX: usize = 2 * Workload::ECHO_BYTES_MAX;

const ECHO_TOO_LONG: Fault =
    Fault { status: Status::ContentTooLarge, text: "a body is too long to be sent back" };

/// Parses a complete and well-formed head.
fn parse<'headers, 'input>(
    window: &'input [u8],
    headers: &'headers mut Headers<'input>,
) -> Option<(Request<'headers, 'input>, usize)> {
    let mut request = Request::new(&mut []);
    let Ok(httparse::Status::Complete(length)) = request.parse_with_uninit_headers(window, headers) else {
        return None;
    };
    let target = request.path?;
    let clean = has_clean_lines(&window[..length]) && target.len() <= TARGET_BYTES_MAX && target.is_ascii();
    clean.then_some((request, length))
}

/// The reply to a request.
fn route(method: &str, target: &str) -> Kind {
    match method {
        "GET" | "HEAD" | "POST" | "PUT" => match path(target) {
            Some(path) => page_number(path).map_or_else(|| beside_pages(method, path), Kind::Page),
            None => Kind::Refusal(Status::BadRequest),
        },
        "OPTIONS" if target == "*" => Kind::Options(Methods::OfPage),
        "OPTIONS" => match path(target) {
            Some(path) if path == ECHO_PATH || page_number(path).is_some() => {
                Kind::Options(Methods::of(path))
            }
            Some(_) => Kind::Refusal(Status::NotFound),
            None => Kind::Refusal(Status::BadRequest),
        },
        "DELETE" | "PATCH" | "TRACE" => {
            let not_allowed = |path| Kind::NotAllowed(Methods::of(path));
            path(target).map_or(Kind::Refusal(Status::BadRequest), not_allowed)
        }
        // The target of CONNECT is a host and a port, not a path (RFC 9110, section 9.3.6).
        "CONNECT" if port(target.as_bytes()).is_some_and(|port| !port.is_empty()) => {
            Kind::NotAllowed(Methods::OfPage)
        }
        "CONNECT" => Kind::Refusal(Status::BadRequest),
        _ if target.contains('#') => Kind::Refusal(Status::BadRequest),
        _ => Kind::Refusal(Status::NotImplemented),
    }
}

/// The reply to a request for something that is not a page.
fn beside_pages(method: &str, path: &str) -> Kind {
    match (path, method) {
        (ECHO_PATH, "POST") => Kind::Echo(0),
        (ECHO_PATH, _) => Kind::NotAllowed(Methods::OfEcho),
        _ => Kind::Refusal(Status::NotFound),
    }
}

/// The path of a target in origin form or absolute form, without its query. None for a target with a fragment.
pub(super) fn path(target: &str) -> Option<&str> {
    if target == "/" {
        return Some(target);
    }
    let local = if target.starts_with('/') { target } else { after_authority(target)? };
    let (path, query) = match memchr2(b'?', b'#', local.as_bytes()) {
        Some(at) => local.split_at(at),
        None => (local, ""),
    };
    // Fragments are for the client only (RFC 9112, section 3.2).
    if memchr(b'#', query.as_bytes()).is_some() {
        return None;
    }
    Some(if path.is_empty() { "/" } else { path })
}

/// The rest after `http://` and a host in the absolute form.
fn after_authority(target: &str) -> Option<&str> {
    const SCHEME: &str = "http://";
    let (scheme, rest) = target.split_at_checked(SCHEME.len())?;
    let (authority, local) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let right = scheme.eq_ignore_ascii_case(SCHEME) && is_host(authority.as_bytes());
    right.then_some(local)
}

fn persistence(workload: &Workload, old: bool, method: &str, fields: &Fields<'_>) -> Persistence {
    match old {
        _ if fields.close || method == "CONNECT" || !workload.keep_alive => Persistence::Close,
        true if fields.keep_alive => Persistence::KeepOld,
        true => Persistence::Close,
        false => Persistence::Keep,
    }
}

/// Appends a reply without a body.
fn push_empty(status_line: &[u8], fields: &[&[u8]], output: &mut Output) {
    output.push(status_line);
    output.push(b"\r\nServer: iolab\r\nDate: ");
    output.push_date();
    output.push(b"\r\n");
    for field in fields {
        output.push(field);
    }
    output.push(b"\r\n");
}

fn status_line(status: Status) -> &'static [u8] {
    match status {
        Status::BadRequest => b"HTTP/1.1 400 Bad Request",
        Status::NotFound => b"HTTP/1.1 404 Not Found",
        Status::MethodNotAllowed => b"HTTP/1.1 405 Method Not Allowed",
        Status::ContentTooLarge => b"HTTP/1.1 413 Content Too Large",
        Status::UriTooLong => b"HTTP/1.1 414 URI Too Long",
        Status::ExpectationFailed => b"HTTP/1.1 417 Expectation Failed",
        Status::FieldsTooLarge => b"HTTP/1.1 431 Request Header Fields Too Large",
        Status::NotImplemented => b"HTTP/1.1 501 Not Implemented",
        Status::VersionNotSupported => b"HTTP/1.1 505 HTTP Version Not Supported",
    }
}
