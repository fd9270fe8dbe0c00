//! The requests and replies of one connection, without its socket. All drivers use it.

use std::{io, mem};

use contract::{Phase, Saw};
use proto::{Client, Verdict};

use crate::dispatch::Dispatch;
use crate::in_flight::{InFlight, InFlightQueue};
use crate::record::{Fault, Recorder};
use crate::tls;
use crate::watch::{Watch, Watched};

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No reply is complete yet.
    Waiting,
    /// One or more replies are complete: the connection may carry more requests.
    Replied,
    /// The connection is finished. Its requests in flight have been counted.
    Over,
}

/// What a connection may carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests in flight at the same time.
    pub(crate) depth: usize,
    /// Requests in all.
    pub(crate) requests: u64,
    /// From the send of a request to its complete reply.
    pub(crate) timeout_ns: u64,
    pub(crate) watched: Watched,
}

/// The client half of the protocol, with the requests in flight and the start of an incomplete reply.
pub(crate) struct ClientConnection<C> {
    client: C,
    tail: Vec<u8>,
    /// Oldest first: replies come in that order.
    in_flight: InFlightQueue,
    limits: Limits,
    /// How late the last answered request was sent.
    late_ns: u64,
    /// Whether the server has sent anything, which shows that it accepted the connection.
    taken: bool,
    /// Its number among those that its thread has started to open, from 1.
    number: u64,
    /// None by default.
    watch: Option<Box<Watch>>,
}

impl<C> ClientConnection<C> {
    /// An open connection.
    pub(crate) fn new(client: C, limits: Limits, number: u64) -> Self {
        Self {
            client,
            tail: Vec::new(),
            in_flight: InFlightQueue::default(),
            limits,
            late_ns: 0,
            taken: true,
            number,
            watch: limits.watched.start(),
        }
    }

    /// Resets the state for a connection that is being opened. It counts as accepted when its first bytes arrive.
    pub(crate) fn open_again(&mut self, client: C, limits: Limits, number: u64) {
        debug_assert!(self.in_flight.is_empty(), "what was outstanding is accounted for");
        self.client = client;
        self.limits = limits;
        self.tail.clear();
        self.late_ns = 0;
        self.taken = false;
        self.number = number;
        self.watch.iter_mut().for_each(|watch| watch.open_again());
    }

