//! Echo: every message comes back as it was, in one of three framings.
//!
//! It is the least a server can do, so it shows the cost of I/O alone; the framings add the least that a
//! protocol needs to find the end of a message.

use alloc::{format, rc::Rc, string::String, vec::Vec};
use core::cell::Cell;

use crate::{Malformed, Next, Output, Protocol, Verdict};

/// The protocol `echo`.
pub struct Echo;

impl Protocol for Echo {
    const NAME: &'static str = "echo";
    type Workload = Workload;
    type Server = Server;
    type Client = Client;
}

/// How a message is told from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not at all: what came goes back at once.
    Raw,
    /// By its length, two bytes, the higher first.
    Prefix,
    /// By the CR LF after it; either alone is a byte like others.
    Crlf,
}

/// What goes to and fro.
pub struct Workload {
    /// How a message is told from the next.
    pub framing: Framing,
    /// Length of a message without its frame.
    pub message_bytes: usize,
}

impl Workload {
    /// The longest message: a client holds a few of them in memory.
    pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// The longest line, without CR LF: a server holds it whole, once for each connection.
    pub const LINE_BYTES_MAX: usize = 1024 * 1024;

    /// Messages of `message_bytes`.
    ///
    /// # Errors
    /// One line that says why there cannot be such messages, and what can be.
    pub fn new(framing: Framing, message_bytes: usize) -> Result<Self, String> {
        let (word, least, most) = match framing {
            Framing::Raw => ("raw", 1, Self::MESSAGE_BYTES_MAX),
            Framing::Prefix => ("prefix", 0, usize::from(u16::MAX)),
            Framing::Crlf => ("crlf", 0, Self::LINE_BYTES_MAX),
        };
        if !(least..=most).contains(&message_bytes) {
            return Err(format!(
                "message_bytes is {message_bytes}, but with framing {word} a message has \
                 {least} to {most} bytes"
            ));
        }
        Ok(Self { framing, message_bytes })
    }
}

/// One connection as the server sees it.
pub struct Server {
    framing: Framing,
    /// How far the unfinished line at the front of the input has been searched for its end.
    searched_bytes: usize,
}

impl crate::Server<Workload> for Server {
    fn new(workload: &'static Workload) -> Self {
        Self { framing: workload.framing, searched_bytes: 0 }
    }

    fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next) {
        let room_bytes = output.room_bytes();
        let (used, next) = match self.framing {
            Framing::Raw => raw(input, room_bytes),
            Framing::Prefix => prefixed(input, room_bytes),
            Framing::Crlf => self.lines(input, room_bytes),
        };
        // Messages lie side by side and go back as they are: one copy for all.
        output.push(&input[..used]);
        (used, next)
    }
}

fn raw(input: &[u8], room_bytes: usize) -> (usize, Next) {
    if input.len() > room_bytes { (room_bytes, Next::Send) } else { (input.len(), Next::Receive) }
}

fn prefixed(input: &[u8], room_bytes: usize) -> (usize, Next) {
    let mut used = 0;
    while let [high, low, rest @ ..] = &input[used..] {
        if used >= room_bytes {
            return (used, Next::Send);
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if rest.len() < length {
            break;
        }
        used += FRAME_BYTES + length;
    }
    (used, Next::Receive)
}

impl Server {
    fn lines(&mut self, input: &[u8], room_bytes: usize) -> (usize, Next) {
        let mut used = 0;
        while used < input.len() {
            if used >= room_bytes {
                return (used, Next::Send);
            }
            let line = &input[used..];
            let Some(length) = self.line_bytes(line) else {
                return (used, if line.len() < LINE_BYTES_MAX { Next::Receive } else { Next::Close });
            };
            if length > LINE_BYTES_MAX {
                return (used, Next::Close);
            }
            used += length;
        }
        (used, Next::Receive)
    }

    /// The length of the line at the front of `input` with its end, if that has come. What has been searched
    /// is not searched again, or a long line in small pieces would cost the square of its length.
    fn line_bytes(&mut self, input: &[u8]) -> Option<usize> {
        while let Some(found) = memchr::memchr(b'\n', &input[self.searched_bytes..]) {
            let at = self.searched_bytes + found;
            self.searched_bytes = at + 1;
            if at > 0 && input[at - 1] == b'\r' {
                self.searched_bytes = 0;
                return Some(at + 1);
            }
        }
        self.searched_bytes = input.len();
        None
    }
}

const LINE_END: &[u8] = b"\r\n";

/// A frame is two bytes, either before or after the message.
const FRAME_BYTES: usize = 2;

/// The longest line with its end.
const LINE_BYTES_MAX: usize = Workload::LINE_BYTES_MAX + FRAME_BYTES;

/// One connection as the client sees it.
///
/// Replies come in the order of requests and have their lengths, so two counters say what is due.
pub struct Client {
    messages: Messages,
    /// Which message comes first on the next clone, so that connections mixed up by a server show.
    first_of_next: Rc<Cell<usize>>,
    first: usize,
    requested: usize,
    replied: usize,
    /// Bytes of the oldest outstanding reply that have come.
    received_bytes: usize,
    verdict: Verdict,
}

impl crate::Client<Workload> for Client {
    fn new(workload: &'static Workload) -> Self {
        Self::fresh(Messages::new(workload), Rc::new(Cell::new(0)))
    }

    fn request(&mut self) -> &'static [u8] {
        let message = self.messages.at(self.first.wrapping_add(self.requested));
        self.requested = self.requested.wrapping_add(1);
        message
    }

    fn reply(&mut self, input: &[u8]) -> Result<(usize, Option<Verdict>), Malformed> {
        if input.is_empty() {
            return Ok((0, None));
        }
        if self.replied == self.requested {
            return Err(Malformed("bytes came back that were never sent"));
        }
        let message = self.messages.at(self.first.wrapping_add(self.replied));
        let due = &message[self.received_bytes..];
        let used = due.len().min(input.len());
        if input[..used] != due[..used] {
            self.verdict = Verdict::Wrong;
        }
        if used < due.len() {
            self.received_bytes += used;
            return Ok((used, None));
        }
        self.replied = self.replied.wrapping_add(1);
        self.received_bytes = 0;
        Ok((used, Some(core::mem::replace(&mut self.verdict, Verdict::Correct))))
    }

    fn end(&mut self) -> Option<Verdict> {
        None
    }

    fn keeps_alive(&self) -> bool {
        true
    }
}

