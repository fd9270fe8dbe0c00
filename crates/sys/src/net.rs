//! TCP sockets as every model and the generator want them, so that none of them differs by an option.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::checked;

/// How many connections the kernel may hold that the server has not accepted yet; it cuts this to `somaxconn`.
const BACKLOG: i32 = 65_535;

/// The congestion control set on every socket. The default of some machines, BBR, paces its sends with timers
/// and so measures the timers; this one is in every kernel.
const CONGESTION_CONTROL: &[u8] = b"cubic";

/// Opens a listening socket. Accepted sockets inherit its options, so they cost no system call later.
///
/// With `reuse_port` several sockets may listen on the same address, one for each worker, and the kernel spreads
/// connections over them.
///
/// # Errors
/// As `bind(2)` and `listen(2)`: `AddrInUse`, `PermissionDenied`, `AddrNotAvailable`.
pub fn listen(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    tune(&socket)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts a connection without waiting; the socket it returns does not block either.
///
/// # Errors
/// `WouldBlock` if no connection is waiting; otherwise as `accept4(2)`.
pub fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the peer's address is not wanted, which null pointers say.
    let fd =
        checked(unsafe { libc::accept4(listener.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), flags) })?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { TcpStream::from_raw_fd(fd) })
}

/// Connects and waits until it is done; the socket it returns does not block.
///
/// # Errors
/// As `connect(2)`; `TimedOut` after `timeout`.
pub fn connect(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    tune(&socket)?;
    socket.connect_timeout(&SockAddr::from(address), timeout)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Begins to connect and does not wait: the socket becomes writable when it is connected, or has failed.
///
/// # Errors
/// As `connect(2)`, where that can be said at once.
pub fn start_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    tune(&socket)?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Whether an error of `accept` says that this process or machine has no room for another connection.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn tune(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    // A kernel without it keeps its default, which the lab records.
    let _ = socket.set_tcp_congestion(CONGESTION_CONTROL);
    Ok(())
}