    /// Whether the server has accepted the connection, or a request on it has timed out. Otherwise the next attempt
    /// waits for the next sweep, so that a refusing server is not retried in a busy loop.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    /// When the connection would have become free if the request just answered had been sent on time. The generator's
    /// own lateness must not count as the server's.
    pub(crate) fn free_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.late_ns)
    }

    /// Optional measurements of the connection, if there are any.
    pub(crate) fn watch(&mut self) -> Option<&mut Watch> {
        self.watch.as_deref_mut()
    }

    /// When the oldest request in flight was due.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.in_flight.first().map(|request| request.due_ns)
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether another request may be sent before the next reply.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.len() < self.limits.depth && self.limits.requests > 0
    }

    /// Begins the next request and returns its bytes. `now_ns` must be read before they are sent.
    pub(crate) fn begin<W: 'static>(
        &mut self,
        dispatch: &Dispatch,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> &'static [u8]
    where
        C: Client<W>,
    {
        debug_assert!(self.has_room(), "a connection with no room is not listed as free");
        let request = self.client.request();
        let waited = dispatch.due_ns < dispatch.free_ns;
        let late_ns = now_ns.saturating_sub(dispatch.due_ns.max(dispatch.free_ns));
        let number = recorder.sent(dispatch, now_ns, late_ns);
        self.in_flight.push(InFlight { due_ns: dispatch.due_ns, sent_ns: now_ns, late_ns, number, waited });
        self.limits.requests -= 1;
        request
    }

    /// Checks received bytes, and records the replies that are complete.
    pub(crate) fn receive<W: 'static>(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Outcome
    where
        C: Client<W>,
    {
        recorder.received(bytes.len());
        self.taken = true;
        if self.in_flight.is_empty() {
            // Bytes without a request: no request fails, but the connection is unusable from now on.
            return Outcome::Over;
        }
        if self.tail.is_empty() {
            let (used, outcome) = self.replies(bytes, now_ns, recorder);
            self.tail.extend_from_slice(&bytes[used..]);
            return outcome;
        }
        let mut tail = mem::take(&mut self.tail);
        tail.extend_from_slice(bytes);
        let (used, outcome) = self.replies(&tail, now_ns, recorder);
        tail.drain(..used);
        self.tail = tail;
        outcome
    }

    /// Takes complete replies from the front of `input`. Returns how many bytes they have.
    fn replies<W: 'static>(&mut self, input: &[u8], now_ns: u64, recorder: &mut Recorder) -> (usize, Outcome)
    where
        C: Client<W>,
    {
        let (mut used, mut outcome) = (0, Outcome::Waiting);
        loop {
            let (length, verdict) = match self.client.reply(&input[used..]) {
                Ok((length, Some(verdict))) => (length, verdict),
                Ok((length, None)) => {
                    self.watch.iter_mut().for_each(|watch| watch.waits_for_more(input.len() - used, now_ns));
                    return (used + length, outcome);
                }
                Err(malformed) => {
                    self.fail((Fault::Malformed, Phase::Receive), recorder, || malformed.0.into());
                    return (input.len(), Outcome::Over);
                }
            };
            used += length;
            if used < input.len() && self.in_flight.len() == 1 {
                let how = (Fault::Malformed, Phase::Receive);
                self.fail(how, recorder, || "bytes came after the end of the reply".into());
                return (input.len(), Outcome::Over);
            }
            outcome = self.finish(verdict, now_ns, recorder);
            if outcome == Outcome::Over {
                return (input.len(), outcome);
            }
            if used == input.len() {
                return (used, outcome);
            }
        }
    }

    /// Handles the end of the server's side. `phase` is that of the oldest request.
    pub(crate) fn end<W: 'static>(&mut self, phase: Phase, now_ns: u64, recorder: &mut Recorder) -> Outcome
    where
        C: Client<W>,
    {
        if !self.in_flight.is_empty()
            && let Some(verdict) = self.client.end()
        {
            self.finish(verdict, now_ns, recorder);
        }
        self.fail((Fault::Closed, phase), recorder, closed_early)
    }

    /// Counts all requests in flight as failed.
    fn fail(
        &mut self,
        how: (Fault, Phase),
        recorder: &mut Recorder,
        text: impl FnOnce() -> String,
    ) -> Outcome {
        if !self.in_flight.is_empty() {
            let is_lent = self.watch.as_ref().is_some_and(|watch| watch.is_lent());
            recorder.failed(&self.in_flight, is_lent, self.number, how, text);
            self.in_flight.clear();
        }
        Outcome::Over
    }

    /// Counts all requests in flight as failed by an error of the socket. `phase` is that of the oldest, unless the
    /// socket was not connected yet.
    pub(crate) fn fail_with(&mut self, error: &io::Error, phase: Phase, recorder: &mut Recorder) -> Outcome {
        let fault = fault_of(error, self.taken);
        let phase = if matches!(fault, Fault::Connect(_)) { Phase::Connect } else { phase };
        self.fail((fault, phase), recorder, || match fault {
            Fault::Reset => "the server reset the connection before its reply".into(),
            _ => error.to_string(),
        })
    }

    /// Counts the requests as failed because the connection could not be opened.
    pub(crate) fn fail_to_open(&mut self, error: &io::Error, recorder: &mut Recorder) -> Outcome {
        let fault = if tls::is_broken(error) { Fault::Tls } else { Fault::Connect(saw_unopened(error)) };
        self.fail((fault, Phase::Connect), recorder, || error.to_string())
    }

    /// Whether the oldest request has timed out.
    pub(crate) fn is_late(&self, now_ns: u64) -> bool {
        let timeout_ns = self.limits.timeout_ns;
        self.in_flight.first().is_some_and(|request| now_ns.saturating_sub(request.sent_ns) > timeout_ns)
    }

    /// Gives up on a connection whose oldest request has timed out in this phase.
    pub(crate) fn give_up(&mut self, phase: Phase, recorder: &mut Recorder) {
        self.fail((Fault::Timeout, phase), recorder, || match phase {
            Phase::Connect => "a connection was not open in time".into(),
            _ => "a reply did not come in time".into(),
        });
        // After a whole timeout the connection may be reopened at once.
        self.taken = true;
    }

    fn finish<W: 'static>(&mut self, verdict: Verdict, now_ns: u64, recorder: &mut Recorder) -> Outcome
    where
        C: Client<W>,
    {
        // Whether a request has timed out must not depend on how soon a driver checks.
        if self.is_late(now_ns) {
            self.give_up(Phase::Receive, recorder);
            return Outcome::Over;
        }
        let request = self.in_flight.pop().expect("a client half has a verdict on what was asked only");
        recorder.body(self.client.body_bytes());
        self.late_ns = request.late_ns;
        let split_bytes = self.watch.as_mut().and_then(|watch| watch.finish(&request, now_ns, recorder));
        let verdict = if split_bytes.is_some() { Verdict::Wrong } else { verdict };
        let status = self.client.status();
        match verdict {
            Verdict::Correct => {}
            Verdict::Wrong => recorder.wrong(Saw::Wrong, request.number, self.number, || {
                split_bytes.map_or_else(|| wrong(self.client.deviation()), split)
            }),
            Verdict::Status => recorder.wrong(Saw::Status, request.number, self.number, || {
                format!("a reply had the status {}", status.unwrap_or_default())
            }),
        }
        recorder.replied(verdict, status, &request, now_ns);
        if !self.client.keeps_alive() {
            return self.fail((Fault::Closed, Phase::Close), recorder, closed_early);
        }
        let is_spent = self.limits.requests == 0 && self.in_flight.is_empty();
        if is_spent { Outcome::Over } else { Outcome::Replied }
    }
}

