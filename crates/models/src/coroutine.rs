//! Coroutines: each connection has a small stack and makes calls that seem to block. When it would wait, another one
//! runs.
//!
//! The loop is that of `epoll`, but resumes a stack instead of a state machine. A switch takes a dozen instructions in
//! user space. Each connection, idle or not, costs a page or two of stack. The worker's buffers are passed from one
//! coroutine to the next, so no stack holds any.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Read};
use std::net::Shutdown;
use std::time::Duration;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use proto::{Next, Protocol, Server, Session};
use slab::Slab;
use sys::epoll::{Epoll, Interest};
use sys::net::Socket;
use sys::stacks::{Stack, Stacks, guards_take_mappings};

use crate::acceptor::{Acceptor, LISTENERS};
use crate::conversation::DISCARD_BYTES;
use crate::counts::Limit;
use crate::readiness::{SYSCALLS_MAX, send_some};
use crate::scratch::Scratch;
use crate::workers::{Worker, spread};
use crate::{Config, Model};

pub(crate) const MODEL: Model = Model {
    about: "a coroutine with a stack of its own for each connection, resumed by epoll",
    missing_features,
    ..Model::DEFAULT
};

fn missing_features(_config: &Config) -> io::Result<Vec<String>> {
    let feature = "stack guards that take no mapping (Linux 6.13): vm.max_map_count limits its connections";
    Ok(if guards_take_mappings()? { vec![feature.into()] } else { Vec::new() })
}

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| {
        // Leaked, because a waiting coroutine cannot be dropped safely.
        Box::leak(Box::new(Scheduler::<P>::new(worker, config, workload)?)).run()
    })
}

/// What a coroutine receives when it is resumed.
struct Wakeup {
    scratch: Box<Scratch>,
    /// The peer has ended its side: receive until the end.
    ended: bool,
}

/// What a coroutine waits for, and the buffers that it gives back.
enum Pause {
    /// A ready socket.
    Ready(Box<Scratch>),
    /// Nothing: other coroutines run first.
    Again(Box<Scratch>),
}

type Conversation = Coroutine<Wakeup, Pause, Box<Scratch>, Stack>;

struct Scheduler<P: Protocol> {
    epoll: Epoll,
    acceptor: Acceptor,
    stacks: Stacks,
    conversations: Slab<Conversation>,
    /// Coroutines that continue without waiting.
    again: VecDeque<usize>,
    connections_max: usize,
    workload: &'static P::Workload,
}

impl<P: Protocol> Scheduler<P> {
    fn new(worker: Worker, config: &'static Config, workload: &'static P::Workload) -> io::Result<Self> {
        let (acceptor, epoll) = Acceptor::with_epoll(worker)?;
        Ok(Self {
            epoll,
            acceptor,
            stacks: Stacks::new(config.connections_max)?,
            conversations: Slab::new(),
            again: VecDeque::new(),
            connections_max: config.connections_max,
            workload,
        })
    }

    fn run(&mut self) -> io::Result<Infallible> {
        let mut scratch = Box::new(Scratch::new());
        loop {
            let timeout = (!self.again.is_empty()).then_some(Duration::ZERO);
            let count = self.epoll.wait(timeout)?;
            scratch.tick();
            for index in 0..count {
                let ready = self.epoll.ready(index);
                match ready.key.checked_sub(LISTENERS) {
                    Some(listener) => self.accept(listener as usize),
                    None => {
                        scratch = self.resume(ready.key as usize, Wakeup { scratch, ended: ready.ended() });
                    }
                }
            }
            // Only those queued so far. A coroutine that pauses again goes to the end.
            for _ in 0..self.again.len() {
                let Some(key) = self.again.pop_front() else { break };
                scratch = self.resume(key, Wakeup { scratch, ended: false });
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        let room = self.connections_max.saturating_sub(self.conversations.len());
        let (epoll, stacks, conversations) = (&self.epoll, &mut self.stacks, &mut self.conversations);
        let workload = self.workload;
        self.acceptor.accept(listener, room, |socket| {
            let entry = conversations.vacant_entry();
            let stack = stacks.take().map_err(|_| Limit::Memory)?;
            if epoll.add(&socket, entry.key() as u64, Interest::EDGES).is_err() {
                stacks.give_back(stack);
                return Err(Limit::Memory);
            }
            entry.insert(Coroutine::with_stack(stack, move |yielder, wakeup: Wakeup| {
                converse::<P>(socket, workload, yielder, wakeup)
            }));
            Ok(())
        });
    }

    /// Resumes a conversation, and returns the buffers when it pauses or ends. If the key belongs to another connection
    /// by now, the needless resume is harmless.
    fn resume(&mut self, key: usize, wakeup: Wakeup) -> Box<Scratch> {
        let Some(conversation) = self.conversations.get_mut(key) else { return wakeup.scratch };
        match conversation.resume(wakeup) {
            CoroutineResult::Yield(Pause::Ready(scratch)) => scratch,
            CoroutineResult::Yield(Pause::Again(scratch)) => {
                self.again.push_back(key);
                scratch
            }
            CoroutineResult::Return(scratch) => {
                self.stacks.give_back(self.conversations.remove(key).into_stack());
                scratch
            }
        }
    }
}

/// Serves a connection from beginning to end, and returns the buffers. An error only ends this connection.
fn converse<P: Protocol>(
    socket: Socket,
    workload: &'static P::Workload,
    yielder: &Yielder<Wakeup, Pause>,
    wakeup: Wakeup,
) -> Box<Scratch> {
    let Wakeup { scratch, ended } = wakeup;
    let mut stream =
        Stream { socket, yielder, scratch: Some(scratch), ended, readable: true, receives: 0, sends: 0 };
    let _ = stream.serve::<P>(workload);
    stream.scratch.expect(Stream::HAS_SCRATCH)
}

/// A socket whose calls seem to block.
struct Stream<'a> {
    socket: Socket,
    yielder: &'a Yielder<Wakeup, Pause>,
    /// The worker's buffers, while the coroutine runs.
    scratch: Option<Box<Scratch>>,
    ended: bool,
    /// There may be something to receive. False after a short receive, which saves a call that would find nothing.
    readable: bool,
    /// Receives since the last pause.
    receives: usize,
    /// Sends since the last pause.
    sends: usize,
}

impl Stream<'_> {
    const HAS_SCRATCH: &'static str = "the running coroutine has the buffers";

