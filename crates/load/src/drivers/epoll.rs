//! The epoll driver: a reply is received, checked and answered with the next request in one go.
//!
//! Two system calls a request and a share of one wait: a connection is registered once, by its edges, and a short
//! receive is taken as the last.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::Client;
use sys::clock;
use sys::epoll::{Epoll, Interest, Ready};

use super::link::{Link, is_passing};
use super::unsent::Unsent;
use super::waiting::Waiting;
use super::{Drive, Plan};
use crate::exchange::{Exchange, Outcome};
use crate::record::{Open, Recorder};
use crate::turns::{Turn, Turns};
use crate::{Config, Failure, Share, failure};

/// Received in one call at most.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receives from one connection in a row, so that one fast server cannot keep the thread from the others.
const RECEIVES_MAX: usize = 16;

struct Connection<C, L> {
    /// None until it is used again.
    link: Option<L>,
    exchange: Exchange<C>,
    /// What did not fit into the link of the last requests.
    unsent: Unsent,
}

impl<C, L> Connection<C, L> {
    /// Whether it has a request, and waits to be opened for it.
    fn is_waiting(&self) -> bool {
        self.link.is_none() && !self.exchange.is_idle()
    }
}

/// A thread's connections and what it waits with.
pub(crate) struct Worker<W, C, L: Link> {
    epoll: Epoll,
    connections: Vec<Connection<C, L>>,
    waiting: Waiting,
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
        let broken = |error: io::Error| failure("epoll", format!("epoll cannot be set up: {error}"));
        sys::process::own_descriptors().map_err(broken)?;
        let epoll = Epoll::new().map_err(broken)?;
        let (plan, links) = Plan::<L>::open(config, terms, share, halt)?;
        let mut connections = Vec::with_capacity(links.len());
        for (key, link) in links.into_iter().enumerate() {
            epoll.add(link.socket(), key as u64, Interest::EDGES).map_err(broken)?;
            let exchange = Exchange::new(client.clone(), plan.limits);
            connections.push(Connection { link: Some(link), exchange, unsent: Unsent::default() });
        }
        let input = vec![0; RECEIVE_BYTES].into();
        let waiting = Waiting::default();
        Ok(Self { epoll, connections, waiting, input, client, plan, workload: PhantomData })
    }

    /// Sends all that may go out now, and returns the last time it has read. In a closed loop the time of a request
    /// begins at `now_ns`, when the reply before it came.
    fn pump(&mut self, mut now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) -> u64 {
        while recorder.may_send()
            && let Some(turn) = turns.next(recorder.in_flight(), now_ns)
        {
            self.begin(&turn, now_ns, turns, recorder);
            now_ns = if turns.has_free() { clock::monotonic_ns() } else { now_ns };
        }
        now_ns
    }

    /// Sends a request on a connection, which is opened for it if it is not open.
    fn begin(&mut self, turn: &Turn, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        let key = turn.key;
        let is_open = self.connections[key].link.is_some();
        if !is_open {
            self.renew(key);
        }
        let connection = &mut self.connections[key];
        connection.unsent.set(connection.exchange.begin(turn, now_ns, recorder));
        let has_depth = self.plan.limits.depth > 1;
        if has_depth && is_open {
            self.begin_more(turn, now_ns, turns, recorder);
        }
        // Nearby servers have accepted at once; otherwise the first write edge sends the request.
        let is_sound =
            (is_open || self.connect(key, now_ns, recorder)) && self.send(key, now_ns, turns, recorder);
        if has_depth && is_sound {
            self.offer(key, turn.free_ns, turns);
        }
    }

    /// Makes a connection that is closed ready for a request on a new one.
    #[cold]
    fn renew(&mut self, key: usize) {
        self.connections[key].exchange.open_again(self.client.clone(), self.plan.limits);
    }

    /// Begins what else may go out now on a connection that has just been given a request: one call sends all. It is no
    /// part of the path of those that have one request at a time.
    #[inline(never)]
    fn begin_more(&mut self, turn: &Turn, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        let Connection { exchange, unsent, .. } = &mut self.connections[turn.key];
        while exchange.has_room()
            && unsent.takes_more()
            && recorder.may_send()
            && let Some(turn) = turns.again(turn, recorder.in_flight(), now_ns)
        {
            unsent.push(exchange.begin(&turn, now_ns, recorder));
        }
    }

    /// Begins to connect; says whether that could be done.
    #[cold]
    fn connect(&mut self, key: usize, now_ns: u64, recorder: &mut Recorder) -> bool {
        let opened = sys::net::start_connect(self.plan.route(key))
            .and_then(|socket| self.epoll.add(&socket, key as u64, Interest::EDGES).map(|()| socket))
            .and_then(|socket| L::begin(socket, &self.plan.terms));
        let connection = &mut self.connections[key];
        match opened {
            Ok(link) => connection.link = Some(link),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.waiting.push(key, now_ns),
            Err(error) => connection.exchange.fail_to_open(&error, recorder),
        }
        connection.link.is_some()
    }

    /// Connects those that have waited for room, unless their requests have been given up.
    fn connect_waiting(&mut self, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        while let Some(key) = self.waiting.pop(now_ns) {
            let is_waiting = self.connections[key].is_waiting();
            if is_waiting && self.connect(key, now_ns, recorder) && self.send(key, now_ns, turns, recorder) {
                self.offer(key, now_ns, turns);
            }
        }
    }

    /// Lists a connection as free if it can carry another request.
    fn offer(&mut self, key: usize, now_ns: u64, turns: &mut Turns) {
        let connection = &self.connections[key];
        if connection.unsent.is_empty() && connection.exchange.has_room() {
            turns.free(key, now_ns);
        }
    }

    /// Receives what there is, and goes on with the next request when a reply is whole.
    fn step(&mut self, ready: Ready, turns: &mut Turns, recorder: &mut Recorder) {
        let key = ready.key as usize;
        if ready.writable() && !self.resume(key, turns, recorder) {
            return;
        }
        if !L::BUFFERS && !ready.readable() {
            // What has come since then has an edge of its own, which also knows whether the end has come with it.
            return;
        }
        for _ in 0..RECEIVES_MAX {
            let connection = &mut self.connections[key];
            let Some(link) = &mut connection.link else { return };
            let received = link.read(&mut self.input);
            let is_last = !ready.ended()
                && received.as_ref().is_ok_and(|received| link.is_drained(*received, RECEIVE_BYTES));
            let now_ns = clock::monotonic_ns();
            recorder.at(now_ns);
            let outcome = match received {
                Ok(0) => connection.exchange.end(now_ns, recorder),
                Ok(received) => connection.exchange.receive(&self.input[..received], now_ns, recorder),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let is_sound = !L::BUFFERS || self.resume(key, turns, recorder);
                    if is_sound && ready.ended() {
                        // What has ended is the connection before this one.
                        self.offer(key, now_ns, turns);
                    }
                    return;
                }
                Err(error) => {
                    connection.exchange.fail_with(&error, recorder);
                    Outcome::Over
                }
            };
            match outcome {
                Outcome::Waiting => {}
                // The end lies behind the reply: whatever was sent here now would be lost.
                Outcome::Replied if ready.ended() => {}
                Outcome::Replied => {
                    let free_ns = self.connections[key].exchange.free_ns(now_ns);
                    self.offer(key, free_ns, turns);
                    self.pump(now_ns, turns, recorder);
                }
                Outcome::Over => {
                    self.close(key, now_ns, turns);
                    self.pump(now_ns, turns, recorder);
                    return;
                }
            }
            // What came may have been what the link had waited for to take more.
            if (L::BUFFERS && !self.resume(key, turns, recorder)) || is_last {
                return;
            }
        }
        // An edge that was seen is not reported again unless it is asked for again.
        if let Some(link) = &self.connections[key].link
            && let Err(error) = self.epoll.change(link.socket(), ready.key, Interest::EDGES)
        {
            self.fail(key, &error, clock::monotonic_ns(), turns, recorder);
        }
    }

    /// Goes on with what has not gone out yet; says whether the connection is still sound.
    fn resume(&mut self, key: usize, turns: &mut Turns, recorder: &mut Recorder) -> bool {
        let connection = &self.connections[key];
        let is_sent = connection.unsent.is_empty();
        if is_sent && !connection.link.as_ref().is_some_and(L::holds_back) {
            return true;
        }
        let now_ns = clock::monotonic_ns();
        let is_sound = self.send(key, now_ns, turns, recorder);
        if is_sound && !is_sent {
            self.offer(key, now_ns, turns);
        }
        is_sound
    }

    /// Sends as much as fits of what is unsent; says whether the connection is still sound.
    fn send(&mut self, key: usize, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) -> bool {
        let connection = &mut self.connections[key];
        let Some(link) = &mut connection.link else { return false };
        match link.write(connection.unsent.bytes()) {
            Ok(sent) => connection.unsent.advance(sent),
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                self.fail(key, &error, now_ns, turns, recorder);
                return false;
            }
        }
        true
    }

    /// Accounts for a connection that has broken.
    fn fail(
        &mut self,
        key: usize,
        error: &io::Error,
        now_ns: u64,
        turns: &mut Turns,
        recorder: &mut Recorder,
    ) {
        self.connections[key].exchange.fail_with(error, recorder);
        self.close(key, now_ns, turns);
    }

    /// Closes a connection. One that was of use is free to be opened again; a server that refuses is asked again at
    /// the next sweep, not at once and for ever.
    fn close(&mut self, key: usize, now_ns: u64, turns: &mut Turns) {
        let connection = &mut self.connections[key];
        if let Some(link) = connection.link.take() {
            link.close();
        }
        connection.unsent.clear();
        if connection.exchange.is_taken() {
            turns.free(key, now_ns);
        }
    }

    /// Gives up on replies that are overdue, and frees connections that are closed.
    fn sweep(&mut self, now_ns: u64, turns: &mut Turns, recorder: &mut Recorder) {
        let opens_again = self.plan.opens_again(now_ns);
        for key in 0..self.connections.len() {
            let connection = &mut self.connections[key];
            let late = connection.exchange.give_up_late(now_ns, recorder);
            if late || (opens_again && connection.link.is_none() && connection.exchange.is_idle()) {
                self.close(key, now_ns, turns);
                turns.free(key, now_ns);
            }
        }
    }
}

