//! A process and its relatives: the one that owns it, the one that watches it, and several that work as one.

pub(crate) mod owner;
pub(crate) mod shards;
pub(crate) mod supervision;
pub(crate) mod view;
