//! Process management: the owner of a port, supervision, and several processes that work as one.

pub(crate) mod event_pipe;
pub(crate) mod owner;
pub(crate) mod shards;
pub(crate) mod supervision;
