//! The io_uring driver: checks all replies that have arrived, then sends all next requests in one syscall.
//!
//! In a closed loop, latency is measured from the return of the call that brought the previous reply to the return of
//! the call that brings this one. So checking and batching count as the server's time. They can make the server look
//! slower, never faster, and the number of requests in flight is exact at all times.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{io, mem};

use contract::{LoadSpec, Phase};
use proto::Client;
use sys::net::Socket;
use sys::ring::{self, Completion, Options, Ring, Slot, Stop, TaskRun, Wait};

use super::context::Context;
use super::event_loop::EventLoop;
use super::pool::{Connection, Pool};
use super::{Drive, Plan};
use crate::client_connection::Outcome;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::record::Recorder;
use crate::{Failure, ThreadLoad, failure};

/// At most this many requests are submitted in one call. Few enough to stay in the cache.
const ENTRIES: u32 = 256;
/// Slots for each connection: one that is being closed keeps its slot while the next is open.
const SLOTS: usize = 4;

/// The place of a connection in the ring.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    slot: Slot,
    /// Whether the first request found no room. A new socket has room once it is connected, so this one is still
    /// connecting.
    is_connecting: bool,
}

impl Place {
    fn of(slot: Slot) -> Self {
        Self { slot, is_connecting: false }
    }
}

/// The owner of a slot.
#[derive(Clone, Copy)]
enum Owner {
    Nobody,
    Connection(usize),
    /// Abandoned by its connection. It closes when it has no request to the ring in flight.
    Closing(usize),
}

#[derive(Clone, Copy)]
struct Use {
    owner: Owner,
    receiving: bool,
    /// The unsent bytes of a request that did not fit into the socket.
    sending_bytes: usize,
}

/// A thread's connections and their ring.
pub(crate) struct Worker<W, C> {
    ring: Ring,
    /// `unsent` is the last request of a connection.
    pool: Pool<C, Place, &'static [u8], Socket>,
    uses: Vec<Use>,
    /// For each connection, how many abandoned slots are not closed yet.
    closing: Vec<usize>,
    /// Connections whose slots close with the next wait.
    closed: Vec<usize>,
    workload: PhantomData<W>,
}

/// Features that the driver would use and this machine lacks.
pub(crate) fn missing_features() -> io::Result<Vec<String>> {
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
        spec: &LoadSpec,
        share: &ThreadLoad,
        client: C,
        halt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let broken = |error: io::Error| failure("io_uring", error.to_string());
        let ring = Ring::new(&options(share.connections * SLOTS)).map_err(broken)?;
        let (plan, sockets) = Plan::open(spec, (), share, client, halt)?;
        let mut worker = Self {
            ring,
            pool: Pool::new(plan, share.connections),
            uses: Vec::new(),
            closing: vec![0; share.connections],
            closed: Vec::new(),
            workload: PhantomData,
        };
        for (key, socket) in sockets.into_iter().enumerate() {
            let slot = worker.ring.adopt(socket).map_err(broken)?;
            worker.pool.add(Place::of(slot));
            worker.own(slot, key);
        }
        worker.pool.fill(share.connections);
        Ok(worker)
    }

    fn own(&mut self, slot: Slot, key: usize) {
        if self.uses.len() <= slot.index() {
            let free = Use { owner: Owner::Nobody, receiving: false, sending_bytes: 0 };
            self.uses.resize(slot.index() + 1, free);
        }
        self.uses[slot.index()] = Use { owner: Owner::Connection(key), receiving: true, sending_bytes: 0 };
        self.ring.receive(slot, true);
    }

    /// Queues the request of a connection, if that is open.
    fn send(&mut self, key: usize, context: &mut Context<'_>) {
        let connection = &self.pool.connections[key];
        if let Some(Place { slot, .. }) = connection.handle {
            self.ring.send_fixed(slot, connection.unsent);
            context.recorder.transmitted(connection.unsent.len());
        }
    }

    /// Sends the rest of requests that did not fit into their sockets.
    fn send_rests(&mut self, context: &mut Context<'_>) {
        while let Some((slot, sent)) = self.ring.unsent_fixed() {
            let Owner::Connection(key) = self.uses[slot.index()].owner else { continue };
            match sent {
                Ok(sent_bytes) => {
                    let Connection { handle, client, unsent } = &mut self.pool.connections[key];
                    let is_connecting = sent_bytes == 0 && !client.is_taken();
                    *handle = Some(Place { slot, is_connecting });
                    let rest = &unsent[sent_bytes..];
                    context.recorder.not_transmitted(rest.len());
                    self.uses[slot.index()].sending_bytes = rest.len();
                    self.ring.send_tracked(slot, Cow::Borrowed(rest));
                }
                Err(error) => {
                    context.recorder.not_transmitted(self.pool.connections[key].unsent.len());
                    self.fail(key, &error, context);
                }
            }
        }
    }

    fn complete(&mut self, completion: Completion, context: &mut Context<'_>) {
        match completion {
            Completion::Received { slot, buffer, armed } => {
                self.uses[slot.index()].receiving = armed;
                if let Owner::Connection(key) = self.uses[slot.index()].owner {
                    let (client, bytes) = (&mut self.pool.connections[key].client, self.ring.bytes(&buffer));
                    let outcome = client.receive(bytes, context.now_ns, context.recorder);
                    self.ring.recycle(buffer);
                    self.go_on(key, outcome, context);
                } else {
                    self.ring.recycle(buffer);
                }
                self.keep_receiving(slot);
            }
            Completion::Stopped { slot, why } => {
                self.uses[slot.index()].receiving = false;
                if let Owner::Connection(key) = self.uses[slot.index()].owner {
                    self.broken(key, &why, context);
                }
                self.close_slot(slot);
            }
            Completion::Sent { slot, result } => {
                let sent_bytes = mem::take(&mut self.uses[slot.index()].sending_bytes);
                if let Owner::Connection(key) = self.uses[slot.index()].owner {
                    match result {
                        Ok(()) => {
                            self.pool.connections[key].handle = Some(Place::of(slot));
                            context.recorder.transmitted(sent_bytes);
                        }
                        Err(error) => self.fail(key, &error, context),
                    }
                }
                self.close_slot(slot);
            }
            Completion::Accepted(_)
            | Completion::Dropped
            | Completion::Refused(_)
            | Completion::SendingEnded(_) => {
                unreachable!("this ring has no listener, and ends no side of a connection")
            }
        }
    }

    fn go_on(&mut self, key: usize, outcome: Outcome, context: &mut Context<'_>) {
        match outcome {
            Outcome::Waiting => {}
            Outcome::Replied => {
                let free_ns = self.pool.connections[key].client.free_ns(context.now_ns);
                context.dispatcher.free(key, free_ns);
            }
            Outcome::Over => self.close(key, context),
        }
    }

    fn broken(&mut self, key: usize, why: &Stop, context: &mut Context<'_>) {
        match why {
            Stop::Broken(error) => self.fail(key, error, context),
            Stop::End | Stop::Asked => {
                let phase = self.phase(key);
                self.pool.connections[key].client.end(phase, context.now_ns, context.recorder);
                self.close(key, context);
            }
        }
    }

    /// Closes an abandoned slot if it has no request to the ring in flight.
    fn close_slot(&mut self, slot: Slot) {
        let state = &mut self.uses[slot.index()];
        if let Owner::Closing(key) = state.owner
            && !state.receiving
            && state.sending_bytes == 0
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
            _ => self.close_slot(slot),
        }
    }

    /// Frees connections that waited for a slot before reopening.
    fn count_closed(&mut self, context: &mut Context<'_>) {
        while let Some(key) = self.closed.pop() {
            self.closing[key] -= 1;
            let connection = &self.pool.connections[key];
            if connection.handle.is_none() && connection.client.is_taken() {
                context.free(key);
            }
        }
    }
}

