//! Counters that a process shares with the children it forks.

use std::io;
use std::ptr;
use std::slice;
use std::sync::atomic::AtomicU64;

/// `count` counters, all zero, in memory shared by this process and its future children. They live as long as the
/// process.
///
/// # Errors
/// If there is no memory.
pub fn counters(count: usize) -> io::Result<&'static [AtomicU64]> {
    let bytes = count.max(1) * size_of::<AtomicU64>();
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is page-aligned, never unmapped, large enough for `count` counters and all zeroes, which is a
    // valid counter. It is only accessed atomically.
    Ok(unsafe { slice::from_raw_parts(start.cast(), count) })
}
