//! What a run leaves behind: counts, latencies and the rate over time, one record a thread, merged at the end.

use hdrhistogram::Histogram;
use proto::Verdict;
use sys::{clock, process};

use crate::{Config, End};

/// Latencies are told apart to 3 significant digits between 1 ns and a minute; longer ones count as a minute. The
/// memory is the same for any length of run.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// When things happen, in CLOCK_MONOTONIC nanoseconds; the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    pub(crate) start_ns: u64,
    pub(crate) begin_ns: u64,
    /// `u64::MAX` where a number of requests ends the run.
    pub(crate) end_ns: u64,
    pub(crate) interval_ns: u64,
}

impl Timeline {
    pub(crate) fn starting_at(start_ns: u64, config: &Config) -> Self {
        let interval_ns = config.interval.as_nanos().max(1) as u64;
        // The window begins on the edge of an interval, so that the series can be cut there.
        let warmup_ns = (config.warmup.as_nanos() as u64).next_multiple_of(interval_ns);
        let (begin_ns, end_ns) = match config.end {
            End::After(duration) => (start_ns + warmup_ns, start_ns + warmup_ns + duration.as_nanos() as u64),
            End::Requests(_) => (start_ns, u64::MAX),
        };
        Self { start_ns, begin_ns, end_ns, interval_ns }
    }

    pub(crate) fn is_open_ended(&self) -> bool {
        self.end_ns == u64::MAX
    }
}

/// Requests of the measured window: `sent + in_flight_begin = correct + wrong + failed + in_flight_end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub sent: u64,
    pub correct: u64,
    /// Answered with other bytes, or with a status that is an error.
    pub wrong: u64,
    /// Not answered: the connection failed, or the time was up.
    pub failed: u64,
    pub in_flight_begin: u64,
    pub in_flight_end: u64,
}

/// What went wrong in the measured window, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    pub connect: u64,
    pub reset: u64,
    pub closed: u64,
    pub timeout: u64,
    pub malformed: u64,
    pub wrong: u64,
}

/// A kind of failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Connect,
    Reset,
    Closed,
    Timeout,
    Malformed,
}

/// Completed requests over time, the warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    pub begin_ns: u64,
    pub length_ns: u64,
    pub completed: Vec<u64>,
}

/// What the generator itself used in the window, all its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generator {
    pub cpu_ns: u64,
    /// The length of the window times the number of threads.
    pub wall_ns: u64,
    /// Time threads were ready to run and had no processor.
    pub run_delay_ns: u64,
    /// The longest time between two waits.
    pub turn_ns_max: u64,
    pub turns: u64,
    pub rss_bytes_max: u64,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Report {
    pub connections_open: usize,
    /// The measured window, CLOCK_MONOTONIC.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub requests: Requests,
    pub errors: Errors,
    /// The first thing that went wrong, in words.
    pub first_error: Option<String>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Nanoseconds from just before the send to the whole, checked reply.
    pub latency: Histogram<u64>,
    pub intervals: Intervals,
    pub generator: Generator,
    pub interrupted: bool,
}

/// What one thread has recorded.
pub(crate) struct Record {
    requests: Requests,
    errors: Errors,
    first_error: Option<String>,
    bytes_sent: u64,
    bytes_received: u64,
    latency: Histogram<u64>,
    completed: Vec<u64>,
    generator: Generator,
    begin_ns: u64,
    end_ns: u64,
    connections_open: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Window,
    Over,
}

/// One thread's record in the making.
pub(crate) struct Recorder {
    record: Record,
    phase: Phase,
    timeline: Timeline,
    next_edge_ns: u64,
    /// Completed since the last edge.
    completed: u64,
    in_flight: u64,
    /// Requests that may still be sent.
    left: u64,
    turn_began_ns: u64,
    now_ns: u64,
}

