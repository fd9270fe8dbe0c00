//! Which processors a thread may run on.

use std::io;
use std::mem;

use crate::checked;

/// Keeps the calling thread, and the threads and processes it starts later, on these processors.
/// An empty list leaves it where it is.
///
/// # Errors
/// `InvalidInput` if one of them does not exist or is not allowed here.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    // SAFETY: a cpu_set_t is a plain array of bits, for which all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no processor {cpu}")));
        }
        // SAFETY: the index is below CPU_SETSIZE, as just checked.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is valid for the read of its own size; 0 names the calling thread.
    checked(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot run on processors {cpus:?}: {error}"))
    })?;
    // The kernel leaves out, without a word, those that are not there or not allowed, so it is asked what it took.
    // SAFETY: `set` is valid for the write of its own size.
    checked(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: all indices are below CPU_SETSIZE, as checked above.
    match cpus.iter().find(|&&cpu| !unsafe { libc::CPU_ISSET(cpu, &set) }) {
        Some(cpu) => {
            let text = format!("processor {cpu} is not there, or not allowed for this process");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        None => Ok(()),
    }
}
