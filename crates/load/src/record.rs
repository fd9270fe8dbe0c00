//! The results of a run: counts, latencies and the rate over time. Each thread has a record; they are merged at the
//! end.

use std::time::Duration;

use contract::{
    Errors, ErrorsByPhase, FirstFailure, Generator, Intervals, Latency, LoadSpec, Pace, Phase, Probe,
    Requests, Saw, Statuses, Times, Views,
};
use proto::Verdict;
use sys::{clock, process};

use crate::dispatch::{Dispatch, Dispatcher};
use crate::in_flight::{InFlight, InFlightQueue};
use crate::slices::Slicer;

const MS_NS: u64 = 1_000_000;

/// The times of a run, in CLOCK_MONOTONIC nanoseconds. They are the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    pub(crate) start_ns: u64,
    pub(crate) begin_ns: u64,
    /// `u64::MAX` if the run ends after a number of requests.
    pub(crate) end_ns: u64,
    pub(crate) interval_ns: u64,
}

impl Timeline {
    pub(crate) fn starting_at(start_ns: u64, spec: &LoadSpec) -> Self {
        let interval_ns = MS_NS * spec.interval_ms;
        // The window begins on an interval's edge, so that the series can be cut there.
        let begin_ns = start_ns + (MS_NS * spec.warmup_ms()).next_multiple_of(interval_ns);
        let end_ns = match spec.requests {
            Some(_) => u64::MAX,
            None => begin_ns + MS_NS * spec.duration_ms.unwrap_or_default(),
        };
        Self { start_ns, begin_ns, end_ns, interval_ns }
    }

    pub(crate) fn is_open_ended(&self) -> bool {
        self.end_ns == u64::MAX
    }
}

/// A kind of failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No connection could be opened, with the reason.
    Connect(Saw),
    Reset,
    Closed,
    Timeout,
    Malformed,
    /// A TLS session that failed.
    Tls,
}

impl Fault {
    fn saw(self) -> Saw {
        match self {
            Self::Connect(saw) => saw,
            Self::Reset => Saw::Reset,
            Self::Closed => Saw::Closed,
            Self::Timeout => Saw::Timeout,
            Self::Malformed | Self::Tls => Saw::Malformed,
        }
    }
}

/// Requests that were due and not sent. Those due in the window plus `unsent_begin` equal `sent` plus `unsent_end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Due before the window and not sent before it began.
    pub unsent_begin: u64,
    /// Due before the end of the window and not sent.
    pub unsent_end: u64,
    /// Sent in the window, but due while no connection was free.
    pub waited: u64,
}

/// The report of a finished run.
#[derive(Clone, Debug)]
pub struct Report {
    pub connections_open: usize,
    /// Open connections that were reopened and have received nothing since: the server may be gone.
    pub connections_untaken: usize,
    /// Connections opened in the whole run.
    pub connections_made: u64,
    /// The measured window, CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub requests: Requests,
    pub errors: Errors,
    pub errors_by_phase: ErrorsByPhase,
    /// The message of the first error.
    pub first_error: Option<String>,
    pub first_failure: Option<FirstFailure>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The part of them in bodies of complete replies.
    pub body_bytes: u64,
    /// Nanoseconds to the complete, checked reply. In a closed loop from when the request could be sent, which is the
    /// arrival of the reply before it. In an open loop from when it was due.
    pub latency: Latency,
    /// None in a closed loop.
    pub views: Option<Views>,
    /// None unless requested.
    pub times: Option<Box<Times>>,
    pub backlog: Backlog,
    /// How long ago the oldest request in flight was due, at the end.
    pub unanswered_ns_max: u64,
    /// Sum over the requests in flight of the time since each was due, at the beginning and at the end of the window.
    pub age_begin_ns: u64,
    pub age_end_ns: u64,
    /// Sum over the failed requests of the time from when each was due to its failure. These three sums make Little's
    /// law exact in a closed loop: the window cuts through requests at both edges, and a failed request has no latency.
    pub age_failed_ns: u64,
    /// When the last complete reply of the window arrived; 0 if none did.
    pub last_reply_ns: u64,
    /// When the first connection was started; `u64::MAX` if none was.
    pub first_connect_ns: u64,
    /// When the first request of the run began, or was due in an open loop; `u64::MAX` if none did.
    pub first_begin_ns: u64,
    pub statuses: Statuses,
    pub intervals: Intervals,
    pub generator: Generator,
    pub probe: Option<Box<Probe>>,
    pub interrupted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    WarmUp,
    Window,
    Over,
}

