//! The commands, one file each.

pub(crate) mod describe;
pub(crate) mod distance;
mod listen;
pub(crate) mod load;
pub(crate) mod merge;
mod self_test;
pub(crate) mod serve;
