//! A process and its relatives: the one that owns it, the one that watches it, and several that work as one.

pub(crate) mod event_pipe;
pub(crate) mod owner;
pub(crate) mod shards;
pub(crate) mod supervision;
