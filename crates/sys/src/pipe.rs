//! Pipes that another process has made.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// The writing end of a pipe that this process has inherited as descriptor `number`, such that writing to it fails
/// with `WouldBlock` instead of waiting for the reader.
///
/// It is opened once more, because the inherited one may be shared with processes that do want to wait.
///
/// # Errors
/// Where the descriptor is not open, or is none that can be opened by its name, such as a socket.
pub fn inherited(number: u32) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(format!("/proc/self/fd/{number}"))
}
