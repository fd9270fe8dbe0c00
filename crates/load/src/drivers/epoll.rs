//! The epoll driver: a reply is received, checked and answered with the next request in one go.
//!
//! Two system calls a request and a share of one wait: a connection is registered once, by its edges, and a short
//! receive is taken as the last.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use proto::Client;
use sys::epoll::{Epoll, Interest, Ready};

use super::context::Context;
use super::event_loop::EventLoop;
use super::pool::Pool;
use super::transport::{Transport, is_passing};
use super::unsent::Unsent;
use super::{Drive, Plan};
use crate::client_connection::Outcome;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::record::Recorder;
use crate::{Config, Failure, Share, failure};

/// Received in one call at most.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receives from one connection in a row, so that one fast server cannot keep the thread from the others.
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
        config: &Config,
        terms: T::Terms,
        share: &Share,
        client: C,
        halt: &AtomicBool,
    ) -> Result<Self, Failure> {
        let broken = |error: io::Error| failure("epoll", format!("epoll cannot be set up: {error}"));
        sys::process::own_descriptors().map_err(broken)?;
        let epoll = Epoll::new().map_err(broken)?;
        let (plan, transports) = Plan::<_, T>::open(config, terms, share, client, halt)?;
        let mut pool = Pool::new(plan, transports.len());
        for (key, transport) in transports.into_iter().enumerate() {
            epoll.add(transport.socket(), key as u64, Interest::EDGES).map_err(broken)?;
            pool.add(transport);
        }
        Ok(Self { epoll, pool, input: vec![0; RECEIVE_BYTES].into(), workload: PhantomData })
    }

    /// Begins what else may go out now on a connection that has just been given a request: one call sends all. It is no
    /// part of the path of those that have one request at a time.
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

    /// Receives what there is, and goes on with the next request when a reply is whole.
    fn handle_ready(&mut self, ready: Ready, context: &mut Context<'_>) {
        let key = ready.key as usize;
        if ready.writable() && !self.resume(key, context) {
            return;
        }
        if !T::BUFFERS && !ready.readable() {
            // What has come since then has an edge of its own, which also knows whether the end has come with it.
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
                Ok(0) => connection.client.end(context.now_ns, context.recorder),
                Ok(received) => {
                    let bytes = &self.input[..received];
                    connection.client.receive(bytes, context.now_ns, context.recorder)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let is_sound = !T::BUFFERS || self.resume(key, context);
                    if is_sound && ready.ended() {
                        // What has ended is the connection before this one.
                        self.offer(key, context.now_ns, context);
                    }
                    return;
                }
                Err(error) => connection.client.fail_with(&error, context.recorder),
            };
            match outcome {
                Outcome::Waiting => {}
                // The end lies behind the reply: whatever was sent here now would be lost.
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
            // What came may have been what the transport had waited for to take more.
            if (T::BUFFERS && !self.resume(key, context)) || is_last {
                return;
            }
        }
        self.ask_again(key, context);
    }

    /// Has an edge reported that was seen already.
    fn ask_again(&mut self, key: usize, context: &mut Context<'_>) {
        let Some(transport) = &self.pool.connections[key].handle else { return };
        if let Err(error) = self.epoll.change(transport.socket(), key as u64, Interest::EDGES) {
            context.tick();
            self.fail(key, &error, context);
        }
    }

    /// Goes on with what has not gone out yet; says whether the connection is still sound.
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

    /// Sends as much as fits of what is unsent; says whether the connection is still sound.
    fn send(&mut self, key: usize, context: &mut Context<'_>) -> bool {
        let connection = &mut self.pool.connections[key];
        let Some(transport) = &mut connection.handle else { return false };
        match transport.write(connection.unsent.bytes()) {
            Ok(sent) => connection.unsent.advance(sent),
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
            connection.renew(&self.pool.plan);
        }
        connection.unsent.set(connection.client.begin(dispatch, context.now_ns, context.recorder));
        let has_depth = self.pool.plan.limits.depth > 1;
        if has_depth && is_open {
            self.begin_more(dispatch, context);
        }
        // Nearby servers have accepted at once; otherwise the first write edge sends the request.
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
}

impl<W: 'static, C: Client<W>, T: Transport> Drive for Worker<W, C, T> {
    fn run(&mut self, dispatcher: &mut Dispatcher, recorder: &mut Recorder, halt: &AtomicBool) {
        self.run_loop(dispatcher, recorder, halt);
    }
}
