//! The transport of a driver: a plain socket, or a TLS session over one.
//!
//! The transport is a type parameter of the whole worker, so a plain socket pays nothing for TLS.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use contract::Phase;
use sys::net::Socket;

/// One side of a connection, carrying bytes of the protocol.
pub(crate) trait Transport: Sized {
    /// Settings for all connections.
    type Terms: Clone;

    /// Whether it may buffer bytes that the socket does not have.
    const BUFFERS: bool;

    /// Turns a connected socket into a transport and completes the handshake within `timeout`. Fails with `Interrupted`
    /// if `halt` is raised.
    fn open(socket: Socket, terms: &Self::Terms, timeout: Duration, halt: &AtomicBool) -> io::Result<Self>;

    /// Turns a socket that may still be connecting into a transport, without waiting.
    fn begin(socket: Socket, terms: &Self::Terms) -> io::Result<Self>;

    fn socket(&self) -> &Socket;

    /// Receives with at most one syscall. 0 means that the other side announced its end. `Interrupted` means that only
    /// bytes without payload came: call again.
    fn read(&mut self, input: &mut [u8]) -> io::Result<usize>;

    /// Whether nothing is left to receive after a call that received `received` bytes into `room`.
    fn is_drained(&self, received: usize, room: usize) -> bool;

    /// Sends as much as fits. If bytes are left, the transport becomes writable or readable later.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Whether it still buffers bytes that it has accepted.
    fn holds_back(&self) -> bool;

    /// Whether its handshake is in progress. A plain socket has none.
    fn is_shaking(&self) -> bool {
        false
    }

    /// Whether it is open: neither its connect nor its handshake is in progress.
    fn is_connected(&self) -> bool {
        self.socket().peer_addr().is_ok() && !self.is_shaking()
    }

    /// Whether the other side has kept an idle connection open.
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
/// not accepted all of the request.
pub(crate) fn phase<T: Transport>(transport: Option<&T>, is_unsent: bool) -> Phase {
    match transport {
        // A session accepts requests before it can send them.
        Some(transport) if transport.is_shaking() => Phase::Connect,
        Some(transport) if transport.holds_back() => Phase::Send,
        _ if is_unsent => Phase::Send,
        _ => Phase::Receive,
    }
}

/// Errors of a write that mean "try again later".
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NotConnected
    )
}