impl Clone for Client {
    fn clone(&self) -> Self {
        Self::fresh(self.messages, Rc::clone(&self.first_of_next))
    }
}

impl Client {
    fn fresh(messages: Messages, first_of_next: Rc<Cell<usize>>) -> Self {
        let first = first_of_next.get();
        first_of_next.set(first.wrapping_add(1));
        Self {
            messages,
            first_of_next,
            first,
            requested: 0,
            replied: 0,
            received_bytes: 0,
            verdict: Verdict::Correct,
        }
    }
}

/// The messages of a thread, which differ from one to the next unless they are empty. They live as long as
/// the process, as requests must.
///
/// Raw messages are windows on one run of pseudo-random bytes; those with frames are side by side in a table.
#[derive(Clone, Copy)]
struct Messages {
    bytes: &'static [u8],
    /// The length of each with its frame.
    message_bytes: usize,
    /// How many places there are; a power of two.
    places: usize,
    /// From one place to the next.
    place_bytes: usize,
    /// How many places lie between one message and the next; odd, so that all are visited.
    stride: usize,
}

impl Messages {
    const WINDOWS: usize = 4096;

    /// Far enough that a message which lost or gained a few bytes does not look like its neighbour.
    const WINDOW_STRIDE: usize = 1021;

    /// Few, because each may be large.
    const FRAMED: usize = 8;

    fn new(workload: &Workload) -> Self {
        let payload_bytes = workload.message_bytes;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        if workload.framing == Framing::Raw {
            let bytes: Vec<u8> = (0..Self::WINDOWS + payload_bytes).map(|at| random.byte(at)).collect();
            let (places, stride) = (Self::WINDOWS, Self::WINDOW_STRIDE);
            return Self {
                bytes: bytes.leak(),
                message_bytes: payload_bytes,
                places,
                place_bytes: 1,
                stride,
            };
        }
        let message_bytes = payload_bytes + FRAME_BYTES;
        let mut bytes = Vec::with_capacity(Self::FRAMED * message_bytes);
        for place in 0..Self::FRAMED {
            let mut payload = (place..place + payload_bytes).map(|at| random.byte(at));
            if workload.framing == Framing::Prefix {
                bytes.extend((payload_bytes as u16).to_be_bytes());
                bytes.extend(payload);
            } else {
                // A line without CR or LF in it; turning this bit keeps what makes neighbours differ.
                bytes.extend(
                    payload.by_ref().map(|byte| if LINE_END.contains(&byte) { byte ^ 0x40 } else { byte }),
                );
                bytes.extend(LINE_END);
            }
        }
        let place_bytes = message_bytes;
        Self { bytes: bytes.leak(), message_bytes, places: Self::FRAMED, place_bytes, stride: 1 }
    }

    fn at(&self, index: usize) -> &'static [u8] {
        let place = index.wrapping_mul(self.stride) % self.places;
        &self.bytes[place * self.place_bytes..][..self.message_bytes]
    }
}

/// A source of bytes that look random (xorshift64*), the same in every run.
struct Random(u64);

impl Random {
    /// The byte for a position, odd only where the position is: so messages that begin at an odd distance
    /// from each other differ even if they have a single byte.
    fn byte(&mut self, at: usize) -> u8 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()[0];
        (random & !1) | (at as u8 & 1)
    }
}
