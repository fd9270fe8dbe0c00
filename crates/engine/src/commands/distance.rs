//! `iolab-engine distance`: the core-to-core latency of two processors, to compare runs on machines where it changes.

use std::io::ErrorKind;
use std::process::ExitCode;

use contract::Role;

use crate::failure::Failure;
use crate::flags::DistanceFlags;
use crate::output;
use crate::process::supervision::{self, Owner};

/// Runs the command: prints nanoseconds.
pub(crate) fn command(flags: &DistanceFlags) -> ExitCode {
    let measured = sys::cpu::round_trip_ns(flags.one, flags.other)
        .map(|ns| output::line(&format!("{ns:.1}")))
        .map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Failure::request("bad_number", error.to_string()),
            _ => Failure::work("failed", error.to_string()),
        });
    supervision::finish(measured, Owner::Person, Role::Load)
}
