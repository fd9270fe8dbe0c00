//! libevent, as far as servers use it: plain events on descriptors, no buffers and no timers.
//!
//! The dozen functions are declared by hand. A program built where the library is not installed has the same types,
//! of which no value can be made.

#[cfg(libevent)]
mod present;
#[cfg(libevent)]
pub use present::{Base, Event};

#[cfg(not(libevent))]
mod absent;
#[cfg(not(libevent))]
pub use absent::{Base, Event};

/// Ways of waiting that the library has on Linux, by its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Epoll,
    Poll,
    Select,
}

impl Backend {
    pub const ALL: [Self; 3] = [Self::Epoll, Self::Poll, Self::Select];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Poll => "poll",
            Self::Select => "select",
        }
    }
}
