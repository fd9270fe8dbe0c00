//! What is watched of a connection only where it was asked for.
//!
//! A connection has none of it by default, so a usual request pays one comparison for all of it.

use contract::{Driver, LoadSpec, Opening, Verification};

use crate::record::Recorder;

/// What of a connection is to be watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// Whether a reply is wrong that comes in several receives.
    pub(crate) one_receive: bool,
    /// Whether a request counts as one of those that were asked for only once its connection is open.
    pub(crate) counts_opened: bool,
}

impl Watched {
    pub(crate) fn of(spec: &LoadSpec) -> Self {
        Self { one_receive: spec.verify == Verification::OneReceive, counts_opened: counts_opened(spec) }
    }

    /// What a connection watches itself with; None if there is nothing to watch.
    pub(crate) fn start(self) -> Option<Box<Watch>> {
        let watches = self.one_receive || self.counts_opened;
        watches.then(|| Box::new(Watch { watched: self, is_opening: false, first_bytes: 0 }))
    }
}

/// Whether a run ends with the last of so many replies, whatever other requests wait for: then those whose connections
/// the server has not accepted are none of them. Only one driver learns of that before it sends.
pub(crate) fn counts_opened(spec: &LoadSpec) -> bool {
    spec.open == Opening::AsNeeded && spec.requests.is_some() && spec.driver == Driver::Epoll
}

/// What is seen of the oldest request in flight.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Watched,
    /// Whether nothing has been sent on the connection since it was begun to be opened.
    is_opening: bool,
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
        self.is_opening = true;
        self.first_bytes = 0;
    }

    /// Whether the request that the connection is opened for is not to be sent, because all that were asked for have
    /// been.
    pub(crate) fn holds(&self, recorder: &Recorder) -> bool {
        self.is_opening && self.watched.counts_opened && !recorder.may_send()
    }

    /// The connection has taken bytes, so it is open.
    pub(crate) fn sent(&mut self, now_ns: u64, recorder: &mut Recorder) {
        if self.is_opening && self.watched.counts_opened {
            recorder.started(now_ns);
        }
        self.is_opening = false;
    }
}
