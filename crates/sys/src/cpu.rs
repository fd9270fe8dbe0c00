//! Which processors a thread may run on, and the core-to-core latency of two of them.

use std::hint::spin_loop;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::checked;
use crate::clock::monotonic_ns;

/// Round trips in one timed batch: long compared with reading the clock.
const TRIPS: u32 = 500;
/// The shortest of these batches counts, because any disturbance only makes a batch longer.
const BATCHES: u32 = 10;
/// Loads of the line before giving up on the other side: tens of milliseconds, longer than any scheduler keeps it
/// waiting.
const LOOKS_MAX: u32 = 20_000_000;

/// Pins the calling thread, and the threads and processes it starts later, to these processors. An empty list changes
/// nothing.
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
    // The kernel silently drops processors that do not exist or are not allowed, so read back what it set.
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

/// The processors that the calling thread may run on, in ascending order.
///
/// # Errors
/// If there are more of them than a set can hold.
pub fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: as in `pin`.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid for the write of its own size; 0 names the calling thread.
    checked(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: all indices are below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Round-trip time of a cache line between two processors, in nanoseconds. Measuring takes a few milliseconds.
///
/// It determines the cost of a message between programs on these processors. Under a hypervisor it changes at run time:
/// some 100 ns while the host places both on a shared cache, several times that otherwise.
///
/// # Errors
/// As [`pin`]; `InvalidInput` if both are the same; `TimedOut` if other programs never leave both free at the same
/// time.
pub fn round_trip_ns(one: usize, other: usize) -> io::Result<f64> {
    if one == other {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{one} is one processor: name two")));
    }
    let line = Line(AtomicU32::new(0));
    thread::scope(|scope| {
        // Check both first, so that neither side waits for a peer that cannot start.
        scope.spawn(|| pin(&[one, other])).join().expect("it does not panic")?;
        let echo = scope.spawn(|| pin(&[other]).and_then(|()| line.echo()));
        let timer = scope.spawn(|| pin(&[one]).and_then(|()| line.time()));
        echo.join().expect("it does not panic")?;
        timer.join().expect("it does not panic")
    })
}

/// A cache line that two threads pass back and forth: odd numbers go out, and each comes back as the next even one.
/// Aligned to the pairs of lines that processors prefetch.
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    fn time(&self) -> io::Result<f64> {
        let mut shortest_ns = u64::MAX;
        for batch in 0..BATCHES {
            let begin_ns = monotonic_ns();
            for trip in batch * TRIPS..(batch + 1) * TRIPS {
                self.0.store(2 * trip + 1, Ordering::Release);
                self.await_number(2 * trip + 2)?;
            }
            shortest_ns = shortest_ns.min(monotonic_ns() - begin_ns);
        }
        Ok(shortest_ns as f64 / f64::from(TRIPS))
    }

    fn echo(&self) -> io::Result<()> {
        for trip in 0..BATCHES * TRIPS {
            self.await_number(2 * trip + 1)?;
            self.0.store(2 * trip + 2, Ordering::Release);
        }
        Ok(())
    }

    fn await_number(&self, number: u32) -> io::Result<()> {
        for _ in 0..LOOKS_MAX {
            if self.0.load(Ordering::Acquire) == number {
                return Ok(());
            }
            spin_loop();
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the two processors are never free at the same time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_line_takes_some_time_between_two_processors() {
        if let [one, other, ..] = allowed().unwrap()[..] {
            let ns = round_trip_ns(one, other).unwrap();
            assert!((5.0..1e6).contains(&ns), "{ns} ns");
        }
    }

    #[test]
    fn a_distance_takes_two_processors_that_are_there() {
        let here = allowed().unwrap()[0];
        for (one, other) in [(here, here), (here, 100_000), (100_000, here)] {
            assert_eq!(round_trip_ns(one, other).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
