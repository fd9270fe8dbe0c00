//! One direction of a path, without I/O: packets go in at one time and come out at a later one.
//!
//! A packet waits in a queue until those before it are on the wire, takes its length divided by the rate to get there,
//! may be lost, and arrives after the delay. Packets stay in order.

use std::collections::VecDeque;

use contract::{Carried, PathSpec};
use hdrhistogram::Histogram;

/// The most bytes in transit: further packets are dropped. Two seconds at 1 Gbit/s. Without a rate, the amount in
/// transit is not known in advance.
const TRAVELLING_BYTES_MAX: usize = 256 << 20;
/// Lateness is recorded with three digits, up to a minute.
const LATE_NS_MAX: u64 = 60_000_000_000;
const LATE_DIGITS: u8 = 3;

struct Packet {
    due_ns: u64,
    bytes: Vec<u8>,
}

/// One direction of a path.
pub struct Link {
    delay_ns: u64,
    /// How long a byte takes to get onto the wire.
    byte_ns: f64,
    queue_packets: usize,
    loss: f64,
    random: fastrand::Rng,
    /// When the wire is free for the next packet.
    free_ns: u64,
    /// When each waiting packet goes onto the wire.
    waiting: VecDeque<u64>,
    travelling: VecDeque<Packet>,
    travelling_bytes: usize,
    /// Buffers of delivered packets, for reuse.
    spare: Vec<Vec<u8>>,
    carried: Carried,
    late_ns: Histogram<u64>,
}

impl Link {
    /// An idle direction. The same `seed` loses the same packets.
    pub fn new(spec: &PathSpec, seed: u64) -> Self {
        Self {
            delay_ns: (spec.delay_ms * 1e6).round() as u64,
            byte_ns: spec.rate_bits_per_s.map_or(0.0, |rate| 8e9 / rate),
            queue_packets: spec.queue_packets,
            loss: spec.loss,
            random: fastrand::Rng::with_seed(seed),
            free_ns: 0,
            waiting: VecDeque::new(),
            travelling: VecDeque::new(),
            travelling_bytes: 0,
            spare: Vec::new(),
            carried: Carried::default(),
            late_ns: Histogram::new_with_bounds(1, LATE_NS_MAX, LATE_DIGITS).expect("the bounds are valid"),
        }
    }

    /// Accepts a packet.
    pub fn send(&mut self, packet: &[u8], now_ns: u64) {
        while self.waiting.pop_front_if(|start_ns| *start_ns <= now_ns).is_some() {}
        let start_ns = now_ns.max(self.free_ns);
        let waits = start_ns > now_ns;
        let is_full = waits && self.waiting.len() >= self.queue_packets;
        if is_full {
            self.carried.dropped += 1;
            return;
        }
        if self.travelling_bytes + packet.len() > TRAVELLING_BYTES_MAX {
            self.carried.overflowed += 1;
            return;
        }
        if waits {
            self.waiting.push_back(start_ns);
        }
        self.free_ns = start_ns + (packet.len() as f64 * self.byte_ns).round() as u64;
        // A lost packet has still used the wire.
        if self.random.f64() < self.loss {
            self.carried.lost += 1;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(packet);
        self.travelling_bytes += packet.len();
        self.travelling.push_back(Packet { due_ns: self.free_ns + self.delay_ns, bytes });
    }

    /// When the next packet arrives.
    pub fn due_ns(&self) -> Option<u64> {
        self.travelling.front().map(|packet| packet.due_ns)
    }

    /// Passes every packet that has arrived by now to `deliver`, which returns the time at which it did so: packets
    /// delivered before one can make it late.
    ///
    /// # Errors
    /// The first error of `deliver`. Later packets stay in transit.
    pub fn deliver<E>(
        &mut self,
        now_ns: u64,
        mut deliver: impl FnMut(&[u8]) -> Result<u64, E>,
    ) -> Result<(), E> {
        while let Some(packet) = self.travelling.pop_front_if(|packet| packet.due_ns <= now_ns) {
            self.travelling_bytes -= packet.bytes.len();
            let at_ns = deliver(&packet.bytes)?;
            self.carried.packets += 1;
            self.carried.bytes += packet.bytes.len() as u64;
            self.late_ns.saturating_record(at_ns.saturating_sub(packet.due_ns));
            self.spare.push(packet.bytes);
        }
        Ok(())
    }

    /// The counts of packets since the last report.
    pub fn report(&mut self) -> Carried {
        let late_ns_p99 = self.late_ns.value_at_quantile(0.99);
        let carried = Carried { late_ns_p99, late_ns_max: self.late_ns.max(), ..self.carried };
        self.carried = Carried::default();
        self.late_ns.reset();
        carried
    }
}

#[cfg(test)]
mod tests;