/// Connections that are open at the end of a run.
pub(crate) struct Open {
    connections: usize,
    untaken: usize,
    /// Connections that the run has started to open and that had not failed by its end.
    pub(crate) begun: u64,
    /// When the first of them was started.
    pub(crate) first_connect_ns: u64,
}

impl Open {
    /// `taken` tells for each open connection whether the server has accepted it. `idle` counts idle connections.
    pub(crate) fn of(taken: impl Iterator<Item = bool>, idle: usize) -> Self {
        let none = Self { connections: idle, untaken: 0, begun: 0, first_connect_ns: u64::MAX };
        taken.fold(none, |open, taken| Self {
            connections: open.connections + 1,
            untaken: open.untaken + usize::from(!taken),
            ..open
        })
    }
}

/// The unfinished record of one thread.
pub(crate) struct Recorder {
    record: Report,
    part: Part,
    timeline: Timeline,
    next_edge_ns: u64,
    /// Completed in the current interval.
    completed: u64,
    in_flight: u64,
    /// Requests sent before those in this record.
    sent_before: u64,
    /// Connections that could not be opened, in the whole run.
    unopened: u64,
    /// Requests that may still be sent.
    left: u64,
    /// The run ends after this many requests, even while others wait.
    ends_after: Option<u64>,
    iteration_began_ns: u64,
    now_ns: u64,
    /// When the last allowed request was sent.
    last_sent_ns: Option<u64>,
    /// When the current wait should end.
    wake_ns: u64,
    slicer: Option<Slicer>,
    /// The sum of the due times of all requests in flight, with wrapping arithmetic.
    due_sum_ns: u64,
}

impl Recorder {
    /// A record of at most `requests` requests.
    pub(crate) fn new(requests: u64, pace: &Pace) -> Self {
        let record = Report::empty(matches!(pace, Pace::Open { .. }));
        let timeline = Timeline { start_ns: 0, begin_ns: 0, end_ns: u64::MAX, interval_ns: u64::MAX };
        Self {
            record,
            part: Part::WarmUp,
            timeline,
            next_edge_ns: u64::MAX,
            completed: 0,
            in_flight: 0,
            sent_before: 0,
            unopened: 0,
            left: requests,
            ends_after: None,
            iteration_began_ns: 0,
            now_ns: 0,
            last_sent_ns: None,
            wake_ns: u64::MAX,
            slicer: None,
            due_sum_ns: 0,
        }
    }

    /// Turns on measuring the parts of each request's time.
    pub(crate) fn time_requests(&mut self) {
        self.record.times = Some(Box::default());
    }

    /// Records the parts of a request's time. The moments are: it began, its connection was open, it was sent, its
    /// reply began to arrive, its reply was complete.
    pub(crate) fn timed(&mut self, moments_ns: [u64; 5]) {
        let Some(times) = &mut self.record.times else { return };
        let [begin_ns, opened_ns, sent_ns, first_ns, whole_ns] = moments_ns;
        for (part, from_ns, to_ns) in [
            (&mut times.connect_ns, begin_ns, opened_ns),
            (&mut times.write_ns, opened_ns, sent_ns),
            (&mut times.wait_ns, sent_ns, first_ns),
            (&mut times.read_ns, first_ns, whole_ns),
            (&mut times.processing_ns, opened_ns, whole_ns),
        ] {
            part.saturating_record(to_ns.saturating_sub(from_ns));
        }
    }

