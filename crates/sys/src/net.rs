//! Stream sockets as every model and the generator want them, so that none of them differs by an option.

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

/// The congestion control set on every TCP socket. The default of some machines, BBR, paces its sends with timers
/// and so measures the timers; this one is in every kernel.
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
    /// Whether other machines can reach it. Addresses that are for examples lead nowhere but over a path of ours.
    pub fn is_exposed(&self) -> bool {
        let is_kept = |ip: IpAddr| ip.is_loopback() || matches!(ip, IpAddr::V4(ip) if ip.is_documentation());
        matches!(self, Self::Ip(address) if !is_kept(address.ip()))
    }

    /// A socket of its family, tuned.
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

    /// Reads `127.0.0.1:8080`, `[::1]:8080` or `unix:/path/to/socket`.
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
    /// Opens a listening socket. Accepted sockets inherit its options, so they cost no syscall later.
    ///
    /// With `reuse_port` several sockets may listen on the same TCP address, one for each worker, and the kernel
    /// spreads connections over them. A path in the file system is taken over when nobody listens on it any more.
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

    /// Another handle of the same queue of connections: what workers share where addresses cannot be.
    ///
    /// # Errors
    /// A limit on descriptors.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Where it listens, with the port it has got.
    ///
    /// # Errors
    /// None that a listening socket can cause.
    pub fn address(&self) -> io::Result<Address> {
        Address::of_system(&self.0.local_addr()?)
            .ok_or_else(|| io::Error::other("a socket without an address"))
    }

    /// Whether [`Self::accept`] waits for a connection or says that there is none. Shared by all its handles.
    ///
    /// # Errors
    /// None that a listening socket can cause.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    /// Accepts a connection; `nonblocking` is how the socket it returns is to be.
    ///
    /// # Errors
    /// `WouldBlock` if no connection is waiting and it does not wait; otherwise as `accept4(2)`.
    pub fn accept(&self, nonblocking: bool) -> io::Result<Socket> {
        let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        // SAFETY: the peer's address is not wanted, which null pointers say.
        let fd =
            checked(unsafe { libc::accept4(self.0.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), flags) })?;
        // SAFETY: the descriptor is new and belongs to nobody else.
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

/// Where a connection goes, and which of this machine's addresses it comes from if not the kernel's choice. An address
/// has some 28,000 ports to give out for each place that is connected to.
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
            // The port is chosen when it is known what to connect to, so that several connections can share one.
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

/// Connects and waits until it is done; the socket it returns does not block.
///
/// # Errors
/// As `connect(2)`; `TimedOut` after `timeout`. As `bind(2)` where it is to come from an address that is not ours.
pub fn connect(route: Route<'_>, timeout: Duration) -> io::Result<Socket> {
    connect_while(route, timeout, || true)
}

/// Connects as [`connect`] does, but waits only while `goes_on` says so, which is asked every 20 ms.
///
/// # Errors
/// As [`connect`]; `Interrupted` if it is to go on no longer.
pub fn connect_while(route: Route<'_>, timeout: Duration, goes_on: impl Fn() -> bool) -> io::Result<Socket> {
    let begin = Instant::now();
    let moment = || -> io::Result<Duration> {
        match timeout.saturating_sub(begin.elapsed()) {
            _ if !goes_on() => Err(io::ErrorKind::Interrupted.into()),
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            // Less than a millisecond would be none to `poll(2)`, and for ever to a socket.
            left => Ok(left.clamp(Duration::from_millis(1), LOOK_PAUSE)),
        }
    };
    match route.to {
        Address::Ip(_) => {
            let socket = start_connect(route)?;
            while !is_connected(&socket, moment()?)? {}
            Ok(socket)
        }
        // A nonblocking one does not wait for room in the server's queue; a blocking one does, for as long as a write.
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

/// How often a wait looks whether it is to go on.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Waits for a moment until a socket that has begun to connect is connected; says whether it is.
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

/// Errors that only mean: not yet.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Begins to connect and does not wait: the socket becomes writable when it is connected, or has failed.
///
/// # Errors
/// As [`connect`], where that can be said at once.
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

/// Removes a socket file whose server has ended: binding would fail although the address is free.
fn remove_if_stale(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    // Not to wait: the queue of a server that lives may be full.
    if is_socket && start_connect((&Address::Unix(path.to_owned())).into()).is_err_and(refused) {
        // If it cannot be removed, binding says why.
        let _ = std::fs::remove_file(path);
    }
}

/// The listening sockets of one worker, accepted from as if they were one.
#[derive(Debug)]
pub struct Listeners {
    all: Vec<Listener>,
    /// What `poll(2)` is asked about them; empty where there is only one, which can be waited for by accepting.
    polled: Vec<libc::pollfd>,
}

impl Listeners {
    /// Takes sockets to wait for together.
    ///
    /// # Errors
    /// None that listening sockets can cause.
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

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.all.iter()
    }

    /// Each of them, for a model that waits in its own way.
    pub fn into_vec(self) -> Vec<Listener> {
        self.all
    }

    /// Waits for a connection on any of them, and accepts it; the socket it returns blocks.
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

    /// A path in the file system that no other test has.
    fn address_of(name: &str) -> (PathBuf, Address) {
        let path = std::env::temp_dir().join(format!("iolab-net-{}-{name}.sock", std::process::id()));
        (path.clone(), Address::Unix(path))
    }

    /// Connects to a Unix socket with a queue of one place until there is no room, and returns what that is.
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

    /// Waits for a server that does not accept, for an hour, and gives up after a hundred milliseconds.
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
        // Of this network, which is for examples, no machine has an address.
        let foreign = Route { to: &to, from: Some("192.0.2.1".parse().unwrap()) };
        assert_eq!(start_connect(foreign).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    }
}
