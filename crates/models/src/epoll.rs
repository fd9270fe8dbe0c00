//! epoll: one thread asks the kernel which of its connections are ready, and serves those.
//!
//! By default edges are reported: a connection is registered once, with all it will ever wait for, and costs no
//! further `epoll_ctl`; the kernel need not look at it again after each event. With `trigger=level` it is reported
//! for as long as it is ready, and what to wait for changes with a system call.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;

use proto::{Protocol, Server};
use slab::Slab;
use sys::epoll::{Epoll, Interest, Ready};

use crate::readiness::{Acceptor, Connection, Step};
use crate::scratch::Scratch;
use crate::workers::spread;
use crate::{Choice, Config, Holds};

pub(crate) const ABOUT: &str = "an event loop that asks epoll which connections are ready";
pub(crate) const OPTIONS: &[Choice] = &[TRIGGER];
pub(crate) const HOLDS: Holds = Holds::Many;
pub(crate) use crate::lacks_nothing as lacks;

const TRIGGER: Choice = Choice {
    name: "trigger",
    values: &["edge", "level"],
    about: "whether readiness is reported when it begins, or for as long as it lasts",
};

/// The listener's key: no connection has it.
const LISTENER: u64 = u64::MAX;

pub(crate) fn serve<P: Protocol>(
    listeners: Vec<TcpListener>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(listeners, config, move |listener| Worker::<P>::new(listener, config, workload)?.run())
}

struct Worker<P: Protocol> {
    epoll: Epoll,
    acceptor: Acceptor,
    connections: Slab<Connection<P::Server>>,
    scratch: Scratch,
    edges: bool,
    connections_max: usize,
    workload: &'static P::Workload,
}

impl<P: Protocol> Worker<P> {
    fn new(
        listener: TcpListener,
        config: &'static Config,
        workload: &'static P::Workload,
    ) -> io::Result<Self> {
        sys::process::own_descriptors()?;
        let (epoll, acceptor) = (Epoll::new()?, Acceptor::new(listener)?);
        epoll.add(&acceptor, LISTENER, Interest::READ)?;
        Ok(Self {
            epoll,
            acceptor,
            connections: Slab::new(),
            scratch: Scratch::new(),
            edges: config.choice(&TRIGGER) == "edge",
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
                if ready.key == LISTENER { self.accept() } else { self.step(ready)? }
            }
        }
    }

    fn accept(&mut self) {
        let room = self.connections_max.saturating_sub(self.connections.len());
        let (epoll, connections) = (&self.epoll, &mut self.connections);
        let interest = if self.edges { Interest::EDGES } else { Interest::READ };
        self.acceptor.accept(room, |socket| {
            let entry = connections.vacant_entry();
            // Where the system has no room for another watch, the connection is refused by dropping it.
            if epoll.add(&socket, entry.key() as u64, interest).is_ok() {
                entry.insert(Connection::new(socket, P::Server::new(self.workload)));
            }
        });
    }

    fn step(&mut self, ready: Ready) -> io::Result<()> {
        let key = ready.key as usize;
        let connection = &mut self.connections[key];
        let step = connection.step(&mut self.scratch, self.edges && ready.ended());
        match step {
            Step::Close => drop(self.connections.remove(key)),
            // An edge that was seen is not reported again unless it is asked for again.
            Step::Again if self.edges => self.epoll.change(connection, ready.key, Interest::EDGES)?,
            Step::Send if !self.edges && !ready.writable() => {
                self.epoll.change(connection, ready.key, Interest::WRITE)?;
            }
            Step::Receive | Step::Again if !self.edges && ready.writable() => {
                self.epoll.change(connection, ready.key, Interest::READ)?;
            }
            Step::Receive | Step::Send | Step::Again => {}
        }
        Ok(())
    }
}