    /// Makes the run end after its number of requests, and counts a request only once its connection is open.
    pub(crate) fn count_opened(&mut self) {
        self.ends_after = Some(self.left);
    }

    /// Continues the counts of an unrecorded run on the same connections.
    pub(crate) fn follow(&mut self, unrecorded: &Self) {
        self.sent_before = unrecorded.sent_before + unrecorded.record.requests.sent;
        self.unopened = unrecorded.unopened;
    }

    /// Begins the run. Slices of its window go to `slicer`, if there is one.
    pub(crate) fn start(&mut self, timeline: Timeline, slicer: Option<Slicer>) {
        self.timeline = timeline;
        self.record.intervals.begin_ns = timeline.start_ns;
        self.record.intervals.length_ns = timeline.interval_ns;
        self.slicer = slicer;
        self.next_edge_ns = timeline.start_ns + timeline.interval_ns;
        self.iteration_began_ns = clock::monotonic_ns();
        self.advance(self.iteration_began_ns);
    }

    /// Records that requests are sent from now on.
    pub(crate) fn begin_requests(&mut self, now_ns: u64) {
        self.record.first_begin_ns = now_ns;
    }

    /// Begins an iteration of the driver's loop after a wait, at `now_ns`. Returns whether the run goes on.
    pub(crate) fn begin_iteration(&mut self, now_ns: u64) -> bool {
        let away_ns = (self.now_ns - self.iteration_began_ns).max(now_ns.saturating_sub(self.wake_ns));
        self.record.generator.turn_ns_max = self.record.generator.turn_ns_max.max(away_ns);
        self.record.generator.turns += 1;
        self.iteration_began_ns = now_ns;
        self.advance(now_ns);
        self.part != Part::Over
    }

    /// When the run began, according to the timeline.
    pub(crate) fn start_ns(&self) -> u64 {
        self.timeline.start_ns
    }

    /// Whether all requests have been answered or have failed: the requested number, or all of a shorter schedule. A
    /// window of a given length continues to its end.
    pub(crate) fn is_done(&self, dispatcher: &Dispatcher) -> bool {
        let all_sent = self.left == 0 || (self.timeline.is_open_ended() && dispatcher.is_spent());
        let Requests { correct, wrong, failed, .. } = self.record.requests;
        let have_ended = self.ends_after.is_some_and(|requests| correct + wrong + failed >= requests);
        have_ended || (self.in_flight == 0 && all_sent)
    }

