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
use sys::ring::{self, Completion, Options, Ring, Slot, Stop, TaskRun, Wait};

use super::waiting::Waiting;
use super::{Drive, Plan};
use crate::exchange::{Exchange, Outcome};
use crate::record::{Fault, Open, Recorder};
use crate::turns::{Turn, Turns};
use crate::{Config, Failure, Share, failure};

/// Requests handed over in one call at most; small, so that they stay hot in the cache.
const ENTRIES: u32 = 256;
/// Slots for each connection: those that are being closed keep theirs while the next is open.
const SLOTS: usize = 4;

struct Connection<C> {
    /// None until it is used again.
    slot: Option<Slot>,
    exchange: Exchange<C>,
    request: &'static [u8],
    /// Slots it has given up that are not closed yet.
    closing: usize,
}

impl<C> Connection<C> {
    /// Whether it has a request, and waits to be opened for it.
    fn is_waiting(&self) -> bool {
        self.slot.is_none() && !self.exchange.is_idle()
    }
}

/// Whose a slot is.
#[derive(Clone, Copy)]
enum Owner {
    Nobody,
    Connection(usize),
    /// This connection has given it up, and it closes when nothing of it is in flight.
    Closing(usize),
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
    waiting: Waiting,
    uses: Vec<Use>,
    /// Connections of which a slot is closed with the next turn.
    closed: Vec<usize>,
    client: C,
    plan: Plan,
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
    pub(crate) fn open(
        config: &Config,
        share: &Share,
        client: C,
        halt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let broken = |error: io::Error| failure("io_uring", error.to_string());
        let ring = Ring::new(&options(share.connections * SLOTS)).map_err(broken)?;
        let (plan, sockets) = Plan::open(config, (), share, halt)?;
        let mut worker = Self {
            ring,
            connections: Vec::with_capacity(sockets.len()),
            waiting: Waiting::default(),
            uses: Vec::new(),
            closed: Vec::new(),
            client,
            plan,
            workload: PhantomData,
        };
        for (key, socket) in sockets.into_iter().enumerate() {
            let slot = worker.ring.adopt(socket).map_err(broken)?;
            let exchange = Exchange::new(worker.client.clone(), worker.plan.limits);
            worker.connections.push(Connection { slot: Some(slot), exchange, request: &[], closing: 0 });
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

    /// Hands over all requests that may go out now. In a closed loop they begin at `now_ns`, when the replies before
    /// them came. Returns the last time it has read.
    fn pump(&mut self, mut now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) -> u64 {
        while recorder.may_send()
            && let Some(turn) = turns.next(recorder.in_flight(), now_ns)
        {
            self.begin(&turn, now_ns, recorder);
            now_ns = if turns.is_open() { clock::monotonic_ns() } else { now_ns };
        }
        now_ns
    }

    /// Hands over a request on a connection, which is opened for it if it is not open.
    fn begin(&mut self, turn: &Turn, now_ns: u64, recorder: &mut Recorder) {
        let key = turn.key;
        let connection = &mut self.connections[key];
        let is_open = connection.slot.is_some();
        if !is_open {
            connection.exchange.open_again(self.client.clone(), self.plan.limits);
        }
        connection.request = connection.exchange.begin(turn, now_ns, recorder);
        if !is_open {
            self.connect(key, now_ns, recorder);
        }
        self.send(key);
    }

    /// Hands over the request of a connection, if that is open.
    fn send(&mut self, key: usize) {
        let connection = &self.connections[key];
        if let Some(slot) = connection.slot {
            self.ring.send_fixed(slot, connection.request);
        }
    }

    /// Requests that did not fit into their sockets go on as the sockets drain.
    fn send_rests(&mut self, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        while let Some((slot, sent)) = self.ring.unsent_fixed() {
            let Owner::Connection(key) = self.uses[slot.index()].owner else { continue };
            match sent {
                Ok(sent_bytes) => {
                    self.uses[slot.index()].sending = true;
                    let rest = &self.connections[key].request[sent_bytes..];
                    self.ring.send_tracked(slot, Cow::Borrowed(rest));
                }
                Err(error) => self.fail(key, &error, now_ns, turns, recorder),
            }
        }
    }

    fn complete(&mut self, completion: Completion, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        match completion {
            Completion::Received { slot, buffer, armed } => {
                self.uses[slot.index()].receiving = armed;
                if let Owner::Connection(key) = self.uses[slot.index()].owner {
                    let connection = &mut self.connections[key];
                    let outcome = connection.exchange.receive(self.ring.bytes(&buffer), now_ns, recorder);
                    self.ring.recycle(buffer);
                    self.go_on(key, outcome, now_ns, turns);
                } else {
                    self.ring.recycle(buffer);
                }
                self.keep_receiving(slot);
            }
            Completion::Stopped { slot, why } => {
                self.uses[slot.index()].receiving = false;
                if let Owner::Connection(key) = self.uses[slot.index()].owner {
                    self.broken(key, &why, now_ns, turns, recorder);
                }
                self.close(slot);
            }
            Completion::Sent { slot, result } => {
                self.uses[slot.index()].sending = false;
                if let (Owner::Connection(key), Err(error)) = (self.uses[slot.index()].owner, result) {
                    self.fail(key, &error, now_ns, turns, recorder);
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

    fn go_on(&mut self, key: usize, outcome: Outcome, now_ns: u64, turns: &mut Turns) {
        match outcome {
            Outcome::Waiting => {}
            Outcome::Replied => turns.free(key, self.connections[key].exchange.free_ns(now_ns)),
            Outcome::Over => self.close_connection(key, now_ns, turns),
        }
    }

    fn broken(&mut self, key: usize, why: &Stop, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        match why {
            Stop::Broken(error) => self.fail(key, error, now_ns, turns, recorder),
            Stop::End | Stop::Asked => {
                self.connections[key].exchange.end(now_ns, recorder);
                self.close_connection(key, now_ns, turns);
            }
        }
    }

    /// Accounts for a connection that has broken, and opens it anew.
    fn fail(
        &mut self,
        key: usize,
        error: &io::Error,
        now_ns: u64,
        turns: &mut Turns,
        recorder: &mut Recorder,
    ) {
        self.connections[key].exchange.fail_with(error, recorder);
        self.close_connection(key, now_ns, turns);
    }

    /// Closes a connection. One that was of use is free to be opened again, as soon as it has a slot for that; a server
    /// that refuses is asked again at the next sweep, not at once and for ever.
    fn close_connection(&mut self, key: usize, now_ns: u64, turns: &mut Turns) {
        self.give_up(key);
        let connection = &self.connections[key];
        if connection.exchange.is_taken() && connection.closing < SLOTS {
            turns.free(key, now_ns);
        }
    }

    /// Lets go of a connection's slot, which closes when nothing of it is in flight.
    fn give_up(&mut self, key: usize) {
        let Some(slot) = self.connections[key].slot.take() else { return };
        let state = &mut self.uses[slot.index()];
        state.owner = Owner::Closing(key);
        self.connections[key].closing += 1;
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
        if let Owner::Closing(key) = state.owner
            && !state.receiving
            && !state.sending
        {
            state.owner = Owner::Nobody;
            self.ring.close(slot);
            self.closed.push(key);
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

    /// Begins to connect. A request that is sent meanwhile waits for the connection.
    fn connect(&mut self, key: usize, now_ns: u64, recorder: &mut Recorder) {
        let opened = sys::net::start_connect(self.plan.route(key)).and_then(|socket| self.ring.adopt(socket));
        match opened {
            Ok(slot) => {
                self.connections[key].slot = Some(slot);
                self.own(slot, key);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.waiting.push(key, now_ns),
            Err(error) => {
                self.connections[key].exchange.fail(Fault::Connect, recorder, || error.to_string());
            }
        }
    }

    /// Connects those that have waited for room, unless their requests have been given up.
    fn connect_waiting(&mut self, now_ns: u64, recorder: &mut Recorder) {
        while let Some(key) = self.waiting.pop(now_ns) {
            if self.connections[key].is_waiting() {
                self.connect(key, now_ns, recorder);
                self.send(key);
            }
        }
    }

    /// Gives up on replies that are overdue, and frees connections that are closed.
    fn sweep(&mut self, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        let opens_again = self.plan.opens_again(now_ns);
        for key in 0..self.connections.len() {
            let connection = &mut self.connections[key];
            let late = connection.exchange.give_up_late(now_ns, recorder);
            if late || (opens_again && connection.slot.is_none() && connection.exchange.is_idle()) {
                self.give_up(key);
                if self.connections[key].closing < SLOTS {
                    turns.free(key, now_ns);
                }
            }
        }
    }
}

impl<W: 'static, C: Client<W>> Drive for Worker<W, C> {
    fn lacks(&self) -> Vec<String> {
        self.ring.lacks().iter().map(|&lack| lack.into()).collect()
    }

    fn run(&mut self, turns: &mut Turns, recorder: &mut Recorder, halt: &AtomicBool) {
        let mut now_ns = clock::monotonic_ns();
        for (key, connection) in self.connections.iter().enumerate() {
            // One that a stopped warm-up has left waiting has no room, and one that is being closed no slot.
            let is_closed = connection.slot.is_none() && connection.exchange.is_idle();
            let can_open = is_closed && connection.closing < SLOTS;
            if can_open || connection.slot.is_some() && connection.exchange.has_room() {
                turns.free(key, recorder.start_ns());
            }
        }
        let mut sweep_ns = now_ns + self.plan.sweep_ns;
        loop {
            // In a closed loop requests begin when the replies before them came, so that handling those counts as the
            // server's time.
            self.pump(if turns.is_open() { clock::monotonic_ns() } else { now_ns }, turns, recorder);
            if recorder.is_done(turns) {
                break;
            }
            let handed_ns = clock::monotonic_ns();
            let then_ns = recorder.due_ns().min(sweep_ns).min(self.waiting.due_ns());
            let wait = self.plan.wait(then_ns, turns, recorder, handed_ns);
            recorder.end_turn(handed_ns, wait);
            self.ring.turn(&[], &[], Wait::AtMost(wait)).expect("a ring that has worked goes on working");
            now_ns = clock::monotonic_ns();
            if !recorder.begin_turn(now_ns) || halt.load(Ordering::Relaxed) {
                break;
            }
            while let Some(key) = self.closed.pop() {
                let connection = &mut self.connections[key];
                connection.closing -= 1;
                if connection.slot.is_none() && connection.exchange.is_taken() {
                    turns.free(key, now_ns);
                }
            }
            self.send_rests(now_ns, turns, recorder);
            self.connect_waiting(now_ns, recorder);
            while let Some(completion) = self.ring.next() {
                self.plan.stir(now_ns);
                self.complete(completion, now_ns, turns, recorder);
            }
            if now_ns >= sweep_ns {
                self.sweep(now_ns, turns, recorder);
                sweep_ns = now_ns + self.plan.sweep_ns;
            }
        }
        let open =
            self.connections.iter().filter(|one| one.slot.is_some()).map(|one| one.exchange.is_taken());
        let open = Open::of(open, self.plan.idle_open());
        let oldest_ns = self.connections.iter().filter_map(|one| one.exchange.oldest_ns()).min();
        recorder.leave(open, oldest_ns, turns);
    }
}
