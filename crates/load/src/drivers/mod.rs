//! The drivers, one file each: `epoll`, `io_uring` and `thread`. The other files hold shared parts. This one opens the
//! connections.

mod context;
pub(crate) mod epoll;
mod event_loop;
pub(crate) mod io_uring;
mod pool;
pub(crate) mod thread;
pub(crate) mod transport;
mod unsent;
mod waiting;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::{FirstFailure, LoadSpec, Opening, Phase};
use sys::clock;
use sys::net::{Address, Route};

use self::context::Context;
use self::transport::Transport;
use crate::client_connection::{Limits, saw_unopened};
use crate::dispatch::Dispatcher;
use crate::record::Recorder;
use crate::watch::Watched;
use crate::{Failure, ThreadLoad, failure, tls};

/// A thread's connections, open and ready to run.
pub(crate) trait Drive {
    /// Features that the driver would use and this machine lacks.
    fn missing_features(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs the load until the recorder ends it, or `halt` is raised.
    fn run(&mut self, dispatcher: &mut Dispatcher, recorder: &mut Recorder, halt: &AtomicBool);
}

/// How often a refused connection is retried, and the longest time between two checks for the end of a run.
const SWEEP_NS: u64 = 20_000_000;
/// The shortest time between two sweeps of all connections, however short the timeout is.
const SWEEP_NS_MIN: u64 = 1_000_000;

/// What a worker knows about its connections: their addresses, limits and times of sweeps.
pub(crate) struct Plan<C, T: Transport> {
    /// The client half of the protocol. Each connection has a clone.
    client: C,
    addresses: Vec<Address>,
    sources: Vec<std::net::IpAddr>,
    /// The index of its first connection among those of all workers, which use the addresses in turn.
    first: usize,
    /// The time between two sweeps for requests that have timed out.
    sweep_ns: u64,
    /// When refused connections are retried next.
    again_ns: u64,
    spin_ns: u64,
    /// It busy-waits until then, because another event is likely soon.
    spin_until_ns: u64,
    pub(crate) limits: Limits,
    pub(crate) terms: T::Terms,
    /// Connections that are opened and never used.
    idle: Vec<T>,
    /// Connections that it has started to open, including the idle ones.
    connections_begun: u64,
    /// When it started to open the first connection that carries requests; `u64::MAX` before.
    first_connect_ns: u64,
}

impl<C, T: Transport> Plan<C, T> {
    /// The plan of a share, and its open connections.
    pub(crate) fn open(
        spec: &LoadSpec,
        terms: T::Terms,
        share: &ThreadLoad,
        client: C,
        halt: &AtomicBool,
    ) -> Result<(Self, Vec<T>), Failure> {
        let timeout_ns = 1_000_000 * spec.timeout_ms;
        let mut plan = Self {
            client,
            addresses: spec.connect.iter().map(|address| address.0.clone()).collect(),
            sources: spec.sources.clone(),
            first: share.first,
            sweep_ns: sweep_ns(timeout_ns),
            again_ns: 0,
            spin_ns: 1_000 * spec.spin_us,
            spin_until_ns: 0,
            limits: Limits {
                depth: spec.pipeline,
                requests: spec.requests_per_connection.unwrap_or(u64::MAX),
                timeout_ns,
                watched: Watched::of(spec),
            },
            terms,
            idle: Vec::new(),
            connections_begun: 0,
            first_connect_ns: u64::MAX,
        };
        if spec.open == Opening::Before {
            plan.first_connect_ns = clock::monotonic_ns();
        }
        let mut transports = plan.open_all(spec, share, halt)?;
        plan.connections_begun = transports.len() as u64;
        plan.idle = transports.split_off(transports.len() - share.idle);
        Ok((plan, transports))
    }

    /// Where a connection leads, and its source address.
    fn route(&self, key: usize) -> Route<'_> {
        let index = self.first + key;
        let from = match self.sources.len() {
            0 => None,
            // Each source uses all addresses in turn before the next source begins.
            count => Some(self.sources[index / self.addresses.len() % count]),
        };
        Route { to: &self.addresses[index % self.addresses.len()], from }
    }

    /// Opens all connections that are not opened as needed, the idle ones last, at the requested rate.
    fn open_all(&self, spec: &LoadSpec, share: &ThreadLoad, halt: &AtomicBool) -> Result<Vec<T>, Failure> {
        let timeout = Duration::from_millis(spec.timeout_ms);
        let later = if spec.open == Opening::AsNeeded { share.connections } else { 0 };
        let count = share.connections + share.idle - later;
        let mut transports = Vec::with_capacity(count);
        let begin_ns = clock::monotonic_ns();
        for opened in 0..count {
            if let Some(rate_per_s) = spec.connect_per_s {
                let due_ns = 1e9 * (opened * share.threads + share.index) as f64 / rate_per_s;
                pause_until(begin_ns + due_ns as u64, halt);
            }
            let route = self.route(later + opened);
            let transport = open_transport(route, &self.terms, timeout, halt).map_err(|error| Failure {
                first_failure: unopened(&error, opened, share),
                ..explain(&error, route.to, timeout, opened)
            })?;
            transports.push(transport);
        }
        Ok(transports)
    }

