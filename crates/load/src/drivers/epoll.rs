//! The epoll driver: receives a reply, checks it, and sends the next request on the same connection at once.
//!
//! A request takes two syscalls and a share of one wait. A connection is registered once, edge-triggered, and a
//! receive that does not fill the buffer counts as the last.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use contract::{LoadSpec, Phase};
use proto::Client;
use sys::epoll::{Epoll, Interest, Ready};

use super::context::Context;
use super::event_loop::EventLoop;
use super::pool::{Connection, Pool};
use super::transport::{self, Transport, is_passing};
use super::unsent::Unsent;
use super::{Drive, Plan};
use crate::client_connection::Outcome;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::record::Recorder;
use crate::{Failure, ThreadLoad, failure};

/// At most this is received in one call.
const RECEIVE_BYTES: usize = 64 * 1024;
/// At most this many receives from one connection in a row, so that the others are served too.
const RECEIVES_MAX: usize = 16;

/// A thread's connections and what it waits with.
pub(crate) struct Worker<W, C, T: Transport> {
    epoll: Epoll,
    pool: Pool<C, T, Unsent, T>,
    input: Box<[u8]>,
    workload: PhantomData<W>,
}

impl<W: 'static, C: Client<W>, T: Transport> Worker<W, C, T> {
    pub(crate) fn open(
        spec: &LoadSpec,
        terms: T::Terms,
        share: &ThreadLoad,
        client: C,
        halt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let broken = |error: io::Error| failure("epoll", format!("epoll cannot be set up: {error}"));
        sys::process::own_descriptors().map_err(broken)?;
        let epoll = Epoll::new().map_err(broken)?;
        let (plan, transports) = Plan::<_, T>::open(spec, terms, share, client, halt)?;
        let mut pool = Pool::new(plan, share.connections);
        for (key, transport) in transports.into_iter().enumerate() {
            epoll.add(transport.socket(), key as u64, Interest::EDGES).map_err(broken)?;
            pool.add(transport);
        }
        pool.fill(share.connections);
        Ok(Self { epoll, pool, input: vec![0; RECEIVE_BYTES].into(), workload: PhantomData })
    }

    /// Begins further requests of a pipeline, so that one call sends them all. Not inlined: connections with one
    /// request at a time do not need it.
    #[inline(never)]
    fn begin_more(&mut self, dispatch: &Dispatch, context: &mut Context<'_>) {
        let connection = &mut self.pool.connections[dispatch.key];
        while connection.client.has_room()
            && connection.unsent.takes_more()
            && let Some(dispatch) = context.next_with(dispatch)
        {
            let request = connection.client.begin(&dispatch, context.now_ns, context.recorder);
            connection.unsent.push(request);
        }
    }

    /// Lists a connection as free if it can carry another request.
    fn offer(&mut self, key: usize, free_ns: u64, context: &mut Context<'_>) {
        let connection = &self.pool.connections[key];
        if connection.unsent.is_empty() && connection.client.has_room() {
            context.dispatcher.free(key, free_ns);
        }
    }

    /// Receives all there is, and sends the next request when a reply is complete.
    fn handle_ready(&mut self, ready: Ready, context: &mut Context<'_>) {
        let key = ready.key as usize;
        if ready.writable() && !self.resume(key, context) {
            return;
        }
        if !T::BUFFERS && !ready.readable() {
            // Later bytes have their own event, which also says whether the peer has ended.
            return;
        }
        for _ in 0..RECEIVES_MAX {
            let connection = &mut self.pool.connections[key];
            let Some(transport) = &mut connection.handle else { return };
            let received = transport.read(&mut self.input);
            let is_last = !ready.ended()
                && received.as_ref().is_ok_and(|received| transport.is_drained(*received, RECEIVE_BYTES));
            context.tick();
            let outcome = match received {
                Ok(0) => connection.client.end(phase(connection), context.now_ns, context.recorder),
                Ok(received) => {
                    let bytes = &self.input[..received];
                    connection.client.receive(bytes, context.now_ns, context.recorder)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let is_sound = !T::BUFFERS || self.resume(key, context);
                    if is_sound && ready.ended() {
                        // The event is of an earlier connection with the same key.
                        self.offer(key, context.now_ns, context);
                    }
                    return;
                }
                Err(error) => connection.client.fail_with(&error, phase(connection), context.recorder),
            };
            match outcome {
                Outcome::Waiting => {}
                // The end follows the reply: a request sent now would be lost.
                Outcome::Replied if ready.ended() => {}
                Outcome::Replied => {
                    let free_ns = self.pool.connections[key].client.free_ns(context.now_ns);
                    self.offer(key, free_ns, context);
                    self.pump(context);
                }
                Outcome::Over => {
                    self.close(key, context);
                    self.pump(context);
                    return;
                }
            }
            // The transport may need these bytes before it can send more.
            if (T::BUFFERS && !self.resume(key, context)) || is_last {
                return;
            }
        }
        self.ask_again(key, context);
    }

    /// Requests another event, because an edge is reported only once.
    fn ask_again(&mut self, key: usize, context: &mut Context<'_>) {
        let Some(transport) = &self.pool.connections[key].handle else { return };
        if let Err(error) = self.epoll.change(transport.socket(), key as u64, Interest::EDGES) {
            context.tick();
            self.fail(key, &error, context);
        }
    }

    /// Sends what is still unsent. Returns whether the connection is still usable.
    fn resume(&mut self, key: usize, context: &mut Context<'_>) -> bool {
        let connection = &self.pool.connections[key];
        let is_sent = connection.unsent.is_empty();
        if is_sent && !connection.handle.as_ref().is_some_and(T::holds_back) {
            return true;
        }
        context.tick();
        let is_sound = self.send(key, context);
        if is_sound && !is_sent {
            self.offer(key, context.now_ns, context);
        }
        is_sound
    }

    /// Sends as much as fits. Returns whether the connection is still usable.
    fn send(&mut self, key: usize, context: &mut Context<'_>) -> bool {
        if self.pool.connections[key].client.watch().is_some() {
            return self.send_watched(key, context);
        }
        self.write(key, context)
    }

    /// The same with measurements.
    #[cold]
    fn send_watched(&mut self, key: usize, context: &mut Context<'_>) -> bool {
        let Connection { client, unsent, .. } = &mut self.pool.connections[key];
        let (unsent_bytes, Some(watch)) = (unsent.bytes().len(), client.watch()) else { return false };
        if watch.holds(context.recorder) {
            return true;
        }
        let times_sends = watch.times_sends();
        if watch.times_opening() {
            context.tick();
        }
        let begin_ns = context.now_ns;
        let is_sound = self.write(key, context);
        if times_sends {
            context.tick();
        }
        let Connection { handle, client, unsent } = &mut self.pool.connections[key];
        let left_bytes = unsent.bytes().len();
        // Bytes that a session buffers have not been sent. They are sent in a later call without unsent bytes of its
        // own.
        let has_sent =
            (left_bytes < unsent_bytes || unsent_bytes == 0) && !handle.as_ref().is_some_and(T::holds_back);
        if let (Some(watch), true) = (client.watch(), is_sound && has_sent) {
            watch.sent((begin_ns, context.now_ns), left_bytes == 0, context.recorder);
        }
        is_sound
    }

    fn write(&mut self, key: usize, context: &mut Context<'_>) -> bool {
        let connection = &mut self.pool.connections[key];
        let Some(transport) = &mut connection.handle else { return false };
        match transport.write(connection.unsent.bytes()) {
            Ok(sent) => {
                connection.unsent.advance(sent);
                context.recorder.transmitted(sent);
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                self.fail(key, &error, context);
                return false;
            }
        }
        true
    }
}

