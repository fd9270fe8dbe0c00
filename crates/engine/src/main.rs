//! `iolab-engine`: the servers and the load generator behind one small command line.
//!
//! A command comes as flags or as one line of JSON; both become the same spec of the crate `contract`, and from there
//! on there is one path. Only `cli.rs` knows flags.

mod check;
mod cli;
mod crowd;
mod describe;
mod distance;
mod failure;
mod files;
mod fold;
mod judgement;
mod like;
mod limits;
mod listen;
mod load;
mod merge;
mod output;
mod owner;
mod rate;
mod report;
mod self_test;
mod serve;
mod summary;
mod supervision;
mod tls;
mod units;
mod url;
mod view;
mod workload;

use std::process::ExitCode;

use cli::Command;

/// The build id of this engine: which sources it is made of.
pub(crate) const BUILD: &str = env!("IOLAB_BUILD");

fn main() -> ExitCode {
    match cli::parse() {
        Ok(Command::Serve(flags)) => serve::command(&flags),
        Ok(Command::Load(flags)) => load::command(&flags),
        Ok(Command::Merge(flags)) => merge::command(&flags),
        Ok(Command::Describe(flags)) => describe::command(&flags),
        Ok(Command::Distance(flags)) => distance::command(&flags),
        Err(code) => code,
    }
}
