//! The commands, one file each.

pub(crate) mod describe;
pub(crate) mod distance;
mod listen;
pub(crate) mod load;
pub(crate) mod merge;
pub(crate) mod path;
mod self_test;
pub(crate) mod serve;
