//! How the generator waits: one file a driver. Both keep one request outstanding on every connection.

pub(crate) mod epoll;
pub(crate) mod io_uring;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sys::net::{Address, Socket};

use crate::record::Recorder;
use crate::{Config, Failure, failure};

/// A thread's connections, open and ready to run.
pub(crate) trait Drive {
    /// What the driver does without on this machine.
    fn lacks(&self) -> Vec<String>;

    /// Keeps the load on until the recorder says that it is over, or `halt` is raised.
    fn run(&mut self, recorder: &mut Recorder, halt: &AtomicBool);
}

/// How often connections are looked over for replies that are overdue and for connections to open again.
const SWEEP_NS: u64 = 20_000_000;

/// Opens all connections, one after the other, unless `halt` is raised.
fn open_all(config: &Config, count: usize, halt: &AtomicBool) -> Result<Vec<Socket>, Failure> {
    let mut sockets = Vec::with_capacity(count);
    for opened in 0..count {
        if halt.load(Ordering::Relaxed) {
            return Err(failure("interrupted", format!("stopped when {opened} connections were open")));
        }
        let address = address_of(&config.addresses, opened);
        let socket = sys::net::connect(address, config.timeout)
            .map_err(|error| explain(&error, address, config.timeout, opened))?;
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Connections take the addresses of a server in turn.
fn address_of(addresses: &[Address], key: usize) -> &Address {
    &addresses[key % addresses.len()]
}

fn explain(error: &io::Error, address: &Address, timeout: Duration, opened: usize) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound if opened == 0 => failure(
            "connection_refused",
            format!("nothing listens on {address}: start the server first, or check the port"),
        ),
        io::ErrorKind::TimedOut => {
            let seconds = timeout.as_secs_f64();
            let text =
                format!("{address} did not accept a connection within {seconds} s ({opened} are open)");
            failure("connect_timeout", format!("{text}: check the address, or raise --timeout"))
        }
        _ if sys::net::is_exhausted(error) => {
            let text = format!("no descriptor or memory is left for more ({opened} connections are open)");
            failure("descriptor_limit", format!("{text}: raise ulimit -n, or ask for fewer connections"))
        }
        _ => {
            failure("connect_failed", format!("cannot open connection {} to {address}: {error}", opened + 1))
        }
    }
}

/// The time from now to then, as a wait wants it.
fn until(then_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(then_ns.saturating_sub(now_ns))
}
