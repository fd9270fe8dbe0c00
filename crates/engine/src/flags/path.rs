//! The flags of `path`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use contract::{MTU_DEFAULT, PathSpec, QUEUE_PACKETS_DEFAULT, SEED_DEFAULT};

use crate::units::{parse_bit_rate, parse_duration, parse_percent};

#[derive(Args, Debug)]
pub(crate) struct PathFlags {
    /// Read one line of JSON from standard input instead of flags, and end when it ends.
    #[arg(long, value_name = "-", value_parser = ["-"], exclusive = true)]
    pub(crate) spec: Option<String>,

    /// One-way delay of each packet, as in 24.5ms
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    delay: Duration,

    /// Bits per second, each way, as in 10mbit [default: as fast as this machine carries them]
    #[arg(long, value_name = "RATE", value_parser = parse_bit_rate)]
    rate: Option<f64>,

    /// Packets that may wait to be sent at that rate, each way; further ones are dropped [default: 100]
    #[arg(long, value_name = "PACKETS", requires = "rate")]
    queue: Option<usize>,

    /// Share of packets that are lost at random, as in 0.1% [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    loss: Option<f64>,

    /// The longest packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MTU_DEFAULT)]
    mtu: usize,

    /// Drop SYNs at the server when too many handshakes are in progress, instead of sending SYN cookies
    #[arg(long)]
    no_syn_cookies: bool,

    /// Seed of the random losses
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT)]
    seed: u64,

    /// A command to run at the client's end; the path ends with it [default: none, the path ends with Ctrl-C]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl PathFlags {
    /// The spec that a program would have sent.
    pub(crate) fn to_spec(&self) -> PathSpec {
        PathSpec {
            delay_ms: self.delay.as_nanos() as f64 / 1e6,
            rate_bits_per_s: self.rate,
            queue_packets: self.queue.unwrap_or(QUEUE_PACKETS_DEFAULT),
            loss: self.loss.unwrap_or_default(),
            mtu: self.mtu,
            syn_cookies: !self.no_syn_cookies,
            seed: self.seed,
            ..PathSpec::default()
        }
    }
}
