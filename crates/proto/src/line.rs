//! Lines of text that come back as they were: what a telnet-like server does.
//!
//! It is `echo` for people: any terminal can speak it. A line ends with LF; a CR before it is a byte of the line
//! like any other, so both kinds of writer get back what they sent.

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

/// What goes to and fro.
pub struct Workload {
    /// Length of a line with its LF.
    pub message_bytes: usize,
}

impl Workload {
    /// The longest line with its LF: what a terminal of Linux hands over at most, so nobody can type a longer one.
    /// A server holds an unfinished line whole, once for each connection.
    pub const LINE_BYTES_MAX: usize = 4096;

    /// Lines of `message_bytes`.
    ///
    /// # Errors
    /// One line that says why there cannot be such lines, and what can be.
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
        // Lines lie side by side and go back as they are: one copy for all.
        output.push(&input[..used]);
        if next == Next::Close {
            output.push(REFUSAL);
        }
        (used, next)
    }
}

/// What a line that is too long gets for an answer.
const REFUSAL: &[u8] = b"error: a line has at most 4096 bytes\n";

/// One connection as the client sees it.
pub type Client = Mirror<Workload>;

impl Mirrored for Workload {
    /// Lines of letters, so that none has an end within it.
    fn messages(&self) -> Messages {
        let mut random = Random::new();
        Messages::table(|bytes, place| {
            bytes.extend((place..place + self.message_bytes - 1).map(|at| random.letter(at)));
            bytes.push(b'\n');
        })
    }
}
