//! Lines of text that come back unchanged, as from a telnet-like server.
//!
//! It is `echo` for people: any terminal can speak it. A line ends with LF. A CR before it is an ordinary byte, so
//! clients with either line ending get back what they sent.

use alloc::{format, string::String};

use crate::lines::Lines;
use crate::messages::{Messages, Random};
use crate::mirror::{Mirror, Mirrored};
use crate::{Next, Output, Protocol};

/// The protocol `line`.
pub struct Line;

impl Protocol for Line {
    const NAME: &'static str = "line";
    type Workload = Workload;
    type Server = Server;
    type Client = Client;
}

/// The messages of a connection.
pub struct Workload {
    /// Length of a line with its LF.
    pub message_bytes: usize,
}

impl Workload {
    /// The longest line with its LF: the most that a Linux terminal passes on, so nobody can type a longer one. A
    /// server buffers an incomplete line, once for each connection.
    pub const LINE_BYTES_MAX: usize = 4096;

    /// Lines of `message_bytes`.
    ///
    /// # Errors
    /// One line with the reason and the valid range.
    pub fn new(message_bytes: usize) -> Result<Self, String> {
        if !(1..=Self::LINE_BYTES_MAX).contains(&message_bytes) {
            return Err(format!(
                "message_bytes is {message_bytes}, but a line has 1 to {} bytes with its LF",
                Self::LINE_BYTES_MAX
            ));
        }
        Ok(Self { message_bytes })
    }
}

/// One connection as the server sees it.
pub struct Server {
    lines: Lines,
}

impl crate::Server<Workload> for Server {
    fn new(_: &'static Workload) -> Self {
        Self { lines: Lines::default() }
    }

    fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next) {
        let (used, next) = self.lines.take(input, output.room_bytes(), b"\n", Workload::LINE_BYTES_MAX);
        // Lines are contiguous and go back unchanged: one copy for all.
        output.push(&input[..used]);
        if next == Next::Close {
            output.push(REFUSAL);
        }
        (used, next)
    }
}

/// The reply to a line that is too long.
const REFUSAL: &[u8] = b"error: a line has at most 4096 bytes\n";

/// One connection as the client sees it.
pub type Client = Mirror<Workload>;

impl Mirrored for Workload {
    /// Lines of letters, so that none contains an LF.
    fn messages(&self) -> Messages {
        let mut random = Random::new();
        Messages::table(|bytes, place| {
            bytes.extend((place..place + self.message_bytes - 1).map(|at| random.letter(at)));
            bytes.push(b'\n');
        })
    }
}