    /// Counts a connection that is opened during the run, for the first time or again.
    fn begin_to_connect(&mut self) {
        self.connections_begun += 1;
        if self.first_connect_ns == u64::MAX {
            self.first_connect_ns = clock::monotonic_ns();
        }
    }

    /// The longest time that a syscall may block, so that timeouts are noticed.
    fn moment(&self) -> Duration {
        Duration::from_nanos(self.sweep_ns)
    }

    /// Extends the busy-wait of a closed loop: another event is expected soon.
    fn stir(&mut self, now_ns: u64) {
        self.spin_until_ns = now_ns + self.spin_ns;
    }

    /// Whether it is time to try refused connections again.
    fn opens_again(&mut self, now_ns: u64) -> bool {
        let opens = now_ns >= self.again_ns;
        if opens {
            self.again_ns = now_ns + SWEEP_NS;
        }
        opens
    }

    /// How long to wait if the next task is due at `then_ns`. Zero during a busy-wait.
    fn wait(&self, then_ns: u64, context: &Context<'_>) -> Duration {
        let &Context { now_ns, ref dispatcher, ref recorder } = context;
        if now_ns < self.spin_until_ns && !dispatcher.is_open() {
            return Duration::ZERO;
        }
        // Requests beyond the limit of the run need no wake-up.
        let due_ns = if recorder.may_send() { dispatcher.due_ns() } else { u64::MAX };
        let turn_ns = due_ns.saturating_sub(self.spin_ns);
        Duration::from_nanos(then_ns.min(turn_ns).saturating_sub(now_ns))
    }

    /// Idle connections that the server has not closed.
    fn idle_open(&mut self) -> usize {
        self.idle.iter_mut().map(|transport| usize::from(transport.is_open())).sum()
    }
}

/// The time between two sweeps for this timeout.
fn sweep_ns(timeout_ns: u64) -> u64 {
    (timeout_ns / 4).clamp(SWEEP_NS_MIN, SWEEP_NS)
}

/// Opens a connection. Fails with `Interrupted` if `halt` is raised.
fn open_transport<T: Transport>(
    route: Route<'_>,
    terms: &T::Terms,
    timeout: Duration,
    halt: &AtomicBool,
) -> io::Result<T> {
    let goes_on = || !halt.load(Ordering::Relaxed);
    if !goes_on() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let socket = sys::net::connect_while(route, timeout, goes_on)?;
    T::open(socket, terms, timeout, halt)
}

/// Sleeps until `then_ns`, or until `halt` is raised.
pub(crate) fn pause_until(then_ns: u64, halt: &AtomicBool) {
    loop {
        let left_ns = then_ns.saturating_sub(clock::monotonic_ns());
        if left_ns == 0 || halt.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left_ns.min(SWEEP_NS)));
    }
}

/// The failure of a connection at the start; None if a signal interrupted it.
fn unopened(error: &io::Error, opened: usize, share: &ThreadLoad) -> Option<FirstFailure> {
    let first = FirstFailure {
        at_ns: clock::monotonic_ns(),
        request: 0,
        connection: opened as u64 + 1,
        phase: Phase::Connect,
        saw: saw_unopened(error),
    };
    (error.kind() != io::ErrorKind::Interrupted).then(|| first.of_thread(share.index, share.threads))
}

fn explain(error: &io::Error, address: &Address, timeout: Duration, opened: usize) -> Failure {
    match error.kind() {
        _ if tls::is_broken(error) => failure("tls", format!("{address}: {error}")),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound if opened == 0 => {
            let what = if matches!(address, Address::Unix(_)) { "path" } else { "port" };
            let text = format!("nothing listens on {address}: start the server first, or check the {what}");
            failure("connection_refused", text)
        }
        io::ErrorKind::Interrupted => {
            failure("interrupted", format!("stopped when {opened} connections were open"))
        }
        io::ErrorKind::TimedOut => {
            let seconds = timeout.as_secs_f64();
            let text =
                format!("{address} did not accept a connection within {seconds} s ({opened} are open)");
            failure("connect_timeout", format!("{text}: check the address, or raise --timeout"))
        }
        io::ErrorKind::AddrNotAvailable => {
            let text = format!("no local port is left for {address} ({opened} connections are open)");
            failure("connect_failed", format!("{text}: give more source addresses (--source)"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_overdue_is_seen_a_quarter_of_the_timeout_later_at_most() {
        for (timeout_ms, sweep_ms) in [(1, 1), (4, 1), (20, 5), (80, 20), (10_000, 20)] {
            assert_eq!(sweep_ns(timeout_ms * 1_000_000), sweep_ms * 1_000_000, "{timeout_ms} ms");
        }
    }
}
