//! Protocols without I/O: what a server answers and what a client asks and checks.
//!
//! A protocol is two halves. Neither owns a socket, reads a clock or allocates once it is warm: bytes go in
//! as borrowed slices, bytes come out in the caller's buffer. So one parser and one response builder serve a
//! blocking loop, a readiness loop and a completion ring alike, and every way of cutting the input can be
//! tested without a network.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;

pub mod echo;
pub mod http;
pub mod line;
mod lines;
mod messages;
mod mirror;
mod output;
pub mod rpc;
mod session;
pub mod work;

pub use output::Output;
pub use session::Session;

/// A protocol: its name, what may be asked of it, and its two halves.
pub trait Protocol: 'static {
    /// The word users write, such as `http`.
    const NAME: &'static str;
    /// Sizes and choices that decide the bytes of requests and replies. It lives as long as the process.
    type Workload: Sync + 'static;
    /// One connection as the server sees it.
    type Server: Server<Self::Workload>;
    /// One connection as the client sees it.
    type Client: Client<Self::Workload>;
}

/// What the owner of a connection does next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Every whole request is answered: send what is in the output, then receive more.
    Receive,
    /// The output is full while requests are waiting: send it, then call again before receiving more.
    Send,
    /// Send what is in the output, then close. Input that was refused is left unconsumed.
    Close,
}

/// The server half of one connection.
pub trait Server<W: 'static>: Sized + Send + 'static {
    /// Starts the half of a fresh connection.
    fn new(workload: &'static W) -> Self;

    /// Consumes requests from the front of `input`, appends their replies to `output`, and says how many
    /// bytes it is done with.
    ///
    /// Bytes it is not done with are an unfinished tail: the next call must present them again, with what
    /// came after them appended. The tail never grows beyond the protocol's own limit: an input that would
    /// need more is refused with a reply, if the protocol has one, and [`Next::Close`].
    fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next);
}

/// The client half of one connection.
///
/// A clone is the half of another connection: it starts afresh but shares the table of requests and what has
/// been learnt about the replies.
pub trait Client<W: 'static>: Clone + 'static {
    /// Builds the requests, once for each thread of a load generator.
    fn new(workload: &'static W) -> Self;

    /// The bytes of the next request. Several may be outstanding; their replies come in the same order.
    fn request(&mut self) -> &'static [u8];

    /// Consumes bytes of the oldest outstanding reply from the front of `input`, never of the one after it.
    ///
    /// Returns how many bytes it is done with, and the verdict if the reply is now whole. The bytes it is not
    /// done with must be presented again, with more appended. A reply longer than a buffer is checked as it
    /// comes.
    ///
    /// # Errors
    /// [`Malformed`] if the input cannot be a reply at all; the connection is then of no further use.
    fn reply(&mut self, input: &[u8]) -> Result<(usize, Option<Verdict>), Malformed>;

    /// The server has ended its side: the verdict if that is how the outstanding reply ends.
    fn end(&mut self) -> Option<Verdict>;

    /// Whether the connection can carry another request once the outstanding replies are here.
    fn keeps_alive(&self) -> bool;

    /// The status of the last whole reply, in protocols that have one; `None` before the first.
    fn status(&self) -> Option<u16> {
        None
    }

    /// The length of the body of the last whole reply, in protocols whose replies have a head before it; 0 before the
    /// first.
    fn body_bytes(&self) -> usize {
        0
    }

    /// What was expected and what came, for the user to read, of the last whole reply if it was
    /// [`Verdict::Wrong`]; `None` in protocols that keep nothing of what came.
    fn deviation(&self) -> Option<String> {
        None
    }
}

/// What the client half found a whole reply to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every byte is as it must be.
    Correct,
    /// A well-formed reply that is not the one that was due: it has other bytes.
    Wrong,
    /// A well-formed reply whose status is not the expected one. What else it carries is not looked at.
    Status,
}

/// The bytes cannot be a reply of this protocol; the text says what was found, for the user to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);
