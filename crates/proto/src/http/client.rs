//! The client half: a strict parser, and a byte-exact shortcut past it for replies like the last one.
//!
//! The first reply of a connection is always parsed. Its head then serves as a template in which only the date may
//! change. A later head that equals it has the same meaning; any other is parsed again. Bodies are compared as they
//! arrive, at any size.

use alloc::{rc::Rc, string::String, vec::Vec};
use core::cell::RefCell;
use core::mem::MaybeUninit;
use core::ops::Range;

use httparse::{Header, Response};

use super::chunked::Chunked;
use super::fields::{Fault, Fields, bad};
use super::scan::has_clean_lines;
use super::{Date, FIELDS_MAX, HEAD_BYTES_MAX, Verify, Workload};
use crate::{Malformed, Verdict};
use deviation::Deviation;

mod deviation;

/// The first byte of a TLS server's answer to a plain-text client (RFC 8446, 5.1).
const TLS_ALERT: u8 = 21;

/// The longest body that is kept for comparison.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// More interim replies than this to one request are refused, so that they cannot go on for ever.
const INTERIM_MAX: u8 = 16;

/// One connection as the client sees it.
pub struct Client {
    workload: &'static Workload,
    learnt: Rc<RefCell<Learnt>>,
    state: State,
    outstanding: u32,
    interim: u8,
    /// Whether a reply of this connection has been parsed.
    parsed: bool,
    keeps_alive: bool,
    /// The status of the last complete reply.
    status: Option<u16>,
    /// The length of its body.
    body_bytes: usize,
    /// The received part of the last wrong body.
    deviation: Deviation,
}

enum State {
    Head,
    Body { framing: Framing, received_bytes: usize, verdict: Verdict, status: u16 },
}

/// How the end of a body is found, with what is left of it.
#[derive(Clone, Copy)]
enum Framing {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

/// What a head means, without its text.
#[derive(Clone, Copy)]
struct Meaning {
    framing: Framing,
    closes: bool,
    verdict: Verdict,
    status: u16,
}

impl crate::Client<Workload> for Client {
    fn new(workload: &'static Workload) -> Self {
        Self::fresh(workload, Rc::new(RefCell::new(Learnt::new(workload))))
    }

    fn request(&mut self) -> &'static [u8] {
        self.outstanding += 1;
        &self.workload.request
    }

    fn reply(&mut self, input: &[u8]) -> Result<(usize, Option<Verdict>), Malformed> {
        if input.is_empty() {
            return Ok((0, None));
        }
        if self.outstanding == 0 {
            return Err(Malformed("bytes came without a request"));
        }
        let mut used = 0;
        while let State::Head = self.state {
            match self.head(&input[used..])? {
                0 => return Ok((used, None)),
                length => used += length,
            }
        }
        let (length, verdict) = self.body(&input[used..]).map_err(|fault| Malformed(fault.text))?;
        Ok((used + length, verdict))
    }

    fn end(&mut self) -> Option<Verdict> {
        self.keeps_alive = false;
        match self.state {
            State::Body { framing: Framing::UntilClose, received_bytes, verdict, status } => {
                Some(self.finish(received_bytes, verdict, status))
            }
            _ => None,
        }
    }

    fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    fn status(&self) -> Option<u16> {
        self.status
    }

    fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    fn deviation(&self) -> Option<String> {
        let Learnt { body, body_is_whole, .. } = &*self.learnt.borrow();
        Some(self.deviation.text(body, *body_is_whole, self.body_bytes))
    }
}

impl Clone for Client {
    fn clone(&self) -> Self {
        Self::fresh(self.workload, Rc::clone(&self.learnt))
    }
}

impl Client {
    fn fresh(workload: &'static Workload, learnt: Rc<RefCell<Learnt>>) -> Self {
        Self {
            workload,
            learnt,
            state: State::Head,
            outstanding: 0,
            interim: 0,
            parsed: false,
            keeps_alive: workload.keep_alive,
            status: None,
            body_bytes: 0,
            deviation: Deviation::default(),
        }
    }

