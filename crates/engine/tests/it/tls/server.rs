//! A small TLS server for HTTP or echo, with configurable correct or wrong behaviour, and counts.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

/// The behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Keeps its connections, and replies with a body of this length.
    Keeps { body_bytes: usize },
    /// Sends each byte of a reply as its own record.
    ByteByByte,
    /// Sends each reply as one record, a byte every few milliseconds.
    Dribbles,
    /// Announces in its replies that it will close, and does, with a `close_notify`.
    ClosesEach,
    /// Closes after each reply without announcing it; with or without a `close_notify`.
    ClosesEachUnsaid { announced: bool },
    /// Ends each body by closing the connection; with or without a `close_notify`.
    EndsBodies { announced: bool },
    /// Updates its keys after each reply, and makes the client do the same.
    ChangesKeys,
    /// Speaks TLS on this many connections. On others it cannot parse what it receives, and says so in HTTP.
    SpeaksTlsOn(u64),
    /// Speaks TLS on this many connections, and resets others when it receives something.
    ResetsAfter(u64),
    /// Ends each connection as soon as it receives something.
    HangsUp,
    /// Waits for more.
    Waits,
    /// Sends back what it receives.
    Echoes,
}

/// A server's counts, in bytes before encryption.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    ended: AtomicBool,
}

impl Counts {
    fn add(counter: &AtomicU64, number: usize) {
        counter.fetch_add(number as u64, Ordering::SeqCst);
    }
}

/// A running server: a thread for each connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    acceptor: JoinHandle<()>,
}

const HEAD_END: &[u8] = b"\r\n\r\n";

/// How often an idle thread checks whether the server has ended.
const LOOK: Duration = Duration::from_millis(5);

impl Server {
    pub(crate) fn start(behaviour: Behaviour, config: &Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("a listener can be told not to block");
        let address = listener.local_addr().expect("it has an address");
        let counts = Arc::new(Counts::default());
        let acceptor = {
            let (counts, config) = (Arc::clone(&counts), Arc::clone(config));
            thread::spawn(move || accept(&listener, behaviour, &config, &counts))
        };
        Self { address, counts, acceptor }
    }

    /// Ends the server, and returns after its last thread has ended.
    pub(crate) fn end(self) -> Arc<Counts> {
        self.counts.ended.store(true, Ordering::SeqCst);
        self.acceptor.join().expect("the server does not panic");
        self.counts
    }
}

fn accept(listener: &TcpListener, behaviour: Behaviour, config: &Arc<ServerConfig>, counts: &Arc<Counts>) {
    let mut connections = Vec::new();
    while !counts.ended.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((socket, _)) => {
                let number = counts.connections.fetch_add(1, Ordering::SeqCst);
                let (counts, config) = (Arc::clone(counts), Arc::clone(config));
                // However a connection ends, the client must report it.
                let body = move || drop(serve(socket, number, behaviour, config, &counts));
                connections.push(thread::spawn(body));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_micros(200)),
            Err(error) => panic!("the server cannot accept: {error}"),
        }
    }
    for connection in connections {
        connection.join().expect("a connection does not panic");
    }
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

fn serve(
    mut socket: TcpStream,
    number: u64,
    behaviour: Behaviour,
    config: Arc<ServerConfig>,
    counts: &Counts,
) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    match behaviour {
        Behaviour::HangsUp => return socket.read(&mut [0; 4096]).map(drop),
        Behaviour::Waits => {
            while !counts.ended.load(Ordering::SeqCst) {
                thread::sleep(LOOK);
            }
            return Ok(());
        }
        Behaviour::ResetsAfter(connections) if number >= connections => {
            // Closing a socket with unread bytes resets the connection.
            return socket.peek(&mut [0]).map(drop);
        }
        Behaviour::SpeaksTlsOn(connections) if number >= connections => {
            let _ = socket.read(&mut [0; 4096])?;
            return socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
        _ => {}
    }
    socket.set_read_timeout(Some(LOOK))?;
    let tls = ServerConnection::new(config).expect("the configuration is sound");
    let mut stream = StreamOwned::new(tls, socket);
    if behaviour == Behaviour::Echoes {
        return echo(&mut stream, counts);
    }
    let mut input = Vec::new();
    while let Some(length) = request(&mut stream, &mut input, counts)? {
        input.drain(..length);
        counts.requests.fetch_add(1, Ordering::SeqCst);
        if !reply(&mut stream, behaviour, counts)? {
            break;
        }
    }
    Ok(())
}

