//! `iolab-engine`: the servers and the load generator behind one small command line.
//!
//! Flags and a line of JSON become the same spec of the crate `contract`. From there on there is one path: only `flags`
//! knows flags.

mod commands;
mod compat;
mod export;
mod failure;
mod flags;
mod output;
mod process;
mod result;
mod spec;
mod units;
mod wrap;

use std::process::ExitCode;

use commands::{describe, distance, load, merge, path, serve};
use flags::Command;

/// The build id of this engine, which identifies its sources.
pub(crate) const BUILD: &str = env!("IOLAB_BUILD");

fn main() -> ExitCode {
    match flags::parse() {
        Ok(Command::Serve(flags)) => serve::command(&flags),
        Ok(Command::Load(flags)) => load::command(&flags),
        Ok(Command::Path(flags)) => path::command(&flags),
        Ok(Command::Merge(flags)) => merge::command(&flags),
        Ok(Command::Describe(flags)) => describe::command(&flags),
        Ok(Command::Distance(flags)) => distance::command(&flags),
        Err(code) => code,
    }
}
