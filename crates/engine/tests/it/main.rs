//! The engine as its users run it. One test program, because linking twenty would take most of the build.

mod bound;
mod build_id;
mod command_line;
mod common;
mod conformance;
mod defects;
mod files;
mod implementation;
mod like;
mod limits;
mod load;
mod load_faults;
mod merge;
mod opening;
mod path;
mod pipeline;
mod process;
mod schema;
mod shards;
mod supervised;
mod tls;
mod workers;
