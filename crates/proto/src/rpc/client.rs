//! The client half: knows each reply in advance, and compares.

use alloc::format;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::messages::{Messages, Random, Turns};
use crate::{Malformed, Verdict, work};

use super::{HEAD_BYTES, Workload, object, payload};

/// One connection as the client sees it.
///
/// A reply is checked when it is complete. Our own servers send exactly the expected bytes. Another server may format
/// the same content differently; then it is parsed, and the text compared as written.
#[derive(Clone)]
pub struct Client {
    requests: Messages,
    replies: Messages,
    turns: Turns,
}

impl crate::Client<Workload> for Client {
    fn new(workload: &'static Workload) -> Self {
        Self {
            requests: frames("target", workload.target, workload.text_bytes),
            replies: frames("answer", work::compute(workload.target), workload.text_bytes),
            turns: Turns::new(),
        }
    }

    fn request(&mut self) -> &'static [u8] {
        self.requests.at(self.turns.request())
    }

    fn reply(&mut self, input: &[u8]) -> Result<(usize, Option<Verdict>), Malformed> {
        if input.is_empty() {
            return Ok((0, None));
        }
        let Some(index) = self.turns.due() else {
            return Err(Malformed("bytes came back without a request"));
        };
        let reply = match payload(input) {
            Ok(None) => return Ok((0, None)),
            Ok(Some(reply)) => reply,
            Err(_) => return Err(Malformed("a reply that is said to be empty or longer than 1 MiB")),
        };
        self.turns.replied();
        let due = &self.replies.at(index)[HEAD_BYTES..];
        let correct = reply == due || meaning(reply) == meaning(due);
        let verdict = if correct { Verdict::Correct } else { Verdict::Wrong };
        Ok((HEAD_BYTES + reply.len(), Some(verdict)))
    }

    fn end(&mut self) -> Option<Verdict> {
        None
    }

    fn keeps_alive(&self) -> bool {
        true
    }
}

/// Frames with a number and a text. The text of a place does not depend on the number.
fn frames(name: &str, number: u32, text_bytes: usize) -> Messages {
    let before = format!(r#"{{"{name}": {number}, "text": ""#);
    let after = r#""}"#;
    let payload_bytes = before.len() + text_bytes + after.len();
    let mut random = Random::new();
    Messages::table(|bytes, place| {
        bytes.extend((payload_bytes as u32).to_be_bytes());
        bytes.extend(before.bytes());
        bytes.extend((place..place + text_bytes).map(|at| random.letter(at)));
        bytes.extend(after.bytes());
    })
}

/// The answer, and the text as written, of a reply with exactly these members.
fn meaning(reply: &[u8]) -> Option<(u32, &str)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Reply<'a> {
        answer: u32,
        #[serde(borrow)]
        text: &'a RawValue,
    }
    object(reply).map(|Reply { answer, text }| (answer, text.get()))
}
