//! The engine's limits beside those of the contract, with their reasons: of texts, and of this machine.

use std::path::Path;
use std::thread;

use proto::http;

use crate::failure::Failure;
use crate::units::counted;

/// The longest body, of which JSON may write each byte as six, and room for the longest of the rest. This keeps a wrong
/// pipe from filling the memory.
pub(crate) const SPEC_BYTES_MAX: u64 = 6 * http::Request::BODY_BYTES_MAX as u64 + 2 * 1024 * 1024;

/// Descriptors a process needs beside its connections and most listeners: standard streams, rings, pipes.
pub(crate) const DESCRIPTORS_RESERVED: usize = 64;

/// Slices of time a report may hold; at the default length of 20 ms it is over five hours.
pub(crate) const INTERVALS_MAX: u64 = 1_000_000;

/// Reports of runs that were cut into a million slices, by the dozen.
pub(crate) const REPORTS_BYTES_MAX: u64 = 256 * 1024 * 1024;

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

/// Enters a network namespace, given by its file; without one this process stays where it is.
///
/// # Errors
/// `no_netns`, where it is gone or another user's.
pub(crate) fn enter(netns: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = netns else { return Ok(()) };
    sys::netns::enter(path).map_err(|error| {
        let message = format!("cannot enter the network namespace {}: {error}", path.display());
        Failure::work("no_netns", message)
    })
}

/// How many connections the descriptors of a server with so many listening sockets allow, once their soft limit has
/// been raised. Every table of descriptors has the listeners of all workers, and at most one spare for each.
pub(crate) fn connections_possible(listeners: usize) -> usize {
    let reserved = DESCRIPTORS_RESERVED + 2 * listeners;
    sys::process::descriptors_max().saturating_sub(reserved).max(1)
}
