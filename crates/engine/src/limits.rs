//! Every limit of the engine's own input, with its reason.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::thread;

use proto::http;

use crate::failure::Failure;
use crate::units::counted;

/// The longest body, of which JSON may write each byte as six, and room for the longest of the rest. This keeps a wrong
/// pipe from filling the memory.
pub(crate) const SPEC_BYTES_MAX: u64 = 6 * http::Request::BODY_BYTES_MAX as u64 + 2 * 1024 * 1024;

/// More threads than machines have processors; beyond it a typing mistake is likelier than a plan.
pub(crate) const THREADS_MAX: usize = 1024;

/// Enough for five million connections at the usual limit of descriptors.
pub(crate) const PROCESSES_MAX: usize = 256;

/// The highest number of descriptors a kernel gives a process unless it was told otherwise (`fs.nr_open`).
pub(crate) const CONNECTIONS_MAX: usize = 1 << 20;

/// Descriptors a process needs beside its connections and most listeners: standard streams, rings, pipes.
pub(crate) const DESCRIPTORS_RESERVED: usize = 64;

/// More addresses than the published servers listened on, and few enough to be waited for together.
pub(crate) const LISTENERS_MAX: usize = 64;

/// A day. A longer run says nothing that several shorter ones do not, and is lost as a whole.
pub(crate) const DURATION_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Slices of time a report may hold; at the default length of 20 ms it is over five hours.
pub(crate) const INTERVALS_MAX: u64 = 1_000_000;

/// A day at ten million a second.
pub(crate) const REQUESTS_MAX: u64 = 1_000_000_000_000;

/// Requests outstanding on one connection: more than servers are known to take before they read no further.
pub(crate) const PIPELINE_MAX: usize = 10_000;

/// Ten thousand requests a second are no probe any more.
pub(crate) const PROBES_MAX: usize = 100;

/// Reports of runs that were cut into a million slices, by the dozen.
pub(crate) const REPORTS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Shorter ones would keep the generator busy with telling of itself.
pub(crate) const SLICE_MS_MIN: u64 = 100;

/// More local addresses than a million connections need.
pub(crate) const SOURCES_MAX: usize = 256;

/// A second: whoever never sleeps can say so by less.
pub(crate) const SPIN_US_MAX: u64 = 1_000_000;

/// More than a kernel can send by far.
pub(crate) const RATE_MAX: f64 = 1e7;

/// Steps of a rate that a person can write.
pub(crate) const STAGES_MAX: usize = 1000;

/// Keeps this process on these processors; an empty list leaves it where it is.
///
/// # Errors
/// `no_such_cpu`, where one of them is not there or not allowed.
pub(crate) fn pin(cpus: &[usize]) -> Result<(), Failure> {
    // Counted first: a set that is refused in part has been narrowed to the rest by then.
    let usable = thread::available_parallelism().map_or(1, usize::from);
    sys::cpu::pin(cpus).map_err(|error| {
        let message = format!("{error}; it may use {}, counted from 0", counted(usable, "processor"));
        Failure::machine("no_such_cpu", message)
    })
}

/// How many connections the descriptors of a server with so many listening sockets allow, once their soft limit has
/// been raised. Every table of descriptors has the listeners of all workers, and at most one spare for each.
pub(crate) fn connections_possible(listeners: usize) -> usize {
    let reserved = DESCRIPTORS_RESERVED + 2 * listeners;
    sys::process::descriptors_max().saturating_sub(reserved).max(1)
}

/// Refuses a number outside its range.
///
/// # Errors
/// `bad_number`, with the range.
pub(crate) fn within<T: PartialOrd + Display>(
    name: &str,
    number: T,
    range: RangeInclusive<T>,
) -> Result<(), Failure> {
    if range.contains(&number) {
        return Ok(());
    }
    let message = format!("{name} is {number}; it can be from {} to {}", range.start(), range.end());
    Err(Failure::request("bad_number", message))
}

/// The same for a rate, of which there is no least.
///
/// # Errors
/// `bad_number`.
pub(crate) fn above_zero(name: &str, rate_per_s: f64) -> Result<(), Failure> {
    if rate_per_s > 0.0 && rate_per_s <= RATE_MAX {
        return Ok(());
    }
    let message = format!("{name} is {rate_per_s}; it can be anything above 0, up to {RATE_MAX}");
    Err(Failure::request("bad_number", message))
}
