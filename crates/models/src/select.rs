//! select: the event loop before epoll. Every wait passes a bitmap of all connections to the kernel, and gets back a
//! bitmap of the ready ones.
//!
//! The kernel and the program scan all bits up to the highest descriptor, so the cost of a wait grows with the number
//! of connections, idle ones included. With `set=fixed` the bitmap has 1,024 bits, as in the C library. The kernel
//! accepts a longer one, which is `set=big`.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, RawFd};

use proto::Protocol;
use sys::select::{FD_SETSIZE, Select};

use crate::counts::Limit;
use crate::event_loop::{EventLoop, Watch};
use crate::workers::{Worker, spread};
use crate::{ACCEPT, Config, Model, ModelOption, Values};

pub(crate) const MODEL: Model = Model {
    about: "an event loop that passes all connections to select at every wait, as bits",
    options: &[SET, ACCEPT],
    connections_per_worker,
    ..Model::DEFAULT
};

const SET: ModelOption = ModelOption {
    name: "set",
    values: Values::Words(&["fixed", "big"]),
    about: "whether the set has the C library's 1,024 bits, or as many as the descriptors need",
    defects: &[],
};

/// Connections in a set of [`FD_SETSIZE`]. The rest of the set is for listeners and other descriptors of the process.
pub(crate) const FIXED_MAX: usize = FD_SETSIZE - 24;

fn connections_per_worker(config: &Config) -> Option<usize> {
    is_fixed(config).then_some(FIXED_MAX)
}

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| {
        let select = Select::new(if is_fixed(config) { FD_SETSIZE } else { usize::MAX });
        let set_max = connections_per_worker(config);
        let mut events = EventLoop::<P, Select>::new(worker, select, set_max, config, workload)?;
        loop {
            events.watch.wait()?;
            events.tick();
            while let Some(fd) = events.watch.next_ready() {
                events.handle_ready(fd)?;
            }
        }
    })
}

fn is_fixed(config: &Config) -> bool {
    config.option(&SET) == "fixed"
}

impl Watch for Select {
    fn add(&mut self, fd: &impl AsFd) -> Result<(), Limit> {
        self.add(fd).map_err(|_| Limit::SetSize)
    }

    fn change(&mut self, fd: RawFd, sending: bool) -> io::Result<()> {
        self.change(fd, sending);
        Ok(())
    }

    fn remove(&mut self, fd: RawFd) {
        self.remove(fd);
    }
}
