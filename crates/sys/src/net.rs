//! Stream sockets with the same options for every model and the generator.

use std::fmt;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Type};

/// A connected stream, TCP or Unix.
pub use socket2::Socket;

use crate::checked;

/// The congestion control of every TCP socket. Some machines default to BBR, which paces sends with timers, so a
/// measurement would include those timers. Every kernel has this one.
const CONGESTION_CONTROL: &[u8] = b"cubic";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP over IPv4 or IPv6; port 0 lets the kernel choose.
    Ip(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
}

impl Address {
    /// Whether other machines can reach it. Addresses reserved for documentation are only reachable over our own path.
    pub fn is_exposed(&self) -> bool {
        let is_kept = |ip: IpAddr| ip.is_loopback() || matches!(ip, IpAddr::V4(ip) if ip.is_documentation());
        matches!(self, Self::Ip(address) if !is_kept(address.ip()))
    }

    /// A tuned socket of its family.
    fn socket(&self, kind: Type) -> io::Result<Socket> {
        match self {
            Self::Unix(_) => Socket::new(Domain::UNIX, kind, None),
            Self::Ip(address) => {
                let socket = Socket::new(Domain::for_address(*address), kind, Some(Protocol::TCP))?;
                socket.set_tcp_nodelay(true)?;
                // A kernel without it keeps its default, which the lab records.
                let _ = socket.set_tcp_congestion(CONGESTION_CONTROL);
                Ok(socket)
            }
        }
    }

    fn to_system(&self) -> io::Result<SockAddr> {
        match self {
            Self::Ip(address) => Ok(SockAddr::from(*address)),
            Self::Unix(path) => SockAddr::unix(path),
        }
    }

    fn of_system(address: &SockAddr) -> Option<Self> {
        let unix = || address.as_pathname().map(|path| Self::Unix(path.to_owned()));
        address.as_socket().map(Self::Ip).or_else(unix)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// Parses `127.0.0.1:8080`, `[::1]:8080` or `unix:/path/to/socket`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err(format!("`{text}` has no path: write it as in unix:/tmp/server.sock")),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Ip).map_err(|_| {
                format!("`{text}` is not an address and a port: write it as in 127.0.0.1:8080 or [::1]:8080")
            }),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    /// Opens a listening socket. Accepted sockets inherit its options, which saves syscalls later.
    ///
    /// With `reuse_port` several sockets may listen on the same TCP address, one for each worker, and the kernel
    /// spreads connections over them. A socket path that nobody listens on any more is taken over.
    ///
    /// # Errors
    /// As `bind(2)` and `listen(2)`: `AddrInUse`, `PermissionDenied`, `AddrNotAvailable`.
    pub fn open(address: &Address, reuse_port: bool, backlog: i32) -> io::Result<Self> {
        let socket = address.socket(Type::STREAM)?;
        match address {
            Address::Ip(_) => {
                socket.set_reuse_address(true)?;
                socket.set_reuse_port(reuse_port)?;
            }
            Address::Unix(path) => remove_if_stale(path),
        }
        socket.bind(&address.to_system()?)?;
        socket.listen(backlog)?;
        Ok(Self(socket))
    }

    /// Another handle of the same connection queue, for workers that cannot share the address.
    ///
    /// # Errors
    /// A limit on descriptors.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The address it listens on, with its actual port.
    ///
    /// # Errors
    /// None with a listening socket.
    pub fn address(&self) -> io::Result<Address> {
        Address::of_system(&self.0.local_addr()?)
            .ok_or_else(|| io::Error::other("a socket without an address"))
    }

    /// Whether [`Self::accept`] waits for a connection or returns `WouldBlock`. Applies to all handles.
    ///
    /// # Errors
    /// None with a listening socket.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    /// Accepts a connection. `nonblocking` applies to the returned socket.
    ///
    /// # Errors
    /// `WouldBlock` if no connection waits and the listener is nonblocking; otherwise as `accept4(2)`.
    pub fn accept(&self, nonblocking: bool) -> io::Result<Socket> {
        let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        // SAFETY: null pointers mean that the peer's address is not wanted.
        let fd =
            checked(unsafe { libc::accept4(self.0.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), flags) })?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(unsafe { Socket::from_raw_fd(fd) })
    }

    /// The plain socket, for runtimes that have listeners of their own.
    pub fn into_socket(self) -> Socket {
        self.0
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Where to connect, and the local address to connect from; None leaves that to the kernel. An address has some 28,000
/// ports for each destination.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    pub to: &'a Address,
    pub from: Option<IpAddr>,
}

