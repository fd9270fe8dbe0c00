//! An event loop with level-triggered readiness: for select, poll and libevent.
//!
//! The model waits in its own way and calls [`EventLoop::handle_ready`] for each ready descriptor. These interfaces
//! only return descriptor numbers, so connections are found by them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use proto::{Protocol, Server};

use crate::Config;
use crate::acceptor::Acceptor;
use crate::counts::Limit;
use crate::readiness::{Connection, Step};
use crate::scratch::Scratch;
use crate::workers::Worker;

/// A set of watched descriptors: select, poll or libevent.
pub(crate) trait Watch {
    /// Watches a descriptor for input.
    fn add(&mut self, fd: &impl AsFd) -> Result<(), Limit>;

    /// Watches it for room to send instead of input, or for input again.
    fn change(&mut self, fd: RawFd, sending: bool) -> io::Result<()>;

    /// Stops watching it. It is about to be closed.
    fn remove(&mut self, fd: RawFd);
}

/// A worker without its way of waiting.
pub(crate) struct EventLoop<P: Protocol, W> {
    pub(crate) watch: W,
    acceptor: Acceptor,
    /// The use of each descriptor, by its number. The kernel assigns the lowest free number.
    entries: Vec<Entry<P::Server>>,
    open: usize,
    scratch: Scratch,
    connections_max: usize,
    /// How many connections the model's set has room for.
    set_max: usize,
    workload: &'static P::Workload,
}

/// The use of a descriptor.
enum Entry<S> {
    /// Not ours.
    None,
    Listener(usize),
    /// A connection, and whether it is watched for room to send.
    Connection(Connection<S>, bool),
}

impl<P: Protocol, W: Watch> EventLoop<P, W> {
    /// `set_max`: how many connections the model's set has room for, if that is limited.
    pub(crate) fn new(
        worker: Worker,
        mut watch: W,
        set_max: Option<usize>,
        config: &Config,
        workload: &'static P::Workload,
    ) -> io::Result<Self> {
        // The worker has its own descriptor table, which also keeps the numbers small.
        let acceptor = Acceptor::nonblocking(worker)?;
        let mut entries = Vec::new();
        for (index, listener) in acceptor.listeners().enumerate() {
            watch.add(listener).map_err(|_| io::Error::other("there is no room to watch a listener"))?;
            *entry(&mut entries, listener) = Entry::Listener(index);
        }
        Ok(Self {
            watch,
            acceptor,
            entries,
            open: 0,
            scratch: Scratch::new(),
            connections_max: config.connections_max,
            set_max: set_max.unwrap_or(usize::MAX),
            workload,
        })
    }

    /// Updates the date of the replies. Call it at every wake-up.
    pub(crate) fn tick(&mut self) {
        self.scratch.tick();
    }

    /// Serves a ready descriptor.
    pub(crate) fn handle_ready(&mut self, fd: RawFd) -> io::Result<()> {
        let (connection, sending) = match &mut self.entries[fd as usize] {
            Entry::Connection(connection, sending) => (connection, sending),
            &mut Entry::Listener(index) => {
                self.accept(index);
                return Ok(());
            }
            Entry::None => return Ok(()),
        };
        let step = connection.step(&mut self.scratch, false);
        if step == Step::Close {
            self.watch.remove(fd);
            self.entries[fd as usize] = Entry::None;
            self.open -= 1;
        } else if *sending != matches!(step, Step::Send | Step::SendAgain) {
            *sending = !*sending;
            self.watch.change(fd, *sending)?;
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) {
        let room = self.connections_max.saturating_sub(self.open);
        let (watch, entries, open) = (&mut self.watch, &mut self.entries, &mut self.open);
        self.acceptor.accept(listener, room, |socket| {
            if *open == self.set_max {
                return Err(Limit::SetSize);
            }
            watch.add(&socket)?;
            *open += 1;
            let entry = entry(entries, &socket);
            *entry = Entry::Connection(Connection::new(socket, P::Server::new(self.workload)), false);
            Ok(())
        });
    }
}

/// The entry of a descriptor, made if there is none.
fn entry<'a, S>(entries: &'a mut Vec<Entry<S>>, fd: &impl AsFd) -> &'a mut Entry<S> {
    let index = fd.as_fd().as_raw_fd() as usize;
    if entries.len() <= index {
        entries.resize_with(index + 1, || Entry::None);
    }
    &mut entries[index]
}
