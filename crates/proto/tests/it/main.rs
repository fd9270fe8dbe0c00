//! The protocol halves, tested without a network: each through a few functions that know how to drive one.

pub mod drive;
pub mod invariants;

mod echo;
mod hostile;
mod http_client;
mod http_server;
mod line;
mod pair;
mod pipeline;
mod rpc;
mod smoke;
mod splits;
mod transcripts;
mod work;
