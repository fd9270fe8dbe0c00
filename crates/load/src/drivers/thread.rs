//! The thread driver: one thread a connection, in blocking calls, as simple clients are written.
//!
//! It is here to be compared with. A thread for each connection costs a switch for each reply, and beyond a few hundred
//! the scheduler decides what is measured.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use proto::Client;
use sys::clock;
use sys::net::Socket;

use super::link::Link;
use super::{Drive, Plan, SWEEP_NS};
use crate::exchange::{Exchange, Outcome};
use crate::record::Recorder;
use crate::turns::{Turn, Turns};
use crate::{Config, Failure, Share, failure};

/// Received in one call at most.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A thread's one connection.
pub(crate) struct Worker<W, C, L: Link> {
    /// None until it is used again.
    link: Option<L>,
    exchange: Exchange<C>,
    input: Box<[u8]>,
    client: C,
    plan: Plan<L>,
    timeout: Duration,
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
            block(link.socket()).map_err(|error| failure("connect_failed", error.to_string()))?;
        }
        Ok(Self {
            link,
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
        if self.link.is_none() {
            self.exchange.open_again(self.client.clone(), self.plan.limits);
        }
        let request = self.exchange.begin(turn, now_ns, recorder);
        if self.link.is_none() {
            let opened = sys::net::connect(self.plan.route(turn.key), self.timeout)
                .and_then(|socket| L::open(socket, &self.plan.terms, self.timeout))
                .and_then(|link| block(link.socket()).map(|()| link));
            match opened {
                Ok(link) => self.link = Some(link),
                Err(error) => self.exchange.fail_to_open(&error, recorder),
            }
        }
        if let Some(link) = &mut self.link
            && let Err(error) = send_all(link, request)
        {
            self.exchange.fail_with(&error, recorder);
            self.link = None;
        }
    }

    /// Waits for bytes, for a moment at most, and takes the replies in them.
    fn receive(&mut self, recorder: &mut Recorder) -> Outcome {
        let Some(link) = &mut self.link else { return Outcome::Over };
        recorder.end_turn(clock::monotonic_ns(), Duration::from_nanos(SWEEP_NS));
        let received = link.read(&mut self.input);
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

impl<W: 'static, C: Client<W>, L: Link> Drive for Worker<W, C, L> {
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
                if self.exchange.has_room() && self.link.is_some() {
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
                    if let Some(link) = self.link.take() {
                        link.close();
                    }
                    turns.free(0, clock::monotonic_ns());
                }
            }
        }
        recorder.leave(usize::from(self.link.is_some()) + self.plan.idle_open(), turns);
    }
}

/// Sends a request whole.
fn send_all<L: Link>(link: &mut L, mut request: &[u8]) -> io::Result<()> {
    while !request.is_empty() || link.holds_back() {
        match link.write(request) {
            // The time that a socket may block is over.
            Ok(0) if !request.is_empty() || link.holds_back() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(sent) => request = &request[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
