//! A small HTTP server with configurable correct or wrong behaviour, and counts.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::SockRef;

/// What a server does with its requests, which it numbers in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Right,
    /// Correct, except for every 50th reply.
    Each50th(Fault),
    /// Every reply is wrong.
    Always(Fault),
    ByteByByte,
    /// Announces that it will close, and does.
    ClosesEach,
    /// Closes after each reply without announcing it.
    ClosesEachUnsaid,
    /// The same, with the end in the same packet as the reply.
    ClosesEachAtOnce,
    Silent,
    /// Correct for this many requests, then silent.
    SilentAfter(u64),
    /// Reads a request's body this long after its head, or when the server ends, and replies.
    SleepsFirst(Duration),
    /// Closes each connection as soon as it has accepted it.
    ClosesAtOnce,
    /// Sends first, as servers of other protocols do, and nothing more.
    Greets(&'static str),
    /// Sends back what it receives.
    Echoes,
    /// Closes its connections and its listener after this many correct replies.
    DiesAfter(u64),
}

/// A fault in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    WrongByte,
    Unavailable,
    Truncated,
    Reset,
}

/// A server's counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) right: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    /// The sum over all requests of the time from the complete head to the sent reply.
    pub(crate) busy: Duration,
    /// Ends that may have missed the packet of their reply, because this took longer than the kernel delays it.
    pub(crate) late_ends: u64,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    connections: AtomicU64,
    requests: AtomicU64,
    right: AtomicU64,
    bytes_received: AtomicU64,
    bytes_sent: AtomicU64,
    busy_ns: AtomicU64,
    late_ends: AtomicU64,
}

/// A running server: a thread for each connection.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

const RIGHT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright";
const WRONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong";
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nright";

const HEAD_END: &[u8] = b"\r\n\r\n";

/// How often an idle thread checks whether the server has ended.
const LOOK: Duration = Duration::from_millis(5);

impl Server {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        // Several of these servers with their clients need more descriptors than many systems allow by default.
        sys::process::descriptors_max();
        let listener = TcpListener::bind((own_address(), 0)).expect("a port is free");
        listener.set_nonblocking(true).expect("a listener can be told not to block");
        let address = listener.local_addr().expect("it has an address");
        let shared = Arc::new(Shared::default());
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, behaviour, &shared))
        };
        Self { address, shared, acceptor }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of correct replies so far.
    pub(crate) fn right(&self) -> u64 {
        self.shared.right.load(Ordering::SeqCst)
    }

    /// Ends the server, and returns after its last thread has ended.
    pub(crate) fn end(self) -> Counts {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.acceptor.join().expect("the server does not panic");
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Counts {
            connections: count(&self.shared.connections),
            requests: count(&self.shared.requests),
            right: count(&self.shared.right),
            bytes_received: count(&self.shared.bytes_received),
            bytes_sent: count(&self.shared.bytes_sent),
            busy: Duration::from_nanos(count(&self.shared.busy_ns)),
            late_ends: count(&self.shared.late_ends),
        }
    }
}

/// A loopback address that no other server has, so that none gets the port of a dead one that is still being contacted.
pub(crate) fn own_address() -> Ipv4Addr {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let number = (std::process::id() << 8) + NUMBER.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 64, 0, 0)) | number & 0x3f_ffff)
}

/// An address where nothing listens now or later.
pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind((own_address(), 0)).expect("a port is free");
    listener.local_addr().expect("it has an address").to_string()
}

fn accept(listener: &TcpListener, behaviour: Behaviour, shared: &Arc<Shared>) {
    let mut connections = Vec::new();
    while !shared.ended.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((socket, _)) => {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(shared);
                // However a connection ends, the client must report it.
                connections.push(thread::spawn(move || drop(serve(socket, behaviour, &shared))));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_micros(200)),
            Err(error) => panic!("the server cannot accept: {error}"),
        }
    }
    for connection in connections {
        connection.join().expect("a connection does not panic");
    }
}