impl<W: 'static, C: Client<W>> EventLoop for Worker<W, C> {
    type Client = C;
    type Handle = Place;
    type Unsent = &'static [u8];
    type Transport = Socket;

    const BATCHES: bool = true;

    fn pool(&mut self) -> &mut Pool<C, Place, &'static [u8], Socket> {
        &mut self.pool
    }

    fn begin(&mut self, dispatch: &Dispatch, context: &mut Context<'_>) {
        let connection = &mut self.pool.connections[dispatch.key];
        let is_open = connection.handle.is_some();
        if !is_open {
            connection.renew(&mut self.pool.plan);
        }
        connection.unsent = connection.client.begin(dispatch, context.now_ns, context.recorder);
        if is_open || self.connect(dispatch.key, context) {
            self.send(dispatch.key, context);
        }
    }

    /// A send queued meanwhile waits for the connection.
    fn open(&mut self, key: usize) -> io::Result<()> {
        let socket = sys::net::start_connect(self.pool.plan.route(key))?;
        let slot = self.ring.adopt(socket)?;
        self.pool.connections[key].handle = Some(Place::of(slot));
        self.own(slot, key);
        Ok(())
    }

    fn send_first(&mut self, key: usize, context: &mut Context<'_>) {
        self.send(key, context);
    }

    /// The slot closes when it has no request to the ring in flight.
    fn disconnect(&mut self, key: usize) {
        let Some(Place { slot, .. }) = self.pool.connections[key].handle.take() else { return };
        let state = &mut self.uses[slot.index()];
        state.owner = Owner::Closing(key);
        self.closing[key] += 1;
        if state.receiving {
            self.ring.stop_receiving(slot);
        }
        if state.sending_bytes > 0 {
            self.ring.cancel_send(slot);
        }
        self.close_slot(slot);
    }

    fn can_open(&self, key: usize) -> bool {
        self.closing[key] < SLOTS
    }

    fn wait(&mut self, timeout: Duration) -> usize {
        self.ring.submit(&[], &[], Wait::AtMost(timeout)).expect("a ring that has worked goes on working");
        self.ring.ready()
    }

    fn handle_events(&mut self, _count: usize, context: &mut Context<'_>) {
        self.count_closed(context);
        self.send_rests(context);
        while let Some(completion) = self.ring.next() {
            self.complete(completion, context);
        }
    }

    fn phase(&self, key: usize) -> Phase {
        match self.pool.connections[key].handle {
            Some(Place { is_connecting: true, .. }) => Phase::Connect,
            Some(Place { slot, .. }) if self.uses[slot.index()].sending_bytes > 0 => Phase::Send,
            _ => Phase::Receive,
        }
    }

    fn is_connected(place: &Place) -> bool {
        !place.is_connecting
    }
}

impl<W: 'static, C: Client<W>> Drive for Worker<W, C> {
    fn missing_features(&self) -> Vec<String> {
        self.ring.missing_features().iter().map(|&feature| feature.into()).collect()
    }

    fn run(&mut self, dispatcher: &mut Dispatcher, recorder: &mut Recorder, halt: &AtomicBool) {
        self.run_loop(dispatcher, recorder, halt);
    }
}
