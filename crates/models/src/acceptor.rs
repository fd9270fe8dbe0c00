//! Accepting connections, and refusing those over a limit: for all models with sockets.

use std::fs::File;
use std::io;
use std::thread;
use std::time::Duration;

use sys::epoll::{Epoll, Interest};
use sys::net::{Listener, Listeners, Socket, is_exhausted};

use crate::counts::{Counts, Limit};
use crate::workers::Worker;

/// How long an acceptor sleeps when no descriptor is left, not even to refuse a connection.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);

/// The first key of listeners in an epoll set. Connections have lower keys.
pub(crate) const LISTENERS: u64 = 1 << 63;

/// The listeners of a worker, with what it needs to refuse a connection.
pub(crate) struct Acceptor {
    listeners: Listeners,
    counts: Counts,
    /// A spare descriptor. When all others are used it lets the next connection be accepted and closed. Otherwise that
    /// connection would wait unanswered, and the listener would stay ready.
    spare: Option<File>,
}

impl Acceptor {
    /// Connections accepted at once, before other events are handled.
    const BATCH: usize = 64;

    /// For a model that sleeps in [`Self::wait`].
    ///
    /// Gives the calling thread its own descriptor table. In a shared table another acceptor could take the spare
    /// descriptor that this one has just released.
    pub(crate) fn new(worker: Worker) -> io::Result<Self> {
        sys::process::own_descriptors()?;
        Ok(Self { listeners: worker.listeners, counts: worker.counts, spare: spare_descriptor() })
    }

    /// For a model that learns which listener is ready, and calls [`Self::accept`].
    pub(crate) fn nonblocking(worker: Worker) -> io::Result<Self> {
        worker.listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Self::new(worker)
    }

    /// For a model that waits with epoll. The returned set has the listeners, with keys from [`LISTENERS`] on.
    pub(crate) fn with_epoll(worker: Worker) -> io::Result<(Self, Epoll)> {
        let (acceptor, epoll) = (Self::nonblocking(worker)?, Epoll::new()?);
        for (key, listener) in (LISTENERS..).zip(acceptor.listeners()) {
            epoll.add(listener, key, Interest::READ)?;
        }
        Ok((acceptor, epoll))
    }

    /// The listeners, in the order of the indices that [`Self::accept`] takes.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter()
    }

    /// Waits for a connection.
    pub(crate) fn wait(&mut self) -> Socket {
        loop {
            let accepted = match self.listeners.accept() {
                Err(error) if is_exhausted(&error) => self.accept_with_spare(|this| this.listeners.accept()),
                // The connection ended before it was accepted, or a signal came.
                other => other.map(Some),
            };
            if let Ok(Some(socket)) = accepted {
                return socket;
            }
        }
    }

    /// Counts a connection that [`Self::wait`] returned as accepted or refused.
    pub(crate) fn settle(&self, taken: Result<(), Limit>) {
        match taken {
            Ok(()) => self.counts.take(),
            Err(limit) => self.counts.refuse(limit),
        }
    }

    /// Accepts waiting connections from a listener, at most `room`. Further ones are closed at once, as are those that
    /// `take` refuses.
    pub(crate) fn accept(
        &mut self,
        index: usize,
        mut room: usize,
        mut take: impl FnMut(Socket) -> Result<(), Limit>,
    ) {
        for _ in 0..Self::BATCH {
            let accepted = match self.at(index).accept(true) {
                Err(error) if is_exhausted(&error) => {
                    self.accept_with_spare(|this| this.at(index).accept(true))
                }
                other => other.map(Some),
            };
            let taken = match accepted {
                Ok(Some(_)) if room == 0 => Err(Limit::ConnectionsMax),
                Ok(Some(socket)) => take(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It was refused, or had already ended.
                Ok(None) | Err(_) => continue,
            };
            room -= usize::from(taken.is_ok());
            self.settle(taken);
        }
    }

    fn at(&self, index: usize) -> &Listener {
        self.listeners.iter().nth(index).expect("the index is that of a listener")
    }

    /// Accepts once more with the spare descriptor. If a new spare can be opened afterwards, the connection is kept.
    /// Otherwise it is refused, and the result is None.
    ///
    /// # Errors
    /// `WouldBlock` if no connection waits, or, after a pause, if there is no spare either.
    fn accept_with_spare(
        &mut self,
        accept: impl FnOnce(&mut Self) -> io::Result<Socket>,
    ) -> io::Result<Option<Socket>> {
        let Some(spare) = self.spare.take() else {
            thread::sleep(EXHAUSTED_PAUSE);
            self.spare = spare_descriptor();
            return Err(io::ErrorKind::WouldBlock.into());
        };
        drop(spare);
        let accepted = accept(self);
        self.spare = spare_descriptor();
        if self.spare.is_some() {
            return accepted.map(Some);
        }
        // Closing the connection leaves room for a spare.
        accepted.map(drop)?;
        self.counts.refuse(Limit::Descriptors);
        self.spare = spare_descriptor();
        Ok(None)
    }
}

/// Opens a spare descriptor.
pub(crate) fn spare_descriptor() -> Option<File> {
    File::open("/dev/null").ok()
}
