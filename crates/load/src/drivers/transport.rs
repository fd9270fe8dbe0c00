//! What a driver sends and receives through: a plain socket, or a session of TLS over one.
//!
//! Which of the two is a type parameter of the whole worker, so a plain socket pays nothing for the other.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sys::net::Socket;

/// One side of a connection, in bytes as the protocol sees them.
pub(crate) trait Transport: Sized {
    /// What is agreed on before the first connection.
    type Terms: Clone;

    /// Whether it may hold bytes back that the socket knows nothing of.
    const BUFFERS: bool;

    /// Makes a transport of a socket that is connected, and waits until both sides are agreed, for so long at most and until
    /// `halt` is raised, which is `Interrupted`.
    fn open(socket: Socket, terms: &Self::Terms, timeout: Duration, halt: &AtomicBool) -> io::Result<Self>;

    /// Makes a transport of a socket that may still be connecting, and waits for nothing.
    fn begin(socket: Socket, terms: &Self::Terms) -> io::Result<Self>;

    fn socket(&self) -> &Socket;

    /// Receives, in one system call at most; 0 is the end that the other side has announced. `Interrupted` is to be
    /// asked again: something has come, and none of it is for the protocol yet.
    fn read(&mut self, input: &mut [u8]) -> io::Result<usize>;

    /// Whether a call that has received so much, with room for so much, has left nothing to receive.
    fn is_drained(&self, received: usize, room: usize) -> bool;

    /// Sends as much as fits. Less than all is only taken if the transport becomes writable later, or readable.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Whether something that was taken has not gone out yet.
    fn holds_back(&self) -> bool;

    /// Whether the other side has not ended a connection on which nothing is expected.
    fn is_open(&mut self) -> bool;

    /// Ends our side.
    fn close(self);
}

impl Transport for Socket {
    type Terms = ();

    const BUFFERS: bool = false;

    fn open(socket: Socket, (): &(), _timeout: Duration, _halt: &AtomicBool) -> io::Result<Self> {
        Ok(socket)
    }

    fn begin(socket: Socket, (): &()) -> io::Result<Self> {
        Ok(socket)
    }

    fn socket(&self) -> &Socket {
        self
    }

    fn read(&mut self, input: &mut [u8]) -> io::Result<usize> {
        Read::read(self, input)
    }

    fn is_drained(&self, received: usize, room: usize) -> bool {
        received < room
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn holds_back(&self) -> bool {
        false
    }

    fn is_open(&mut self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        matches!(self.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn close(self) {}
}

/// Errors of a write that only mean: not now.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NotConnected
    )
}
