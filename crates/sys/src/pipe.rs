//! Pipes inherited from another process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// The writing end of a pipe, inherited as descriptor `number`, in nonblocking mode: a write fails with `WouldBlock`
/// instead of waiting for the reader.
///
/// It is opened again, because other processes may share the inherited one and expect blocking writes.
///
/// # Errors
/// If the descriptor is not open, or cannot be reopened, such as a socket.
pub fn inherited(number: u32) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(format!("/proc/self/fd/{number}"))
}
