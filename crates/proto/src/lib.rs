//! Protocols without I/O: what a server replies, and what a client requests and checks.
//!
//! A protocol has two halves. Neither owns a socket, reads a clock or allocates once it is warm: bytes go in as
//! borrowed slices and come out in the caller's buffer. So one parser and one response builder serve a blocking loop, a
//! readiness loop and a completion ring alike, and any split of the input can be tested without a network.

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

/// A protocol: its name, its workload and its two halves.
pub trait Protocol: 'static {
    /// The name that users write, such as `http`.
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
    /// Every complete request is answered: send the output, then receive more.
    Receive,
    /// The output is full and requests are waiting: send it, then call again before receiving more.
    Send,
    /// Send the output, then close. Refused input stays unconsumed.
    Close,
}

/// The server half of one connection.
pub trait Server<W: 'static>: Sized + Send + 'static {
    /// Creates the half of a new connection.
    fn new(workload: &'static W) -> Self;

    /// Consumes requests from the front of `input`, and appends their replies to `output`. Returns how many bytes it
    /// has consumed.
    ///
    /// The remaining bytes are an incomplete tail: the next call must pass them again, followed by new ones. The tail
    /// never exceeds the protocol's limit. A longer one is refused with a reply, if the protocol has one, and
    /// [`Next::Close`].
    fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next);
}

/// The client half of one connection.
///
/// A clone is the half of another connection: it starts fresh, but shares the table of requests and what has been
/// learnt about the replies.
pub trait Client<W: 'static>: Clone + 'static {
    /// Builds the requests, once for each thread of a load generator.
    fn new(workload: &'static W) -> Self;

    /// The bytes of the next request. Several may be outstanding; their replies come in the same order.
    fn request(&mut self) -> &'static [u8];

    /// Consumes bytes of the oldest outstanding reply from the front of `input`, never of the one after it.
    ///
    /// Returns how many bytes it has consumed, and the verdict if the reply is complete. The remaining bytes must be
    /// passed again, followed by new ones. A reply longer than a buffer is checked as it arrives.
    ///
    /// # Errors
    /// [`Malformed`] if the input cannot be a reply; the connection is then unusable.
    fn reply(&mut self, input: &[u8]) -> Result<(usize, Option<Verdict>), Malformed>;

    /// Handles the end of the server's side. Returns the verdict if the outstanding reply ends that way.
    fn end(&mut self) -> Option<Verdict>;

    /// Whether the connection can carry another request after the outstanding replies.
    fn keeps_alive(&self) -> bool;

    /// The status of the last complete reply, in protocols with statuses; None before the first.
    fn status(&self) -> Option<u16> {
        None
    }

    /// The length of the body of the last complete reply, in protocols whose replies have a head; 0 before the first.
    fn body_bytes(&self) -> usize {
        0
    }

    /// If the last complete reply was [`Verdict::Wrong`], the expected and the received body, for the user. None in
    /// protocols that keep nothing of it.
    fn deviation(&self) -> Option<String> {
        None
    }
}

/// The client half's verdict on a complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every byte is correct.
    Correct,
    /// A well-formed reply with other bytes than the expected ones.
    Wrong,
    /// A well-formed reply whose status is not the expected one. Its body is not compared.
    Status,
}

/// The bytes cannot be a reply of this protocol. The text tells the user what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);
