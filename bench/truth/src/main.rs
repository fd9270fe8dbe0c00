//! An HTTP server whose replies come at exactly chosen times, and which says afterwards what it really did. One thread,
//! keep-alive only, and only requests without a body.
//!
//! It prints one line of JSON with its address, and, when it is told to end (SIGTERM, SIGINT, or the end of its
//! standard input), one with the truth: how long it has kept requests, how late it was, and what it answered.

mod profile;
mod record;
mod server;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::profile::{Answers, Profile};
use crate::server::Server;

/// An HTTP server of exactly known latency.
#[derive(Debug, Parser)]
#[command(name = "truth", version)]
struct Cli {
    #[command(subcommand)]
    profile: ProfileFlags,

    /// Where to listen; port 0 lets the kernel choose.
    #[arg(long, global = true, default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Of what is drawn at random.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,

    /// Write each request there, in the order in which they came: four 64-bit numbers, little-endian, which are when it
    /// came, when its reply was due, when it was written (CLOCK_MONOTONIC in ns; 0: never), and the kind of reply.
    #[arg(long, global = true, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ProfileFlags {
    /// Every reply after the same delay.
    Fixed {
        #[command(flatten)]
        delay: DelayFlag,
    },
    /// Some replies, drawn at random, after a longer delay.
    Mix {
        #[command(flatten)]
        delay: DelayFlag,
        #[arg(long, value_parser = parse_ns, default_value = "100ms")]
        slow: u64,
        #[arg(long, value_parser = parse_share, default_value = "0.01")]
        slow_share: f64,
    },
    /// Time stands still for a while in each period: half a period after the first request, and so on.
    Stall {
        #[command(flatten)]
        delay: DelayFlag,
        #[arg(long, value_parser = parse_ns, default_value = "1s")]
        stall: u64,
        #[arg(long, value_parser = parse_ns, default_value = "10s")]
        period: u64,
    },
    /// One request is served at a time, each for the same time, in the order in which they came.
    Queue {
        #[arg(long, value_parser = parse_ns, default_value = "0.4ms")]
        service: u64,
    },
    /// A token bucket: so many requests a second, and a burst at once.
    Bucket {
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000), default_value = "20000")]
        rate: u64,
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000), default_value = "100")]
        burst: u64,
    },
    /// Some replies have a body that differs in one byte.
    Wrong(Faults),
    /// Some replies are 503.
    Fail(Faults),
    /// Some connections are reset instead of a reply.
    Reset(Faults),
}

#[derive(Args, Debug)]
struct DelayFlag {
    #[arg(long, value_parser = parse_ns, default_value = "1ms")]
    delay: u64,
}

#[derive(Args, Debug)]
struct Faults {
    #[command(flatten)]
    delay: DelayFlag,
    #[arg(long, value_parser = parse_share, default_value = "0.01")]
    share: f64,
}

impl ProfileFlags {
    fn to_profile(&self) -> Profile {
        match *self {
            Self::Fixed { ref delay } => Profile::Fixed { delay_ns: delay.delay },
            Self::Mix { ref delay, slow, slow_share } => {
                Profile::Mix { delay_ns: delay.delay, slow_ns: slow, share: slow_share }
            }
            Self::Stall { ref delay, stall, period } => {
                Profile::Stall { delay_ns: delay.delay, stall_ns: stall, period_ns: period }
            }
            Self::Queue { service } => Profile::Queue { service_ns: service },
            Self::Bucket { rate, burst } => Profile::Bucket { interval_ns: 1_000_000_000 / rate, burst },
            Self::Wrong(ref faults) => faults.to_profile(profile::Kind::Wrong),
            Self::Fail(ref faults) => faults.to_profile(profile::Kind::Unavailable),
            Self::Reset(ref faults) => faults.to_profile(profile::Kind::Reset),
        }
    }
}

impl Faults {
    fn to_profile(&self, kind: profile::Kind) -> Profile {
        Profile::Faults { delay_ns: self.delay.delay, share: self.share, kind }
    }
}

fn main() -> io::Result<()> {
    let flags = Cli::parse();
    let profile = flags.profile.to_profile();
    if let Profile::Stall { stall_ns, period_ns, .. } = profile
        && stall_ns.saturating_mul(2) > period_ns
    {
        return Err(io::Error::other("a stall may take half of its period at most"));
    }
    // Otherwise the kernel may let each wait last 50 microseconds longer, to wake for several things at once.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let listener = TcpListener::bind(flags.listen)?;
    say(&json!({"event": "ready", "listen": listener.local_addr()?.to_string()}))?;
    let record = Server::new(listener, told_to_end()?, Answers::new(profile, flags.seed))?.run()?;
    if let Some(path) = &flags.record {
        record.write(path)?;
    }
    say(&record.summary())
}

fn say(line: &Value) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// A stream that becomes readable when the server is to end. A byte in a pipe, because a flag that is raised between
/// looking at it and waiting would not be seen.
fn told_to_end() -> io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    pipe::register(SIGTERM, sender.try_clone()?)?;
    pipe::register(SIGINT, sender.try_clone()?)?;
    std::thread::spawn(move || {
        // However it ends, nobody is there any more who wants a server.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        (&sender).write_all(b"x")
    });
    Ok(receiver)
}

/// Reads `100us`, `0.4ms` or `1s`, in nanoseconds.
fn parse_ns(text: &str) -> Result<u64, String> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let number = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (value, ns) =
        number.ok_or_else(|| format!("`{text}` is not a duration: write it as in 100us, 0.4ms or 1s"))?;
    match value.parse::<f64>() {
        Ok(value) if value >= 0.0 && value * ns <= NS_MAX => Ok((value * ns).round() as u64),
        _ => Err(format!("`{text}` is not a duration between 0 and 60 s")),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is not a share between 0 and 1")),
    }
}

/// Nobody waits longer than a minute for a truth.
const NS_MAX: f64 = 60e9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(parse_ns(text).ok(), expected, "{text}");
        check("100us", Some(100_000));
        check("0.4ms", Some(400_000));
        check("1s", Some(1_000_000_000));
        check("0s", Some(0));
        check("1", None);
        check("-1s", None);
        check("61s", None);
        check("ms", None);
        check("NaNs", None);
    }
}
