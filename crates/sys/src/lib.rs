//! The only way to the kernel: every syscall of the engine that the standard library does not offer.
//!
//! All `unsafe` code of the project is in this crate, in short blocks behind safe functions. Callers cannot cause
//! memory errors. As in every Unix program, a stale number, such as a closed descriptor or slot, can still reach the
//! wrong connection.

pub mod clock;
pub mod cpu;
pub mod epoll;
pub mod libevent;
pub mod net;
pub mod netns;
pub mod perf;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod ring;
pub mod select;
pub mod shared;
pub mod stacks;
pub mod steer;
pub mod tun;

use std::io;

/// Turns the -1 of a C call into the error in `errno`.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
