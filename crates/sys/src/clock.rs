//! Clocks, in nanoseconds. Intervals are only taken between readings of the same clock.

/// CLOCK_MONOTONIC, the same clock as Python's `time.monotonic_ns`, so that the lab can line up its own events.
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Seconds since 1970, from the coarse clock: a few nanoseconds to read, at most one timer tick late.
pub fn unix_s() -> u64 {
    read_ns(libc::CLOCK_REALTIME_COARSE) / 1_000_000_000
}

/// Processor time the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write. The clocks above exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
