//! What is watched of a connection only where it was asked for.
//!
//! A connection has none of it by default, so a usual request pays one comparison for all of it.

use contract::{Driver, LoadSpec, Opening, Verification};

use crate::in_flight::InFlight;
use crate::record::Recorder;

/// What of a connection is to be watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// Whether a reply is wrong that comes in several receives.
    pub(crate) one_receive: bool,
    /// Whether a request counts as one of those that were asked for only once its connection is open.
    pub(crate) counts_opened: bool,
    /// Whether the parts of a request's time are measured.
    pub(crate) details: bool,
}

impl Watched {
    pub(crate) fn of(spec: &LoadSpec) -> Self {
        Self {
            one_receive: spec.verify == Verification::OneReceive,
            counts_opened: counts_opened(spec),
            details: spec.details,
        }
    }

    /// What a connection watches itself with; None if there is nothing to watch.
    pub(crate) fn start(self) -> Option<Box<Watch>> {
        let watches = self.one_receive || self.counts_opened || self.details;
        watches.then(|| {
            Box::new(Watch {
                watched: self,
                is_opening: false,
                opened_ns: None,
                sent_ns: 0,
                first_bytes: 0,
                first_ns: 0,
            })
        })
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
    /// When the connection was open, if it has been opened for the request.
    opened_ns: Option<u64>,
    /// When the request was sent whole; 0 before.
    sent_ns: u64,
    /// What the first receive of its reply has brought, and when, if that was not all.
    first_bytes: usize,
    first_ns: u64,
}

impl Watch {
    /// `bytes` of a reply are here, and more must come.
    pub(crate) fn waits_for_more(&mut self, bytes: usize, now_ns: u64) {
        if self.first_bytes == 0 {
            (self.first_bytes, self.first_ns) = (bytes, now_ns);
        }
    }

    /// The reply is complete. Returns how many bytes its first receive brought if that makes it wrong.
    pub(crate) fn finish(
        &mut self,
        request: &InFlight,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Option<usize> {
        if self.watched.details {
            let opened_ns = self.opened_ns.take().unwrap_or(request.sent_ns);
            // A reply may come before its request is sent whole.
            let sent_ns = std::mem::take(&mut self.sent_ns).max(opened_ns).min(now_ns);
            let first_ns = if self.first_bytes > 0 { self.first_ns } else { now_ns };
            recorder.timed([request.sent_ns, opened_ns, sent_ns, first_ns, now_ns]);
        }
        let first_bytes = std::mem::take(&mut self.first_bytes);
        (first_bytes > 0 && self.watched.one_receive).then_some(first_bytes)
    }

    /// The connection is another one from now on.
    pub(crate) fn open_again(&mut self) {
        self.is_opening = true;
        (self.opened_ns, self.sent_ns, self.first_bytes) = (None, 0, 0);
    }

    /// Whether the clock is to be read before a send: where the connection may have been opened since the last reading.
    pub(crate) fn times_opening(&self) -> bool {
        self.watched.details && self.is_opening
    }

    /// Whether the clock is to be read after a send.
    pub(crate) fn times_sends(&self) -> bool {
        self.watched.details
    }

    /// Whether the request that the connection is opened for is not yet one of those that were asked for.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_opening && self.watched.counts_opened
    }

    /// Whether the request that the connection is opened for is not to be sent, because all that were asked for have
    /// been.
    pub(crate) fn holds(&self, recorder: &Recorder) -> bool {
        self.is_lent() && !recorder.may_send()
    }

    /// The connection has taken bytes between these times, so it is open; `is_whole`: the last of the request.
    pub(crate) fn sent(&mut self, (begin_ns, end_ns): (u64, u64), is_whole: bool, recorder: &mut Recorder) {
        if self.is_opening {
            self.is_opening = false;
            self.opened_ns = Some(begin_ns);
            if self.watched.counts_opened {
                recorder.started(begin_ns);
            }
        }
        if is_whole {
            self.sent_ns = end_ns;
        }
    }
}
