//! A remote call: JSON in frames, with a configurable amount of CPU time for each request.
//!
//! A frame is the length of its payload in four bytes, big-endian, and the payload. A request is
//! `{"target": n, "text": "…"}`. Its reply is `{"answer": m, "text": "…"}` with the result of
//! [`work::compute`](crate::work::compute) for the target, and with the same text. Requests may come from any JSON
//! library: members in any order, white space, escapes. Anything else gets `{"error": "…"}`, and the connection is
//! closed.

mod client;
mod server;

use alloc::{format, string::String};

use crate::Protocol;

pub use client::Client;
pub use server::Server;

/// The protocol `rpc`.
pub struct Rpc;

impl Protocol for Rpc {
    const NAME: &'static str = "rpc";
    type Workload = Workload;
    type Server = Server;
    type Client = Client;
}

/// What a client requests, and what a server does for it.
pub struct Workload {
    /// The target of a client's requests: this many steps of work, with a result to check.
    pub target: u32,
    /// Length of a client's text.
    pub text_bytes: usize,
    /// Additional steps of work of a server for each request.
    pub work_steps: u32,
}

impl Workload {
    /// The largest target: some 20 ms of work. With more, one small request could stall an event loop for as long as a
    /// client waits before it gives up.
    pub const TARGET_MAX: u32 = 10_000_000;

    /// The longest payload of a request: a server buffers it whole, once for each connection.
    pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

    /// The longest text, which leaves room for the rest of a payload.
    pub const TEXT_BYTES_MAX: usize = 1_000_000;

    /// Requests for `target` with texts of `text_bytes`, and `work_steps` of additional work for each. A server uses
    /// `work_steps`, a client the others.
    ///
    /// # Errors
    /// One line with the invalid value, and what is valid.
    pub fn new(target: u32, text_bytes: usize, work_steps: u32) -> Result<Self, String> {
        if target > Self::TARGET_MAX {
            return Err(format!("target is {target}, but it can be {} at most", Self::TARGET_MAX));
        }
        if text_bytes > Self::TEXT_BYTES_MAX {
            return Err(format!(
                "text_bytes is {text_bytes}, but a text has at most {} bytes",
                Self::TEXT_BYTES_MAX
            ));
        }
        Ok(Self { target, text_bytes, work_steps })
    }
}

/// The length field before a payload.
const HEAD_BYTES: usize = 4;

/// An invalid length of a payload.
struct BadLength;

/// The payload of the frame at the front of `input`, if it is complete.
fn payload(input: &[u8]) -> Result<Option<&[u8]>, BadLength> {
    let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    // A length beyond `usize` is too long as well.
    let length = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
    if (1..=Workload::PAYLOAD_BYTES_MAX).contains(&length) { Ok(rest.get(..length)) } else { Err(BadLength) }
}

/// Parses a JSON object into a structure. Without the first check, an array of the values in order would be accepted
/// too.
fn object<'a, T: serde::Deserialize<'a>>(payload: &'a [u8]) -> Option<T> {
    let first = payload.iter().find(|byte| !b" \t\r\n".contains(byte))?;
    if *first == b'{' { serde_json::from_slice(payload).ok() } else { None }
}
