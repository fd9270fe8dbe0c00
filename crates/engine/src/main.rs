//! `iolab-engine`: the servers and the load generator behind one small command line.
//!
//! A command comes as flags or as one line of JSON; both become the same spec, and from there on there is one
//! path. `contract.rs` is the only file that knows JSON, `cli.rs` the only one that knows flags.

mod cli;
mod contract;
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
