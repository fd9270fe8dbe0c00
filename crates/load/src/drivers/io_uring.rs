//! The io_uring driver: all replies that have come are checked, then all next requests go out in one system call.
//!
//! The time of a request begins when the call that brought the reply before it returned, and ends when the one that
//! brings its own does. So checking and batching count as the server's: they can only make it look slower than it
//! is, never faster, and at all times exactly as many requests are in flight as there are connections.

use std::borrow::Cow;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::Client;
use sys::clock;
use sys::net::Address;
use sys::ring::{self, Completion, Options, Ring, Slot, Stop, TaskRun, Wait};

use super::{Drive, SWEEP_NS, address_of, open_all, until};
use crate::exchange::{Exchange, Outcome};
use crate::record::{Fault, Recorder};
use crate::{Config, Failure, failure};

/// Requests handed over in one call at most; small, so that they stay hot in the cache.
const ENTRIES: u32 = 256;
/// Slots for each connection: one that is being closed keeps its slot while the next is open.
const SLOTS: usize = 2;

struct Connection<C> {
    /// None while it waits to be opened again.
    slot: Option<Slot>,
    exchange: Exchange<C>,
    request: &'static [u8],
}

/// Whose a slot is.
#[derive(Clone, Copy)]
enum Owner {
    Nobody,
    Connection(usize),
    /// It has been given up, and closes when nothing of it is in flight.
    Closing,
}

#[derive(Clone, Copy)]
struct Use {
    owner: Owner,
    receiving: bool,
    sending: bool,
}

/// A thread's connections and their ring.
pub(crate) struct Worker<W, C> {
    ring: Ring,
    connections: Vec<Connection<C>>,
    uses: Vec<Use>,
    /// Connections whose next request is due.
    ready: Vec<usize>,
    starved: Vec<Slot>,
    client: C,
    addresses: Vec<Address>,
    timeout_ns: u64,
    workload: PhantomData<W>,
}

/// What the driver would do without on this machine.
pub(crate) fn lacks() -> io::Result<Vec<String>> {
    Ok(ring::probe(&options(8))?.into_iter().map(String::from).collect())
}

fn options(slots: usize) -> Options {
    let connections_max = slots.min(sys::process::descriptors_max()) as u32;
    Options {
        entries: ENTRIES,
        connections_max,
        direct: true,
        multishot: true,
        incremental: true,
        task_run: TaskRun::Deferred,
    }
}