    /// Whether the window has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.part == Part::Over
    }

    /// The latest time at which the next wait must end.
    pub(crate) fn due_ns(&self) -> u64 {
        let next = if self.part == Part::WarmUp { self.timeline.begin_ns } else { self.timeline.end_ns };
        next.min(self.next_edge_ns)
    }

    /// Sets the time within an iteration.
    pub(crate) fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Ends an iteration at `now_ns`: a wait of at most `wait` follows.
    pub(crate) fn end_iteration(&mut self, now_ns: u64, wait: Duration) {
        self.now_ns = now_ns;
        self.wake_ns = now_ns.saturating_add(wait.as_nanos() as u64);
    }

    /// Whether another request may be sent.
    pub(crate) fn may_send(&self) -> bool {
        self.left > 0
    }

    /// Requests that have been sent and not answered.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Allows one request beyond the requested number: the next one, whose connection is about to be opened. It is
    /// counted by [`Self::started`].
    pub(crate) fn lend(&mut self) {
        self.left += u64::from(self.ends_after.is_some());
    }

    /// Counts a request, whose connection is open now, towards the requested number.
    pub(crate) fn started(&mut self, now_ns: u64) {
        self.left -= 1;
        if self.left == 0 {
            self.last_sent_ns = Some(now_ns);
        }
    }

    /// Counts a request, sent `late_ns` after it could have been. Returns its number.
    pub(crate) fn sent(&mut self, dispatch: &Dispatch, now_ns: u64, late_ns: u64) -> u64 {
        self.started(now_ns);
        self.in_flight += 1;
        self.due_sum_ns = self.due_sum_ns.wrapping_add(dispatch.due_ns);
        let record = &mut self.record;
        record.requests.sent += 1;
        if let Some(views) = &mut record.views {
            views.lateness_ns.saturating_record(late_ns);
            record.backlog.waited += u64::from(dispatch.due_ns < dispatch.free_ns);
            record.backlog.unsent_begin += u64::from(dispatch.due_ns < self.timeline.begin_ns);
        }
        self.sent_before + record.requests.sent
    }

    /// Counts request bytes that the connection has accepted.
    pub(crate) fn transmitted(&mut self, bytes: usize) {
        self.record.bytes_sent += bytes as u64;
    }

    /// Takes back bytes that were counted as transmitted but were not sent. At the edge of the window they may belong
    /// to another record.
    pub(crate) fn not_transmitted(&mut self, bytes: usize) {
        self.record.bytes_sent = self.record.bytes_sent.saturating_sub(bytes as u64);
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.record.bytes_received += bytes as u64;
    }

    /// Counts the bytes of the body of a complete reply.
    pub(crate) fn body(&mut self, bytes: usize) {
        self.record.body_bytes += bytes as u64;
    }

    pub(crate) fn replied(&mut self, verdict: Verdict, status: Option<u16>, request: &InFlight, now_ns: u64) {
        self.in_flight -= 1;
        self.due_sum_ns = self.due_sum_ns.wrapping_sub(request.due_ns);
        self.completed += 1;
        let record = &mut self.record;
        record.last_reply_ns = now_ns;
        record.latency.saturating_record(now_ns - request.due_ns);
        if let Some(Slicer { slice, .. }) = &mut self.slicer {
            slice.latency.saturating_record(now_ns - request.due_ns);
            slice.correct += u64::from(verdict == Verdict::Correct);
            slice.wrong += u64::from(verdict != Verdict::Correct);
        }
        if let Some(views) = &mut record.views {
            let service_ns = now_ns - request.sent_ns;
            views.service_ns.saturating_record(service_ns);
            if !request.waited {
                views.closed_ns.saturating_record(service_ns);
            }
        }
        if let Some(status) = status {
            record.statuses.count(status);
        }
        match verdict {
            Verdict::Correct => record.requests.correct += 1,
            Verdict::Wrong => {
                record.requests.wrong += 1;
                record.errors.wrong += 1;
                record.errors_by_phase.receive += 1;
            }
            Verdict::Status => {
                record.requests.wrong += 1;
                record.errors.status += 1;
                record.errors_by_phase.receive += 1;
            }
        }
    }

    /// Records what was wrong with a reply, if it is the first error.
    pub(crate) fn wrong(&mut self, saw: Saw, request: u64, connection: u64, text: impl FnOnce() -> String) {
        let first = FirstFailure { at_ns: self.now_ns, request, connection, phase: Phase::Receive, saw };
        self.first(first, text);
    }

    /// Counts the requests in flight of a connection as failed. `is_lent`: its one request was not [`Self::started`].
    pub(crate) fn failed(
        &mut self,
        lost: &InFlightQueue,
        is_lent: bool,
        connection: u64,
        (fault, phase): (Fault, Phase),
        text: impl FnOnce() -> String,
    ) {
        self.unopened += u64::from(phase == Phase::Connect);
        if is_lent {
            if self.left == 0 {
                // All requested ones have been sent. The run ends without this one, as without those that still wait
                // for their connections, so it stays in flight.
                return;
            }
            // It counts towards the requested number, or it would be retried for ever.
            self.started(self.now_ns);
        }
        let requests = lost.len() as u64;
        self.in_flight -= requests;
        for request in lost.iter() {
            self.due_sum_ns = self.due_sum_ns.wrapping_sub(request.due_ns);
            self.record.age_failed_ns += self.now_ns.saturating_sub(request.due_ns);
        }
        self.record.requests.failed += requests;
        if let Some(Slicer { slice, .. }) = &mut self.slicer {
            slice.failed += requests;
        }
        let errors = &mut self.record.errors;
        *match fault {
            Fault::Connect(_) => &mut errors.connect,
            Fault::Reset => &mut errors.reset,
            Fault::Closed => &mut errors.closed,
            Fault::Timeout => &mut errors.timeout,
            Fault::Malformed => &mut errors.malformed,
            Fault::Tls => &mut errors.tls,
        } += requests;
        self.record.errors_by_phase.count(phase, requests);
        let request = lost.first().map_or(0, |request| request.number);
        self.first(FirstFailure { at_ns: self.now_ns, request, connection, phase, saw: fault.saw() }, text);
    }

    /// Records the connections left open, and the requests left unsent and unanswered. The oldest was due at
    /// `oldest_ns`.
    pub(crate) fn leave(&mut self, open: Open, oldest_ns: Option<u64>, dispatcher: &Dispatcher) {
        self.record.connections_open = open.connections;
        self.record.connections_untaken = open.untaken;
        self.record.connections_made = open.begun.saturating_sub(self.unopened);
        self.record.first_connect_ns = open.first_connect_ns;
        // If all requests were sent, only those due before the last send count as unsent.
        let end_ns = self.last_sent_ns.unwrap_or_else(|| self.now_ns.min(self.timeline.end_ns));
        let (before, all) = dispatcher.unsent(self.timeline.begin_ns, end_ns);
        self.record.backlog.unsent_begin += before;
        self.record.backlog.unsent_end = all;
        self.record.unanswered_ns_max =
            oldest_ns.map_or(0, |oldest_ns| self.now_ns.saturating_sub(oldest_ns));
    }

    pub(crate) fn finish(mut self) -> Report {
        // The window ends with the last reply, or when the run was stopped.
        let now_ns = self.now_ns;
        if self.part == Part::WarmUp {
            // Stopped before the window began: its counts belong to no window.
            self.begin_window(now_ns);
        }
        if self.part == Part::Window {
            self.end_window(now_ns);
        }
        if self.completed > 0 {
            // The last interval is shorter.
            self.record.intervals.completed.push(self.completed);
        }
        self.record
    }

    /// Records an error. Only the first one builds its text.
    fn first(&mut self, failure: FirstFailure, text: impl FnOnce() -> String) {
        if self.record.first_failure.is_none() {
            self.record.first_failure = Some(failure);
            self.record.first_error = Some(text());
        }
    }

    /// Closes intervals, and begins and ends the window, as `now_ns` requires.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        while now_ns >= self.next_edge_ns {
            self.record.intervals.completed.push(std::mem::take(&mut self.completed));
            self.next_edge_ns += self.timeline.interval_ns;
        }
        if self.part == Part::WarmUp && now_ns >= self.timeline.begin_ns {
            self.begin_window(now_ns);
        }
        if self.part == Part::Window {
            if now_ns >= self.timeline.end_ns {
                self.end_window(now_ns);
            } else if let Some(slicer) = &mut self.slicer {
                slicer.advance(now_ns);
            }
        }
    }

    fn begin_window(&mut self, now_ns: u64) {
        self.part = Part::Window;
        let age_ns = self.age_ns(now_ns);
        if let Some(slicer) = &mut self.slicer {
            // All threads use the same beginning, even if they notice it an iteration later.
            slicer.begin(self.timeline.begin_ns.min(now_ns));
        }
        let record = &mut self.record;
        self.sent_before += record.requests.sent;
        record.requests = Requests { in_flight_begin: self.in_flight, ..Requests::default() };
        record.errors = Errors::default();
        record.errors_by_phase = ErrorsByPhase::default();
        (record.first_error, record.first_failure) = (None, None);
        (record.bytes_sent, record.bytes_received, record.body_bytes) = (0, 0, 0);
        record.last_reply_ns = 0;
        record.latency.reset();
        if let Some(views) = &mut record.views {
            views.reset();
        }
        record.times.iter_mut().for_each(|times| times.reset());
        record.backlog = Backlog::default();
        record.statuses = Statuses::default();
        record.begin_ns = now_ns;
        (record.age_begin_ns, record.age_failed_ns) = (age_ns, 0);
        record.generator = Generator {
            cpu_ns: clock::thread_cpu_ns(),
            run_delay_ns: process::thread_run_delay_ns(),
            ..Generator::default()
        };
    }

    fn end_window(&mut self, now_ns: u64) {
        self.part = Part::Over;
        if let Some(slicer) = &mut self.slicer {
            slicer.end(now_ns.min(self.timeline.end_ns));
        }
        let age_ns = self.age_ns(now_ns);
        let record = &mut self.record;
        record.age_end_ns = age_ns;
        record.requests.in_flight_end = self.in_flight;
        record.end_ns = now_ns;
        let generator = &mut record.generator;
        generator.cpu_ns = clock::thread_cpu_ns() - generator.cpu_ns;
        generator.run_delay_ns = process::thread_run_delay_ns().saturating_sub(generator.run_delay_ns);
        generator.wall_ns = now_ns - record.begin_ns;
    }

    /// Sum over the requests in flight of the time since each was due.
    fn age_ns(&self, now_ns: u64) -> u64 {
        // When a run is stopped, a request of the last iteration may be due after the last reading of the clock.
        let age_ns = self.in_flight.wrapping_mul(now_ns).wrapping_sub(self.due_sum_ns);
        age_ns.cast_signed().max(0).cast_unsigned()
    }
}

