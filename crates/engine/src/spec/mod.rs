//! What was asked for: reading it, checking it, and bringing it into the form that runs.

pub(crate) mod check;
pub(crate) mod limits;
pub(crate) mod rate;
pub(crate) mod tls;
pub(crate) mod url;
pub(crate) mod workload;