    fn serve<P: Protocol>(&mut self, workload: &'static P::Workload) -> io::Result<()> {
        let mut session = Session::new(P::Server::new(workload));
        loop {
            let received = self.receive()?;
            if received == 0 {
                return Ok(());
            }
            let Scratch { input, output } = self.scratch();
            let mut next = session.receive(&input[..received], output);
            loop {
                self.send()?;
                match next {
                    Next::Receive => break,
                    Next::Send => {
                        if self.sends >= SYSCALLS_MAX {
                            self.pause(Pause::Again);
                        }
                        next = session.resume(&mut self.scratch().output);
                    }
                    Next::Close if session.tail_bytes() > 0 => return self.discard(),
                    Next::Close => return Ok(()),
                }
            }
        }
    }

    /// Waits for bytes and receives them. 0 is the end.
    fn receive(&mut self) -> io::Result<usize> {
        loop {
            if !self.readable {
                self.pause(Pause::Ready);
            } else if self.receives == SYSCALLS_MAX {
                self.pause(Pause::Again);
            }
            let scratch = self.scratch.as_mut().expect(Self::HAS_SCRATCH);
            match self.socket.read(&mut scratch.input) {
                Ok(received) => {
                    self.receives += 1;
                    self.readable = received == scratch.input.len() || self.ended;
                    return Ok(received);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the replies in the output and clears it.
    fn send(&mut self) -> io::Result<()> {
        let output = &mut self.scratch.as_mut().expect(Self::HAS_SCRATCH).output;
        let sent = send_some(&mut self.socket, output.as_bytes());
        // The rest is copied, because others use the buffer while this one waits.
        let unsent = sent.as_ref().map_or(Vec::new(), |&sent| output.as_bytes()[sent..].to_vec());
        output.clear();
        self.sends += 1;
        sent?;
        self.send_later(&unsent)
    }

    fn send_later(&mut self, mut unsent: &[u8]) -> io::Result<()> {
        while !unsent.is_empty() {
            self.pause(Pause::Ready);
            let sent = send_some(&mut self.socket, unsent)?;
            unsent = &unsent[sent..];
        }
        Ok(())
    }

    /// Ends our side and receives what a refused peer still sends. Closing with unread bytes would reset the connection
    /// before the peer has seen the reply.
    fn discard(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)?;
        let mut left = DISCARD_BYTES;
        while left > 0 {
            match self.receive()? {
                0 => break,
                received => left = left.saturating_sub(received),
            }
        }
        Ok(())
    }

    /// Gives the buffers back and pauses until it is resumed.
    fn pause(&mut self, pause: fn(Box<Scratch>) -> Pause) {
        let scratch = self.scratch.take().expect(Self::HAS_SCRATCH);
        let wakeup = self.yielder.suspend(pause(scratch));
        self.scratch = Some(wakeup.scratch);
        self.ended |= wakeup.ended;
        // The event may have brought bytes, and is not reported again.
        (self.readable, self.receives, self.sends) = (true, 0, 0);
    }

    fn scratch(&mut self) -> &mut Scratch {
        self.scratch.as_mut().expect(Self::HAS_SCRATCH)
    }
}