/// Replies to a request. Returns whether the connection stays open.
fn reply(stream: &mut Stream, behaviour: Behaviour, counts: &Counts) -> io::Result<bool> {
    let body_bytes = match behaviour {
        Behaviour::Keeps { body_bytes } => body_bytes,
        Behaviour::Dribbles => 2000,
        _ => 5,
    };
    let length = match behaviour {
        Behaviour::EndsBodies { .. } => String::new(),
        Behaviour::ClosesEach => format!("Content-Length: {body_bytes}\r\nConnection: close\r\n"),
        _ => format!("Content-Length: {body_bytes}\r\n"),
    };
    let mut reply = format!("HTTP/1.1 200 OK\r\n{length}\r\n").into_bytes();
    reply.extend((0..body_bytes).map(|index| b'a' + (index % 23) as u8));
    if behaviour == Behaviour::Dribbles {
        return dribble(stream, &reply, counts).map(|()| true);
    }
    let piece_bytes = if behaviour == Behaviour::ByteByByte { 1 } else { reply.len() };
    for piece in reply.chunks(piece_bytes) {
        // Counted before the send: the client may finish, and the counts be read, before this thread continues.
        Counts::add(&counts.bytes_sent, piece.len());
        stream.write_all(piece)?;
        stream.flush()?;
    }
    match behaviour {
        Behaviour::ChangesKeys => {
            stream.conn.refresh_traffic_keys().map_err(io::Error::other)?;
            stream.flush()?;
        }
        Behaviour::ClosesEach
        | Behaviour::ClosesEachUnsaid { announced: true }
        | Behaviour::EndsBodies { announced: true } => {
            stream.conn.send_close_notify();
            stream.flush()?;
            return Ok(false);
        }
        Behaviour::ClosesEachUnsaid { .. } | Behaviour::EndsBodies { .. } => return Ok(false),
        _ => {}
    }
    Ok(true)
}

/// Sends one record slowly.
fn dribble(stream: &mut Stream, reply: &[u8], counts: &Counts) -> io::Result<()> {
    let mut record = Vec::new();
    stream.conn.writer().write_all(reply)?;
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut record)?;
    }
    for byte in record {
        if counts.ended.load(Ordering::SeqCst) {
            break;
        }
        stream.sock.write_all(&[byte])?;
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits for a complete request. Returns its length in the input, or None at the end.
fn request(stream: &mut Stream, input: &mut Vec<u8>, counts: &Counts) -> io::Result<Option<usize>> {
    loop {
        if let Some(length) = request_bytes(input)
            && length <= input.len()
        {
            return Ok(Some(length));
        }
        let mut piece = [0; 16 * 1024];
        match receive(stream, &mut piece, counts)? {
            0 => return Ok(None),
            length => input.extend_from_slice(&piece[..length]),
        }
    }
}

/// The length of the request at the front of the input, if its head is complete.
fn request_bytes(input: &[u8]) -> Option<usize> {
    let head = input.windows(HEAD_END.len()).position(|end| end == HEAD_END)? + HEAD_END.len();
    let text = std::str::from_utf8(&input[..head]).expect("a head is text").to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().expect("a length is a number"));
    Some(head + length)
}

fn echo(stream: &mut Stream, counts: &Counts) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    loop {
        match receive(stream, &mut piece, counts)? {
            0 => return Ok(()),
            length => {
                Counts::add(&counts.bytes_sent, length);
                stream.write_all(&piece[..length])?;
                stream.flush()?;
            }
        }
    }
}

/// Receives some bytes; 0 means the end of the connection, or of the server.
fn receive(stream: &mut Stream, piece: &mut [u8], counts: &Counts) -> io::Result<usize> {
    while !counts.ended.load(Ordering::SeqCst) {
        let was_handshaking = stream.conn.is_handshaking();
        let received = stream.read(piece);
        let is_done = was_handshaking && !stream.conn.is_handshaking();
        if is_done && stream.conn.handshake_kind() == Some(HandshakeKind::Full) {
            Counts::add(&counts.handshakes, 1);
        }
        match received {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => {
                Counts::add(&counts.bytes_received, *other.as_ref().unwrap_or(&0));
                return other;
            }
        }
    }
    Ok(0)
}
