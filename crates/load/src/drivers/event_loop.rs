//! The loop of a driver that waits for many connections at once: epoll and io_uring.
//!
//! A driver implements how it waits, opens, sends and closes. The provided methods are the loop around that. The
//! compiler makes a copy of the loop for each driver, so it has no dynamic calls.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::Phase;

use super::context::Context;
use super::pool::{Pool, leave};
use super::transport::Transport;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::record::Recorder;

pub(crate) trait EventLoop {
    type Client: Clone;
    type Handle;
    type Unsent: Default;
    type Transport: Transport;

    /// Whether requests are sent together with the next wait. Otherwise each is sent when it begins.
    const BATCHES: bool;

    fn pool(&mut self) -> &mut Pool<Self::Client, Self::Handle, Self::Unsent, Self::Transport>;

    /// Begins a request. Opens its connection first if that is closed.
    fn begin(&mut self, dispatch: &Dispatch, context: &mut Context<'_>);

    /// Starts to connect.
    fn open(&mut self, key: usize) -> io::Result<()>;

    /// Sends the request that a connection has been opened for.
    fn send_first(&mut self, key: usize, context: &mut Context<'_>);

    /// Closes a connection if it is open, and forgets what is unsent.
    fn disconnect(&mut self, key: usize);

    /// Whether a closed connection can be opened again now.
    fn can_open(&self, _key: usize) -> bool {
        true
    }

    /// Waits for events for at most `timeout`. Returns how many there are.
    fn wait(&mut self, timeout: Duration) -> usize;

    fn handle_events(&mut self, count: usize, context: &mut Context<'_>);

    /// What an open connection is doing with its oldest request.
    fn phase(&self, key: usize) -> Phase;

    /// Whether a connection is open and no longer connecting, as far as the driver can tell.
    fn is_connected(handle: &Self::Handle) -> bool;

    /// Runs the load until the recorder ends it, or `halt` is raised.
    fn run_loop(&mut self, dispatcher: &mut Dispatcher, recorder: &mut Recorder, halt: &AtomicBool) {
        let context = &mut Context::new(dispatcher, recorder);
        self.list_free(context);
        let mut sweep_ns = context.now_ns + self.pool().plan.sweep_ns;
        let is_open_loop = context.dispatcher.is_open();
        loop {
            // In a closed loop a request begins when the reply before it arrives, so the time to handle that counts as
            // the server's.
            if is_open_loop {
                context.tick();
            }
            self.pump(context);
            if context.is_done() {
                break;
            }
            if !is_open_loop {
                context.tick();
            }
            let Pool { plan, waiting, .. } = self.pool();
            let wait = plan.wait(context.recorder.due_ns().min(sweep_ns).min(waiting.due_ns()), context);
            context.end_iteration(wait);
            let count = self.wait(wait);
            if !context.begin_iteration() || halt.load(Ordering::Relaxed) {
                break;
            }
            if count > 0 {
                self.pool().plan.stir(context.now_ns);
            }
            self.connect_waiting(context);
            self.handle_events(count, context);
            if context.now_ns >= sweep_ns {
                self.sweep(context);
                sweep_ns = context.now_ns + self.pool().plan.sweep_ns;
            }
        }
        let Pool { connections, plan, .. } = self.pool();
        leave(connections, plan, context, Self::is_connected);
    }

    /// Lists the connections that are free at the start. A stopped warm-up may have left some busy.
    fn list_free(&mut self, context: &mut Context<'_>) {
        for key in 0..self.pool().connections.len() {
            let can_open = self.can_open(key);
            let connection = &self.pool().connections[key];
            if connection.has_room() || (connection.is_closed() && can_open) {
                context.dispatcher.free(key, context.recorder.start_ns());
            }
        }
    }

    /// Begins all requests that may go out now.
    fn pump(&mut self, context: &mut Context<'_>) {
        while let Some(dispatch) = context.next() {
            self.begin(&dispatch, context);
            // The requests of a batch in a closed loop begin at the same time. Otherwise each send took time.
            let took_time =
                if Self::BATCHES { context.dispatcher.is_open() } else { context.dispatcher.has_free() };
            if took_time {
                context.tick();
            }
        }
    }

    /// Starts to connect. Returns whether that succeeded.
    #[cold]
    fn connect(&mut self, key: usize, context: &mut Context<'_>) -> bool {
        let Err(error) = self.open(key) else { return true };
        let Pool { connections, waiting, .. } = self.pool();
        match error.kind() {
            io::ErrorKind::WouldBlock => waiting.push(key, context.now_ns),
            _ => {
                connections[key].client.fail_to_open(&error, context.recorder);
            }
        }
        false
    }

    /// Retries connections that wait for room, unless their requests have timed out.
    fn connect_waiting(&mut self, context: &mut Context<'_>) {
        while let Some(key) = self.pool().waiting.pop(context.now_ns) {
            if self.pool().connections[key].is_waiting() && self.connect(key, context) {
                self.send_first(key, context);
            }
        }
    }

    /// Counts the requests of a broken connection as failed, and closes it.
    fn fail(&mut self, key: usize, error: &io::Error, context: &mut Context<'_>) {
        let phase = self.phase(key);
        self.pool().connections[key].client.fail_with(error, phase, context.recorder);
        self.close(key, context);
    }

    /// Counts the requests of a connection as failed because the oldest has timed out.
    #[cold]
    fn give_up(&mut self, key: usize, context: &mut Context<'_>) {
        let connection = &self.pool().connections[key];
        let is_open = |handle| connection.client.is_taken() || Self::is_connected(handle);
        let is_open = connection.handle.as_ref().is_some_and(is_open);
        let phase = if is_open { self.phase(key) } else { Phase::Connect };
        self.pool().connections[key].client.give_up(phase, context.recorder);
    }

    /// Closes a connection. If the server had accepted it, it is free to be reopened. Otherwise it waits for the next
    /// sweep, so that a refusing server is not retried in a busy loop.
    fn close(&mut self, key: usize, context: &mut Context<'_>) {
        self.disconnect(key);
        if self.pool().connections[key].client.is_taken() && self.can_open(key) {
            context.free(key);
        }
    }

    /// Fails requests that have timed out, and frees connections that are closed.
    fn sweep(&mut self, context: &mut Context<'_>) {
        let opens_again = self.pool().plan.opens_again(context.now_ns);
        for key in 0..self.pool().connections.len() {
            let connection = &self.pool().connections[key];
            let (is_late, is_closed) = (connection.client.is_late(context.now_ns), connection.is_closed());
            if is_late {
                self.give_up(key, context);
            }
            if is_late || (opens_again && is_closed) {
                self.disconnect(key);
                if self.can_open(key) {
                    context.free(key);
                }
            }
        }
    }
}
