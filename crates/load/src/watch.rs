//! What is watched of a connection only where it was asked for.
//!
//! A connection has none of it by default, so a usual request pays one comparison for all of it.

use contract::LoadSpec;

/// What of a connection is to be watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// Whether a reply is wrong that comes in several receives.
    pub(crate) one_receive: bool,
}

impl Watched {
    pub(crate) fn of(spec: &LoadSpec) -> Self {
        Self { one_receive: spec.verify == contract::Verification::OneReceive }
    }

    /// What a connection watches itself with; None if there is nothing to watch.
    pub(crate) fn start(self) -> Option<Box<Watch>> {
        self.one_receive.then(|| Box::new(Watch { watched: self, first_bytes: 0 }))
    }
}

/// What is seen of the oldest request in flight.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Watched,
    /// What the first receive of its reply has brought, if that was not all.
    first_bytes: usize,
}

impl Watch {
    /// `bytes` of a reply are here, and more must come.
    pub(crate) fn waits_for_more(&mut self, bytes: usize) {
        if self.first_bytes == 0 {
            self.first_bytes = bytes;
        }
    }

    /// The reply is complete. Returns how many bytes its first receive brought if that makes it wrong.
    pub(crate) fn finish(&mut self) -> Option<usize> {
        let first_bytes = std::mem::take(&mut self.first_bytes);
        (first_bytes > 0 && self.watched.one_receive).then_some(first_bytes)
    }

    /// The connection is another one from now on.
    pub(crate) fn open_again(&mut self) {
        self.first_bytes = 0;
    }
}
