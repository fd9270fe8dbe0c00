//! Which processors a thread may run on, and how far apart two of them are.

use std::hint::spin_loop;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::checked;
use crate::clock::monotonic_ns;

/// Round trips that are timed together, long against the reading of a clock.
const TRIPS: u32 = 500;
/// The shortest of so many batches counts: whatever else happens makes one longer, never shorter.
const BATCHES: u32 = 10;
/// Looks at a line before the other side is given up: tens of milliseconds, in which any scheduler comes round.
const LOOKS_MAX: u32 = 20_000_000;

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

/// The processors that the calling thread may run on, in their order.
///
/// # Errors
/// Where there are more of them than a set can hold.
pub fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: as in `pin`.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid for the write of its own size; 0 names the calling thread.
    checked(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: all indices are below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// How long a cache line takes from one processor to the other and back, in nanoseconds; takes a few milliseconds.
///
/// It decides what a message between programs on them costs, and under a hypervisor it changes while they run: some
/// 100 ns where the host has them share a cache, several times that where it has not.
///
/// # Errors
/// As [`pin`]; `InvalidInput` where both are one; `TimedOut` where other programs never leave both at the same time.
pub fn round_trip_ns(one: usize, other: usize) -> io::Result<f64> {
    if one == other {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{one} is one processor: name two")));
    }
    let line = Line(AtomicU32::new(0));
    thread::scope(|scope| {
        // Neither side waits for one that cannot come.
        scope.spawn(|| pin(&[one, other])).join().expect("it does not panic")?;
        let echo = scope.spawn(|| pin(&[other]).and_then(|()| line.echo()));
        let timer = scope.spawn(|| pin(&[one]).and_then(|()| line.time()));
        echo.join().expect("it does not panic")?;
        timer.join().expect("it does not panic")
    })
}

/// A cache line that two threads pass to and fro: odd numbers go out, and each comes back as the next even one. Its
/// alignment is that of the pairs in which processors fetch them.
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