impl<'a> From<&'a Address> for Route<'a> {
    fn from(to: &'a Address) -> Self {
        Self { to, from: None }
    }
}

impl Route<'_> {
    fn socket(&self, kind: Type) -> io::Result<Socket> {
        let socket = self.to.socket(kind)?;
        if let (Address::Ip(_), Some(from)) = (self.to, self.from) {
            // The port is chosen at connect time, so that connections to different destinations can share it.
            bind_address_no_port(&socket)?;
            socket.bind(&SocketAddr::new(from, 0).into())?;
        }
        Ok(socket)
    }
}

fn bind_address_no_port(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (level, name) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: `on` is valid for the read of its own length.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), length) })
        .map(drop)
}

/// Connects and waits until the connection is established. The returned socket is nonblocking.
///
/// # Errors
/// As `connect(2)`; `TimedOut` after `timeout`. As `bind(2)` if the local address is not this machine's.
pub fn connect(route: Route<'_>, timeout: Duration) -> io::Result<Socket> {
    connect_while(route, timeout, || true)
}

/// As [`connect`], but gives up once `goes_on` returns false; it is called every 20 ms.
///
/// # Errors
/// As [`connect`]; `Interrupted` if `goes_on` returned false.
pub fn connect_while(route: Route<'_>, timeout: Duration, goes_on: impl Fn() -> bool) -> io::Result<Socket> {
    let begin = Instant::now();
    let moment = || -> io::Result<Duration> {
        match timeout.saturating_sub(begin.elapsed()) {
            _ if !goes_on() => Err(io::ErrorKind::Interrupted.into()),
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            // Below one millisecond, `poll(2)` would not wait, and a socket timeout would mean for ever.
            left => Ok(left.clamp(Duration::from_millis(1), LOOK_PAUSE)),
        }
    };
    match route.to {
        Address::Ip(_) => {
            let socket = start_connect(route)?;
            while !is_connected(&socket, moment()?)? {}
            Ok(socket)
        }
        // A nonblocking socket does not wait for room in the server's queue; a blocking one does, up to its write
        // timeout.
        Address::Unix(_) => {
            let (socket, target) = (route.socket(Type::STREAM)?, route.to.to_system()?);
            loop {
                socket.set_write_timeout(Some(moment()?))?;
                match socket.connect(&target) {
                    Err(error) if is_passing(&error) => {}
                    other => break other?,
                }
            }
            socket.set_write_timeout(None)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        }
    }
}

/// The interval between two calls of `goes_on`.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Waits up to `moment` for a started connection, and returns whether it is established.
fn is_connected(socket: &Socket, moment: Duration) -> io::Result<bool> {
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let wait_ms = moment.as_millis() as libc::c_int;
    // SAFETY: there is one entry, and it is valid for the call.
    match checked(unsafe { libc::poll(&raw mut polled, 1, wait_ms) }) {
        Ok(0) => Ok(false),
        Err(error) if is_passing(&error) => Ok(false),
        ready => {
            ready?;
            socket.take_error()?.map_or(Ok(true), Err)
        }
    }
}

