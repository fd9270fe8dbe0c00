//! The contract's workloads as the protocols want them: checked, composed, and alive as long as the process.

use std::net::SocketAddr;

use proto::{echo, http};

use crate::contract::{Echo, Framing, Http, Verify};
use crate::failure::Failure;

/// # Errors
/// `bad_workload`: a length or a text that cannot be.
pub(crate) fn http(workload: &Http, address: SocketAddr) -> Result<&'static http::Workload, Failure> {
    let host = workload.host.clone().unwrap_or_else(|| address.to_string());
    let verify = match workload.verify {
        Verify::Bytes => http::Verify::Bytes,
        Verify::Status => http::Verify::Status,
    };
    http::Workload::new(workload.reply_bytes, &workload.target, &host, workload.keep_alive, verify)
        .map(forever)
        .map_err(|message| Failure::request("bad_workload", message))
}

/// # Errors
/// `bad_workload`: a length that the framing cannot say.
pub(crate) fn echo(workload: &Echo) -> Result<&'static echo::Workload, Failure> {
    let framing = match workload.framing {
        Framing::Raw => echo::Framing::Raw,
        Framing::Prefix => echo::Framing::Prefix,
        Framing::Crlf => echo::Framing::Crlf,
    };
    echo::Workload::new(framing, workload.message_bytes)
        .map(forever)
        .map_err(|message| Failure::request("bad_workload", message))
}

/// Gives a value to the whole process. There is one for each process, so nothing is lost.
pub(crate) fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
