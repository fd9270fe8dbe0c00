//! What there is of libevent in a program built without it: types without values.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, RawFd};

use super::Backend;

/// Would be an event loop.
#[derive(Clone, Debug)]
pub struct Base(Infallible);

impl Base {
    /// Says what to do.
    ///
    /// # Errors
    /// Always.
    pub fn new(_backend: Backend) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this program was built without libevent: install libevent-dev and build it again",
        ))
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn event(&self, _fd: &impl AsFd) -> io::Result<Event> {
        match self.0 {}
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn run(&self, _handle: impl FnMut(RawFd) -> io::Result<()>) -> io::Result<Infallible> {
        match self.0 {}
    }
}

/// Would be an event.
#[derive(Debug)]
pub struct Event(Infallible);

impl Event {
    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn change(&mut self, _sending: bool) -> io::Result<()> {
        match self.0 {}
    }
}
