//! The engine's limits besides those of the contract, with their reasons: for texts, and for this machine.

use std::path::Path;
use std::thread;

use proto::http;

use crate::failure::Failure;
use crate::units::counted;

/// The longest body, with up to six bytes of JSON for each byte, and room for the rest of the spec. Keeps a wrong pipe
/// from filling the memory.
pub(crate) const SPEC_BYTES_MAX: u64 = 6 * http::Request::BODY_BYTES_MAX as u64 + 2 * 1024 * 1024;

/// Descriptors that a process needs besides its connections and most listeners: standard streams, rings, pipes.
pub(crate) const DESCRIPTORS_RESERVED: usize = 64;

/// The most slices in a report; at the default length of 20 ms over five hours.
pub(crate) const INTERVALS_MAX: u64 = 1_000_000;

/// Room for a dozen reports with a million slices each.
pub(crate) const REPORTS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Pins this process to these processors; an empty list changes nothing.
///
/// # Errors
/// `no_such_cpu`: one of them does not exist or is not allowed.
pub(crate) fn pin(cpus: &[usize]) -> Result<(), Failure> {
    // Counted first: a partly refused set narrows the affinity.
    let usable = thread::available_parallelism().map_or(1, usize::from);
    sys::cpu::pin(cpus).map_err(|error| {
        let message = format!("{error}; it may use {}, counted from 0", counted(usable, "processor"));
        Failure::machine("no_such_cpu", message)
    })
}

/// Enters the network namespace of a file; None changes nothing.
///
/// # Errors
/// `no_netns`: it is gone or belongs to another user.
pub(crate) fn enter(netns: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = netns else { return Ok(()) };
    sys::netns::enter(path).map_err(|error| {
        let message = format!("cannot enter the network namespace {}: {error}", path.display());
        Failure::work("no_netns", message)
    })
}

/// How many connections a server with this many listening sockets has descriptors for, after raising the soft limit.
/// Each descriptor table has the listeners of all workers, and at most one spare for each.
pub(crate) fn connections_possible(listeners: usize) -> usize {
    let reserved = DESCRIPTORS_RESERVED + 2 * listeners;
    sys::process::descriptors_max().saturating_sub(reserved).max(1)
}
