//! The request: parsing it, checking it, and preparing it to run.

pub(crate) mod check;
pub(crate) mod limits;
pub(crate) mod rate;
pub(crate) mod tls;
pub(crate) mod url;
pub(crate) mod workload;