    /// Consumes a head, interim or final, if it is complete.
    fn head(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        if self.parsed {
            let mut learnt = self.learnt.borrow_mut();
            if let Some(meaning) = learnt.meaning(input) {
                let length = learnt.head.len();
                drop(learnt);
                self.begin_body(meaning);
                return Ok(length);
            }
        }
        let window = &input[..input.len().min(HEAD_BYTES_MAX)];
        let mut headers = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let Some((response, length)) = parse(window, &mut headers)? else {
            if window.len() == HEAD_BYTES_MAX {
                return Err(Malformed("the head of a reply is over 16 KiB"));
            }
            return Ok(0);
        };
        match interpret(&response, self.workload).map_err(|fault| Malformed(fault.text))? {
            None if self.interim == INTERIM_MAX => {
                return Err(Malformed("there are too many interim replies"));
            }
            None => self.interim += 1,
            Some(meaning) => {
                if meaning.verdict == Verdict::Correct {
                    self.learnt.borrow_mut().learn_head(&window[..length], response.headers, meaning);
                }
                self.parsed = true;
                self.begin_body(meaning);
            }
        }
        Ok(length)
    }

    fn begin_body(&mut self, meaning: Meaning) {
        self.keeps_alive &= !meaning.closes;
        let Meaning { framing, verdict, status, .. } = meaning;
        self.state = State::Body { framing, received_bytes: 0, verdict, status };
    }

    /// Consumes bytes of the body.
    fn body(&mut self, input: &[u8]) -> Result<(usize, Option<Verdict>), Fault> {
        let State::Body { framing, received_bytes, verdict, status } = &mut self.state else {
            unreachable!("only called in a body");
        };
        let mut learnt = self.learnt.borrow_mut();
        let mut take = |data: &[u8]| {
            // The body of a reply with another status is not compared.
            match *verdict {
                Verdict::Correct if self.workload.verify == Verify::Bytes => {
                    *verdict = learnt.compare(*received_bytes, data)?;
                    if *verdict == Verdict::Wrong {
                        self.deviation.begin(&learnt.body, *received_bytes, data);
                    }
                }
                Verdict::Wrong => self.deviation.go_on(data),
                _ => {}
            }
            *received_bytes = received_bytes.saturating_add(data.len());
            Ok(())
        };
        let (used, whole) = match framing {
            Framing::Length(left_bytes) => {
                let length = usize::try_from(*left_bytes).unwrap_or(usize::MAX).min(input.len());
                take(&input[..length])?;
                *left_bytes -= length as u64;
                (length, *left_bytes == 0)
            }
            Framing::Chunked(chunked) => chunked.advance(input, take)?,
            Framing::UntilClose => {
                take(input)?;
                (input.len(), false)
            }
        };
        let (received_bytes, verdict, status) = (*received_bytes, *verdict, *status);
        drop(learnt);
        Ok((used, whole.then(|| self.finish(received_bytes, verdict, status))))
    }

    /// Judges a complete reply, and prepares for the next.
    fn finish(&mut self, received_bytes: usize, verdict: Verdict, status: u16) -> Verdict {
        self.state = State::Head;
        self.status = Some(status);
        self.body_bytes = received_bytes;
        self.outstanding -= 1;
        self.interim = 0;
        if verdict == Verdict::Correct && self.workload.verify == Verify::Bytes {
            let mut learnt = self.learnt.borrow_mut();
            let verdict = learnt.end_body(received_bytes);
            if verdict == Verdict::Wrong {
                self.deviation.begin(&learnt.body, received_bytes, &[]);
            }
            verdict
        } else {
            verdict
        }
    }
}

/// What the connections of a thread have learnt about the replies.
struct Learnt {
    /// The last head of a correct reply; empty if there was none.
    head: Vec<u8>,
    /// The range of the value of `Date` in it.
    date: Range<usize>,
    meaning: Meaning,
    /// The body that every reply must have, or the part of it received so far.
    body: Vec<u8>,
    body_is_whole: bool,
}

impl Learnt {
    fn new(workload: &Workload) -> Self {
        let expected = workload.expect_body.as_deref();
        Self {
            head: Vec::new(),
            date: 0..0,
            meaning: Meaning {
                framing: Framing::Length(0),
                closes: true,
                verdict: Verdict::Correct,
                status: 0,
            },
            body: expected.map_or_else(Vec::new, Vec::from),
            body_is_whole: expected.is_some(),
        }
    }

    fn learn_head(&mut self, head: &[u8], headers: &[Header<'_>], meaning: Meaning) {
        self.head.clear();
        self.head.extend_from_slice(head);
        self.meaning = meaning;
        let mut dates = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("date"));
        self.date = match dates.next() {
            Some(header) if is_date(header.value) => offset(head, header.value),
            _ => 0..0,
        };
    }

