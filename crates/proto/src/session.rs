//! A connection without its socket: the protocol half and the incomplete tail of its input.

use alloc::vec::Vec;

use crate::{Next, Output, Server};

/// A larger tail buffer is freed once it is empty. Otherwise ten thousand connections that were once split in the
/// middle of a large request would each keep its memory.
const TAIL_KEPT_BYTES: usize = 4 * 1024;

/// The server half of one connection, with the bytes of an incomplete request.
///
/// Input is parsed in place, even in a buffer that belongs to a ring; only an incomplete tail is copied.
pub struct Session<S> {
    server: S,
    tail: Vec<u8>,
}

impl<S> Session<S> {
    /// A session that has received nothing.
    pub fn new(server: S) -> Self {
        Self { server, tail: Vec::new() }
    }

    /// Bytes received and not yet consumed: an incomplete request, or requests that wait for the output. After
    /// [`Next::Close`], the refused input: the peer may still be sending, and must be read to its end. Otherwise the
    /// kernel resets the connection before the peer has seen the reply.
    pub fn tail_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Buffers bytes that arrived while the output was blocked; [`Self::resume`] handles them.
    pub fn set_aside(&mut self, received: &[u8]) {
        self.tail.extend_from_slice(received);
    }

    /// Answers received bytes. After [`Next::Send`], send and call [`Self::resume`].
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

    /// Continues with earlier input, after the output has been sent.
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
