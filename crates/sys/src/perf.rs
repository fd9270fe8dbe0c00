//! Counting the syscalls of a process and its descendants.

use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::FromRawFd;

use crate::checked;

/// Counts syscalls from its creation on: of the calling thread, and of all threads and processes it starts afterwards,
/// including those that have ended.
pub struct Calls(File);

const TRACEPOINT: u32 = 2;
const INHERIT: u64 = 1 << 1;
/// The size of `perf_event_attr` in its first version; the kernel treats the rest as zero.
const ATTRIBUTES_BYTES: usize = 64;

#[repr(C)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    period: u64,
    sample: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

impl Calls {
    /// Starts counting.
    ///
    /// # Errors
    /// If the tracepoint cannot be read, or this process may not count. The text says what to do.
    pub fn count() -> io::Result<Self> {
        let attributes = Attributes {
            kind: TRACEPOINT,
            bytes: ATTRIBUTES_BYTES as u32,
            config: entry_point()?,
            period: 0,
            sample: 0,
            read_format: 0,
            flags: INHERIT,
            wakeup: 0,
            breakpoint: 0,
            config1: 0,
        };
        const { assert!(size_of::<Attributes>() == ATTRIBUTES_BYTES) };
        let (this_thread, any_cpu, no_group, close_on_exec) = (0, -1, -1, 8_u64);
        // SAFETY: `attributes` is as long as it says and outlives the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_cpu,
                no_group,
                close_on_exec,
            )
        };
        let fd = checked(fd as libc::c_int).map_err(|error| {
            io::Error::new(error.kind(), format!("syscalls cannot be counted: {error}; it takes CAP_PERFMON"))
        })?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// The count so far.
    ///
    /// # Errors
    /// None with a valid counter.
    pub fn so_far(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.0).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// The ID of the tracepoint at the entry of every syscall.
fn entry_point() -> io::Result<u64> {
    const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let read = |folder| fs::read_to_string(format!("{folder}/events/raw_syscalls/sys_enter/id"));
    let text = FOLDERS.into_iter().find_map(|folder| read(folder).ok());
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        io::Error::other(
            "syscalls cannot be counted: the kernel's trace points cannot be read; as root, mount tracefs on \
             /sys/kernel/tracing",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_this_thread_and_of_threads_it_starts_are_counted() {
        let calls = match Calls::count() {
            Ok(calls) => calls,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let before = calls.so_far().unwrap();
        for _ in 0..100 {
            std::thread::yield_now();
        }
        let own = calls.so_far().unwrap() - before;
        assert!((100..150).contains(&own), "{own} calls for 100");
        std::thread::spawn(|| (0..1000).for_each(|_| std::thread::yield_now())).join().unwrap();
        let all = calls.so_far().unwrap() - before;
        assert!(all >= own + 1000, "{all} calls for {own} and 1000 of a thread");
    }
}
