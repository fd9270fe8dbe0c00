//! Measurements of the window. Those of threads and processes at the same time are summed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::Latency;

/// Requests of the window: `sent + in_flight_begin = correct + wrong + failed + in_flight_end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    pub sent: u64,
    pub correct: u64,
    /// Answered with other bytes, or with another status than the expected one.
    pub wrong: u64,
    /// Not answered: the connection failed, or the request timed out.
    pub failed: u64,
    pub in_flight_begin: u64,
    pub in_flight_end: u64,
}

impl Requests {
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.correct += other.correct;
        self.wrong += other.wrong;
        self.failed += other.failed;
        self.in_flight_begin += other.in_flight_begin;
        self.in_flight_end += other.in_flight_end;
    }
}

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    pub connect: u64,
    pub reset: u64,
    pub closed: u64,
    pub timeout: u64,
    pub malformed: u64,
    /// TLS sessions that could not start, or failed.
    #[serde(default)]
    pub tls: u64,
    /// Another status than the expected one.
    pub status: u64,
    /// Other bytes than the expected ones.
    pub wrong: u64,
}

impl Errors {
    pub fn sum(&self) -> u64 {
        self.connect
            + self.reset
            + self.closed
            + self.timeout
            + self.malformed
            + self.tls
            + self.status
            + self.wrong
    }

    pub fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.reset += other.reset;
        self.closed += other.closed;
        self.timeout += other.timeout;
        self.malformed += other.malformed;
        self.tls += other.tls;
        self.status += other.status;
        self.wrong += other.wrong;
    }
}

/// Bytes of the protocol: with TLS, those before encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
    /// The part of them in bodies of complete replies; null if the protocol has no heads.
    #[serde(default)]
    pub bodies: Option<u64>,
}

/// How often each status came, from 100 to 599.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, u64>", try_from = "BTreeMap<String, u64>")]
pub struct Statuses(Box<[u64]>);

impl Statuses {
    const FIRST: u16 = 100;
    const COUNT: usize = 500;

    pub fn count(&mut self, status: u16) {
        if let Some(times) = self.times(status) {
            *times += 1;
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, times)| *sum += times);
    }

    /// The statuses that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        (Self::FIRST..).zip(self.0.iter().copied()).filter(|(_, times)| *times > 0)
    }

    /// The count of a status; None if it is not a valid status.
    fn times(&mut self, status: u16) -> Option<&mut u64> {
        self.0.get_mut(usize::from(status.wrapping_sub(Self::FIRST)))
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self(vec![0; Self::COUNT].into())
    }
}

impl FromIterator<(u16, u64)> for Statuses {
    /// These statuses with these counts. Invalid statuses are ignored.
    fn from_iter<I: IntoIterator<Item = (u16, u64)>>(of: I) -> Self {
        let mut statuses = Self::default();
        for (status, times) in of {
            statuses.times(status).into_iter().for_each(|sum| *sum += times);
        }
        statuses
    }
}

impl From<Statuses> for BTreeMap<String, u64> {
    fn from(statuses: Statuses) -> Self {
        statuses.iter().map(|(status, times)| (status.to_string(), times)).collect()
    }
}

impl TryFrom<BTreeMap<String, u64>> for Statuses {
    type Error = String;

    fn try_from(map: BTreeMap<String, u64>) -> Result<Self, String> {
        let mut statuses = Self::default();
        for (status, times) in map {
            let sum = status.parse().ok().and_then(|status| statuses.times(status));
            *sum.ok_or_else(|| format!("{status} is no status"))? += times;
        }
        Ok(statuses)
    }
}

impl JsonSchema for Statuses {
    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, u64>::json_schema(generator)
    }
}

/// The views of an open loop besides the response time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Views {
    /// From the send to the complete, verified reply.
    pub service_ns: Latency,
    /// The same for requests that found a free connection: those that a client which waits for each reply would have
    /// sent.
    pub closed_ns: Latency,
    /// The generator's own delay: from the due time, or from when a connection was free if that came later, to the
    /// send.
    pub lateness_ns: Latency,
}

impl Views {
    pub fn reset(&mut self) {
        self.service_ns.reset();
        self.closed_ns.reset();
        self.lateness_ns.reset();
    }

    pub fn add(&mut self, other: &Self) {
        self.service_ns.add(&other.service_ns);
        self.closed_ns.add(&other.closed_ns);
        self.lateness_ns.add(&other.lateness_ns);
    }
}