impl Report {
    /// An empty report, to add others to.
    pub fn empty(is_open: bool) -> Self {
        Self {
            connections_open: 0,
            connections_untaken: 0,
            connections_made: 0,
            begin_ns: u64::MAX,
            end_ns: 0,
            requests: Requests::default(),
            errors: Errors::default(),
            errors_by_phase: ErrorsByPhase::default(),
            first_error: None,
            first_failure: None,
            bytes_sent: 0,
            bytes_received: 0,
            body_bytes: 0,
            latency: Latency::default(),
            views: is_open.then(Views::default),
            times: None,
            backlog: Backlog::default(),
            unanswered_ns_max: 0,
            age_begin_ns: 0,
            age_end_ns: 0,
            age_failed_ns: 0,
            last_reply_ns: 0,
            first_connect_ns: u64::MAX,
            first_begin_ns: u64::MAX,
            statuses: Statuses::default(),
            intervals: Intervals::default(),
            generator: Generator::default(),
            probe: None,
            interrupted: false,
        }
    }

    /// Adds the report of another thread or process for the same time. Counts and histograms are summed, and the window
    /// covers both.
    pub fn add(&mut self, other: &Self) {
        self.connections_open += other.connections_open;
        self.connections_untaken += other.connections_untaken;
        self.connections_made += other.connections_made;
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        let failed_ns = |report: &Self| report.first_failure.map_or(u64::MAX, |first| first.at_ns);
        if failed_ns(other) < failed_ns(self) {
            self.first_failure = other.first_failure;
            self.first_error.clone_from(&other.first_error);
        }
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.body_bytes += other.body_bytes;
        self.latency.add(&other.latency);
        if let (Some(views), Some(more)) = (&mut self.views, &other.views) {
            views.add(more);
        }
        match (&mut self.times, &other.times) {
            (Some(times), Some(more)) => times.add(more),
            (times @ None, more) => times.clone_from(more),
            (Some(_), None) => {}
        }
        self.backlog.add(&other.backlog);
        self.unanswered_ns_max = self.unanswered_ns_max.max(other.unanswered_ns_max);
        self.age_begin_ns += other.age_begin_ns;
        self.age_end_ns += other.age_end_ns;
        self.age_failed_ns += other.age_failed_ns;
        self.last_reply_ns = self.last_reply_ns.max(other.last_reply_ns);
        self.first_connect_ns = self.first_connect_ns.min(other.first_connect_ns);
        self.first_begin_ns = self.first_begin_ns.min(other.first_begin_ns);
        self.statuses.add(&other.statuses);
        self.intervals.add(&other.intervals);
        self.requests.add(&other.requests);
        self.errors.add(&other.errors);
        self.errors_by_phase.add(&other.errors_by_phase);
        self.generator.add(&other.generator);
        match (&mut self.probe, &other.probe) {
            (Some(probe), Some(more)) => probe.add(more),
            (probe @ None, more) => probe.clone_from(more),
            (Some(_), None) => {}
        }
        self.interrupted |= other.interrupted;
    }

