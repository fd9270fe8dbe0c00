//! Connections that wait for room in the queue of a Unix socket.
//!
//! The kernel does not report when a full queue has room again: a nonblocking `connect(2)` only fails with EAGAIN. So
//! each connection is retried, as TCP would do by itself, until its request times out.

use std::collections::VecDeque;

/// The pause after an attempt that found no room. An attempt costs three syscalls.
const PAUSE_NS: u64 = 200_000;

/// The connections, longest waiting first.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    keys: VecDeque<usize>,
    again_ns: u64,
}

impl Waiting {
    /// Adds a connection that found no room at `now_ns`.
    pub(crate) fn push(&mut self, key: usize, now_ns: u64) {
        self.keys.push_back(key);
        if self.again_ns <= now_ns {
            self.again_ns = now_ns + PAUSE_NS;
        }
    }

    /// The next connection to try. None during the pause. If it finds no room, push it again.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<usize> {
        if now_ns < self.again_ns { None } else { self.keys.pop_front() }
    }

    /// When to try again. `u64::MAX` if none waits.
    pub(crate) fn due_ns(&self) -> u64 {
        if self.keys.is_empty() { u64::MAX } else { self.again_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_tried_until_one_finds_no_room_and_then_after_a_pause() {
        let mut waiting = Waiting::default();
        assert_eq!((waiting.due_ns(), waiting.pop(5)), (u64::MAX, None));
        waiting.push(1, 1_000);
        waiting.push(2, 1_000 + PAUSE_NS - 1);
        waiting.push(3, 1_000 + PAUSE_NS - 1);
        let again_ns = 1_000 + PAUSE_NS;
        assert_eq!(waiting.due_ns(), again_ns, "others that find no room do not put it off");
        assert_eq!(waiting.pop(again_ns - 1), None);
        assert_eq!(waiting.pop(again_ns), Some(1));
        assert_eq!(waiting.pop(again_ns), Some(2));
        waiting.push(2, again_ns);
        assert_eq!((waiting.pop(again_ns), waiting.due_ns()), (None, again_ns + PAUSE_NS));
        assert_eq!(waiting.pop(again_ns + PAUSE_NS), Some(3));
        assert_eq!(waiting.pop(again_ns + PAUSE_NS), Some(2));
        assert_eq!(waiting.due_ns(), u64::MAX);
    }
}
