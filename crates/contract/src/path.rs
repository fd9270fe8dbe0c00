//! The spec and the reports of a network path.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{DELAY_MS, LOSS, MTU, QUEUE_PACKETS, RATE_BITS_PER_S};
use crate::{PathWord, ReadyWord, ReportWord, Version};

/// The spec of a path: the line it reads from standard input. Both directions are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    pub schema: Version,
    pub role: PathWord,
    /// One-way delay of each packet.
    #[serde(default)]
    #[schemars(range(min = *DELAY_MS.start(), max = *DELAY_MS.end()))]
    pub delay_ms: f64,
    /// Bits of IP packets per second, headers included; null: as fast as this machine carries them.
    #[serde(default)]
    #[schemars(range(min = *RATE_BITS_PER_S.start(), max = *RATE_BITS_PER_S.end()))]
    pub rate_bits_per_s: Option<f64>,
    /// Packets that may wait to be sent at that rate; further ones are dropped. It has no effect without a rate.
    #[serde(default = "queue_packets")]
    #[schemars(range(min = *QUEUE_PACKETS.start(), max = *QUEUE_PACKETS.end()))]
    pub queue_packets: usize,
    /// The share of packets that is lost, 0 to 1.
    #[serde(default)]
    #[schemars(range(min = *LOSS.start(), max = *LOSS.end()))]
    pub loss: f64,
    /// The longest packet, in bytes.
    #[serde(default = "mtu")]
    #[schemars(range(min = *MTU.start(), max = *MTU.end()))]
    pub mtu: usize,
    /// Whether the server's kernel answers with SYN cookies when too many handshakes are in progress.
    #[serde(default = "syn_cookies")]
    pub syn_cookies: bool,
    /// Seed of the random losses.
    #[serde(default = "seed")]
    pub seed: u64,
}

impl Default for PathSpec {
    fn default() -> Self {
        Self {
            schema: Version,
            role: PathWord::Is,
            delay_ms: 0.0,
            rate_bits_per_s: None,
            queue_packets: queue_packets(),
            loss: 0.0,
            mtu: mtu(),
            syn_cookies: syn_cookies(),
            seed: seed(),
        }
    }
}

/// A path carries packets.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathReady {
    pub schema: Version,
    pub event: ReadyWord,
    pub role: PathWord,
    pub server: PathEnd,
    pub load: PathEnd,
    pub pid: u32,
    pub build: String,
    /// Settings that the kernel refuses inside the namespaces.
    pub lacks: Vec<String>,
}

/// One end of a path.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathEnd {
    pub address: Ipv4Addr,
    /// The file of its network namespace, as a spec takes it in `netns`.
    pub netns: PathBuf,
}

/// What a path has carried since its last report, or since it was ready. Emitted after each line on standard input.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathReport {
    pub schema: Version,
    pub event: ReportWord,
    pub role: PathWord,
    pub to_server: Carried,
    pub to_load: Carried,
    pub wall_ns: u64,
    /// Processor time of the path, including what the kernels of both ends spend on arriving packets.
    pub cpu_ns: u64,
}

/// The packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes, including IP headers.
    pub bytes: u64,
    /// Packets that found the queue full.
    pub dropped: u64,
    /// Packets lost in transit, as requested.
    pub lost: u64,
    /// Packets dropped by the kernel, because the path was too late to read them.
    pub overrun: u64,
    /// Packets dropped because too many bytes were in transit.
    pub overflowed: u64,
    /// How late packets arrived, compared with the requested delay and rate.
    pub late_ns_p99: u64,
    pub late_ns_max: u64,
}

pub const QUEUE_PACKETS_DEFAULT: usize = 100;
pub const MTU_DEFAULT: usize = 1500;

fn queue_packets() -> usize {
    QUEUE_PACKETS_DEFAULT
}

fn mtu() -> usize {
    MTU_DEFAULT
}

fn syn_cookies() -> bool {
    true
}

fn seed() -> u64 {
    crate::SEED_DEFAULT
}
