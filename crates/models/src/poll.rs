//! poll: like select, but with a list of descriptors and their events instead of a bitmap.
//!
//! Descriptor numbers have no limit, and a few high numbers cost no more than others. But the list takes eight bytes
//! for each connection instead of a bit or two, and all of it is copied and scanned at every wait.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, RawFd};

use proto::Protocol;
use sys::poll::Poll;

use crate::counts::Limit;
use crate::event_loop::{EventLoop, Watch};
use crate::workers::{Worker, spread};
use crate::{ACCEPT, Config, Model};

pub(crate) const MODEL: Model = Model {
    about: "an event loop that passes all connections to poll at every wait, as a list",
    options: &[ACCEPT],
    ..Model::DEFAULT
};

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| {
        let mut events = EventLoop::<P, Poll>::new(worker, Poll::new(), None, config, workload)?;
        loop {
            events.watch.wait()?;
            events.tick();
            while let Some(fd) = events.watch.next_ready() {
                events.handle_ready(fd)?;
            }
        }
    })
}

impl Watch for Poll {
    fn add(&mut self, fd: &impl AsFd) -> Result<(), Limit> {
        self.add(fd);
        Ok(())
    }

    fn change(&mut self, fd: RawFd, sending: bool) -> io::Result<()> {
        self.change(fd, sending);
        Ok(())
    }

    fn remove(&mut self, fd: RawFd) {
        self.remove(fd);
    }
}
