//! The thread driver: one thread a connection, in blocking calls, as simple clients are written.
//!
//! It is here to be compared with. A thread for each connection costs a switch for each reply, and beyond a few hundred
//! the scheduler decides what is measured. It sends a request whole before it listens for the reply.
//!
//! That a server has closed a connection it learns from the request that fails on it: to look before each would cost a
//! system call more.
//!
//! No call blocks for longer than a moment, so that the end of a run and a request's timeout are seen while a server
//! takes nothing; and all that may block is a wait, which is not time the generator was away.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use proto::Client;
use sys::clock;
use sys::net::{Address, Socket};

use super::link::Link;
use super::{Drive, Plan, SWEEP_NS};
use crate::exchange::{Exchange, Outcome};
use crate::record::{Open, Recorder};
use crate::turns::{Turn, Turns};
use crate::{Config, Failure, Share, failure};

/// Received in one call at most.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Sent in one call at most, by a link that may take several system calls for it, each of which may block.
const SEND_BYTES: usize = 64 * 1024;

/// A thread's one connection.
pub(crate) struct Worker<W, C, L: Link> {
    /// None until it is used again.
    link: Option<L>,
    exchange: Exchange<C>,
    /// What the link has not taken yet of the last request.
    unsent: &'static [u8],
    input: Box<[u8]>,
    client: C,
    plan: Plan<L>,
    workload: PhantomData<W>,
}

impl<W: 'static, C: Client<W>, L: Link> Worker<W, C, L> {
    pub(crate) fn open(
        config: &Config,
        terms: L::Terms,
        share: &Share,
        client: C,
        halt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let (plan, mut links) = Plan::<L>::open(config, terms, share, halt)?;
        let link = links.pop();
        if let Some(link) = &link {
            block(link.socket(), plan.moment())
                .map_err(|error| failure("connect_failed", error.to_string()))?;
        }
        Ok(Self {
            link,
            exchange: Exchange::new(client.clone(), plan.limits),
            unsent: &[],
            input: vec![0; RECEIVE_BYTES].into(),
            client,
            plan,
            workload: PhantomData,
        })
    }

    /// Begins a request, for which the connection is opened if it is not open.
    fn begin(&mut self, turn: &Turn, now_ns: u64, recorder: &mut Recorder) {
        if self.link.is_none() {
            self.exchange.open_again(self.client.clone(), self.plan.limits);
        }
        self.unsent = self.exchange.begin(turn, now_ns, recorder);
    }

    /// Goes on with the request in flight, waiting for the server for a moment or two, and takes the reply that comes.
    fn step(&mut self, recorder: &mut Recorder) -> Outcome {
        // The end of a send may block, and the receive that follows it.
        recorder.end_turn(clock::monotonic_ns(), 2 * self.plan.moment());
        let received = if self.link.is_some() { self.communicate() } else { self.connect() };
        let now_ns = clock::monotonic_ns();
        if !recorder.begin_turn(now_ns) {
            return Outcome::Waiting;
        }
        match received {
            Ok(Some(0)) => self.exchange.end(now_ns, recorder),
            Ok(Some(received)) => self.exchange.receive(&self.input[..received], now_ns, recorder),
            Err(error) if !is_passing(&error) => {
                match self.link {
                    Some(_) => self.exchange.fail_with(&error, recorder),
                    None => self.exchange.fail_to_open(&error, recorder),
                }
                Outcome::Over
            }
            Ok(None) | Err(_) => {
                let late = self.exchange.give_up_late(now_ns, recorder);
                if late { Outcome::Over } else { Outcome::Waiting }
            }
        }
    }

    /// Sends what is unsent, then receives; returns how much, or nothing while it is still sending.
    fn communicate(&mut self) -> io::Result<Option<usize>> {
        let Some(link) = &mut self.link else { return Ok(None) };
        if !self.unsent.is_empty() || link.holds_back() {
            // The time a plain socket may block is that of the whole call, whatever it is given.
            let length = if L::BUFFERS { self.unsent.len().min(SEND_BYTES) } else { self.unsent.len() };
            let sent = link.write(&self.unsent[..length])?;
            self.unsent = &self.unsent[sent..];
            if link.holds_back() || (sent > 0 && !self.unsent.is_empty()) {
                return Ok(None);
            }
            if !self.unsent.is_empty() {
                return hear(link, &mut self.input).map(Some);
            }
        }
        link.read(&mut self.input).map(Some)
    }

    /// Begins to connect. The first send waits until that is done.
    fn connect(&mut self) -> io::Result<Option<usize>> {
        let (route, moment) = (self.plan.route(0), self.plan.moment());
        let socket = match route.to {
            Address::Ip(_) => sys::net::start_connect(route)?,
            // There is no beginning of it: it is done, or waits for room in the server's queue.
            Address::Unix(_) => sys::net::connect(route, moment).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => io::ErrorKind::WouldBlock.into(),
                _ => error,
            })?,
        };
        block(&socket, moment)?;
        self.link = Some(L::begin(socket, &self.plan.terms)?);
        Ok(None)
    }

    fn close(&mut self) {
        self.unsent = &[];
        if let Some(link) = self.link.take() {
            link.close();
        }
    }

    /// Lets time pass until the next request may go out, or it is `then_ns`.
    fn pause(&mut self, then_ns: u64, turns: &Turns, recorder: &mut Recorder) {
        let now_ns = clock::monotonic_ns();
        let wait = self.plan.wait(recorder.due_ns().min(then_ns), turns, recorder, now_ns);
        recorder.end_turn(now_ns, wait);
        thread::sleep(wait);
        recorder.begin_turn(clock::monotonic_ns());
    }
}

