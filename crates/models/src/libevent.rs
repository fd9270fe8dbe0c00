//! libevent: the event loop of a C library, which calls back for each ready descriptor.
//!
//! Many servers are built on this loop. The model uses plain events, not the library's buffers, so it does what `epoll`
//! with `trigger=level` does, plus the library's bookkeeping. `backend` is the syscall that it waits with.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use proto::Protocol;
use sys::libevent::{Backend, Base, Event};
use sys::select::FD_SETSIZE;

use crate::counts::Limit;
use crate::event_loop::{EventLoop, Watch};
use crate::select::FIXED_MAX;
use crate::workers::{Worker, spread};
use crate::{ACCEPT, Config, Model, ModelOption, Values};

pub(crate) const MODEL: Model = Model {
    about: "the event loop of the library libevent 2.1.12, built in, with a callback for each ready connection",
    options: &[BACKEND, ACCEPT],
    connections_per_worker,
    missing_features,
    ..Model::DEFAULT
};

const BACKEND: ModelOption = ModelOption {
    name: "backend",
    values: Values::Words(&[Backend::Epoll.name(), Backend::Poll.name(), Backend::Select.name()]),
    about: "the syscall that the library waits with",
    defects: &[],
};

fn connections_per_worker(config: &Config) -> Option<usize> {
    (backend(config) == Backend::Select).then_some(FIXED_MAX)
}

fn missing_features(config: &Config) -> io::Result<Vec<String>> {
    Base::new(backend(config)).map(|_| Vec::new())
}

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| {
        let base = Base::new(backend(config))?;
        let watch = Events { base: base.clone(), events: Vec::new(), end: end(config) };
        let set_max = connections_per_worker(config);
        let mut events = EventLoop::<P, Events>::new(worker, watch, set_max, config, workload)?;
        base.run(|fd| {
            // The library does not report when a wake-up begins. Reading the clock for each call is cheap enough.
            events.tick();
            events.handle_ready(fd)
        })
    })
}

fn backend(config: &Config) -> Backend {
    let name = config.option(&BACKEND);
    Backend::ALL.into_iter().find(|backend| backend.name() == name).expect("options are checked")
}

/// The first descriptor that cannot be watched. The library's bitmaps for select grow, but the C library of
/// distributions ends a program that sets a bit beyond its own size.
fn end(config: &Config) -> usize {
    if backend(config) == Backend::Select { FD_SETSIZE } else { usize::MAX }
}

/// The events of a worker, indexed by descriptor.
struct Events {
    base: Base,
    events: Vec<Option<Event>>,
    end: usize,
}

impl Watch for Events {
    fn add(&mut self, fd: &impl AsFd) -> Result<(), Limit> {
        let index = fd.as_fd().as_raw_fd() as usize;
        if index >= self.end {
            return Err(Limit::SetSize);
        }
        if self.events.len() <= index {
            self.events.resize_with(index + 1, || None);
        }
        self.events[index] = Some(self.base.event(fd).map_err(|_| Limit::Memory)?);
        Ok(())
    }

    fn change(&mut self, fd: RawFd, sending: bool) -> io::Result<()> {
        self.events[fd as usize].as_mut().expect("it was added").change(sending)
    }

    fn remove(&mut self, fd: RawFd) {
        self.events[fd as usize] = None;
    }
}
