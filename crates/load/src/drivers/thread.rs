//! The thread driver: one thread a connection, in blocking calls, as simple clients are written.
//!
//! It is here to be compared with. A thread for each connection costs a switch for each reply, and beyond a few hundred
//! the scheduler decides what is measured.

use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use proto::Client;
use sys::clock;
use sys::net::Socket;

use super::{Drive, Plan, SWEEP_NS};
use crate::exchange::{Exchange, Outcome};
use crate::record::{Fault, Recorder};
use crate::turns::{Turn, Turns};
use crate::{Config, Failure, Share, failure};

/// Received in one call at most.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A thread's one connection.
pub(crate) struct Worker<W, C> {
    /// None until it is used again.
    socket: Option<Socket>,
    exchange: Exchange<C>,
    input: Box<[u8]>,
    client: C,
    plan: Plan,
    timeout: Duration,
    workload: PhantomData<W>,
}

impl<W: 'static, C: Client<W>> Worker<W, C> {
    pub(crate) fn open(
        config: &Config,
        share: &Share,
        client: C,
        halt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let (plan, mut sockets) = Plan::open(config, share, halt)?;
        let socket = sockets.pop();
        if let Some(socket) = &socket {
            block(socket).map_err(|error| failure("connect_failed", error.to_string()))?;
        }
        Ok(Self {
            socket,
            exchange: Exchange::new(client.clone(), plan.limits),
            input: vec![0; RECEIVE_BYTES].into(),
            client,
            plan,
            timeout: config.timeout,
            workload: PhantomData,
        })
    }

    /// Sends a request whole, on a connection that is opened for it if it is not open.
    fn begin(&mut self, turn: &Turn, now_ns: u64, recorder: &mut Recorder) {
        if self.socket.is_none() {
            self.exchange.open_again(self.client.clone(), self.plan.limits);
        }
        let request = self.exchange.begin(turn, now_ns, recorder);
        if self.socket.is_none() {
            let opened = sys::net::connect(self.plan.route(turn.key), self.timeout)
                .and_then(|socket| block(&socket).map(|()| socket));
            match opened {
                Ok(socket) => self.socket = Some(socket),
                Err(error) => {
                    self.exchange.fail(Fault::Connect, recorder, || error.to_string());
                }
            }
        }
        if let Some(socket) = &mut self.socket
            && let Err(error) = socket.write_all(request)
        {
            self.exchange.fail_with(&error, recorder);
            self.socket = None;
        }
    }

    /// Waits for bytes, for a moment at most, and takes the replies in them.
    fn receive(&mut self, recorder: &mut Recorder) -> Outcome {
        let Some(socket) = &mut self.socket else { return Outcome::Over };
        recorder.end_turn(clock::monotonic_ns(), Duration::from_nanos(SWEEP_NS));
        let received = socket.read(&mut self.input);
        let now_ns = clock::monotonic_ns();
        if !recorder.begin_turn(now_ns) {
            return Outcome::Waiting;
        }
        match received {
            Ok(0) => self.exchange.end(now_ns, recorder),
            Ok(received) => self.exchange.receive(&self.input[..received], now_ns, recorder),
            Err(error) if is_passing(&error) => {
                let late = self.exchange.give_up_late(now_ns, self.plan.timeout_ns, recorder);
                if late { Outcome::Over } else { Outcome::Waiting }
            }
            Err(error) => {
                self.exchange.fail_with(&error, recorder);
                Outcome::Over
            }
        }
    }

    /// Lets time pass until the next request may go out.
    fn pause(&mut self, turns: &Turns, recorder: &mut Recorder) {
        let now_ns = clock::monotonic_ns();
        let wait = self.plan.wait(recorder.due_ns().min(now_ns + SWEEP_NS), turns, now_ns);
        recorder.end_turn(now_ns, wait);
        thread::sleep(wait);
        recorder.begin_turn(clock::monotonic_ns());
    }
}

impl<W: 'static, C: Client<W>> Drive for Worker<W, C> {
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&mut self, turns: &mut Turns, recorder: &mut Recorder, halt: &AtomicBool) {
        turns.free(0, clock::monotonic_ns());
        while !recorder.is_done() && !recorder.is_over() && !halt.load(Ordering::Relaxed) {
            let now_ns = clock::monotonic_ns();
            if recorder.may_send()
                && let Some(turn) = turns.next(recorder.in_flight(), now_ns)
            {
                self.begin(&turn, now_ns, recorder);
                if self.exchange.has_room() && self.socket.is_some() {
                    turns.free(0, now_ns);
                }
                continue;
            }
            if recorder.in_flight() == 0 {
                self.pause(turns, recorder);
                // Where nothing could be opened it is tried again, in time.
                turns.free(0, clock::monotonic_ns());
                continue;
            }
            match self.receive(recorder) {
                Outcome::Waiting => {}
                Outcome::Replied => turns.free(0, clock::monotonic_ns()),
                Outcome::Over => {
                    self.socket = None;
                    turns.free(0, clock::monotonic_ns());
                }
            }
        }
        recorder.leave(usize::from(self.socket.is_some()) + self.plan.idle_open(), turns);
    }
}

/// Makes a socket wait in its calls, for a moment at a time, so that the end of a run is seen.
fn block(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(Duration::from_nanos(SWEEP_NS)))?;
    socket.set_write_timeout(Some(Duration::from_secs(1)))
}

/// Errors that only mean: not yet.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
