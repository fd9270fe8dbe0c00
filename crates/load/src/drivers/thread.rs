//! The thread driver: a thread for each connection, with blocking calls, as simple clients are written.
//!
//! It exists for comparison. A thread for each connection costs a context switch for each reply, and beyond a few
//! hundred threads the scheduler decides the result. It sends a complete request before it receives the reply.
//!
//! It notices a closed connection only when the next request fails. A check before each request would cost another
//! syscall.
//!
//! No call blocks for longer than a moment, so it notices the end of a run and timeouts even while a server accepts
//! nothing. Blocking calls count as waits, not as the generator's busy time.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{slice, thread};

use contract::{LoadSpec, Phase};
use proto::Client;
use sys::net::{Address, Socket};

use super::context::Context;
use super::pool::{Connection, leave};
use super::transport::{self, Transport};
use super::{Drive, Plan, SWEEP_NS};
use crate::client_connection::Outcome;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::record::Recorder;
use crate::{Failure, ThreadLoad, failure};

/// At most this is received in one call.
const RECEIVE_BYTES: usize = 64 * 1024;
/// At most this is written in one call to a transport that may need several blocking syscalls for it.
const SEND_BYTES: usize = 64 * 1024;

/// A thread's one connection.
pub(crate) struct Worker<W, C, T: Transport> {
    connection: Connection<C, T, &'static [u8]>,
    input: Box<[u8]>,
    plan: Plan<C, T>,
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
        let (plan, mut transports) = Plan::<_, T>::open(spec, terms, share, client, halt)?;
        let transport = transports.pop();
        if let Some(transport) = &transport {
            block(transport.socket(), plan.moment())
                .map_err(|error| failure("connect_failed", error.to_string()))?;
        }
        let (connection, input) = (Connection::new(transport, &plan, 1), vec![0; RECEIVE_BYTES].into());
        Ok(Self { connection, input, plan, workload: PhantomData })
    }

    /// Begins a request. A closed connection is opened for it later.
    fn begin(&mut self, dispatch: &Dispatch, context: &mut Context<'_>) {
        let connection = &mut self.connection;
        if connection.handle.is_none() {
            connection.renew(&mut self.plan);
        }
        connection.unsent = connection.client.begin(dispatch, context.now_ns, context.recorder);
    }

    /// Continues the request in flight for a moment or two, and handles its reply if it arrives.
    fn step(&mut self, context: &mut Context<'_>) -> Outcome {
        context.tick();
        // Both the end of a send and the receive after it may block.
        context.end_iteration(2 * self.plan.moment());
        let (is_open, unsent_bytes) = (self.connection.handle.is_some(), self.connection.unsent.len());
        let received = if is_open { self.communicate() } else { self.connect() };
        context.recorder.transmitted(unsent_bytes - self.connection.unsent.len());
        if !context.begin_iteration() {
            return Outcome::Waiting;
        }
        let (now_ns, recorder) = (context.now_ns, &mut *context.recorder);
        let connection = &mut self.connection;
        match received {
            Ok(Some(0)) => connection.client.end(phase(connection), now_ns, recorder),
            Ok(Some(received)) => connection.client.receive(&self.input[..received], now_ns, recorder),
            Err(error) if !is_passing(&error) && is_open => {
                connection.client.fail_with(&error, phase(connection), recorder)
            }
            Err(error) if !is_passing(&error) => connection.client.fail_to_open(&error, recorder),
            Ok(None) | Err(_) if connection.client.is_late(now_ns) => {
                let is_taken = connection.client.is_taken();
                let is_open = connection.handle.as_ref().is_some_and(|one| is_taken || one.is_connected());
                let phase = if is_open { phase(connection) } else { Phase::Connect };
                connection.client.give_up(phase, recorder);
                Outcome::Over
            }
            Ok(None) | Err(_) => Outcome::Waiting,
        }
    }

    /// Sends what is unsent, then receives. Returns how many bytes, or None while it is still sending.
    fn communicate(&mut self) -> io::Result<Option<usize>> {
        let Connection { handle, unsent, .. } = &mut self.connection;
        let Some(transport) = handle else { return Ok(None) };
        if !unsent.is_empty() || transport.holds_back() {
            // The timeout of a plain socket covers the whole call, however much it sends.
            let length = if T::BUFFERS { unsent.len().min(SEND_BYTES) } else { unsent.len() };
            let sent = transport.write(&unsent[..length])?;
            *unsent = &unsent[sent..];
            if transport.holds_back() || (sent > 0 && !unsent.is_empty()) {
                return Ok(None);
            }
            if !unsent.is_empty() {
                return hear(transport, &mut self.input).map(Some);
            }
        }
        transport.read(&mut self.input).map(Some)
    }

    /// Starts to connect. The first send waits for the connection.
    fn connect(&mut self) -> io::Result<Option<usize>> {
        let (route, moment) = (self.plan.route(0), self.plan.moment());
        let socket = match route.to {
            Address::Ip(_) => sys::net::start_connect(route)?,
            // A Unix socket connects at once, or waits for room in the server's queue.
            Address::Unix(_) => sys::net::connect(route, moment).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => io::ErrorKind::WouldBlock.into(),
                _ => error,
            })?,
        };
        block(&socket, moment)?;
        self.connection.handle = Some(T::begin(socket, &self.plan.terms)?);
        Ok(None)
    }

    fn close(&mut self) {
        self.connection.unsent = &[];
        if let Some(transport) = self.connection.handle.take() {
            transport.close();
        }
    }

    /// Sleeps until the next request is due, or until `then_ns`.
    fn pause(&mut self, then_ns: u64, context: &mut Context<'_>) {
        context.tick();
        let wait = self.plan.wait(context.recorder.due_ns().min(then_ns), context);
        context.end_iteration(wait);
        thread::sleep(wait);
        context.begin_iteration();
    }
}

