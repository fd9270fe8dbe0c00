//! The ranges of the numbers in a spec, with the reason for each limit. The schemas state these ranges, an engine
//! checks them, and the lab compares its own settings with the schemas. Sizes of messages are limits of `proto`.

use std::ops::RangeInclusive;

/// More threads than machines have processors; a higher number is more likely a typing mistake than a plan.
pub const THREADS: RangeInclusive<usize> = 1..=1024;

/// Enough for five million connections at the usual limit of descriptors.
pub const PROCESSES: RangeInclusive<usize> = 1..=256;

/// Up to the most descriptors that the kernel allows a process by default (`fs.nr_open`).
pub const CONNECTIONS: RangeInclusive<usize> = 1..=1 << 20;

/// As many additional connections.
pub const IDLE: RangeInclusive<usize> = 0..=*CONNECTIONS.end();

/// Threads and connections of all processes together.
pub const PLACE_THREADS: RangeInclusive<usize> = 1..=*PROCESSES.end() * *THREADS.end();
pub const PLACE_CONNECTIONS: RangeInclusive<usize> = 0..=*PROCESSES.end() * *CONNECTIONS.end();

/// More addresses than published servers listen on, and few enough to wait for together.
pub const ADDRESSES: RangeInclusive<usize> = 1..=64;

/// The addresses of as many servers, measured as one.
pub const TARGETS: RangeInclusive<usize> = 1..=*ADDRESSES.end() * *ADDRESSES.end();

/// More local addresses than a million connections need.
pub const SOURCES: RangeInclusive<usize> = 0..=256;

/// Requests outstanding on one connection: more than servers are known to accept before they stop reading.
pub const PIPELINE: RangeInclusive<usize> = 1..=10_000;

/// More would be a load, not a probe: this is ten thousand requests per second.
pub const PROBES: RangeInclusive<usize> = 0..=100;

/// A day at ten million per second.
pub const REQUESTS: RangeInclusive<u64> = 1..=1_000_000_000_000;

/// Up to a day. A longer run shows nothing that several shorter ones do not, and is lost as a whole.
pub const DURATION_MS: RangeInclusive<u64> = 1..=24 * 60 * 60 * 1000;

/// A run may have no warm-up.
pub const WARMUP_MS: RangeInclusive<u64> = 0..=*DURATION_MS.end();

/// Shorter slices would keep the generator busy with reporting.
pub const SLICE_MS: RangeInclusive<u64> = 100..=*DURATION_MS.end();

/// Up to a second: a generator that never sleeps needs less.
pub const SPIN_US: RangeInclusive<u64> = 0..=1_000_000;

/// Up to a second: longer work in one call would stall an event loop.
pub const WORK_NS: RangeInclusive<u64> = 0..=1_000_000_000;

/// Far more than a kernel can send.
pub const RATE_PER_S: RangeInclusive<f64> = 0.0..=1e7;

/// As many steps of a rate as a person can write.
pub const STAGES: RangeInclusive<usize> = 1..=1000;

/// Up to ten seconds one way: beyond that, TCP's own retries decide the result.
pub const DELAY_MS: RangeInclusive<f64> = 0.0..=10_000.0;

/// From a modem to far more than one thread can carry.
pub const RATE_BITS_PER_S: RangeInclusive<f64> = 1e3..=1e10;

/// The maximum is 150 MB with packets of 1,500 bytes, a second of a path of 1.2 Gbit/s.
pub const QUEUE_PACKETS: RangeInclusive<usize> = 1..=100_000;

/// From none to all.
pub const LOSS: RangeInclusive<f64> = 0.0..=1.0;

/// From the length that every IPv4 host must accept to the maximum of the header's length field.
pub const MTU: RangeInclusive<usize> = 576..=65_535;

/// The final statuses of a reply: those below 200 only announce one.
pub const STATUS: RangeInclusive<u16> = 200..=599;