/// The message for a reply with wrong bytes, with their position.
fn wrong(deviation: Option<String>) -> String {
    let deviation = deviation.map_or_else(String::new, |deviation| format!(": {deviation}"));
    format!("a reply was well-formed but not the right one{deviation}")
}

/// The message for a reply that had to come in one receive.
fn split(first_bytes: usize) -> String {
    format!("a reply came in several receives, of which the first brought {first_bytes} bytes")
}

fn closed_early() -> String {
    "the server closed the connection before its reply".into()
}

/// Classifies an error of a socket. A reset or an early end shows that the server had accepted the connection. Any
/// other error before the first bytes is a failure to connect, except one of TLS.
fn fault_of(error: &io::Error, taken: bool) -> Fault {
    match error.kind() {
        _ if tls::is_broken(error) => Fault::Tls,
        io::ErrorKind::UnexpectedEof => Fault::Closed,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Fault::Reset
        }
        _ if !taken => Fault::Connect(saw_unopened(error)),
        io::ErrorKind::TimedOut => Fault::Timeout,
        _ => Fault::Closed,
    }
}

/// Classifies the error of a connection that could not be opened.
pub(crate) fn saw_unopened(error: &io::Error) -> Saw {
    match error.kind() {
        _ if tls::is_broken(error) => Saw::Malformed,
        io::ErrorKind::TimedOut => Saw::Timeout,
        io::ErrorKind::ConnectionReset => Saw::Reset,
        io::ErrorKind::UnexpectedEof => Saw::Closed,
        _ => Saw::Refused,
    }
}

#[cfg(test)]
mod tests {
    use proto::Server;
    use proto::echo::{self, Framing};

    use super::*;
    use crate::Pace;
    use crate::dispatch::Dispatcher;

    const MESSAGE_BYTES: usize = 300;