impl<W: 'static, C: Client<W>, L: Link> Drive for Worker<W, C, L> {
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&mut self, turns: &mut Turns, recorder: &mut Recorder, halt: &AtomicBool) {
        // One that a stopped warm-up has left waiting has no room.
        if self.link.is_none() || self.exchange.has_room() {
            turns.free(0, recorder.start_ns());
        }
        // When a connection that has been of no use is opened again.
        let mut again_ns = u64::MAX;
        while !recorder.is_done(turns) && !recorder.is_over() && !halt.load(Ordering::Relaxed) {
            let now_ns = clock::monotonic_ns();
            if now_ns >= again_ns {
                turns.free(0, now_ns);
                again_ns = u64::MAX;
            }
            if recorder.may_send()
                && let Some(turn) = turns.next(recorder.in_flight(), now_ns)
            {
                self.begin(&turn, now_ns, recorder);
            }
            if recorder.in_flight() == 0 {
                self.pause(again_ns.min(now_ns + SWEEP_NS), turns, recorder);
                continue;
            }
            match self.step(recorder) {
                Outcome::Waiting => {}
                Outcome::Replied => turns.free(0, self.exchange.free_ns(clock::monotonic_ns())),
                Outcome::Over => {
                    self.close();
                    let now_ns = clock::monotonic_ns();
                    // A server that refuses is asked again in time, not at once and for ever.
                    if self.exchange.is_taken() {
                        turns.free(0, now_ns);
                    } else {
                        again_ns = now_ns + SWEEP_NS;
                    }
                }
            }
        }
        let open = self.link.iter().map(|_| self.exchange.is_taken());
        let open = Open::of(open, self.plan.idle_open());
        recorder.leave(open, self.exchange.oldest_ns(), turns);
    }
}

/// Receives on a link that takes nothing and holds nothing back: it waits for the server's part of a handshake. Once it
/// has that it is to send, so a read must not go on to wait for a reply.
fn hear<L: Link>(link: &mut L, input: &mut [u8]) -> io::Result<usize> {
    link.socket().peek(&mut [MaybeUninit::uninit()])?;
    link.socket().set_nonblocking(true)?;
    let received = link.read(input);
    link.socket().set_nonblocking(false)?;
    received
}

/// Makes a socket wait in its calls, for a moment at a time, so that the end of a run is seen.
fn block(socket: &Socket, moment: Duration) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(moment))?;
    socket.set_write_timeout(Some(moment))
}

/// Errors that only mean: not yet.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
