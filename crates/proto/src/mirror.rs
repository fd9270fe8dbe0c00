//! The client of protocols whose messages come back unchanged.

use core::marker::PhantomData;

use crate::messages::{Messages, Turns};
use crate::{Malformed, Verdict};

/// A workload whose replies equal its requests.
pub trait Mirrored: 'static {
    /// The messages of one thread.
    fn messages(&self) -> Messages;
}

/// One connection as the client of a [`Mirrored`] workload sees it.
///
/// A reply has the length of its request, so a counter of received bytes suffices.
pub struct Mirror<W> {
    messages: Messages,
    turns: Turns,
    /// Received bytes of the oldest outstanding reply.
    received_bytes: usize,
    verdict: Verdict,
    workload: PhantomData<W>,
}

impl<W: Mirrored> crate::Client<W> for Mirror<W> {
    fn new(workload: &'static W) -> Self {
        Self::fresh(workload.messages(), Turns::new())
    }

    fn request(&mut self) -> &'static [u8] {
        self.messages.at(self.turns.request())
    }

    fn reply(&mut self, input: &[u8]) -> Result<(usize, Option<Verdict>), Malformed> {
        if input.is_empty() {
            return Ok((0, None));
        }
        let Some(index) = self.turns.due() else {
            return Err(Malformed("bytes came back that were never sent"));
        };
        let due = &self.messages.at(index)[self.received_bytes..];
        let used = due.len().min(input.len());
        if input[..used] != due[..used] {
            self.verdict = Verdict::Wrong;
        }
        if used < due.len() {
            self.received_bytes += used;
            return Ok((used, None));
        }
        self.turns.replied();
        self.received_bytes = 0;
        Ok((used, Some(core::mem::replace(&mut self.verdict, Verdict::Correct))))
    }

    fn end(&mut self) -> Option<Verdict> {
        None
    }

    fn keeps_alive(&self) -> bool {
        true
    }
}

impl<W: Mirrored> Clone for Mirror<W> {
    fn clone(&self) -> Self {
        Self::fresh(self.messages, self.turns.clone())
    }
}

impl<W> Mirror<W> {
    fn fresh(messages: Messages, turns: Turns) -> Self {
        Self { messages, turns, received_bytes: 0, verdict: Verdict::Correct, workload: PhantomData }
    }
}
