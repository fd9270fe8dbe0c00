//! What a connection was doing when a request went wrong, and what the client saw.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a connection was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It was being opened; with TLS, until the end of the handshake.
    Connect,
    /// The request had not been sent completely.
    Send,
    /// The reply was not complete.
    Receive,
    /// The server had announced that it would close the connection, with requests outstanding.
    Close,
}

/// What a client sees of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Saw {
    /// No connection: the server refused it, or the kernel could not open it.
    Refused,
    Reset,
    Timeout,
    Closed,
    /// Other bytes than the expected ones.
    Wrong,
    /// Bytes that are no reply, or a handshake that failed.
    Malformed,
    /// Another status than the expected one.
    Status,
}

/// The first request that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstFailure {
    /// When, in CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Its number among the requests of the run, from 1; 0 if no request had begun. Several threads number theirs in
    /// turn.
    pub request: u64,
    /// The number of its connection among those that the run has started to open, from 1, in the same way.
    pub connection: u64,
    pub phase: Phase,
    pub saw: Saw,
}

impl FirstFailure {
    /// The same failure, with its numbers within the whole run: its `threads` threads take numbers in turn, and this
    /// one is at `index`.
    #[must_use]
    pub fn of_thread(self, index: usize, threads: usize) -> Self {
        let number = |own: u64| match own.checked_sub(1) {
            Some(before) => before * threads as u64 + index as u64 + 1,
            None => 0,
        };
        Self { request: number(self.request), connection: number(self.connection), ..self }
    }
}

/// Requests that went wrong, by phase: `connect + send + receive + close = wrong + failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorsByPhase {
    pub connect: u64,
    pub send: u64,
    pub receive: u64,
    pub close: u64,
}

impl ErrorsByPhase {
    pub fn count(&mut self, phase: Phase, requests: u64) {
        *match phase {
            Phase::Connect => &mut self.connect,
            Phase::Send => &mut self.send,
            Phase::Receive => &mut self.receive,
            Phase::Close => &mut self.close,
        } += requests;
    }

    pub fn sum(&self) -> u64 {
        self.connect + self.send + self.receive + self.close
    }

    pub fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.send += other.send;
        self.receive += other.receive;
        self.close += other.close;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_number_their_requests_in_turn() {
        let first = |request, connection| FirstFailure {
            at_ns: 7,
            request,
            connection,
            phase: Phase::Receive,
            saw: Saw::Reset,
        };
        assert_eq!(first(5, 2).of_thread(0, 1), first(5, 2));
        assert_eq!(first(1, 1).of_thread(2, 3), first(3, 3));
        assert_eq!(first(5, 2).of_thread(1, 3), first(14, 5));
        assert_eq!(first(0, 1).of_thread(1, 2), first(0, 2));
    }
}