    /// Turns the report of probe connections into that part of the whole report.
    pub(crate) fn into_probe(self, connections: usize) -> Probe {
        let Views { service_ns, lateness_ns, .. } = self.views.unwrap_or_default();
        Probe { connections, requests: self.requests, latency_ns: self.latency, service_ns, lateness_ns }
    }
}

impl Backlog {
    fn add(&mut self, other: &Self) {
        self.unsent_begin += other.unsent_begin;
        self.unsent_end += other.unsent_end;
        self.waited += other.waited;
    }
}

#[cfg(test)]
mod tests {
    use contract::{Echo, Workload};

    use super::*;

    const TIMELINE: Timeline =
        Timeline { start_ns: 1_000, begin_ns: 3_000, end_ns: 6_000, interval_ns: 1_000 };

    impl Recorder {
        /// Replies so far, right or wrong.
        pub(crate) fn replies(&self) -> u64 {
            self.record.requests.correct + self.record.requests.wrong
        }

        pub(crate) fn wrong_replies(&self) -> u64 {
            self.record.requests.wrong
        }

        pub(crate) fn times(&self) -> Option<&Times> {
            self.record.times.as_deref()
        }

        pub(crate) fn failures(&self) -> u64 {
            self.record.requests.failed
        }
    }

    fn check(times_ns: &[u64], in_window: u64, completed: &[u64]) {
        check_failing(times_ns, &[], in_window, completed);
    }