impl Recorder {
    pub(crate) fn new(requests: u64) -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("the bounds are in order and the digits within 0 to 5");
        let record = Record {
            requests: Requests::default(),
            errors: Errors::default(),
            first_error: None,
            bytes_sent: 0,
            bytes_received: 0,
            latency,
            completed: Vec::new(),
            generator: Generator::default(),
            begin_ns: 0,
            end_ns: 0,
            connections_open: 0,
        };
        let timeline = Timeline { start_ns: 0, begin_ns: 0, end_ns: u64::MAX, interval_ns: u64::MAX };
        Self {
            record,
            phase: Phase::WarmUp,
            timeline,
            next_edge_ns: u64::MAX,
            completed: 0,
            in_flight: 0,
            left: requests,
            turn_began_ns: 0,
            now_ns: 0,
        }
    }

    pub(crate) fn start(&mut self, timeline: Timeline) {
        self.timeline = timeline;
        self.next_edge_ns = timeline.start_ns + timeline.interval_ns;
        self.turn_began_ns = clock::monotonic_ns();
        self.advance(self.turn_began_ns);
    }

    /// A wait is over, and it is `now_ns`: a turn begins. Says whether the run goes on.
    pub(crate) fn begin_turn(&mut self, now_ns: u64) -> bool {
        let turn_ns = self.now_ns - self.turn_began_ns;
        self.record.generator.turn_ns_max = self.record.generator.turn_ns_max.max(turn_ns);
        self.record.generator.turns += 1;
        self.turn_began_ns = now_ns;
        self.advance(now_ns);
        self.phase != Phase::Over
    }

    /// Whether every request that was to be sent has been answered or has failed.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.in_flight == 0
    }

    /// When the next wait must be over, at the latest.
    pub(crate) fn due_ns(&self) -> u64 {
        let next = if self.phase == Phase::WarmUp { self.timeline.begin_ns } else { self.timeline.end_ns };
        next.min(self.next_edge_ns)
    }

    /// Time goes on within a turn.
    pub(crate) fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Whether another request may be sent.
    pub(crate) fn may_send(&self) -> bool {
        self.left > 0
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.left -= 1;
        self.in_flight += 1;
        self.record.requests.sent += 1;
        self.record.bytes_sent += bytes as u64;
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.record.bytes_received += bytes as u64;
    }

    pub(crate) fn replied(&mut self, verdict: Verdict, latency_ns: u64) {
        self.in_flight -= 1;
        self.completed += 1;
        self.record.latency.saturating_record(latency_ns);
        match verdict {
            Verdict::Correct => self.record.requests.correct += 1,
            Verdict::Wrong => {
                self.record.requests.wrong += 1;
                self.record.errors.wrong += 1;
                self.first(|| "a reply was well-formed but not the right one".into());
            }
        }
    }

    /// A request in flight has come to nothing.
    pub(crate) fn failed(&mut self, fault: Fault, text: impl FnOnce() -> String) {
        self.in_flight -= 1;
        self.record.requests.failed += 1;
        let errors = &mut self.record.errors;
        *match fault {
            Fault::Connect => &mut errors.connect,
            Fault::Reset => &mut errors.reset,
            Fault::Closed => &mut errors.closed,
            Fault::Timeout => &mut errors.timeout,
            Fault::Malformed => &mut errors.malformed,
        } += 1;
        self.first(text);
    }

    pub(crate) fn connections_open(&mut self, count: usize) {
        self.record.connections_open = count;
    }

    pub(crate) fn finish(mut self) -> Record {
        // A run of a number of requests ends with the last reply, not when that is noticed.
        let now_ns = if self.is_done() { self.now_ns } else { clock::monotonic_ns() };
        if self.phase == Phase::WarmUp {
            // Stopped before the window began: what was counted belongs to none.
            self.begin_window(now_ns);
        }
        if self.phase == Phase::Window {
            self.end_window(now_ns);
        }
        if self.completed > 0 && self.timeline.is_open_ended() {
            self.record.completed.push(self.completed);
        }
        self.record
    }

    fn first(&mut self, text: impl FnOnce() -> String) {
        self.record.first_error.get_or_insert_with(text);
    }

    /// Closes the intervals, and begins and ends the window, that `now_ns` is beyond.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        while now_ns >= self.next_edge_ns {
            self.record.completed.push(std::mem::take(&mut self.completed));
            self.next_edge_ns += self.timeline.interval_ns;
        }
        if self.phase == Phase::WarmUp && now_ns >= self.timeline.begin_ns {
            self.begin_window(now_ns);
        }
        if self.phase == Phase::Window && now_ns >= self.timeline.end_ns {
            self.end_window(now_ns);
        }
    }

    fn begin_window(&mut self, now_ns: u64) {
        self.phase = Phase::Window;
        let record = &mut self.record;
        record.requests = Requests { in_flight_begin: self.in_flight, ..Requests::default() };
        record.errors = Errors::default();
        record.first_error = None;
        (record.bytes_sent, record.bytes_received) = (0, 0);
        record.latency.reset();
        record.begin_ns = now_ns;
        record.generator = Generator {
            cpu_ns: clock::thread_cpu_ns(),
            run_delay_ns: process::thread_run_delay_ns(),
            ..Generator::default()
        };
    }

    fn end_window(&mut self, now_ns: u64) {
        self.phase = Phase::Over;
        let record = &mut self.record;
        record.requests.in_flight_end = self.in_flight;
        record.end_ns = now_ns;
        let generator = &mut record.generator;
        generator.cpu_ns = clock::thread_cpu_ns() - generator.cpu_ns;
        generator.run_delay_ns = process::thread_run_delay_ns().saturating_sub(generator.run_delay_ns);
        generator.wall_ns = now_ns - record.begin_ns;
    }
}