impl<W: 'static, C: Client<W>> Worker<W, C> {
    pub(crate) fn open(config: &Config, count: usize, client: C, halt: &AtomicBool) -> Result<Self, Failure> {
        let broken = |error: io::Error| failure("io_uring", error.to_string());
        let ring = Ring::new(&options(count * SLOTS)).map_err(broken)?;
        let mut worker = Self {
            ring,
            connections: Vec::with_capacity(count),
            uses: Vec::new(),
            ready: Vec::with_capacity(count),
            starved: Vec::new(),
            client,
            addresses: config.addresses.clone(),
            timeout_ns: config.timeout.as_nanos() as u64,
            workload: PhantomData,
        };
        for (key, socket) in open_all(config, count, halt)?.into_iter().enumerate() {
            let slot = worker.ring.adopt(socket).map_err(broken)?;
            let exchange = Exchange::new(worker.client.clone());
            worker.connections.push(Connection { slot: Some(slot), exchange, request: &[] });
            worker.own(slot, key);
        }
        Ok(worker)
    }

    fn own(&mut self, slot: Slot, key: usize) {
        if self.uses.len() <= slot.index() {
            let free = Use { owner: Owner::Nobody, receiving: false, sending: false };
            self.uses.resize(slot.index() + 1, free);
        }
        self.uses[slot.index()] = Use { owner: Owner::Connection(key), receiving: true, sending: false };
        self.ring.receive(slot, true);
    }

    /// Sends the next requests. They begin at `now_ns`, when the replies before them came.
    fn send_ready(&mut self, now_ns: u64, recorder: &mut Recorder) {
        for key in self.ready.drain(..) {
            let connection = &mut self.connections[key];
            let Some(slot) = connection.slot else { continue };
            // A connection that was answered and then opened anew in the same turn is listed twice.
            if connection.exchange.is_in_flight() || !recorder.may_send() {
                continue;
            }
            connection.request = connection.exchange.begin(now_ns, recorder);
            self.ring.send_fixed(slot, connection.request);
        }
    }

    /// Requests that did not fit into their sockets go on as the sockets drain.
    fn send_rests(&mut self, now_ns: u64, recorder: &mut Recorder) {
        while let Some((slot, sent)) = self.ring.unsent_fixed() {
            let Owner::Connection(key) = self.uses[slot.index()].owner else { continue };
            match sent {
                Ok(sent_bytes) => {
                    self.uses[slot.index()].sending = true;
                    let rest = &self.connections[key].request[sent_bytes..];
                    self.ring.send_tracked(slot, Cow::Borrowed(rest));
                }
                Err(error) => self.fail(key, &error, now_ns, recorder),
            }
        }
    }

    fn complete(&mut self, completion: Completion, now_ns: u64, recorder: &mut Recorder) {
        match completion {
            Completion::Received { slot, buffer, armed } => {
                self.uses[slot.index()].receiving = armed;
                if let Owner::Connection(key) = self.uses[slot.index()].owner {
                    let connection = &mut self.connections[key];
                    let outcome = connection.exchange.receive(self.ring.bytes(&buffer), now_ns, recorder);
                    self.ring.recycle(buffer);
                    self.go_on(key, outcome, now_ns, recorder);
                } else {
                    self.ring.recycle(buffer);
                }
                self.keep_receiving(slot);
            }
            Completion::Stopped { slot, why: Stop::NoBuffer } => self.starved.push(slot),
            Completion::Stopped { slot, why } => {
                self.uses[slot.index()].receiving = false;
                if let Owner::Connection(key) = self.uses[slot.index()].owner {
                    self.broken(key, &why, now_ns, recorder);
                }
                self.close(slot);
            }
            Completion::Sent { slot, result } => {
                self.uses[slot.index()].sending = false;
                if let (Owner::Connection(key), Err(error)) = (self.uses[slot.index()].owner, result) {
                    self.fail(key, &error, now_ns, recorder);
                }
                self.close(slot);
            }
            Completion::Accepted(_)
            | Completion::Dropped
            | Completion::Refused(_)
            | Completion::SendingEnded(_) => {
                unreachable!("this ring has no listener, and ends no side of a connection")
            }
        }
    }

    fn go_on(&mut self, key: usize, outcome: Outcome, now_ns: u64, recorder: &mut Recorder) {
        match outcome {
            Outcome::Waiting => {}
            Outcome::Replied => self.ready.push(key),
            Outcome::Over => self.reopen(key, now_ns, recorder),
        }
    }

    fn broken(&mut self, key: usize, why: &Stop, now_ns: u64, recorder: &mut Recorder) {
        match why {
            Stop::Broken(error) => self.fail(key, error, now_ns, recorder),
            Stop::End | Stop::Asked | Stop::NoBuffer => {
                self.connections[key].exchange.end(now_ns, recorder);
                self.reopen(key, now_ns, recorder);
            }
        }
    }

    /// Accounts for a connection that has broken, and opens it anew.
    fn fail(&mut self, key: usize, error: &io::Error, now_ns: u64, recorder: &mut Recorder) {
        self.connections[key].exchange.fail_with(error, recorder);
        self.reopen(key, now_ns, recorder);
    }

    /// Opens a connection anew, at once if the one before it was of use. A server that refuses is asked again at
    /// the next sweep, not at once and for ever.
    fn reopen(&mut self, key: usize, now_ns: u64, recorder: &mut Recorder) {
        self.give_up(key);
        if self.connections[key].exchange.is_taken() {
            self.open_again(key, now_ns, recorder);
        }
    }

    /// Lets go of a connection's slot, which closes when nothing of it is in flight.
    fn give_up(&mut self, key: usize) {
        let Some(slot) = self.connections[key].slot.take() else { return };
        let state = &mut self.uses[slot.index()];
        state.owner = Owner::Closing;
        if state.receiving {
            self.ring.stop_receiving(slot);
        }
        if state.sending {
            self.ring.cancel_send(slot);
        }
        self.close(slot);
    }

    /// Closes a slot that has been given up, if nothing of it is in flight.
    fn close(&mut self, slot: Slot) {
        let state = &mut self.uses[slot.index()];
        if matches!(state.owner, Owner::Closing) && !state.receiving && !state.sending {
            state.owner = Owner::Nobody;
            self.ring.close(slot);
        }
    }

    fn keep_receiving(&mut self, slot: Slot) {
        let state = &mut self.uses[slot.index()];
        match state.owner {
            Owner::Connection(_) if !state.receiving => {
                state.receiving = true;
                self.ring.receive(slot, false);
            }
            _ => self.close(slot),
        }
    }

    /// Connects; the first request goes out with those of the connections that were answered, and like theirs its
    /// time began with this turn, before the connection.
    fn open_again(&mut self, key: usize, now_ns: u64, recorder: &mut Recorder) {
        if !recorder.may_send() {
            return;
        }
        let connection = &mut self.connections[key];
        connection.exchange = Exchange::opening(self.client.clone());
        let opened = sys::net::start_connect(address_of(&self.addresses, key))
            .and_then(|socket| self.ring.adopt(socket));
        match opened {
            Ok(slot) => {
                connection.slot = Some(slot);
                self.own(slot, key);
                self.ready.push(key);
            }
            Err(error) => {
                connection.exchange.begin(now_ns, recorder);
                connection.exchange.fail(Fault::Connect, recorder, || error.to_string());
            }
        }
    }

    /// Gives up on replies that are overdue, and opens connections that are closed.
    fn sweep(&mut self, now_ns: u64, recorder: &mut Recorder) {
        for key in 0..self.connections.len() {
            let connection = &mut self.connections[key];
            let late = connection.exchange.give_up_late(now_ns, self.timeout_ns, recorder);
            if late || connection.slot.is_none() {
                self.give_up(key);
                self.open_again(key, now_ns, recorder);
            }
        }
    }
}

