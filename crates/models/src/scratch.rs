//! The buffers of one thread, lent to one connection after the other. They stay in the cache, and connections own none.

use proto::Output;

/// At most this is received in one call, so a message of this size passes in one piece.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Where a thread receives, and where it composes replies.
pub(crate) struct Scratch {
    pub(crate) input: Box<[u8]>,
    pub(crate) output: Output,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { input: vec![0; RECEIVE_BYTES].into(), output: Output::new() }
    }

    /// Updates the date of the replies. Call it at every wake-up.
    pub(crate) fn tick(&mut self) {
        self.output.tick(sys::clock::unix_s());
    }
}