    fn workload() -> &'static echo::Workload {
        Box::leak(Box::new(echo::Workload::new(Framing::Raw, MESSAGE_BYTES).unwrap()))
    }

    const LIMITS: Limits = Limits {
        depth: 1,
        requests: u64::MAX,
        timeout_ns: 1_000_000,
        watched: Watched { one_receive: false, counts_opened: false, details: false },
    };

    fn begin(
        connection: &mut ClientConnection<echo::Client>,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Vec<u8> {
        let dispatch = Dispatch { key: 0, due_ns: now_ns, free_ns: now_ns };
        connection.begin(&dispatch, now_ns, recorder).to_vec()
    }

    /// Sends `requests` requests at once, delivers `reply` in pieces, and expects the last outcome and the numbers of
    /// replies and failures.
    fn check_depth(
        requests: usize,
        reply: impl Fn(&[u8]) -> Vec<u8>,
        piece_bytes: usize,
        outcome: Outcome,
        (replies, failures): (u64, u64),
    ) {
        let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
        let limits = Limits { depth: requests, ..LIMITS };
        let mut connection = ClientConnection::new(<echo::Client as Client<_>>::new(workload()), limits, 1);
        let sent: Vec<u8> =
            (0..requests).flat_map(|_| begin(&mut connection, 1_000, &mut recorder)).collect();
        assert!(!connection.has_room());
        let reply = reply(&sent);
        let mut last = Outcome::Waiting;
        for piece in reply.chunks(piece_bytes) {
            assert_ne!(last, Outcome::Over, "a finished connection receives nothing");
            last = connection.receive(piece, 5_000, &mut recorder);
        }
        assert_eq!(last, outcome);
        assert_eq!((recorder.replies(), recorder.failures()), (replies, failures));
        assert_eq!(recorder.in_flight(), requests as u64 - replies - failures);
    }

    /// The same for one request.
    fn check(reply: impl Fn(&[u8]) -> Vec<u8>, piece_bytes: usize, outcome: Outcome, replies: u64) {
        check_depth(1, reply, piece_bytes, outcome, (replies, u64::from(outcome == Outcome::Over)));
    }

    #[test]
    fn a_reply_is_whole_however_it_was_cut() {
        for piece_bytes in [1, 2, 7, MESSAGE_BYTES - 1, MESSAGE_BYTES] {
            check(<[u8]>::to_vec, piece_bytes, Outcome::Replied, 1);
        }
    }

    /// Sends `requests` requests at once, delivers their replies in pieces to a connection that requires each in one
    /// receive, and expects how many are wrong.
    fn check_one_receive(requests: usize, piece_bytes: usize, wrong: u64) {
        let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
        let limits =
            Limits { depth: requests, watched: Watched { one_receive: true, ..LIMITS.watched }, ..LIMITS };
        let mut connection = ClientConnection::new(<echo::Client as Client<_>>::new(workload()), limits, 1);
        // The second round has the same result: no state is left from the first.
        for round in 1..=2 {
            let sent: Vec<u8> =
                (0..requests).flat_map(|_| begin(&mut connection, 1_000, &mut recorder)).collect();
            for piece in sent.chunks(piece_bytes) {
                assert_ne!(connection.receive(piece, 5_000, &mut recorder), Outcome::Over);
            }
            let came = (recorder.replies(), recorder.wrong_replies());
            assert_eq!(
                came,
                (round * requests as u64, round * wrong),
                "{requests} in pieces of {piece_bytes}"
            );
        }
    }

    #[test]
    fn a_reply_that_is_cut_is_wrong_where_one_receive_must_bring_it() {
        check_one_receive(1, MESSAGE_BYTES, 0);
        check_one_receive(1, MESSAGE_BYTES - 1, 1);
        check_one_receive(1, 1, 1);
        // Five replies in two receives: the third is split.
        check_one_receive(5, 5 * MESSAGE_BYTES / 2, 1);
        check_one_receive(5, MESSAGE_BYTES + 1, 4);
        check_one_receive(5, 5 * MESSAGE_BYTES, 0);
    }

    #[test]
    fn replies_to_several_requests_are_separated_however_they_were_cut() {
        for piece_bytes in [1, 7, MESSAGE_BYTES - 1, MESSAGE_BYTES, MESSAGE_BYTES + 1, 5 * MESSAGE_BYTES] {
            // The last piece may end one reply or hold several.
            check_depth(5, <[u8]>::to_vec, piece_bytes, Outcome::Replied, (5, 0));
        }
    }

    /// The fate of a connection opened for a request, by the connection's number.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begins(usize),
        Sent(usize),
        Answered(usize),
        Breaks(usize, io::ErrorKind),
        Late(usize),
    }

    /// Takes these steps in a run of `asked` requests on connections that are opened as needed. Expects the last step,
    /// and no earlier one, to end the run, and the numbers of answered and failed requests.
    fn check_as_needed(asked: u64, steps: &[Step], counts: (u64, u64)) {
        let (mut recorder, dispatcher) = (Recorder::new(asked, &Pace::Closed), Dispatcher::closed(1, 1));
        recorder.count_opened();
        let limits = Limits { watched: Watched { counts_opened: true, ..LIMITS.watched }, ..LIMITS };
        let client = <echo::Client as Client<_>>::new(workload());
        let mut connections = [(); 3].map(|()| ClientConnection::new(client.clone(), limits, 0));
        let mut requests = [const { Vec::new() }; 3];
        for (place, &step) in steps.iter().enumerate() {
            assert!(!recorder.is_done(&dispatcher), "{steps:?}: the run has ended before step {place}");
            match step {
                Step::Begins(at) => {
                    assert!(recorder.may_send(), "{steps:?}: no request is left at step {place}");
                    connections[at].open_again(client.clone(), limits, 1);
                    recorder.lend();
                    requests[at] = begin(&mut connections[at], 1_000, &mut recorder);
                }
                Step::Sent(at) => {
                    let watch = connections[at].watch().expect("it is watched");
                    watch.sent((1_000, 1_000), true, &mut recorder);
                }
                Step::Answered(at) => {
                    connections[at].receive(&requests[at], 2_000, &mut recorder);
                }
                Step::Breaks(at, kind) => {
                    connections[at].fail_with(&kind.into(), Phase::Send, &mut recorder);
                }
                Step::Late(at) => connections[at].give_up(Phase::Send, &mut recorder),
            }
        }
        assert!(recorder.is_done(&dispatcher), "{steps:?}: the run goes on");
        assert_eq!((recorder.replies(), recorder.failures()), counts, "{steps:?}");
    }

    #[test]
    fn a_run_of_a_number_of_requests_ends_with_as_many_outcomes_of_requests_that_were_asked_for() {
        use Step::{Answered, Begins, Breaks, Late, Sent};
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable};
        check_as_needed(1, &[Begins(0), Sent(0), Answered(0)], (1, 0));
        // A connection that fails before its request is sent uses up one of the remaining requests.
        for kind in [ConnectionRefused, ConnectionReset] {
            check_as_needed(1, &[Begins(0), Breaks(0, kind)], (0, 1));
            check_as_needed(2, &[Begins(0), Begins(1), Breaks(0, kind), Sent(1), Answered(1)], (1, 1));
        }
        check_as_needed(1, &[Begins(0), Late(0)], (0, 1));
        // If no request remains, a failed connection does not use up another connection's request.
        for fails in [Breaks(1, ConnectionRefused), Breaks(1, ConnectionReset), Late(1)] {
            check_as_needed(1, &[Begins(0), Begins(1), Sent(0), fails, Answered(0)], (1, 0));
        }
        // A sent request counts once, whatever its error.
        for fails in [Breaks(0, HostUnreachable), Breaks(0, ConnectionReset), Late(0)] {
            check_as_needed(2, &[Begins(0), Sent(0), fails, Begins(1), Sent(1), Answered(1)], (1, 1));
        }
    }

    #[test]
    fn a_connection_that_breaks_fails_all_that_was_outstanding() {
        let surplus = |requests: &[u8]| [requests, b"x"].concat();
        check_depth(5, surplus, 6 * MESSAGE_BYTES, Outcome::Over, (4, 1));
        let mut recorder = Recorder::new(9, &Pace::Closed);
        let limits = Limits { depth: 9, requests: 9, ..LIMITS };
        let mut connection = ClientConnection::new(<echo::Client as Client<_>>::new(workload()), limits, 1);
        (0..9).for_each(|_| drop(begin(&mut connection, 0, &mut recorder)));
        connection.fail_with(&io::ErrorKind::ConnectionReset.into(), Phase::Receive, &mut recorder);
        assert_eq!((recorder.failures(), recorder.in_flight()), (9, 0));
    }

    /// Answers a request that begins at 100: its connection is open at `opened_ns`, it is sent by `sent_ns`, and its
    /// reply comes in receives at these times. Expects the parts of its time: connect, write, wait, read, and all but
    /// the first.
    fn check_times(opened_ns: Option<u64>, sent_ns: u64, received_ns: &[u64], parts_ns: [u64; 5]) {
        let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
        recorder.time_requests();
        let limits = Limits { watched: Watched { details: true, ..LIMITS.watched }, ..LIMITS };
        let client = <echo::Client as Client<_>>::new(workload());
        let mut connection = ClientConnection::new(client.clone(), limits, 1);
        if opened_ns.is_some() {
            connection.open_again(client, limits, 2);
        }
        let request = begin(&mut connection, 100, &mut recorder);
        let watch = connection.watch().expect("it is watched");
        watch.sent((opened_ns.unwrap_or(100), sent_ns), true, &mut recorder);
        let pieces = request.chunks(MESSAGE_BYTES.div_ceil(received_ns.len()));
        pieces.zip(received_ns).for_each(|(piece, &now_ns)| {
            connection.receive(piece, now_ns, &mut recorder);
        });
        let times = recorder.times().expect("they are measured");
        let rows = [&times.connect_ns, &times.write_ns, &times.wait_ns, &times.read_ns, &times.processing_ns];
        // Below 2048 a histogram is exact.
        assert_eq!(rows.map(|row| (row.len(), row.max())), parts_ns.map(|part_ns| (1, part_ns)));
    }

    #[test]
    fn the_time_of_a_request_has_its_parts() {
        check_times(None, 110, &[150], [0, 10, 40, 0, 50]);
        check_times(None, 110, &[150, 160, 190], [0, 10, 40, 40, 90]);
        check_times(Some(130), 135, &[150, 155], [30, 5, 15, 5, 25]);
        // The reply arrived before the send returned.
        check_times(Some(130), 170, &[150], [30, 20, 0, 0, 20]);
    }

    #[test]
    fn a_connection_that_is_free_late_for_a_late_request_is_free_from_when_it_would_have_been() {
        let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
        let mut connection = ClientConnection::new(<echo::Client as Client<_>>::new(workload()), LIMITS, 1);
        // Due at 100 and sent at 900, answered within 50: the connection would have been free at 150.
        let mut ask = |due_ns: u64, free_ns: u64, now_ns: u64| {
            let request =
                connection.begin(&Dispatch { key: 0, due_ns, free_ns }, now_ns, &mut recorder).to_vec();
            assert_eq!(connection.receive(&request, now_ns + 50, &mut recorder), Outcome::Replied);
            connection.free_ns(now_ns + 50)
        };
        assert_eq!(ask(100, 0, 900), 150);
        // The next was due at 200, so it is 750 late. The one after it is sent on time.
        assert_eq!(ask(200, 150, 950), 250);
        assert_eq!(ask(2_000, 250, 2_000), 2_050);
    }

    #[test]
    fn a_connection_is_over_after_the_requests_it_may_carry() {
        let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
        let limits = Limits { depth: 2, requests: 2, ..LIMITS };
        let mut connection = ClientConnection::new(<echo::Client as Client<_>>::new(workload()), limits, 1);
        let first = begin(&mut connection, 0, &mut recorder);
        let second = begin(&mut connection, 0, &mut recorder);
        assert_eq!(connection.receive(&first, 1, &mut recorder), Outcome::Replied);
        assert!(!connection.has_room());
        assert_eq!(connection.receive(&second, 1, &mut recorder), Outcome::Over);
        assert_eq!((recorder.replies(), recorder.failures()), (2, 0));
    }

    #[test]
    fn a_reply_that_comes_too_late_is_none_and_neither_are_those_behind_it() {
        for (late_ns, counts) in [(0, (1, 0)), (1, (0, 2))] {
            let mut recorder = Recorder::new(u64::MAX, &Pace::Closed);
            let limits = Limits { depth: 2, ..LIMITS };
            let mut connection =
                ClientConnection::new(<echo::Client as Client<_>>::new(workload()), limits, 1);
            let first = begin(&mut connection, 500, &mut recorder);
            begin(&mut connection, 600, &mut recorder);
            let now_ns = 500 + LIMITS.timeout_ns + late_ns;
            let outcome = connection.receive(&first, now_ns, &mut recorder);
            assert_eq!(outcome, if late_ns == 0 { Outcome::Replied } else { Outcome::Over });
            assert_eq!((recorder.replies(), recorder.failures()), counts);
        }
    }

    #[test]
    fn a_reply_that_is_cut_off_is_still_waited_for() {
        check(|request| request[..MESSAGE_BYTES - 1].to_vec(), 100, Outcome::Waiting, 0);
    }

    #[test]
    fn a_wrong_byte_is_a_wrong_reply_and_not_a_broken_connection() {
        let flipped = |request: &[u8]| {
            let mut reply = request.to_vec();
            reply[MESSAGE_BYTES / 2] ^= 1;
            reply
        };
        check(flipped, MESSAGE_BYTES, Outcome::Replied, 1);
    }

    #[test]
    fn bytes_after_the_reply_break_the_connection() {
        let doubled = |request: &[u8]| [request, request].concat();
        check(doubled, 2 * MESSAGE_BYTES, Outcome::Over, 0);
    }

    #[test]
    fn a_clone_of_the_client_is_answered_by_any_server() {
        let workload = workload();
        let mut recorder = Recorder::new(2, &Pace::Closed);
        let mut first = ClientConnection::new(<echo::Client as Client<_>>::new(workload), LIMITS, 1);
        let mut second = ClientConnection::new(first.client.clone(), LIMITS, 2);
        for connection in [&mut first, &mut second] {
            let mut server = <echo::Server as Server<_>>::new(workload);
            let mut output = proto::Output::new();
            let (used, _) = server.advance(&begin(connection, 0, &mut recorder), &mut output);
            assert_eq!(used, MESSAGE_BYTES);
            assert_eq!(connection.receive(output.as_bytes(), 1, &mut recorder), Outcome::Replied);
        }
        assert!(!recorder.may_send(), "two requests were allowed, and two were sent");
    }
}
