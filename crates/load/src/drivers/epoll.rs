//! The epoll driver: a reply is received, checked and answered with the next request in one go.
//!
//! Two system calls a request and a share of one wait: a connection is registered once, by its edges, and a short
//! receive is taken as the last.

use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::Client;
use sys::clock;
use sys::epoll::{Epoll, Interest, Ready};
use sys::net::{Address, Socket};

use super::{Drive, SWEEP_NS, address_of, open_all, until};
use crate::exchange::{Exchange, Outcome};
use crate::record::{Fault, Recorder};
use crate::{Config, Failure, failure};

/// Received in one call at most.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receives from one connection in a row, so that one fast server cannot keep the thread from the others.
const RECEIVES_MAX: usize = 16;

struct Connection<C> {
    /// None while it waits to be opened again.
    socket: Option<Socket>,
    exchange: Exchange<C>,
    /// What did not fit into the socket of the request in flight.
    unsent: &'static [u8],
}

/// A thread's connections and what it waits with.
pub(crate) struct Worker<W, C> {
    epoll: Epoll,
    connections: Vec<Connection<C>>,
    input: Box<[u8]>,
    client: C,
    addresses: Vec<Address>,
    timeout_ns: u64,
    workload: PhantomData<W>,
}

impl<W: 'static, C: Client<W>> Worker<W, C> {
    pub(crate) fn open(config: &Config, count: usize, client: C, halt: &AtomicBool) -> Result<Self, Failure> {
        let broken = |error: io::Error| failure("epoll", format!("epoll cannot be set up: {error}"));
        sys::process::own_descriptors().map_err(broken)?;
        let epoll = Epoll::new().map_err(broken)?;
        let mut connections = Vec::with_capacity(count);
        for (key, socket) in open_all(config, count, halt)?.into_iter().enumerate() {
            epoll.add(&socket, key as u64, Interest::EDGES).map_err(broken)?;
            let exchange = Exchange::new(client.clone());
            connections.push(Connection { socket: Some(socket), exchange, unsent: &[] });
        }
        Ok(Self {
            epoll,
            connections,
            input: vec![0; RECEIVE_BYTES].into(),
            client,
            addresses: config.addresses.clone(),
            timeout_ns: config.timeout.as_nanos() as u64,
            workload: PhantomData,
        })
    }

    /// Receives what there is, and goes on with the next request when the reply is whole.
    fn step(&mut self, ready: Ready, recorder: &mut Recorder) {
        let key = ready.key as usize;
        if !self.connections[key].unsent.is_empty() && ready.writable() && !self.send(key, recorder) {
            return;
        }
        for _ in 0..RECEIVES_MAX {
            let connection = &mut self.connections[key];
            let Some(socket) = &mut connection.socket else { return };
            let received = socket.read(&mut self.input);
            let now_ns = clock::monotonic_ns();
            recorder.at(now_ns);
            let outcome = match received {
                Ok(0) => connection.exchange.end(now_ns, recorder),
                Ok(received) => connection.exchange.receive(&self.input[..received], now_ns, recorder),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.fail(key, &error, recorder),
            };
            match outcome {
                Outcome::Waiting => {}
                Outcome::Replied if recorder.may_send() => {
                    connection.unsent = connection.exchange.begin(now_ns, recorder);
                    if !self.send(key, recorder) {
                        return;
                    }
                }
                Outcome::Replied => return,
                Outcome::Over => return self.reopen(key, recorder),
            }
            if received.is_ok_and(|received| received < RECEIVE_BYTES) && !ready.ended() {
                return;
            }
        }
        // An edge that was seen is not reported again unless it is asked for again.
        if let Some(socket) = &self.connections[key].socket
            && let Err(error) = self.epoll.change(socket, ready.key, Interest::EDGES)
        {
            self.fail(key, &error, recorder);
        }
    }

    /// Sends as much as fits of what is unsent; says whether the connection is still sound.
    fn send(&mut self, key: usize, recorder: &mut Recorder) -> bool {
        let connection = &mut self.connections[key];
        let Some(socket) = &mut connection.socket else { return false };
        match socket.write(connection.unsent) {
            Ok(sent) => connection.unsent = &connection.unsent[sent..],
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                self.fail(key, &error, recorder);
                return false;
            }
        }
        true
    }

    /// Accounts for a connection that has broken, and opens it anew.
    fn fail(&mut self, key: usize, error: &io::Error, recorder: &mut Recorder) {
        self.connections[key].exchange.fail_with(error, recorder);
        self.reopen(key, recorder);
    }

    /// Opens a connection anew, at once if the one before it was of use. A server that refuses is asked again at
    /// the next sweep, not at once and for ever.
    fn reopen(&mut self, key: usize, recorder: &mut Recorder) {
        self.connections[key].socket = None;
        if self.connections[key].exchange.is_taken() {
            self.open_again(key, recorder);
        }
    }

    /// Connects and sends a first request; its time begins before the connection.
    fn open_again(&mut self, key: usize, recorder: &mut Recorder) {
        if !recorder.may_send() {
            return;
        }
        let connection = &mut self.connections[key];
        connection.exchange = Exchange::opening(self.client.clone());
        connection.unsent = connection.exchange.begin(clock::monotonic_ns(), recorder);
        let opened = sys::net::start_connect(address_of(&self.addresses, key))
            .and_then(|socket| self.epoll.add(&socket, key as u64, Interest::EDGES).map(|()| socket));
        match opened {
            Ok(socket) => {
                connection.socket = Some(socket);
                // Nearby servers have answered by now; otherwise the first write edge sends it.
                self.send(key, recorder);
            }
            Err(error) => {
                connection.exchange.fail(Fault::Connect, recorder, || error.to_string());
            }
        }
    }

    /// Gives up on replies that are overdue, and opens connections that are closed.
    fn sweep(&mut self, now_ns: u64, recorder: &mut Recorder) {
        for key in 0..self.connections.len() {
            let connection = &mut self.connections[key];
            let late = connection.exchange.give_up_late(now_ns, self.timeout_ns, recorder);
            if late || connection.socket.is_none() {
                connection.socket = None;
                self.open_again(key, recorder);
            }
        }
    }
}

impl<W: 'static, C: Client<W>> Drive for Worker<W, C> {
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&mut self, recorder: &mut Recorder, halt: &AtomicBool) {
        for key in 0..self.connections.len() {
            let connection = &mut self.connections[key];
            if connection.socket.is_some() && recorder.may_send() {
                connection.unsent = connection.exchange.begin(clock::monotonic_ns(), recorder);
                self.send(key, recorder);
            }
        }
        let mut sweep_ns = clock::monotonic_ns() + SWEEP_NS;
        loop {
            if recorder.is_done() {
                break;
            }
            let now_ns = clock::monotonic_ns();
            recorder.at(now_ns);
            let due = until(recorder.due_ns().min(sweep_ns), now_ns);
            let count =
                self.epoll.wait(Some(due)).expect("a set of descriptors that has worked goes on working");
            let now_ns = clock::monotonic_ns();
            if !recorder.begin_turn(now_ns) || halt.load(Ordering::Relaxed) {
                break;
            }
            for index in 0..count {
                self.step(self.epoll.ready(index), recorder);
            }
            if now_ns >= sweep_ns {
                self.sweep(now_ns, recorder);
                sweep_ns = now_ns + SWEEP_NS;
            }
        }
        recorder.connections_open(self.connections.iter().filter(|one| one.socket.is_some()).count());
    }
}

/// Errors that only mean: not now.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NotConnected
    )
}
