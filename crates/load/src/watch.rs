//! Optional measurements of a connection.
//!
//! They are off by default, and then cost one comparison for each request.

use contract::{Driver, LoadSpec, Opening, Verification};

use crate::in_flight::InFlight;
use crate::record::Recorder;

/// Which of them are on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// Whether a reply that comes in several receives is wrong.
    pub(crate) one_receive: bool,
    /// Whether a request counts towards the requested number only once its connection is open.
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

    /// The state for one connection; None if everything is off.
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

/// Whether a run ends after a number of replies, even while other requests wait. Requests on connections that the
/// server has not accepted then do not count. Only the epoll driver learns of the acceptance before it sends.
pub(crate) fn counts_opened(spec: &LoadSpec) -> bool {
    spec.open == Opening::AsNeeded && spec.requests.is_some() && spec.driver == Driver::Epoll
}

/// Measurements of the oldest request in flight.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Watched,
    /// Whether nothing has been sent since the connection was started.
    is_opening: bool,
    /// When the connection was open, if it was opened for this request.
    opened_ns: Option<u64>,
    /// When the whole request was sent; 0 before.
    sent_ns: u64,
    /// The size and time of the first receive of its reply, if that was incomplete.
    first_bytes: usize,
    first_ns: u64,
}

impl Watch {
    /// Records that `bytes` of a reply have arrived, and more must come.
    pub(crate) fn waits_for_more(&mut self, bytes: usize, now_ns: u64) {
        if self.first_bytes == 0 {
            (self.first_bytes, self.first_ns) = (bytes, now_ns);
        }
    }

    /// Records that the reply is complete. Returns the size of its first receive if that makes it wrong.
    pub(crate) fn finish(
        &mut self,
        request: &InFlight,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Option<usize> {
        if self.watched.details {
            let opened_ns = self.opened_ns.take().unwrap_or(request.sent_ns);
            // A reply may arrive before its request is sent completely.
            let sent_ns = std::mem::take(&mut self.sent_ns).max(opened_ns).min(now_ns);
            let first_ns = if self.first_bytes > 0 { self.first_ns } else { now_ns };
            recorder.timed([request.sent_ns, opened_ns, sent_ns, first_ns, now_ns]);
        }
        let first_bytes = std::mem::take(&mut self.first_bytes);
        (first_bytes > 0 && self.watched.one_receive).then_some(first_bytes)
    }

    /// Resets the state for a new connection.
    pub(crate) fn open_again(&mut self) {
        self.is_opening = true;
        (self.opened_ns, self.sent_ns, self.first_bytes) = (None, 0, 0);
    }

    /// Whether to read the clock before a send, because the connection may have been opened since the last reading.
    pub(crate) fn times_opening(&self) -> bool {
        self.watched.details && self.is_opening
    }

    /// Whether to read the clock after a send.
    pub(crate) fn times_sends(&self) -> bool {
        self.watched.details
    }

    /// Whether the connection's first request does not count towards the requested number yet.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_opening && self.watched.counts_opened
    }

    /// Whether to withhold the connection's first request, because all requested ones have been sent.
    pub(crate) fn holds(&self, recorder: &Recorder) -> bool {
        self.is_lent() && !recorder.may_send()
    }

    /// Records that the connection accepted bytes between these times and so is open. `is_whole`: including the last of
    /// the request.
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
