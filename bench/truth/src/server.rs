//! The event loop: requests in, replies out when they are due.
//!
//! It sleeps until shortly before the next reply is due and spins from there, because the kernel wakes a sleeper tens
//! of microseconds late. While it spins it goes on looking for requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};

use crate::profile::{Answers, Kind};
use crate::record::Record;

pub(crate) struct Server {
    epoll: OwnedFd,
    listener: TcpListener,
    /// Becomes readable when the server is to end; it is held for that.
    _end: UnixStream,
    connections: Vec<Option<Connection>>,
    /// Places of `connections` that are empty.
    free: Vec<usize>,
    pending: BinaryHeap<Reverse<Pending>>,
    answers: Answers,
    record: Record,
    received: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    /// No other connection of this run has it, unlike a place.
    id: u64,
    /// The request that has not come whole.
    input: Vec<u8>,
    /// When the last of its replies is due: they go out in the order of the requests.
    due_ns: u64,
}

/// A reply that is to be written. The number makes those that are due together go out as their requests came.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    due_ns: u64,
    number: usize,
    place: usize,
    id: u64,
}

impl Server {
    pub(crate) fn new(listener: TcpListener, end: UnixStream, answers: Answers) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        listener.set_nonblocking(true)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &end, epoll::EventData::new_u64(END), epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            _end: end,
            connections: Vec::new(),
            free: Vec::new(),
            pending: BinaryHeap::new(),
            answers,
            record: Record::new(),
            received: vec![0; RECEIVED_BYTES],
        })
    }

    /// Serves until it is told to end; returns what it has done.
    pub(crate) fn run(mut self) -> io::Result<Record> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            self.answer_due();
            let timeout = self.pending.peek().map(|Reverse(next)| {
                let sleep_ns = next.due_ns.saturating_sub(now_ns()).saturating_sub(SPIN_NS);
                Timespec::try_from(Duration::from_nanos(sleep_ns)).expect("delays are short")
            });
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Err(error) if error != rustix::io::Errno::INTR => return Err(error.into()),
                _ => {}
            }
            let arrival_ns = now_ns();
            for event in &events {
                match event.data.u64() {
                    END => {
                        self.record.origin_ns = self.answers.origin_ns().unwrap_or(0);
                        return Ok(self.record);
                    }
                    LISTENER => self.accept()?,
                    place => self.receive(place as usize, arrival_ns),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // It has been reset before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let place = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
            self.record.connections += 1;
            let id = self.record.connections;
            self.connections[place] = Some(Connection { stream, id, input: Vec::new(), due_ns: 0 });
        }
    }

    /// Takes what has come on a connection, and plans the replies of the requests that are whole.
    fn receive(&mut self, place: usize, arrival_ns: u64) {
        let Some(connection) = &mut self.connections[place] else { return };
        match connection.stream.read(&mut self.received) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(1..) if connection.input.len() > INPUT_BYTES_MAX => return self.close(place),
            Ok(length @ 1..) => connection.input.extend_from_slice(&self.received[..length]),
            _ => return self.close(place),
        }
        while let Some(at) = connection.input.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END) {
            connection.input.drain(..at + HEAD_END.len());
            let mut answer = self.answers.next(arrival_ns);
            answer.due_ns = answer.due_ns.max(connection.due_ns);
            connection.due_ns = answer.due_ns;
            let number = self.record.came(arrival_ns, answer);
            self.pending.push(Reverse(Pending { due_ns: answer.due_ns, number, place, id: connection.id }));
        }
    }

    /// Writes the replies whose time has come.
    fn answer_due(&mut self) {
        while self.pending.peek().is_some_and(|Reverse(next)| next.due_ns <= now_ns()) {
            let Some(Reverse(Pending { number, place, id, .. })) = self.pending.pop() else { return };
            let connection = self.connections[place].as_ref().filter(|connection| connection.id == id);
            // Whoever asked may have gone.
            let Some(connection) = connection else { continue };
            let done = match self.record.kind(number) {
                Kind::Right => write_whole(&connection.stream, RIGHT),
                Kind::Wrong => write_whole(&connection.stream, WRONG),
                Kind::Unavailable => write_whole(&connection.stream, UNAVAILABLE),
                Kind::Reset => {
                    rustix::net::sockopt::set_socket_linger(&connection.stream, Some(Duration::ZERO))
                        .map_err(io::Error::from)
                }
            };
            if done.is_err() || self.record.kind(number) == Kind::Reset {
                self.close(place);
            }
            if done.is_ok() {
                self.record.answered(number, now_ns());
            }
        }
    }

    fn close(&mut self, place: usize) {
        self.connections[place] = None;
        self.free.push(place);
    }
}

/// A reply is short and finds an empty socket. Where it does not, nobody reads, and the connection is given up.
fn write_whole(mut stream: &TcpStream, reply: &[u8]) -> io::Result<()> {
    if stream.write(reply)? == reply.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const LISTENER: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// How long before a reply is due the server is awake: longer than the kernel takes to wake it.
const SPIN_NS: u64 = 60_000;
const EVENTS_MAX: usize = 256;
/// Larger than all the requests that a generator sends at a time.
const RECEIVED_BYTES: usize = 64 * 1024;
/// No generator has a head as long as this.
const INPUT_BYTES_MAX: usize = 64 * 1024;

const HEAD_END: &[u8] = b"\r\n\r\n";
/// Says that the connection is kept, for clients of HTTP/1.0.
const RIGHT: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 16\r\n\r\nthe right answer";
const WRONG: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 16\r\n\r\nthe right answeR";
const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