    /// The meaning of the head at the front of `input`, if it equals the learnt one except for its date.
    fn meaning(&mut self, input: &[u8]) -> Option<Meaning> {
        let head = input.get(..self.head.len())?;
        if head == self.head {
            return (!head.is_empty()).then_some(self.meaning);
        }
        let Range { start, end } = self.date;
        if head[..start] != self.head[..start]
            || head[end..] != self.head[end..]
            || !is_date(&head[start..end])
        {
            return None;
        }
        // The date is learnt too: within the same second the next comparison succeeds at once.
        self.head[start..end].copy_from_slice(&head[start..end]);
        Some(self.meaning)
    }

    /// Compares a part of a body from offset `at` on. Learns it if the body is not known that far.
    fn compare(&mut self, at: usize, data: &[u8]) -> Result<Verdict, Fault> {
        let known = self.body.get(at..).unwrap_or_default();
        let (old, new) = data.split_at(data.len().min(known.len()));
        if old != &known[..old.len()] || (self.body_is_whole && !new.is_empty()) {
            return Ok(Verdict::Wrong);
        }
        if self.body.len() + new.len() > BODY_BYTES_MAX {
            return Err(bad("a body over 64 MiB cannot be compared: verify the status only"));
        }
        self.body.extend_from_slice(new);
        Ok(Verdict::Correct)
    }

    /// Judges the length of a body whose bytes have been compared. The first complete body is the expected one.
    fn end_body(&mut self, length: usize) -> Verdict {
        if length != self.body.len() {
            return Verdict::Wrong;
        }
        self.body_is_whole = true;
        Verdict::Correct
    }
}

/// Parses a head strictly; None if it is incomplete.
fn parse<'headers, 'input>(
    window: &'input [u8],
    headers: &'headers mut [MaybeUninit<Header<'input>>; FIELDS_MAX],
) -> Result<Option<(Response<'headers, 'input>, usize)>, Malformed> {
    // The parser would skip empty lines, but nothing may come between replies.
    match window.first() {
        Some(b'H') | None => {}
        Some(&TLS_ALERT) => return Err(Malformed("the server speaks TLS: write https://")),
        Some(_) => return Err(Malformed("a reply does not begin with HTTP/")),
    }
    let mut response = Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, window, headers);
    match parsed {
        Ok(httparse::Status::Complete(length)) if has_clean_lines(&window[..length]) => {
            Ok(Some((response, length)))
        }
        Ok(httparse::Status::Complete(_)) => Err(Malformed("a line of a reply's head ends with a bare LF")),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::Version) => Err(Malformed("the version of a reply is not HTTP/1.0 or HTTP/1.1")),
        Err(httparse::Error::Status) => Err(Malformed("the status of a reply is malformed")),
        Err(httparse::Error::TooManyHeaders) => Err(Malformed("a reply has over 64 header fields")),
        Err(_) => Err(Malformed("a header field of a reply is malformed")),
    }
}

/// The meaning of a head; None if it is interim.
fn interpret(response: &Response<'_, '_>, workload: &Workload) -> Result<Option<Meaning>, Fault> {
    let status = response.code.unwrap_or_default();
    let old = response.version == Some(0);
    let fields = Fields::read(response.headers)?;
    let has_framing = fields.chunked || fields.content_length.is_some();
    if old && fields.chunked {
        return Err(bad("an HTTP/1.0 reply is chunked"));
    }
    let framing = match status {
        101 => return Err(bad("the server switches protocols without a request to do so")),
        100..200 if has_framing => return Err(bad("an interim reply claims to have a body")),
        100..200 => return Ok(None),
        204 if fields.chunked || fields.content_length.is_some_and(|length| length > 0) => {
            return Err(bad("a reply without content (204) claims to have a body"));
        }
        // The length in a 304, and in any reply to HEAD, is that of the omitted body.
        204 | 304 => Framing::Length(0),
        200..600 if workload.is_head => Framing::Length(0),
        200..600 if fields.chunked => Framing::Chunked(Chunked::new()),
        200..600 => fields.content_length.map_or(Framing::UntilClose, Framing::Length),
        _ => return Err(bad("the status of a reply is not between 100 and 599")),
    };
    let closes = matches!(framing, Framing::UntilClose) || fields.close || (old && !fields.keep_alive);
    let verdict = if workload.expects(status) { Verdict::Correct } else { Verdict::Status };
    Ok(Some(Meaning { framing, closes, verdict, status }))
}

/// Whether a value has the format of a date. Any other change is a change of the head.
fn is_date(value: &[u8]) -> bool {
    value.len() == Date::BYTES
        && value.ends_with(b" GMT")
        && value.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The range of `part` in `whole`.
fn offset(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}