/// Errors that only mean "not yet".
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Starts to connect without waiting. The socket becomes writable when it is connected or has failed.
///
/// # Errors
/// As [`connect`], if it fails at once.
pub fn start_connect(route: Route<'_>) -> io::Result<Socket> {
    let socket = route.socket(Type::STREAM.nonblocking())?;
    match socket.connect(&route.to.to_system()?) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Whether an error of `accept` says that this process or machine has no room for another connection.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Removes a socket file whose server has ended: otherwise binding fails although nobody listens.
fn remove_if_stale(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    // Nonblocking: the queue of a live server may be full.
    if is_socket && start_connect((&Address::Unix(path.to_owned())).into()).is_err_and(refused) {
        // If this fails, binding reports why.
        let _ = std::fs::remove_file(path);
    }
}

/// The listening sockets of one worker, accepted from as one.
#[derive(Debug)]
pub struct Listeners {
    all: Vec<Listener>,
    /// The argument of `poll(2)`. Empty if there is only one listener: then `accept` itself waits.
    polled: Vec<libc::pollfd>,
}

impl Listeners {
    /// Sockets to wait for together.
    ///
    /// # Errors
    /// None with listening sockets.
    pub fn new(all: Vec<Listener>) -> io::Result<Self> {
        let mut polled = Vec::new();
        if all.len() > 1 {
            for listener in &all {
                listener.set_nonblocking(true)?;
                polled.push(libc::pollfd {
                    fd: listener.as_fd().as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                });
            }
        }
        Ok(Self { all, polled })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.all.iter()
    }

    /// All of them, for a model with its own way of waiting.
    pub fn into_vec(self) -> Vec<Listener> {
        self.all
    }

    /// Waits for a connection on any of them, and accepts it. The returned socket is blocking.
    ///
    /// # Errors
    /// As `accept4(2)`.
    pub fn accept(&mut self) -> io::Result<Socket> {
        if let [only] = self.all.as_slice() {
            return only.accept(false);
        }
        loop {
            for (listener, polled) in self.all.iter().zip(&mut self.polled) {
                if std::mem::take(&mut polled.revents) != 0 {
                    match listener.accept(false) {
                        // Another worker that shares the socket was faster.
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => return other,
                    }
                }
            }
            let count = self.polled.len() as libc::nfds_t;
            // SAFETY: `polled` holds `count` entries.
            checked(unsafe { libc::poll(self.polled.as_mut_ptr(), count, -1) })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket path that no other test uses.
    fn address_of(name: &str) -> (PathBuf, Address) {
        let path = std::env::temp_dir().join(format!("iolab-net-{}-{name}.sock", std::process::id()));
        (path.clone(), Address::Unix(path))
    }

    /// Fills the queue of a Unix socket with a backlog of one, and returns the connections and the error at the end.
    fn fill(address: &Address) -> (Vec<Socket>, io::Error) {
        let mut clients = Vec::new();
        loop {
            match connect(address.into(), Duration::from_millis(50)) {
                Ok(client) => clients.push(client),
                Err(error) => return (clients, error),
            }
            assert!(clients.len() < 100, "the queue is never full");
        }
    }

    #[test]
    fn a_full_queue_of_a_unix_socket_is_waited_for_and_taken_for_that_of_a_server_that_lives() {
        let (path, address) = address_of("full");
        let listener = Listener::open(&address, false, 1).unwrap();
        let (clients, error) = fill(&address);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert_eq!(Listener::open(&address, false, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let accepted = listener.accept(true).unwrap();
        let client = connect((&address).into(), Duration::from_secs(60)).unwrap();
        assert_eq!(client.write_timeout().unwrap(), None);
        drop((listener, clients, accepted, client));
        // Nobody listens there any more.
        Listener::open(&address, false, 1).unwrap();
        std::fs::remove_file(path).unwrap();
    }

    /// Connects with a timeout of an hour to a server that does not accept, and gives up after 100 ms.
    fn check_given_up(address: &Address) {
        const ENOUGH: Duration = Duration::from_millis(100);
        let listener = Listener::open(address, false, 1).unwrap();
        let address = listener.address().unwrap();
        let (_clients, _full) = fill(&address);
        let begin = Instant::now();
        let timeout = Duration::from_secs(3600);
        let error = connect_while((&address).into(), timeout, || begin.elapsed() < ENOUGH).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{address}: {error}");
        assert!(begin.elapsed() >= ENOUGH, "{address}: {:?}", begin.elapsed());
    }

    #[test]
    fn a_wait_for_a_server_that_does_not_accept_can_be_given_up() {
        let (path, unix) = address_of("given-up");
        check_given_up(&unix);
        check_given_up(&"127.0.0.1:0".parse().unwrap());
        if std::net::TcpListener::bind("[::1]:0").is_ok() {
            check_given_up(&"[::1]:0".parse().unwrap());
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_connection_comes_from_the_address_it_is_told_to() {
        let listener = Listener::open(&"127.0.0.1:0".parse().unwrap(), false, 16).unwrap();
        let to = listener.address().unwrap();
        let from: IpAddr = "127.0.0.9".parse().unwrap();
        let client = connect(Route { to: &to, from: Some(from) }, Duration::from_secs(60)).unwrap();
        assert_eq!(client.local_addr().unwrap().as_socket().unwrap().ip(), from);
        // Reserved for documentation: no machine has an address of this network.
        let foreign = Route { to: &to, from: Some("192.0.2.1".parse().unwrap()) };
        assert_eq!(start_connect(foreign).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    }
}
