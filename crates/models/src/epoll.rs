//! epoll: one thread asks the kernel which connections are ready, and serves those.
//!
//! By default it is edge-triggered: a connection is registered once for reading and writing, and needs no further
//! `epoll_ctl`. With `trigger=level` a connection is reported as long as it is ready, and a syscall changes what it
//! waits for. With `trigger=oneshot` it is reported once, until a syscall rearms it.

use std::convert::Infallible;
use std::io;

use proto::{Protocol, Server};
use slab::Slab;
use sys::epoll::{Epoll, Interest, Ready};

use crate::acceptor::{Acceptor, LISTENERS};
use crate::counts::Limit;
use crate::readiness::{Connection, Step};
use crate::scratch::Scratch;
use crate::workers::{Worker, spread};
use crate::{ACCEPT, Config, Model, ModelOption, Values};

pub(crate) const MODEL: Model = Model {
    about: "an event loop that asks epoll which connections are ready",
    options: &[TRIGGER, ACCEPT],
    ..Model::DEFAULT
};

const TRIGGER: ModelOption = ModelOption {
    name: "trigger",
    values: Values::Words(&["edge", "level", "oneshot"]),
    about: "whether readiness is reported when it begins, for as long as it lasts, or once and then only when asked \
            for again",
    defects: &[],
};

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| Loop::<P>::new(worker, config, workload)?.run())
}

/// When the kernel reports that a connection is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trigger {
    Edge,
    Level,
    Once,
}

impl Trigger {
    /// What a new connection waits for.
    fn first(self) -> Interest {
        match self {
            Self::Edge => Interest::EDGES,
            Self::Level => Interest::READ,
            Self::Once => Interest::READ.once(),
        }
    }

    /// The new interest after a step. None if nothing changes.
    fn after(self, step: Step, ready: Ready) -> Option<Interest> {
        match (self, step) {
            // An edge is reported again only on request.
            (Self::Edge, Step::ReceiveAgain | Step::SendAgain) => Some(Interest::EDGES),
            (Self::Level, Step::Send | Step::SendAgain) if !ready.writable() => Some(Interest::WRITE),
            (Self::Level, Step::Receive | Step::ReceiveAgain) if ready.writable() => Some(Interest::READ),
            (Self::Once, Step::Send | Step::SendAgain) => Some(Interest::WRITE.once()),
            (Self::Once, Step::Receive | Step::ReceiveAgain) => Some(Interest::READ.once()),
            _ => None,
        }
    }
}

struct Loop<P: Protocol> {
    epoll: Epoll,
    acceptor: Acceptor,
    connections: Slab<Connection<P::Server>>,
    scratch: Scratch,
    trigger: Trigger,
    connections_max: usize,
    workload: &'static P::Workload,
}

impl<P: Protocol> Loop<P> {
    fn new(worker: Worker, config: &'static Config, workload: &'static P::Workload) -> io::Result<Self> {
        let (acceptor, epoll) = Acceptor::with_epoll(worker)?;
        Ok(Self {
            epoll,
            acceptor,
            connections: Slab::new(),
            scratch: Scratch::new(),
            trigger: match config.option(&TRIGGER) {
                "level" => Trigger::Level,
                "oneshot" => Trigger::Once,
                _ => Trigger::Edge,
            },
            connections_max: config.connections_max,
            workload,
        })
    }

    fn run(mut self) -> io::Result<Infallible> {
        loop {
            let count = self.epoll.wait(None)?;
            self.scratch.tick();
            for index in 0..count {
                let ready = self.epoll.ready(index);
                match ready.key.checked_sub(LISTENERS) {
                    Some(listener) => self.accept(listener as usize),
                    None => self.step(ready)?,
                }
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        let room = self.connections_max.saturating_sub(self.connections.len());
        let (epoll, connections) = (&self.epoll, &mut self.connections);
        let interest = self.trigger.first();
        self.acceptor.accept(listener, room, |socket| {
            let entry = connections.vacant_entry();
            epoll.add(&socket, entry.key() as u64, interest).map_err(|_| Limit::Memory)?;
            entry.insert(Connection::new(socket, P::Server::new(self.workload)));
            Ok(())
        });
    }

    fn step(&mut self, ready: Ready) -> io::Result<()> {
        let key = ready.key as usize;
        let connection = &mut self.connections[key];
        let step = connection.step(&mut self.scratch, self.trigger == Trigger::Edge && ready.ended());
        if step == Step::Close {
            drop(self.connections.remove(key));
        } else if let Some(interest) = self.trigger.after(step, ready) {
            self.epoll.change(connection, ready.key, interest)?;
        }
        Ok(())
    }
}