impl<W: 'static, C: Client<W>> Drive for Worker<W, C> {
    fn lacks(&self) -> Vec<String> {
        self.ring.lacks().iter().map(|&lack| lack.into()).collect()
    }

    fn run(&mut self, recorder: &mut Recorder, halt: &AtomicBool) {
        self.ready.extend(0..self.connections.len());
        let mut sweep_ns = clock::monotonic_ns() + SWEEP_NS;
        let mut now_ns = clock::monotonic_ns();
        loop {
            self.send_ready(now_ns, recorder);
            let checked_ns = clock::monotonic_ns();
            recorder.at(checked_ns);
            let due = until(recorder.due_ns().min(sweep_ns), checked_ns);
            self.ring.turn(&[], &[], Wait::AtMost(due)).expect("a ring that has worked goes on working");
            now_ns = clock::monotonic_ns();
            if !recorder.begin_turn(now_ns) || halt.load(Ordering::Relaxed) {
                break;
            }
            self.send_rests(now_ns, recorder);
            while let Some(completion) = self.ring.next() {
                self.complete(completion, now_ns, recorder);
            }
            while let Some(slot) = self.starved.pop() {
                self.uses[slot.index()].receiving = false;
                self.keep_receiving(slot);
            }
            if now_ns >= sweep_ns {
                self.sweep(now_ns, recorder);
                sweep_ns = now_ns + SWEEP_NS;
            }
            if recorder.is_done() {
                break;
            }
        }
        recorder.connections_open(self.connections.iter().filter(|one| one.slot.is_some()).count());
    }
}
