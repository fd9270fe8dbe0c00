//! The state of a run that the methods of a driver share: the time, the dispatcher and the recorder.

use std::time::Duration;

use sys::clock;

use crate::dispatch::{Dispatch, Dispatcher};
use crate::record::Recorder;

pub(crate) struct Context<'a> {
    /// The time at the last reading of the clock.
    pub(crate) now_ns: u64,
    /// Decides which connection carries the next request, and when.
    pub(crate) dispatcher: &'a mut Dispatcher,
    pub(crate) recorder: &'a mut Recorder,
}

impl<'a> Context<'a> {
    pub(crate) fn new(dispatcher: &'a mut Dispatcher, recorder: &'a mut Recorder) -> Self {
        let now_ns = clock::monotonic_ns();
        recorder.begin_requests(now_ns.max(dispatcher.first_ns()));
        Self { now_ns, dispatcher, recorder }
    }

    /// Reads the clock.
    pub(crate) fn tick(&mut self) {
        self.now_ns = clock::monotonic_ns();
        self.recorder.at(self.now_ns);
    }

    /// The request to send now, if there is one.
    pub(crate) fn next(&mut self) -> Option<Dispatch> {
        if !self.recorder.may_send() {
            return None;
        }
        self.dispatcher.next(self.recorder.in_flight(), self.now_ns)
    }

    /// Another request to send with the last one, on the same connection.
    pub(crate) fn next_with(&mut self, dispatch: &Dispatch) -> Option<Dispatch> {
        if !self.recorder.may_send() {
            return None;
        }
        self.dispatcher.next_with(dispatch, self.recorder.in_flight(), self.now_ns)
    }

    /// Lists a connection as free from now on.
    pub(crate) fn free(&mut self, key: usize) {
        self.dispatcher.free(key, self.now_ns);
    }

    /// Whether every requested request has been answered or has failed.
    pub(crate) fn is_done(&self) -> bool {
        self.recorder.is_done(self.dispatcher)
    }

    /// Ends an iteration of the loop: a wait of at most `wait` follows.
    pub(crate) fn end_iteration(&mut self, wait: Duration) {
        self.recorder.end_iteration(self.now_ns, wait);
    }

    /// Begins an iteration after a wait. Returns whether the run goes on.
    pub(crate) fn begin_iteration(&mut self) -> bool {
        self.now_ns = clock::monotonic_ns();
        self.recorder.begin_iteration(self.now_ns)
    }
}
