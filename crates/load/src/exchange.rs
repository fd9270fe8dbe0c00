//! One connection's requests and replies, without its socket: what the drivers share.

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
}

impl<C> Exchange<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client, tail: Vec::new(), began_ns: 0, in_flight: false }
    }

    /// The next request, which begins now: `now_ns` must be read before it is sent.
    pub(crate) fn begin<W: 'static>(&mut self, now_ns: u64, recorder: &mut Recorder) -> &'static [u8]
    where
        C: Client<W>,
    {
        let request = self.client.request();
        self.began_ns = now_ns;
        self.in_flight = true;
        recorder.sent(request.len());
        request
    }

    /// Checks what has come, and records the reply if it is whole.
    pub(crate) fn receive<W: 'static>(&mut self, bytes: &[u8], now_ns: u64, recorder: &mut Recorder) -> Outcome
    where
        C: Client<W>,
    {
        recorder.received(bytes.len());
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
                self.fail(Fault::Closed, recorder, || "the server closed the connection before its reply".into());
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

    /// How long the request in flight has been waiting for its reply.
    pub(crate) fn waiting_ns(&self, now_ns: u64) -> u64 {
        if self.in_flight { now_ns.saturating_sub(self.began_ns) } else { 0 }
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