/// The parts of the time from the beginning of a request to its complete, verified reply. Each has a value for every
/// reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Until the connection was open, with TLS until the request was sent; 0 if it was open already.
    pub connect_ns: Latency,
    /// From then until the request was sent completely.
    pub write_ns: Latency,
    /// From then until the first bytes of the reply arrived.
    pub wait_ns: Latency,
    /// From then until it was complete.
    pub read_ns: Latency,
    /// All but the first of these.
    pub processing_ns: Latency,
}

impl Times {
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    pub fn add(&mut self, other: &Self) {
        self.connect_ns.add(&other.connect_ns);
        self.write_ns.add(&other.write_ns);
        self.wait_ns.add(&other.wait_ns);
        self.read_ns.add(&other.read_ns);
        self.processing_ns.add(&other.processing_ns);
    }
}

/// Measurements of connections apart from the load, which are not included in the other figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    #[schemars(range(min = 1))]
    pub connections: usize,
    pub requests: Requests,
    /// From when a request was due to the complete, verified reply.
    pub latency_ns: Latency,
    /// From its send.
    pub service_ns: Latency,
    /// The delay of the probes' own thread.
    pub lateness_ns: Latency,
}

impl Probe {
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.requests.add(&other.requests);
        self.latency_ns.add(&other.latency_ns);
        self.service_ns.add(&other.service_ns);
        self.lateness_ns.add(&other.lateness_ns);
    }
}

/// Replies in each slice of time, the warm-up included. The last slice may be shorter than the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    pub begin_ns: u64,
    #[schemars(range(min = 1))]
    pub length_ns: u64,
    pub completed: Vec<u64>,
}

impl Intervals {
    /// Adds the counts of a series with the same interval length, each to the nearest interval.
    pub fn add(&mut self, other: &Self) {
        if self.completed.is_empty() {
            self.clone_from(other);
            return;
        }
        let begin_ns = self.begin_ns.min(other.begin_ns);
        let slot = |from_ns: u64| {
            let length_ns = self.length_ns.max(1);
            ((from_ns - begin_ns + length_ns / 2) / length_ns) as usize
        };
        let (own, others) = (slot(self.begin_ns), slot(other.begin_ns));
        self.completed.splice(..0, std::iter::repeat_n(0, own));
        self.begin_ns = begin_ns;
        let length = self.completed.len().max(others + other.completed.len());
        self.completed.resize(length, 0);
        self.completed[others..].iter_mut().zip(&other.completed).for_each(|(sum, count)| *sum += count);
    }
}

/// What the generator itself used in the window, summed over its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    pub cpu_ns: u64,
    /// The length of the window times the number of threads.
    pub wall_ns: u64,
    /// Time its threads were runnable without a processor.
    pub run_delay_ns: u64,
    /// The longest time a thread was away: busy between two waits, or woken late.
    pub turn_ns_max: u64,
    pub turns: u64,
    pub rss_bytes_max: u64,
}

impl Generator {
    pub fn add(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
        self.run_delay_ns += other.run_delay_ns;
        self.turn_ns_max = self.turn_ns_max.max(other.turn_ns_max);
        self.turns += other.turns;
        self.rss_bytes_max += other.rss_bytes_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds two series of interval length 10, and expects the start and the counts of the sum.
    fn check_sum(one: (u64, &[u64]), two: (u64, &[u64]), expected: (u64, &[u64])) {
        let series = |(begin_ns, completed): (u64, &[u64])| Intervals {
            begin_ns,
            length_ns: 10,
            completed: completed.into(),
        };
        let mut sum = series(one);
        sum.add(&series(two));
        assert_eq!(sum, series(expected));
    }

    #[test]
    fn series_that_began_apart_are_added_slice_by_slice() {
        check_sum((100, &[1, 2]), (100, &[10, 20, 30]), (100, &[11, 22, 30]));
        check_sum((100, &[1, 2]), (104, &[10, 20]), (100, &[11, 22]));
        check_sum((100, &[1, 2]), (106, &[10, 20]), (100, &[1, 12, 20]));
        check_sum((130, &[1]), (100, &[10]), (100, &[10, 0, 0, 1]));
        check_sum((0, &[]), (100, &[10]), (100, &[10]));
    }
}