impl Report {
    pub(crate) fn merge(
        mut records: impl Iterator<Item = Record>,
        timeline: &Timeline,
        interrupted: bool,
    ) -> Self {
        let first = records.next().expect("a run has a thread at least");
        let mut report = Self {
            connections_open: first.connections_open,
            begin_ns: first.begin_ns,
            end_ns: first.end_ns,
            requests: first.requests,
            errors: first.errors,
            first_error: first.first_error,
            bytes_sent: first.bytes_sent,
            bytes_received: first.bytes_received,
            latency: first.latency,
            intervals: Intervals {
                begin_ns: timeline.start_ns,
                length_ns: timeline.interval_ns,
                completed: first.completed,
            },
            generator: first.generator,
            interrupted,
        };
        records.for_each(|record| report.add(record));
        report.generator.rss_bytes_max = process::rss_bytes_max();
        report
    }

    fn add(&mut self, record: Record) {
        self.connections_open += record.connections_open;
        self.begin_ns = self.begin_ns.min(record.begin_ns);
        self.end_ns = self.end_ns.max(record.end_ns);
        self.first_error = self.first_error.take().or(record.first_error);
        self.bytes_sent += record.bytes_sent;
        self.bytes_received += record.bytes_received;
        self.latency.add(&record.latency).expect("all threads use the same bounds");
        self.intervals.add(&record.completed);
        self.requests.add(&record.requests);
        self.errors.add(&record.errors);
        self.generator.add(&record.generator);
    }
}

impl Requests {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.correct += other.correct;
        self.wrong += other.wrong;
        self.failed += other.failed;
        self.in_flight_begin += other.in_flight_begin;
        self.in_flight_end += other.in_flight_end;
    }
}

impl Errors {
    fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.reset += other.reset;
        self.closed += other.closed;
        self.timeout += other.timeout;
        self.malformed += other.malformed;
        self.wrong += other.wrong;
    }
}

impl Generator {
    fn add(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
        self.run_delay_ns += other.run_delay_ns;
        self.turn_ns_max = self.turn_ns_max.max(other.turn_ns_max);
        self.turns += other.turns;
    }
}

impl Intervals {
    /// Adds another thread's counts, edge by edge.
    fn add(&mut self, completed: &[u64]) {
        if self.completed.len() < completed.len() {
            self.completed.resize(completed.len(), 0);
        }
        self.completed.iter_mut().zip(completed).for_each(|(sum, count)| *sum += count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELINE: Timeline =
        Timeline { start_ns: 1_000, begin_ns: 3_000, end_ns: 6_000, interval_ns: 1_000 };

    impl Recorder {
        /// Replies so far, right or wrong.
        pub(crate) fn replies(&self) -> u64 {
            self.record.requests.correct + self.record.requests.wrong
        }
    }

    /// Sends a request and takes its reply at each of `times_ns`, with one request always in flight, and expects
    /// the counts of the window and of the intervals.
    fn check(times_ns: &[u64], in_window: u64, completed: &[u64]) {
        let mut recorder = Recorder::new(u64::MAX);
        recorder.timeline = TIMELINE;
        recorder.next_edge_ns = TIMELINE.start_ns + TIMELINE.interval_ns;
        recorder.turn_began_ns = TIMELINE.start_ns;
        recorder.now_ns = TIMELINE.start_ns;
        recorder.sent(10);
        for &at_ns in times_ns {
            if !recorder.begin_turn(at_ns) {
                break;
            }
            recorder.replied(Verdict::Correct, 100);
            recorder.sent(10);
        }
        let record = recorder.finish();
        let requests = record.requests;
        assert_eq!(requests.correct, in_window);
        assert_eq!(record.latency.len(), in_window);
        assert_eq!(
            requests.sent + requests.in_flight_begin,
            requests.correct + requests.wrong + requests.failed + requests.in_flight_end
        );
        assert_eq!(record.completed, completed);
    }

    #[test]
    fn warm_up_is_left_out_and_what_comes_after_the_end_too() {
        check(&[1_500, 2_500, 3_500, 4_500, 5_500, 6_500, 7_500], 3, &[1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_run_that_is_stopped_in_its_warm_up_has_an_empty_window() {
        check(&[1_500, 2_500], 0, &[1]);
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
        let config = Config {
            driver: crate::Driver::Epoll,
            addresses: Vec::new(),
            connections: 1,
            threads: 1,
            cpus: Vec::new(),
            warmup: std::time::Duration::from_nanos(2_500),
            end: End::After(std::time::Duration::from_nanos(5_000)),
            timeout: std::time::Duration::from_secs(1),
            interval: std::time::Duration::from_nanos(1_000),
        };
        let timeline = Timeline::starting_at(10_000, &config);
        assert_eq!((timeline.begin_ns, timeline.end_ns), (13_000, 18_000));
    }
}