impl<W: 'static, C: Client<W>, T: Transport> EventLoop for Worker<W, C, T> {
    type Client = C;
    type Handle = T;
    type Unsent = Unsent;
    type Transport = T;

    const BATCHES: bool = false;

    fn pool(&mut self) -> &mut Pool<C, T, Unsent, T> {
        &mut self.pool
    }

    fn begin(&mut self, dispatch: &Dispatch, context: &mut Context<'_>) {
        let key = dispatch.key;
        let connection = &mut self.pool.connections[key];
        let is_open = connection.handle.is_some();
        if !is_open {
            connection.renew(&mut self.pool.plan);
            context.recorder.lend();
        }
        connection.unsent.set(connection.client.begin(dispatch, context.now_ns, context.recorder));
        let has_depth = self.pool.plan.limits.depth > 1;
        if has_depth && is_open {
            self.begin_more(dispatch, context);
        }
        // A connection over loopback is open at once. Otherwise the first writable event sends the request.
        let is_sound = (is_open || self.connect(key, context)) && self.send(key, context);
        if has_depth && is_sound {
            self.offer(key, dispatch.free_ns, context);
        }
    }

    fn open(&mut self, key: usize) -> io::Result<()> {
        let socket = sys::net::start_connect(self.pool.plan.route(key))?;
        self.epoll.add(&socket, key as u64, Interest::EDGES)?;
        self.pool.connections[key].handle = Some(T::begin(socket, &self.pool.plan.terms)?);
        Ok(())
    }

    fn send_first(&mut self, key: usize, context: &mut Context<'_>) {
        if self.send(key, context) {
            self.offer(key, context.now_ns, context);
        }
    }

    fn disconnect(&mut self, key: usize) {
        let connection = &mut self.pool.connections[key];
        if let Some(transport) = connection.handle.take() {
            transport.close();
        }
        connection.unsent.clear();
    }

    fn wait(&mut self, timeout: Duration) -> usize {
        self.epoll.wait(Some(timeout)).expect("a set of descriptors that has worked goes on working")
    }

    fn handle_events(&mut self, count: usize, context: &mut Context<'_>) {
        for index in 0..count {
            self.handle_ready(self.epoll.ready(index), context);
        }
    }

    fn phase(&self, key: usize) -> Phase {
        phase(&self.pool.connections[key])
    }

    fn is_connected(transport: &T) -> bool {
        transport.is_connected()
    }
}

/// What a connection is doing with its oldest request.
#[cold]
fn phase<C, T: Transport>(connection: &Connection<C, T, Unsent>) -> Phase {
    transport::phase(connection.handle.as_ref(), !connection.unsent.is_empty())
}

impl<W: 'static, C: Client<W>, T: Transport> Drive for Worker<W, C, T> {
    fn run(&mut self, dispatcher: &mut Dispatcher, recorder: &mut Recorder, halt: &AtomicBool) {
        self.run_loop(dispatcher, recorder, halt);
    }
}
