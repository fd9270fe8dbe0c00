//! What a driver sends and receives through: a plain socket, or a TLS session over one.
//!
//! The transport is a type parameter of the whole worker, so a plain socket pays nothing for TLS.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use contract::Phase;
use sys::net::Socket;

/// One side of a connection, in bytes as the protocol sees them.
pub(crate) trait Transport: Sized {
    /// Settings for all connections.
    type Terms: Clone;

    /// Whether it may buffer bytes that the socket knows nothing of.
    const BUFFERS: bool;

    /// Makes a transport of a connected socket and completes the handshake, within `timeout`. Fails with `Interrupted`
    /// if `halt` is raised.
    fn open(socket: Socket, terms: &Self::Terms, timeout: Duration, halt: &AtomicBool) -> io::Result<Self>;

    /// Makes a transport of a socket that may still be connecting, without waiting.
    fn begin(socket: Socket, terms: &Self::Terms) -> io::Result<Self>;

    fn socket(&self) -> &Socket;

    /// Receives with at most one syscall. 0 is the end that the other side has announced. `Interrupted` means that
    /// something has come which is not for the protocol: call again.
    fn read(&mut self, input: &mut [u8]) -> io::Result<usize>;

    /// Whether a call that has received `received` bytes into `room` has left nothing to receive.
    fn is_drained(&self, received: usize, room: usize) -> bool;

    /// Sends as much as fits. If that is not all, the transport becomes writable or readable later.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Whether it still buffers bytes that it has accepted.
    fn holds_back(&self) -> bool;

    /// Whether its handshake is under way. A plain socket has none of its own.
    fn is_shaking(&self) -> bool {
        false
    }

    /// Whether it is open: neither its socket is being connected nor its handshake under way.
    fn is_connected(&self) -> bool {
        self.socket().peer_addr().is_ok() && !self.is_shaking()
    }

    /// Whether an idle connection is still open on the other side.
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

/// What a connection is doing: shaking hands, sending a request or receiving a reply. `is_unsent`: the transport has
/// not taken all of the request.
pub(crate) fn phase<T: Transport>(transport: Option<&T>, is_unsent: bool) -> Phase {
    match transport {
        // A session takes requests before it can send them.
        Some(transport) if transport.is_shaking() => Phase::Connect,
        Some(transport) if transport.holds_back() => Phase::Send,
        _ if is_unsent => Phase::Send,
        _ => Phase::Receive,
    }
}

/// Errors of a write that mean: try again later.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NotConnected
    )
}
