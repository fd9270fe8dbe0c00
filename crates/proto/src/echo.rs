//! Echo: every message comes back unchanged, in one of three framings.
//!
//! It is the least that a server can do, so it shows the cost of I/O alone. The framings add the minimum that a
//! protocol needs to find the end of a message.

use alloc::{format, string::String};

use crate::lines::Lines;
use crate::messages::{Messages, Random};
use crate::mirror::{Mirror, Mirrored};
use crate::{Next, Output, Protocol};

/// The protocol `echo`.
pub struct Echo;

impl Protocol for Echo {
    const NAME: &'static str = "echo";
    type Workload = Workload;
    type Server = Server;
    type Client = Client;
}

/// How messages are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not at all: received bytes go back at once.
    Raw,
    /// By a length of two bytes, big-endian.
    Prefix,
    /// By CR LF at the end; either alone is an ordinary byte.
    Crlf,
}

/// The messages of a connection.
pub struct Workload {
    /// How messages are delimited.
    pub framing: Framing,
    /// Length of a message without its frame.
    pub message_bytes: usize,
}

impl Workload {
    /// The longest message: a client holds a few of them in memory.
    pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// The longest line, without CR LF: a server buffers it whole, once for each connection.
    pub const LINE_BYTES_MAX: usize = 1024 * 1024;

    /// Messages of `message_bytes`.
    ///
    /// # Errors
    /// One line with the reason and the valid range.
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
    lines: Lines,
}

impl crate::Server<Workload> for Server {
    fn new(workload: &'static Workload) -> Self {
        Self { framing: workload.framing, lines: Lines::default() }
    }

    fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next) {
        let room_bytes = output.room_bytes();
        let (used, next) = match self.framing {
            Framing::Raw => raw(input, room_bytes),
            Framing::Prefix => prefixed(input, room_bytes),
            Framing::Crlf => self.lines.take(input, room_bytes, LINE_END, LINE_BYTES_MAX),
        };
        // Messages are contiguous and go back unchanged: one copy for all.
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

const LINE_END: &[u8] = b"\r\n";

/// A frame is two bytes, either before or after the message.
const FRAME_BYTES: usize = 2;

/// The longest line with its end.
const LINE_BYTES_MAX: usize = Workload::LINE_BYTES_MAX + FRAME_BYTES;

/// One connection as the client sees it.
pub type Client = Mirror<Workload>;

impl Mirrored for Workload {
    /// Raw messages are windows of one run of bytes; framed ones are contiguous in a table. Neighbours differ unless
    /// they are empty.
    fn messages(&self) -> Messages {
        let payload_bytes = self.message_bytes;
        if self.framing == Framing::Raw {
            return Messages::windows(payload_bytes);
        }
        let mut random = Random::new();
        Messages::table(|bytes, place| {
            let payload = (place..place + payload_bytes).map(|at| random.byte(at));
            if self.framing == Framing::Prefix {
                bytes.extend((payload_bytes as u16).to_be_bytes());
                bytes.extend(payload);
            } else {
                // A line must not contain CR or LF. Flipping this bit keeps neighbours different.
                bytes.extend(payload.map(|byte| if LINE_END.contains(&byte) { byte ^ 0x40 } else { byte }));
                bytes.extend(LINE_END);
            }
        })
    }
}
