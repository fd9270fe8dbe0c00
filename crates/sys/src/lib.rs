//! The only door to the kernel: every syscall the engine makes that the standard library does not offer.
//!
//! All `unsafe` code of the project is in this crate, in short blocks behind safe functions. What the callers
//! see cannot be misused into memory errors. A number that outlives what it named, a descriptor or a slot, can still
//! reach the wrong connection, as in every program on Unix.

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

/// Turns the -1 of a C call into the error it left in `errno`.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
