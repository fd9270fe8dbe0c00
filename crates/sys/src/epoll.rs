//! epoll(7): the parts that servers and the load generator use.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use crate::checked;

/// What to wait for. `EPOLLERR` and `EPOLLHUP` are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(u32);

impl Interest {
    /// There are bytes to receive, or a connection to accept.
    pub const READ: Self = Self(libc::EPOLLIN as u32);
    /// There is room to send.
    pub const WRITE: Self = Self(libc::EPOLLOUT as u32);
    /// Both, edge-triggered. Set once and needs no further call: the write edge comes only after a partial send.
    pub const EDGES: Self =
        Self((libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32 | libc::EPOLLET as u32);

    /// The same, but reported only once, until [`Epoll::change`] rearms it.
    #[must_use]
    pub const fn once(self) -> Self {
        Self(self.0 | libc::EPOLLONESHOT as u32)
    }

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One descriptor that is ready.
#[derive(Clone, Copy)]
pub struct Ready {
    /// The number given when the descriptor was added.
    pub key: u64,
    events: u32,
}

impl Ready {
    /// There is something to receive: bytes, end of stream, or an error.
    pub fn readable(self) -> bool {
        self.events & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }

    /// There is room to send.
    pub fn writable(self) -> bool {
        self.events & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }

    /// The peer has ended its side, or the connection has failed. Keep receiving until a call reports it: no further
    /// edge will come.
    pub fn ended(self) -> bool {
        self.events & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }
}

/// An epoll instance and the buffer for the events of one wait.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
    ready: usize,
}

impl Epoll {
    /// Large batches are cheaper: fewer waits, and the peer is already awake when its reply comes.
    const EVENTS_MAX: usize = 512;

    /// A new instance.
    ///
    /// # Errors
    /// As `epoll_create1(2)`: a limit on descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no memory.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; Self::EVENTS_MAX], ready: 0 })
    }

    /// Another handle of the same instance, for another thread to change what is watched.
    ///
    /// # Errors
    /// A limit on descriptors.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, events: self.events.clone(), ready: 0 })
    }

    /// Watches a descriptor until it is closed.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`: a limit on watches or memory.
    pub fn add(&self, fd: &impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, key, interest)
    }

    /// Changes what is waited for. Also reports a past edge again.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`.
    pub fn change(&self, fd: &impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, key, interest)
    }

    /// Waits until something is ready or `timeout` expires, and returns how many descriptors are ready. The timeout has
    /// nanosecond resolution on Linux 5.11 and later; otherwise it is rounded up to a millisecond.
    ///
    /// # Errors
    /// None with a valid instance; an interrupted wait returns 0.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let result = match timeout {
            None => self.wait_ms(-1),
            Some(timeout) => match self.wait_ns(timeout) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                    // Rounds up: a wait that ends early would be repeated at once.
                    self.wait_ms(timeout.as_nanos().div_ceil(1_000_000) as libc::c_int)
                }
                other => other,
            },
        };
        self.ready = match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        Ok(self.ready)
    }

    fn wait_ms(&mut self, timeout_ms: libc::c_int) -> io::Result<usize> {
        let (events, room) = (self.events.as_mut_ptr(), Self::EVENTS_MAX as libc::c_int);
        // SAFETY: `events` has room for EVENTS_MAX entries.
        checked(unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events, room, timeout_ms) })
            .map(|ready| ready as usize)
    }

    /// By number, because C libraries have a wrapper for this call only since 2022.
    fn wait_ns(&mut self, timeout: Duration) -> io::Result<usize> {
        let time = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let (fd, events, room) = (self.fd.as_raw_fd(), self.events.as_mut_ptr(), Self::EVENTS_MAX);
        let no_mask: *const libc::sigset_t = ptr::null();
        // SAFETY: `events` has room for EVENTS_MAX entries, `time` is valid for the read, and there is no signal mask.
        let ready =
            unsafe { libc::syscall(libc::SYS_epoll_pwait2, fd, events, room, &raw const time, no_mask, 0) };
        if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready as usize) }
    }

    /// An event of the last wait. `index` is below the number that it returned.
    pub fn ready(&self, index: usize) -> Ready {
        let event = self.events[..self.ready][index];
        Ready { key: event.u64, events: event.events }
    }

    fn control(&self, what: libc::c_int, fd: &impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.0, u64: key };
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: `event` is valid for the read.
        checked(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd, &raw mut event) }).map(drop)
    }
}
