//! A connection without its socket: the protocol half and the unfinished tail of its input.

use alloc::vec::Vec;

use crate::{Next, Output, Server};

/// A tail buffer larger than this is given back once it is empty, so that ten thousand connections that were
/// once cut in the middle of a large request do not each keep its memory.
const TAIL_KEPT_BYTES: usize = 4 * 1024;

/// The server half of one connection with the bytes that do not yet make a whole request.
///
/// Input is read where it lies, also in a buffer that belongs to a ring; only an unfinished tail is copied.
pub struct Session<S> {
    server: S,
    tail: Vec<u8>,
}

impl<S> Session<S> {
    /// A session that has received nothing.
    pub fn new(server: S) -> Self {
        Self { server, tail: Vec::new() }
    }

    /// Bytes received and not yet consumed: an unfinished request, or requests that wait for the output.
    /// After [`Next::Close`], what was refused: a peer that may still be sending, and must be read to its end or
    /// the kernel resets the connection before the peer has seen the reply.
    pub fn tail_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Sets bytes aside that came while the output was blocked; [`Self::resume`] takes them up.
    pub fn set_aside(&mut self, received: &[u8]) {
        self.tail.extend_from_slice(received);
    }

    /// Answers what has been received. After [`Next::Send`], send and call [`Self::resume`].
    pub fn receive<W: 'static>(&mut self, received: &[u8], output: &mut Output) -> Next
    where
        S: Server<W>,
    {
        if !self.tail.is_empty() {
            self.tail.extend_from_slice(received);
            return self.resume(output);
        }
        let (used, next) = self.server.advance(received, output);
        self.tail.extend_from_slice(&received[used..]);
        next
    }

    /// Goes on with what was received before, once the output has been sent.
    pub fn resume<W: 'static>(&mut self, output: &mut Output) -> Next
    where
        S: Server<W>,
    {
        let (used, next) = self.server.advance(&self.tail, output);
        self.tail.drain(..used);
        if self.tail.is_empty() && self.tail.capacity() > TAIL_KEPT_BYTES {
            self.tail = Vec::new();
        }
        next
    }
}
