//! One connection's requests and replies, without its socket: what the drivers share.

use std::io;

use proto::{Client, Malformed, Verdict};

use crate::record::{Fault, Recorder};

/// What a piece of input has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply is not whole yet.
    Waiting,
    /// The reply is whole: the next request may go out.
    Replied,
    /// The connection is of no further use; what was outstanding is accounted for.
    Over,
}

/// The client half with what surrounds it: the request in flight, when it began, and input that is not yet a reply.
pub(crate) struct Exchange<C> {
    client: C,
    tail: Vec<u8>,
    began_ns: u64,
    in_flight: bool,
    /// Whether the server has shown that it has taken the connection.
    taken: bool,
}

impl<C> Exchange<C> {
    /// The exchange of a connection that is open.
    pub(crate) fn new(client: C) -> Self {
        Self { client, tail: Vec::new(), began_ns: 0, in_flight: false, taken: true }
    }

    /// The exchange of a connection that is being opened: until the first bytes come, nobody has taken it.
    pub(crate) fn opening(client: C) -> Self {
        Self { taken: false, ..Self::new(client) }
    }

    /// Whether the connection has been of use. One that has not is opened again in time, not at once and for ever.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    /// The next request, which begins now: `now_ns` must be read before it is sent.
    pub(crate) fn begin<W: 'static>(&mut self, now_ns: u64, recorder: &mut Recorder) -> &'static [u8]
    where
        C: Client<W>,
    {
        debug_assert!(!self.in_flight, "one request is outstanding at most");
        let request = self.client.request();
        self.began_ns = now_ns;
        self.in_flight = true;
        recorder.sent(request.len());
        request
    }

    /// Checks what has come, and records the reply if it is whole.
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
        if !self.in_flight {
            // Nothing was asked, so nothing can be charged; the connection cannot be trusted.
            return Outcome::Over;
        }
        if !self.tail.is_empty() {
            self.tail.extend_from_slice(bytes);
            let result = self.client.reply(&self.tail);
            let len = self.tail.len();
            self.tail.drain(..result.map_or(len, |(used, _)| used));
            return self.settle(result, len, now_ns, recorder);
        }
        let result = self.client.reply(bytes);
        if let Ok((used, None)) = result {
            self.tail.extend_from_slice(&bytes[used..]);
        }
        self.settle(result, bytes.len(), now_ns, recorder)
    }

    fn settle<W: 'static>(
        &mut self,
        result: Result<(usize, Option<Verdict>), Malformed>,
        len: usize,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Outcome
    where
        C: Client<W>,
    {
        match result {
            Ok((_, None)) => Outcome::Waiting,
            Ok((used, Some(verdict))) if used == len => self.finish(verdict, now_ns, recorder),
            Ok(_) => self.fail(Fault::Malformed, recorder, || "bytes came after the end of the reply".into()),
            Err(malformed) => self.fail(Fault::Malformed, recorder, || malformed.0.into()),
        }
    }

    /// The server has ended its side.
    pub(crate) fn end<W: 'static>(&mut self, now_ns: u64, recorder: &mut Recorder) -> Outcome
    where
        C: Client<W>,
    {
        match self.in_flight.then(|| self.client.end()).flatten() {
            Some(verdict) => {
                self.finish(verdict, now_ns, recorder);
            }
            None => {
                self.fail(Fault::Closed, recorder, || {
                    "the server closed the connection before its reply".into()
                });
            }
        }
        Outcome::Over
    }

    /// The request in flight, if there is one, has come to nothing.
    pub(crate) fn fail(
        &mut self,
        fault: Fault,
        recorder: &mut Recorder,
        text: impl FnOnce() -> String,
    ) -> Outcome {
        if self.in_flight {
            self.in_flight = false;
            recorder.failed(fault, text);
        }
        Outcome::Over
    }

    /// The connection has broken with this error.
    pub(crate) fn fail_with(&mut self, error: &io::Error, recorder: &mut Recorder) {
        self.fail(fault_of(error, self.taken), recorder, || error.to_string());
    }

    /// Gives up on a reply that has not come within `timeout_ns`; says whether it did.
    pub(crate) fn give_up_late(&mut self, now_ns: u64, timeout_ns: u64, recorder: &mut Recorder) -> bool {
        let late = self.in_flight && now_ns.saturating_sub(self.began_ns) > timeout_ns;
        if late {
            self.fail(Fault::Timeout, recorder, || "a reply did not come in time".into());
        }
        late
    }

    /// Whether a request waits for its reply.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    fn finish<W: 'static>(&mut self, verdict: Verdict, now_ns: u64, recorder: &mut Recorder) -> Outcome
    where
        C: Client<W>,
    {
        self.in_flight = false;
        recorder.replied(verdict, now_ns - self.began_ns);
        if self.client.keeps_alive() { Outcome::Replied } else { Outcome::Over }
    }
}

/// Which fault an error of a socket is. A reset can only come from a server that has taken the connection; other
/// errors of one that nobody has taken say just that.
fn fault_of(error: &io::Error, taken: bool) -> Fault {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Fault::Reset
        }
        _ if !taken => Fault::Connect,
        io::ErrorKind::TimedOut => Fault::Timeout,
        _ => Fault::Closed,
    }
}

#[cfg(test)]
mod tests {
    use proto::Server;
    use proto::echo::{self, Framing};

    use super::*;

    const MESSAGE_BYTES: usize = 300;

    fn workload() -> &'static echo::Workload {
        Box::leak(Box::new(echo::Workload::new(Framing::Raw, MESSAGE_BYTES).unwrap()))
    }

    /// Sends one request, presents `reply` of it in pieces, and expects the outcomes and the count of replies.
    fn check(reply: impl Fn(&[u8]) -> Vec<u8>, piece_bytes: usize, outcome: Outcome, replies: u64) {
        let workload = workload();
        let mut recorder = Recorder::new(u64::MAX);
        let mut exchange = Exchange::new(<echo::Client as Client<_>>::new(workload));
        let reply = reply(exchange.begin(1_000, &mut recorder));
        let mut last = Outcome::Waiting;
        for piece in reply.chunks(piece_bytes) {
            assert_eq!(last, Outcome::Waiting, "a reply is over only with its last piece");
            last = exchange.receive(piece, 5_000, &mut recorder);
        }
        assert_eq!(last, outcome);
        assert_eq!(recorder.replies(), replies);
    }

    #[test]
    fn a_reply_is_whole_however_it_was_cut() {
        for piece_bytes in [1, 2, 7, MESSAGE_BYTES - 1, MESSAGE_BYTES] {
            check(<[u8]>::to_vec, piece_bytes, Outcome::Replied, 1);
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
        let mut recorder = Recorder::new(2);
        let mut first = Exchange::new(<echo::Client as Client<_>>::new(workload));
        let mut second = Exchange::new(first.client.clone());
        for exchange in [&mut first, &mut second] {
            let mut server = <echo::Server as Server<_>>::new(workload);
            let mut output = proto::Output::new();
            let (used, _) = server.advance(exchange.begin(0, &mut recorder), &mut output);
            assert_eq!(used, MESSAGE_BYTES);
            assert_eq!(exchange.receive(output.as_bytes(), 1, &mut recorder), Outcome::Replied);
        }
        assert!(!recorder.may_send(), "two requests were allowed, and two were sent");
    }
}