    /// Sends a request and takes its reply at each of `times_ns`, or loses it at those of `failed_ns`. One request is
    /// always in flight. Expects the counts of the window and of the intervals.
    fn check_failing(times_ns: &[u64], failed_ns: &[u64], in_window: u64, completed: &[u64]) {
        let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
        recorder.timeline = TIMELINE;
        recorder.next_edge_ns = TIMELINE.start_ns + TIMELINE.interval_ns;
        recorder.iteration_began_ns = TIMELINE.start_ns;
        recorder.now_ns = TIMELINE.start_ns;
        let dispatch = |at_ns| Dispatch { key: 0, due_ns: at_ns, free_ns: at_ns };
        let number = recorder.sent(&dispatch(900), 900, 0);
        let mut request = InFlight { due_ns: 900, sent_ns: 900, late_ns: 0, number, waited: false };
        for &at_ns in times_ns {
            if !recorder.begin_iteration(at_ns) {
                break;
            }
            if failed_ns.contains(&at_ns) {
                let mut lost = InFlightQueue::default();
                lost.push(request);
                let how = (Fault::Timeout, Phase::Receive);
                recorder.failed(&lost, false, 1, how, || "it came to nothing".to_owned());
            } else {
                recorder.replied(Verdict::Correct, None, &request, at_ns);
            }
            let number = recorder.sent(&dispatch(at_ns), at_ns, 0);
            request = InFlight { due_ns: at_ns, sent_ns: at_ns, number, ..request };
        }
        let record = recorder.finish();
        let requests = record.requests;
        // Little's law, within the three digits of the histogram: one request is in flight all the time.
        let latency_ns =
            record.latency.mean() * in_window as f64 + (record.age_end_ns + record.age_failed_ns) as f64;
        let window_ns = record.end_ns - record.begin_ns + record.age_begin_ns;
        assert!((latency_ns - window_ns as f64).abs() <= 0.001 * latency_ns, "{latency_ns} and {window_ns}");
        assert_eq!(requests.correct, in_window);
        let is_in_window = |at_ns: &&u64| (TIMELINE.begin_ns..TIMELINE.end_ns).contains(at_ns);
        let mut replies_ns = times_ns.iter().filter(|at_ns| !failed_ns.contains(at_ns));
        assert_eq!(record.last_reply_ns, replies_ns.rfind(is_in_window).copied().unwrap_or(0));
        assert_eq!(record.latency.len(), in_window);
        assert_eq!(
            requests.sent + requests.in_flight_begin,
            requests.correct + requests.wrong + requests.failed + requests.in_flight_end
        );
        assert_eq!(record.intervals.completed, completed);
        // Each request is sent when the one before it has ended, so the numbers follow from the times.
        let failed_first =
            times_ns.iter().position(|at_ns| failed_ns.contains(at_ns) && is_in_window(&at_ns));
        let first = failed_first.map(|position| (position as u64 + 1, Phase::Receive, Saw::Timeout));
        assert_eq!(record.first_failure.map(|first| (first.request, first.phase, first.saw)), first);
        assert_eq!(record.errors_by_phase.sum(), requests.wrong + requests.failed);
    }

