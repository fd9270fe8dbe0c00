//! A remote call: JSON in frames, with as much CPU for each request as one likes.
//!
//! A frame is the length of its payload in four bytes, the highest first, and the payload. A request is
//! `{"target": n, "text": "…"}`. Its reply is `{"answer": m, "text": "…"}` with what
//! [`work::compute`](crate::work::compute) makes of the target, and with the same text. Requests may come from any
//! writer of JSON: members in any order, white space, escapes. Whatever else comes is answered with
//! `{"error": "…"}`, and the connection closed.

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

/// What a client asks and what a server does for it.
pub struct Workload {
    /// What a client asks for: as many steps of work, whose result it checks.
    pub target: u32,
    /// Length of the text a client sends.
    pub text_bytes: usize,
    /// Steps of work a server does for each request beyond those it is asked for.
    pub work_steps: u32,
}

impl Workload {
    /// The largest target: some 20 ms of work. With more, one small request could stop an event loop for as long as
    /// a client waits before it gives up.
    pub const TARGET_MAX: u32 = 10_000_000;

    /// The longest payload of a request: a server holds it whole, once for each connection.
    pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

    /// The longest text: it leaves room for the rest of a payload.
    pub const TEXT_BYTES_MAX: usize = 1_000_000;

    /// Requests for `target` with texts of `text_bytes`, and `work_steps` more of work for each. A server heeds
    /// `work_steps`, a client the others.
    ///
    /// # Errors
    /// One line that says which value cannot be, and what can.
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

/// The length of a payload, before it.
const HEAD_BYTES: usize = 4;

/// A length that no payload has.
struct BadLength;

/// The payload of the frame at the front of `input`, if it is whole.
fn payload(input: &[u8]) -> Result<Option<&[u8]>, BadLength> {
    let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    // A length that no `usize` can say is too long as well.
    let length = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
    if (1..=Workload::PAYLOAD_BYTES_MAX).contains(&length) { Ok(rest.get(..length)) } else { Err(BadLength) }
}

/// Reads a JSON object into a structure. Without the first check an array of the values in order would do as well.
fn object<'a, T: serde::Deserialize<'a>>(payload: &'a [u8]) -> Option<T> {
    let first = payload.iter().find(|byte| !b" \t\r\n".contains(byte))?;
    if *first == b'{' { serde_json::from_slice(payload).ok() } else { None }
}
