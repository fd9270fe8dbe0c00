//! libevent, as far as servers use it: plain events on descriptors, no buffers and no timers.
//!
//! The library is compiled into this crate from `vendor/libevent`. The dozen functions are declared by hand.

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::{c_char, c_int, c_short, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::rc::Rc;

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

/// An event loop of one thread. A clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct Base(Rc<Shared>);

/// What events point to, and so must not move.
#[derive(Debug)]
struct Shared {
    base: NonNull<RawBase>,
    /// What to call for a descriptor that is ready: points to a `&mut dyn FnMut(RawFd)` while [`Base::run`] runs.
    handle: Cell<*mut c_void>,
}

impl Base {
    /// A loop that waits in this way and no other.
    ///
    /// # Errors
    /// `Unsupported` where it cannot wait in this way; a limit on descriptors.
    pub fn new(backend: Backend) -> io::Result<Self> {
        // SAFETY: what is allocated here is freed below; names are C strings that live long enough.
        let base = unsafe {
            let Some(config) = NonNull::new(event_config_new()) else {
                return Err(io::ErrorKind::OutOfMemory.into());
            };
            for other in [c"epoll", c"poll", c"select"] {
                if other.to_bytes() != backend.name().as_bytes() {
                    event_config_avoid_method(config.as_ptr(), other.as_ptr());
                }
            }
            event_config_set_flag(config.as_ptr(), FLAGS);
            let base = event_base_new_with_config(config.as_ptr());
            event_config_free(config.as_ptr());
            base
        };
        let Some(base) = NonNull::new(base) else {
            let text = format!("libevent cannot wait with {} here", backend.name());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        Ok(Self(Rc::new(Shared { base, handle: Cell::new(ptr::null_mut()) })))
    }

    /// Watches a descriptor for input, for as long as the event lives, which must end before the descriptor is closed.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the library's way of waiting has against it.
    pub fn event(&self, fd: &impl AsFd) -> io::Result<Event> {
        let fd = fd.as_fd().as_raw_fd();
        let shared = Rc::as_ptr(&self.0).cast_mut().cast();
        // SAFETY: the base lives, for `self` holds it; `shared` lives as long as the event, which holds it below.
        let raw = unsafe { event_new(self.0.base.as_ptr(), fd, INPUT, on_ready, shared) };
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        let event = Event { raw, fd, shared: Rc::clone(&self.0) };
        event.begin().map(|()| event)
    }

    /// Waits, and calls `handle` for each descriptor that is ready, until it fails.
    ///
    /// # Errors
    /// Its error; what keeps the library from waiting; or that there is nothing to wait for.
    ///
    /// # Panics
    /// If it is called by what it calls.
    pub fn run(&self, mut handle: impl FnMut(RawFd) -> io::Result<()>) -> io::Result<Infallible> {
        assert!(self.0.handle.get().is_null(), "a loop does not run within itself");
        let (base, mut failure) = (self.0.base.as_ptr(), None);
        let mut handle = |fd| {
            if let Err(error) = handle(fd) {
                failure = Some(error);
                // SAFETY: the base lives, and breaking off its loop is what a handler may do.
                unsafe { event_base_loopbreak(base) };
            }
        };
        let mut handle: &mut dyn FnMut(RawFd) = &mut handle;
        self.0.handle.set((&raw mut handle).cast());
        // SAFETY: the base lives; `handle` does until the call has returned, and nothing is called after that.
        let result = unsafe { event_base_loop(base, 0) };
        self.0.handle.set(ptr::null_mut());
        let why = if result < 0 { "libevent cannot wait" } else { "libevent has nothing to wait for" };
        Err(failure.unwrap_or_else(|| io::Error::other(why)))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: all events are gone, for each held this; and so is whoever could run the loop.
        unsafe { event_base_free(self.base.as_ptr()) };
    }
}

/// A descriptor that is watched.
#[derive(Debug)]
pub struct Event {
    raw: NonNull<RawEvent>,
    fd: RawFd,
    shared: Rc<Shared>,
}

impl Event {
    /// Watches for room to send instead of input, or the other way round.
    ///
    /// # Errors
    /// As [`Base::event`].
    pub fn change(&mut self, sending: bool) -> io::Result<()> {
        let what = if sending { ROOM } else { INPUT };
        let shared = Rc::as_ptr(&self.shared).cast_mut().cast();
        // SAFETY: an event may be assigned again once it is deleted; what it refers to lives, as in `Base::event`.
        let result = unsafe {
            event_del(self.raw.as_ptr());
            event_assign(self.raw.as_ptr(), self.shared.base.as_ptr(), self.fd, what, on_ready, shared)
        };
        if result == 0 { self.begin() } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn begin(&self) -> io::Result<()> {
        // SAFETY: the event is assigned; a null pointer says that it has no time limit.
        match unsafe { event_add(self.raw.as_ptr(), ptr::null()) } {
            0 => Ok(()),
            _ => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it came from `event_new` and is freed once. This takes it out of the loop first, and is allowed while
        // it is being handled.
        unsafe { event_free(self.raw.as_ptr()) };
    }
}

/// Called by the library. A panic in it ends the process: it cannot pass through the frames of the library.
unsafe extern "C" fn on_ready(fd: c_int, _what: c_short, shared: *mut c_void) {
    // SAFETY: the event that brings the pointer holds what it points to.
    let handle = unsafe { (*shared.cast::<Shared>()).handle.get() };
    // SAFETY: events are only handled within `Base::run`, which has set the pointer to a reference of its own; calls do
    // not nest, for the library does not run a loop within itself.
    let handle = unsafe { &mut *handle.cast::<&mut dyn FnMut(RawFd)>() };
    handle(fd);
}

/// Only this thread uses the base; the environment does not change how it waits; and changes of what it waits for are
/// collected until it waits.
const FLAGS: c_int = 0x01 | 0x02 | 0x10;

const INPUT: c_short = 0x02 | PERSIST;
const ROOM: c_short = 0x04 | PERSIST;
const PERSIST: c_short = 0x10;

#[repr(C)]
struct RawBase([u8; 0]);
#[repr(C)]
struct RawConfig([u8; 0]);
#[repr(C)]
struct RawEvent([u8; 0]);

type Callback = unsafe extern "C" fn(c_int, c_short, *mut c_void);

unsafe extern "C" {
    fn event_config_new() -> *mut RawConfig;
    fn event_config_free(config: *mut RawConfig);
    fn event_config_avoid_method(config: *mut RawConfig, method: *const c_char) -> c_int;
    fn event_config_set_flag(config: *mut RawConfig, flag: c_int) -> c_int;
    fn event_base_new_with_config(config: *const RawConfig) -> *mut RawBase;
    fn event_base_free(base: *mut RawBase);
    fn event_base_loop(base: *mut RawBase, flags: c_int) -> c_int;
    fn event_base_loopbreak(base: *mut RawBase) -> c_int;
    fn event_new(
        base: *mut RawBase,
        fd: c_int,
        what: c_short,
        callback: Callback,
        argument: *mut c_void,
    ) -> *mut RawEvent;
    fn event_assign(
        event: *mut RawEvent,
        base: *mut RawBase,
        fd: c_int,
        what: c_short,
        callback: Callback,
        argument: *mut c_void,
    ) -> c_int;
    fn event_add(event: *mut RawEvent, timeout: *const libc::timeval) -> c_int;
    fn event_del(event: *mut RawEvent) -> c_int;
    fn event_free(event: *mut RawEvent);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn every_way_of_waiting_finds_input_and_then_room_to_send() {
        Backend::ALL.into_iter().for_each(check);
    }

    /// Has each of a few descriptors found ready for input, then for sending, and then watched no longer.
    fn check(backend: Backend) {
        let pairs: Vec<_> = (0..10).map(|_| UnixStream::pair().expect("a pair of sockets")).collect();
        let base = Base::new(backend).expect("it waits in each way");
        let mut events: Vec<_> =
            pairs.iter().map(|(ours, _)| (Some(base.event(ours).expect("it watches")), 0)).collect();
        for (_, theirs) in &pairs {
            let mut theirs = theirs;
            theirs.write_all(b"x").expect("it fits");
        }
        let error = base.run(|fd| {
            let index = pairs.iter().position(|(ours, _)| ours.as_raw_fd() == fd).expect("it is ours");
            let (event, times) = &mut events[index];
            *times += 1;
            match times {
                1 => event.as_mut().expect("it is there").change(true).expect("it watches"),
                2 => {
                    (&pairs[index].0).read_exact(&mut [0]).expect("a byte is there");
                    *event = None;
                }
                _ => panic!("{fd} was handled although it is watched no longer"),
            }
            Ok(())
        });
        let nothing_left = error.expect_err("nothing is left to wait for").to_string();
        assert!(nothing_left.contains("nothing to wait for"), "{nothing_left}");
        assert!(events.iter().all(|(_, times)| *times == 2), "{backend:?}: {events:?}");
    }
}