    #[test]
    fn warm_up_is_left_out_and_what_comes_after_the_end_too() {
        check(&[1_500, 2_500, 3_500, 4_500, 5_500, 6_500, 7_500], 3, &[1, 1, 1, 1, 1]);
    }

    #[test]
    fn the_time_of_failed_requests_belongs_to_the_window_in_which_they_failed() {
        check_failing(&[2_500, 3_500, 4_500, 5_500, 6_500], &[2_500, 4_500], 2, &[0, 0, 1, 0, 1]);
        check_failing(&[1_500, 4_500, 6_500], &[4_500], 0, &[1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_run_that_is_stopped_in_its_warm_up_has_an_empty_window() {
        check(&[1_500, 2_500], 0, &[1, 1]);
    }

    #[test]
    fn the_interval_in_which_a_run_is_stopped_is_kept() {
        check(&[1_500, 3_500, 4_200, 4_300], 3, &[1, 0, 1, 2]);
    }

    #[test]
    fn a_window_ends_with_what_was_seen_last_and_not_when_that_has_been_counted() {
        let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
        recorder.timeline = TIMELINE;
        (recorder.iteration_began_ns, recorder.now_ns) = (TIMELINE.start_ns, TIMELINE.start_ns);
        assert!(recorder.begin_iteration(3_500) && recorder.begin_iteration(4_500));
        recorder.leave(Open::of([].into_iter(), 0), None, &Dispatcher::closed(1, 1));
        assert_eq!(recorder.finish().end_ns, 4_500);
    }

    #[test]
    fn an_interval_without_a_reply_is_a_zero_and_not_a_gap() {
        check(&[1_500, 4_500, 6_000], 1, &[1, 0, 0, 1, 0]);
    }

    #[test]
    fn a_reply_on_the_edge_belongs_to_what_begins_there() {
        check(&[2_000, 3_000, 6_000], 1, &[0, 1, 1, 0, 0]);
    }

    #[test]
    fn the_window_begins_on_the_edge_of_an_interval() {
        let spec = LoadSpec {
            warmup_ms: Some(25),
            duration_ms: Some(50),
            interval_ms: 10,
            ..LoadSpec::new(Workload::Echo(Echo::default()), Vec::new())
        };
        let timeline = Timeline::starting_at(MS_NS, &spec);
        assert_eq!((timeline.begin_ns, timeline.end_ns), (31 * MS_NS, 81 * MS_NS));
    }
}
