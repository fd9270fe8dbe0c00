//! libevent: the parts that servers use, which are plain events on descriptors, without buffers or timers.
//!
//! The library is compiled into this crate from `vendor/libevent`. Its dozen functions are declared by hand.

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::{c_char, c_int, c_short, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::rc::Rc;

/// The library's backends on Linux, by its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Epoll,
    Poll,
    Select,
}

impl Backend {
    pub const ALL: [Self; 3] = [Self::Epoll, Self::Poll, Self::Select];

    /// The library's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Poll => "poll",
            Self::Select => "select",
        }
    }
}

/// A single-threaded event loop. A clone is another handle of the same loop.
#[derive(Clone, Debug)]
pub struct Base(Rc<Shared>);

/// Events point to this, so it must not move.
#[derive(Debug)]
struct Shared {
    base: NonNull<RawBase>,
    /// The handler for ready descriptors: points to a `&mut dyn FnMut(RawFd)` while [`Base::run`] runs.
    handle: Cell<*mut c_void>,
}

impl Base {
    /// A loop with this backend and no other.
    ///
    /// # Errors
    /// `Unsupported` if the backend is unavailable; a limit on descriptors.
    pub fn new(backend: Backend) -> io::Result<Self> {
        // SAFETY: the configuration allocated here is freed below; names are C strings that outlive the calls.
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

    /// Watches a descriptor for input while the event lives. Drop the event before closing the descriptor.
    ///
    /// # Errors
    /// `OutOfMemory`, or the backend's own error.
    pub fn event(&self, fd: &impl AsFd) -> io::Result<Event> {
        let fd = fd.as_fd().as_raw_fd();
        let shared = Rc::as_ptr(&self.0).cast_mut().cast();
        // SAFETY: `self` keeps the base alive; the event below holds `shared`, which therefore outlives it.
        let raw = unsafe { event_new(self.0.base.as_ptr(), fd, INPUT, on_ready, shared) };
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        let event = Event { raw, fd, shared: Rc::clone(&self.0) };
        event.begin().map(|()| event)
    }

    /// Waits, and calls `handle` for each ready descriptor, until it fails.
    ///
    /// # Errors
    /// The error of `handle`; an error of the library's wait; or that there is nothing to wait for.
    ///
    /// # Panics
    /// If `handle` calls it.
    pub fn run(&self, mut handle: impl FnMut(RawFd) -> io::Result<()>) -> io::Result<Infallible> {
        assert!(self.0.handle.get().is_null(), "a loop does not run within itself");
        let (base, mut failure) = (self.0.base.as_ptr(), None);
        let mut handle = |fd| {
            if let Err(error) = handle(fd) {
                failure = Some(error);
                // SAFETY: the base lives, and a handler may break the loop.
                unsafe { event_base_loopbreak(base) };
            }
        };
        let mut handle: &mut dyn FnMut(RawFd) = &mut handle;
        self.0.handle.set((&raw mut handle).cast());
        // SAFETY: the base lives; `handle` lives until the call returns, and is not called afterwards.
        let result = unsafe { event_base_loop(base, 0) };
        self.0.handle.set(ptr::null_mut());
        let why = if result < 0 { "libevent cannot wait" } else { "libevent has nothing to wait for" };
        Err(failure.unwrap_or_else(|| io::Error::other(why)))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: every event and every handle that could run the loop held this value, so all are gone.
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
        // SAFETY: a deleted event may be assigned again; its base and `shared` live, as in `Base::event`.
        let result = unsafe {
            event_del(self.raw.as_ptr());
            event_assign(self.raw.as_ptr(), self.shared.base.as_ptr(), self.fd, what, on_ready, shared)
        };
        if result == 0 { self.begin() } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn begin(&self) -> io::Result<()> {
        // SAFETY: the event is assigned; a null pointer means no timeout.
        match unsafe { event_add(self.raw.as_ptr(), ptr::null()) } {
            0 => Ok(()),
            _ => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it came from `event_new` and is freed once. Freeing removes it from the loop first, which is allowed
        // even inside its own callback.
        unsafe { event_free(self.raw.as_ptr()) };
    }
}

/// Called by the library. A panic in it ends the process, because it cannot unwind through C frames.
unsafe extern "C" fn on_ready(fd: c_int, _what: c_short, shared: *mut c_void) {
    // SAFETY: the event that passes the pointer keeps its target alive.
    let handle = unsafe { (*shared.cast::<Shared>()).handle.get() };
    // SAFETY: events are only handled within `Base::run`, which has set the pointer to its own reference. Calls do not
    // nest: the library never runs a loop within itself.
    let handle = unsafe { &mut *handle.cast::<&mut dyn FnMut(RawFd)>() };
    handle(fd);
}

/// Only this thread uses the base; environment variables do not change the backend; changes to watched descriptors are
/// collected until the next wait.
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

    /// Finds each of a few descriptors ready for input, then for sending, and then no longer watches them.
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