impl<W: 'static, C: Client<W>, T: Transport> Drive for Worker<W, C, T> {
    fn run(&mut self, dispatcher: &mut Dispatcher, recorder: &mut Recorder, halt: &AtomicBool) {
        let context = &mut Context::new(dispatcher, recorder);
        // A stopped warm-up may have left it busy.
        if self.connection.is_closed() || self.connection.has_room() {
            context.dispatcher.free(0, context.recorder.start_ns());
        }
        // When a refused connection is retried.
        let mut again_ns = u64::MAX;
        while !context.is_done() && !context.recorder.is_over() && !halt.load(Ordering::Relaxed) {
            context.tick();
            if context.now_ns >= again_ns {
                context.free(0);
                again_ns = u64::MAX;
            }
            if let Some(dispatch) = context.next() {
                self.begin(&dispatch, context);
            }
            if context.recorder.in_flight() == 0 {
                self.pause(again_ns.min(context.now_ns + SWEEP_NS), context);
                continue;
            }
            match self.step(context) {
                Outcome::Waiting => {}
                Outcome::Replied => {
                    context.tick();
                    let free_ns = self.connection.client.free_ns(context.now_ns);
                    context.dispatcher.free(0, free_ns);
                }
                Outcome::Over => {
                    self.close();
                    context.tick();
                    // Do not retry a refusing server in a busy loop.
                    if self.connection.client.is_taken() {
                        context.free(0);
                    } else {
                        again_ns = context.now_ns + SWEEP_NS;
                    }
                }
            }
        }
        leave(slice::from_ref(&self.connection), &mut self.plan, context, T::is_connected);
    }
}

/// Receives the server's part of a handshake that the transport needs before it can send. This read must not wait for a
/// reply, because the request has not been sent yet.
fn hear<T: Transport>(transport: &mut T, input: &mut [u8]) -> io::Result<usize> {
    transport.socket().peek(&mut [MaybeUninit::uninit()])?;
    transport.socket().set_nonblocking(true)?;
    let received = transport.read(input);
    transport.socket().set_nonblocking(false)?;
    received
}

/// Makes a socket's calls block for a moment at a time, so that the end of a run is noticed.
fn block(socket: &Socket, moment: Duration) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(moment))?;
    socket.set_write_timeout(Some(moment))
}

/// What a connection is doing with its oldest request.
#[cold]
fn phase<C, T: Transport>(connection: &Connection<C, T, &'static [u8]>) -> Phase {
    transport::phase(connection.handle.as_ref(), !connection.unsent.is_empty())
}

/// Errors that mean "try again later".
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