impl<W: 'static, C: Client<W>, L: Link> Drive for Worker<W, C, L> {
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&mut self, turns: &mut Turns, recorder: &mut Recorder, halt: &AtomicBool) {
        for (key, connection) in self.connections.iter().enumerate() {
            // One that a stopped warm-up has left waiting has no room.
            let can_open = connection.link.is_none() && connection.exchange.is_idle();
            if can_open || connection.link.is_some() && connection.exchange.has_room() {
                turns.free(key, recorder.start_ns());
            }
        }
        let mut sweep_ns = clock::monotonic_ns() + self.plan.sweep_ns;
        loop {
            let now_ns = self.pump(clock::monotonic_ns(), turns, recorder);
            recorder.at(now_ns);
            if recorder.is_done(turns) {
                break;
            }
            let then_ns = recorder.due_ns().min(sweep_ns).min(self.waiting.due_ns());
            let wait = self.plan.wait(then_ns, turns, recorder, now_ns);
            recorder.end_turn(now_ns, wait);
            let count =
                self.epoll.wait(Some(wait)).expect("a set of descriptors that has worked goes on working");
            let now_ns = clock::monotonic_ns();
            if !recorder.begin_turn(now_ns) || halt.load(Ordering::Relaxed) {
                break;
            }
            if count > 0 {
                self.plan.stir(now_ns);
            }
            self.connect_waiting(now_ns, turns, recorder);
            for index in 0..count {
                self.step(self.epoll.ready(index), turns, recorder);
            }
            if now_ns >= sweep_ns {
                self.sweep(now_ns, turns, recorder);
                sweep_ns = now_ns + self.plan.sweep_ns;
            }
        }
        let open =
            self.connections.iter().filter(|one| one.link.is_some()).map(|one| one.exchange.is_taken());
        let open = Open::of(open, self.plan.idle_open());
        let oldest_ns = self.connections.iter().filter_map(|one| one.exchange.oldest_ns()).min();
        recorder.leave(open, oldest_ns, turns);
    }
}