/// Serves a connection until the client, the behaviour or the end of the server ends it.
fn serve(mut socket: TcpStream, behaviour: Behaviour, shared: &Shared) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(LOOK))?;
    match behaviour {
        Behaviour::ClosesAtOnce => return Ok(()),
        Behaviour::Greets(greeting) => send(&mut socket, shared, greeting.as_bytes(), greeting.len())?,
        Behaviour::Echoes => return echo(&mut socket, shared),
        _ => {}
    }
    while let Some(length) = wait_for_request(&socket, shared)? {
        let begin = Instant::now();
        let number = shared.requests.fetch_add(1, Ordering::SeqCst);
        shared.bytes_received.fetch_add(length as u64, Ordering::SeqCst);
        let fault = match behaviour {
            Behaviour::Each50th(fault) if number % 50 == 49 => Some(fault),
            Behaviour::Always(fault) => Some(fault),
            _ => None,
        };
        if fault == Some(Fault::Reset) {
            // Closing a socket with unread bytes resets the connection.
            return Ok(());
        }
        if let Behaviour::SleepsFirst(time) = behaviour {
            let asleep = Instant::now();
            while asleep.elapsed() < time && !shared.ended.load(Ordering::SeqCst) {
                thread::sleep(LOOK.min(time - asleep.elapsed().min(time)));
            }
            // The body is still to come.
            socket.set_read_timeout(None)?;
        }
        socket.read_exact(&mut vec![0; length])?;
        socket.set_read_timeout(Some(LOOK))?;
        match (behaviour, fault) {
            (_, Some(Fault::WrongByte)) => send(&mut socket, shared, WRONG, WRONG.len())?,
            (_, Some(Fault::Unavailable)) => send(&mut socket, shared, UNAVAILABLE, UNAVAILABLE.len())?,
            (_, Some(Fault::Truncated)) => {
                return send(&mut socket, shared, &RIGHT[..RIGHT.len() - 1], RIGHT.len());
            }
            (Behaviour::Silent | Behaviour::Greets(_), _) => {}
            (Behaviour::SilentAfter(replies), _) if number >= replies => {}
            (Behaviour::ClosesEachUnsaid, _) => return send_right(&mut socket, shared, RIGHT, RIGHT.len()),
            (Behaviour::ClosesEachAtOnce, _) => {
                // Corked bytes are sent with further ones, here the end, or after 200 ms.
                const CORKED: Duration = Duration::from_millis(100);
                SockRef::from(&socket).set_tcp_cork(true)?;
                let corked = Instant::now();
                send_right(&mut socket, shared, RIGHT, RIGHT.len())?;
                let shut = socket.shutdown(Shutdown::Write);
                shared.late_ends.fetch_add((corked.elapsed() > CORKED).into(), Ordering::SeqCst);
                return shut;
            }
            (Behaviour::ClosesEach, _) => return send_right(&mut socket, shared, LAST, LAST.len()),
            (Behaviour::ByteByByte, _) => send_right(&mut socket, shared, RIGHT, 1)?,
            (Behaviour::DiesAfter(replies), _) if number >= replies => {
                shared.ended.store(true, Ordering::SeqCst);
                return Ok(());
            }
            _ => send_right(&mut socket, shared, RIGHT, RIGHT.len())?,
        }
        shared.busy_ns.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::SeqCst);
    }
    Ok(())
}

fn echo(socket: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let mut input = [0; 1024];
    while !shared.ended.load(Ordering::SeqCst) {
        match socket.read(&mut input) {
            Ok(0) => break,
            Ok(count) => send(socket, shared, &input[..count], count)?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for a complete request and leaves it in the socket, with what follows it. Returns its length, or None at the
/// end.
fn wait_for_request(socket: &TcpStream, shared: &Shared) -> io::Result<Option<usize>> {
    let mut input = [0; 1024];
    while !shared.ended.load(Ordering::SeqCst) {
        match socket.peek(&mut input) {
            Ok(0) => return Ok(None),
            Ok(count) => match input[..count].windows(HEAD_END.len()).position(|end| end == HEAD_END) {
                Some(position) => {
                    return Ok(Some(position + HEAD_END.len() + body_bytes(&input[..position])));
                }
                None => thread::sleep(Duration::from_micros(50)),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The Content-Length in a head.
fn body_bytes(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lengths = head.lines().filter_map(|line| line.strip_prefix("content-length:"));
    lengths.next().map_or(0, |length| length.trim().parse().expect("a length is a number"))
}

fn send_right(socket: &mut TcpStream, shared: &Shared, reply: &[u8], piece_bytes: usize) -> io::Result<()> {
    send(socket, shared, reply, piece_bytes)?;
    shared.right.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

fn send(socket: &mut TcpStream, shared: &Shared, bytes: &[u8], piece_bytes: usize) -> io::Result<()> {
    for piece in bytes.chunks(piece_bytes) {
        socket.write_all(piece)?;
        shared.bytes_sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
    }
    Ok(())
}
