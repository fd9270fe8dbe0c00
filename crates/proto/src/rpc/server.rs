//! The server half: parses a request, computes, replies.

use core::fmt::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Next, Output, work};

use super::{HEAD_BYTES, Workload, object, payload};

/// One connection as the server sees it.
pub struct Server {
    work_steps: u32,
}

impl crate::Server<Workload> for Server {
    fn new(workload: &'static Workload) -> Self {
        Self { work_steps: workload.work_steps }
    }

    fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next) {
        let mut used = 0;
        while used < input.len() {
            if output.room_bytes() == 0 {
                return (used, Next::Send);
            }
            let request = match payload(&input[used..]) {
                Ok(None) => break,
                Ok(Some(request)) => request,
                Err(_) => return (used, refuse(BAD_LENGTH, output)),
            };
            if let Err(error) = self.answer(request, output) {
                return (used, refuse(error, output));
            }
            used += HEAD_BYTES + request.len();
        }
        (used, Next::Receive)
    }
}

/// A client's request. Parsing allocates nothing unless a name is written with escapes, or it is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    target: u32,
    /// As written, with quotes and escapes: it goes back unchanged, without decoding and encoding.
    #[serde(borrow)]
    text: &'a RawValue,
}

impl Server {
    /// Appends the reply to a request, or returns why it is refused.
    fn answer(&self, request: &[u8], output: &mut Output) -> Result<(), &'static str> {
        let Request { target, text } = object(request).ok_or(BAD_REQUEST)?;
        let text = text.get();
        if !text.starts_with('"') {
            return Err(BAD_REQUEST);
        }
        if target > Workload::TARGET_MAX {
            return Err(BAD_TARGET);
        }
        let answer = work::compute(target);
        work::spin(self.work_steps);
        let digits = answer.checked_ilog10().unwrap_or(0) as usize + 1;
        head(r#"{"answer": , "text": }"#.len() + digits + text.len(), output);
        write!(output, r#"{{"answer": {answer}, "text": {text}}}"#).expect("an output takes everything");
        Ok(())
    }
}

/// Appends the reply to an invalid request.
fn refuse(error: &str, output: &mut Output) -> Next {
    head(r#"{"error": ""}"#.len() + error.len(), output);
    write!(output, r#"{{"error": "{error}"}}"#).expect("an output takes everything");
    Next::Close
}

/// Appends the length of the payload that follows. A reply is at most a few bytes longer than its request.
fn head(payload_bytes: usize, output: &mut Output) {
    output.push(&(payload_bytes as u32).to_be_bytes());
}

// The error texts, without the quotes.
const BAD_LENGTH: &str = "a request has 1 to 1048576 bytes";
const BAD_REQUEST: &str = "a request is an object of target, a whole number, and text, a string";
const BAD_TARGET: &str = "target is 10000000 at most";
