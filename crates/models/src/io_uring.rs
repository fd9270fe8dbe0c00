//! io_uring: one thread submits requests and receives completions, both in batches, with one syscall.
//!
//! One request accepts all connections, and one receives all bytes of a connection. The kernel chooses a buffer when
//! bytes arrive, and a send completes only if something went wrong. So an iteration of the loop is one syscall, however
//! many connections are ready. Each option takes one of these features away, to show what it is worth, or adds one that
//! rarely helps.

mod options;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use proto::{Next, Output, Protocol, Server, Session};
use sys::net::Listeners;
use sys::ring::{self, Buffer, Completion, Ring, Send, Slot, Stop, Wait};

use crate::acceptor::EXHAUSTED_PAUSE;
use crate::conversation::DISCARD_BYTES;
use crate::counts::{Counts, Limit};
use crate::workers::{Worker, spread};
use crate::{Config, Model};

pub(crate) const MODEL: Model = Model {
    about: "a ring of requests and completions, batched in one syscall",
    options: options::ALL,
    missing_features,
    ..Model::DEFAULT
};

/// Above this many bytes, replies are sent in the middle of an iteration, while they are in the cache.
const GATHER_BYTES: usize = 256 * 1024;
/// The most input kept for a connection that cannot send, before receiving stops.
const ASIDE_BYTES: usize = 64 * 1024;
/// No submission has this number.
const NO_SUBMISSION: u64 = 0;

fn missing_features(config: &Config) -> io::Result<Vec<String>> {
    options::check(config)?;
    Ok(ring::probe(options::variant(config))?.into_iter().map(String::from).collect())
}

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    if options::is_shared(config) {
        return serve_shared::<P>(workers, config, workload);
    }
    spread(workers, config, move |worker| {
        // Before the ring is made, so that connections of files=plain are in the worker's own table.
        sys::process::own_descriptors()?;
        let mut serving = Loop::<P>::new(worker.counts, config, workload)?;
        serving.accept(worker.listeners)?;
        loop {
            serving.iterate()?;
        }
    })
}

/// All workers share one loop, a ring and its connections, under a lock.
fn serve_shared<P: Protocol>(
    mut workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    let mut serving = Loop::<P>::new(workers[0].counts, config, workload)?;
    for worker in &mut workers {
        serving.accept(std::mem::replace(&mut worker.listeners, Listeners::new(Vec::new())?))?;
    }
    let shared: &'static Shared<P> = Box::leak(Box::new(Shared {
        tickets: AtomicUsize::new(0),
        serving: Mutex::new((serving, 0)),
        passed: Condvar::new(),
    }));
    spread(workers, config, move |worker| {
        loop {
            shared.iterate(worker.counts)?;
        }
    })
}

/// A loop under a fair lock. With a mutex alone the worker that releases it would take it again before another wakes.
struct Shared<P: Protocol> {
    /// The next free ticket.
    tickets: AtomicUsize,
    /// The loop, and the ticket that may use it.
    serving: Mutex<(Loop<P>, usize)>,
    passed: Condvar,
}

impl<P: Protocol> Shared<P> {
    /// Waits for the loop, runs one iteration, and passes the loop to the next worker.
    fn iterate(&self, counts: Counts) -> io::Result<()> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let held = self.serving.lock().expect("no thread panics while it has the lock");
        let held = self.passed.wait_while(held, |(_, next)| *next != ticket);
        let mut held = held.expect("no thread panics while it has the lock");
        let (serving, next) = &mut *held;
        serving.counts = counts;
        let result = serving.iterate();
        *next = ticket.wrapping_add(1);
        drop(held);
        self.passed.notify_all();
        result
    }
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The output was full: requests wait in the session, and the connection waits in `resuming` behind others.
    Resuming,
    /// It closes when everything is sent and no request to the ring is in flight.
    Closing,
    /// A refused peer is read to its end, so that it sees the reply: at most this many bytes.
    Discarding(usize),
    /// The peer has ended the connection.
    Gone,
}

struct Connection<S> {
    session: Session<S>,
    phase: Phase,
    /// The submission that sends its last reply.
    submission: u64,
    /// A receive request is in flight.
    receiving: bool,
    /// A tracked send is in flight: the peer reads slowly, or no send is silent.
    sending: bool,
    /// Our side is being ended.
    ending: bool,
    /// The peer has ended its side. Its requests are still answered.
    ended: bool,
}

struct Loop<P: Protocol> {
    ring: Ring,
    counts: Counts,
    connections: Vec<Option<Connection<P::Server>>>,
    open: usize,
    connections_max: usize,
    /// Replies that the next submission sends, and their connections.
    output: Output,
    sends: Vec<Send>,
    /// The number of the next submission.
    submission: u64,
    /// Connections that have more to send, in order.
    resuming: VecDeque<Slot>,
    workload: &'static P::Workload,
}

impl<P: Protocol> Loop<P> {
    fn new(counts: Counts, config: &Config, workload: &'static P::Workload) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(options::variant(config))?,
            counts,
            connections: Vec::new(),
            open: 0,
            connections_max: options::connections_max(config),
            output: Output::new(),
            sends: Vec::new(),
            submission: NO_SUBMISSION + 1,
            resuming: VecDeque::new(),
            workload,
        })
    }

    fn accept(&mut self, listeners: Listeners) -> io::Result<()> {
        listeners.into_vec().into_iter().try_for_each(|listener| self.ring.accept(listener))
    }

    /// Waits for completions, and handles them.
    fn iterate(&mut self) -> io::Result<()> {
        self.submit(if self.resuming.is_empty() { Wait::Forever } else { Wait::AtMost(Duration::ZERO) })?;
        self.output.tick(sys::clock::unix_s());
        let resuming = self.resuming.len();
        // Without the completions that arrive when replies are sent in the middle.
        for _ in 0..self.ring.ready() {
            let Some(completion) = self.ring.next() else { break };
            self.complete(completion)?;
        }
        // After the completions, so that one send answers new and waiting requests of a connection. Only those that
        // were there before: connections added meanwhile wait for the next iteration.
        for _ in 0..resuming {
            let Some(slot) = self.resuming.pop_front() else { break };
            self.resume(slot)?;
        }
        Ok(())
    }

    /// Submits all requests, and sends the replies gathered so far.
    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        self.ring.submit(self.output.as_bytes(), &self.sends, wait)?;
        while let Some(unsent) = self.ring.unsent() {
            let send = &self.sends[unsent.index];
            let rest = self.output.as_bytes()[send.range.clone()][unsent.sent_bytes..].to_vec();
            connection(&mut self.connections, send.slot).sending = true;
            self.ring.send_tracked(send.slot, Cow::Owned(rest));
        }
        if self.ring.reports_sends() {
            for send in &self.sends {
                connection(&mut self.connections, send.slot).sending = true;
            }
        }
        self.sends.clear();
        self.output.clear();
        self.submission += 1;
        Ok(())
    }

    fn complete(&mut self, completion: Completion) -> io::Result<()> {
        match completion {
            Completion::Received { slot, buffer, armed } => self.received(slot, buffer, armed),
            Completion::Accepted(slot) => {
                self.accepted(slot);
                Ok(())
            }
            Completion::Stopped { slot, why } => self.stopped(slot, &why),
            Completion::Sent { slot, result } => self.sent(slot, result.is_ok()),
            Completion::SendingEnded(slot) => {
                connection(&mut self.connections, slot).ending = false;
                self.keep_receiving(slot)
            }
            Completion::Dropped => {
                self.counts.refuse(Limit::ConnectionsMax);
                Ok(())
            }
            Completion::Refused(error) => {
                // The connection is still in the queue, and would be refused again at once.
                if sys::net::is_exhausted(&error) {
                    thread::sleep(EXHAUSTED_PAUSE);
                }
                Ok(())
            }
        }
    }

    fn accepted(&mut self, slot: Slot) {
        // The table of the ring enforces the limit by itself. The table of the process does not.
        if self.open >= self.connections_max {
            self.counts.refuse(Limit::ConnectionsMax);
            return self.ring.close(slot);
        }
        self.counts.take();
        self.open += 1;
        if self.connections.len() <= slot.index() {
            self.connections.resize_with(slot.index() + 1, || None);
        }
        let session = Session::new(P::Server::new(self.workload));
        self.connections[slot.index()] = Some(Connection {
            session,
            phase: Phase::Open,
            submission: NO_SUBMISSION,
            receiving: true,
            sending: false,
            ending: false,
            ended: false,
        });
        self.ring.receive(slot, true);
    }

    fn received(&mut self, slot: Slot, buffer: Buffer, armed: bool) -> io::Result<()> {
        self.before_reply(slot)?;
        let connection = connection(&mut self.connections, slot);
        connection.receiving = armed;
        let bytes = self.ring.bytes(&buffer);
        let len = bytes.len();
        let start = self.output.begin();
        let mut next = Next::Receive;
        match connection.phase {
            Phase::Open if !connection.sending => next = connection.session.receive(bytes, &mut self.output),
            Phase::Open | Phase::Resuming => connection.session.set_aside(bytes),
            Phase::Closing | Phase::Gone => {}
            Phase::Discarding(left) => connection.phase = Phase::Discarding(left.saturating_sub(len)),
        }
        self.ring.recycle(buffer);
        self.after_reply(slot, start, next)
    }

    /// Sends the output first if it already has replies of this connection that are not the last ones. All replies of a
    /// connection must be one send: two could arrive in the wrong order if the socket is full for the first only.
    fn before_reply(&mut self, slot: Slot) -> io::Result<()> {
        let earlier = connection(&mut self.connections, slot).submission == self.submission;
        let last = self.sends.last().is_some_and(|send| send.slot == slot);
        if earlier && !last { self.submit(Wait::Not) } else { Ok(()) }
    }

    /// Queues the replies in the output from `start` on, and takes the next step.
    fn after_reply(&mut self, slot: Slot, start: usize, next: Next) -> io::Result<()> {
        self.queue(slot, start);
        match next {
            Next::Receive => {}
            Next::Close => {
                connection(&mut self.connections, slot).phase = Phase::Closing;
                return self.close(slot);
            }
            Next::Send => {
                connection(&mut self.connections, slot).phase = Phase::Resuming;
                self.resuming.push_back(slot);
            }
        }
        if self.output.len() >= GATHER_BYTES {
            self.submit(Wait::Not)?;
        }
        self.keep_receiving(slot)
    }

    fn queue(&mut self, slot: Slot, start: usize) {
        let range = start..self.output.len();
        if range.is_empty() {
            return;
        }
        connection(&mut self.connections, slot).submission = self.submission;
        match self.sends.last_mut() {
            Some(send) if send.slot == slot => send.range.end = range.end,
            _ => self.sends.push(Send { slot, range }),
        }
    }

    /// Receives again if no receive is in flight, and stops receiving if the peer sends and does not read.
    fn keep_receiving(&mut self, slot: Slot) -> io::Result<()> {
        let connection = connection(&mut self.connections, slot);
        let blocked = connection.sending || connection.phase == Phase::Resuming;
        if connection.ended && !blocked {
            connection.phase = Phase::Gone;
        }
        match connection.phase {
            Phase::Closing | Phase::Gone | Phase::Discarding(0) => return self.close(slot),
            Phase::Open | Phase::Resuming if connection.ended => return Ok(()),
            Phase::Open | Phase::Resuming | Phase::Discarding(_) => {}
        }
        let full = blocked && connection.session.tail_bytes() > ASIDE_BYTES;
        // With silent sends, a send in flight means that the socket is full: input received now would be copied.
        let waits = blocked && !self.ring.reports_sends();
        if connection.receiving && full {
            self.ring.stop_receiving(slot);
        } else if !connection.receiving && !full && !waits {
            connection.receiving = true;
            self.ring.receive(slot, false);
        }
        Ok(())
    }

    fn stopped(&mut self, slot: Slot, why: &Stop) -> io::Result<()> {
        let connection = connection(&mut self.connections, slot);
        match why {
            Stop::Asked => {}
            Stop::End => connection.ended = true,
            Stop::Broken(_) => connection.phase = Phase::Gone,
        }
        connection.receiving = false;
        self.keep_receiving(slot)
    }

    /// Answers earlier input. If a send is in flight, its completion does so.
    fn resume(&mut self, slot: Slot) -> io::Result<()> {
        let connection = connection(&mut self.connections, slot);
        if connection.phase != Phase::Resuming {
            return Ok(());
        }
        if connection.submission == self.submission {
            // It was added in this iteration, because an earlier one was closed.
            self.resuming.push_back(slot);
            return Ok(());
        }
        connection.phase = Phase::Open;
        if connection.sending { Ok(()) } else { self.go_on(slot) }
    }

    /// Answers earlier input.
    fn go_on(&mut self, slot: Slot) -> io::Result<()> {
        let start = self.output.begin();
        let next = connection(&mut self.connections, slot).session.resume(&mut self.output);
        self.after_reply(slot, start, next)
    }

    fn sent(&mut self, slot: Slot, whole: bool) -> io::Result<()> {
        let connection = connection(&mut self.connections, slot);
        connection.sending = false;
        if !whole {
            connection.phase = Phase::Gone;
        }
        if connection.phase != Phase::Open || connection.session.tail_bytes() == 0 {
            return self.keep_receiving(slot);
        }
        self.go_on(slot)
    }

    /// Closes a connection if everything is sent and no request is in flight. Otherwise takes the next step towards
    /// that.
    fn close(&mut self, slot: Slot) -> io::Result<()> {
        if connection(&mut self.connections, slot).submission == self.submission {
            self.submit(Wait::Not)?;
        }
        let connection = connection(&mut self.connections, slot);
        let refused = connection.phase == Phase::Closing && connection.session.tail_bytes() > 0;
        if connection.sending || connection.ending {
            // The completion leads here again. Meanwhile a peer that does not stop sending is not read.
            if connection.receiving && connection.phase == Phase::Discarding(0) {
                self.ring.stop_receiving(slot);
            }
        } else if refused {
            (connection.phase, connection.ending) = (Phase::Discarding(DISCARD_BYTES), true);
            self.ring.end_sending(slot);
            if !connection.receiving {
                connection.receiving = true;
                self.ring.receive(slot, false);
            }
        } else if connection.receiving {
            self.ring.stop_receiving(slot);
        } else {
            self.connections[slot.index()] = None;
            self.resuming.retain(|&resuming| resuming != slot);
            self.open -= 1;
            self.ring.close(slot);
        }
        Ok(())
    }
}

fn connection<S>(connections: &mut [Option<Connection<S>>], slot: Slot) -> &mut Connection<S> {
    connections[slot.index()].as_mut().expect("a slot has a connection until it is closed")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::AtomicU64;

    use proto::http::{Http, Verify, Workload};
    use sys::net::Listener;

    use super::*;
    use crate::counts::WorkerStats;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    /// More than are answered in one iteration, and fewer than fit into a socket.
    const REQUESTS: usize = 120;
    const REPLY_BYTES: usize = 1024;

    /// The most submits of a loop in one iteration so far.
    static SUBMITS_MAX: AtomicU64 = AtomicU64::new(0);

    fn serve(listener: Listener) -> io::Result<()> {
        let counts = WorkerStats::new(1)?.workers().next().expect("there is one");
        let workload = Workload::new(REPLY_BYTES, "/", "h", true, Verify::Status).expect("it is valid");
        let config = Config { connections_max: 2, ..Config::default() };
        let mut serving = Loop::<Http>::new(counts, &config, Box::leak(Box::new(workload)))?;
        serving.accept(Listeners::new(vec![listener])?)?;
        loop {
            let before = serving.submission;
            serving.iterate()?;
            SUBMITS_MAX.fetch_max(serving.submission - before, Ordering::Relaxed);
        }
    }

    #[test]
    fn connections_that_go_on_and_receive_take_one_system_call_together() {
        let listener = Listener::open(&"127.0.0.1:0".parse().unwrap(), false, 64).unwrap();
        let address = listener.address().unwrap().to_string();
        // It serves until the process ends.
        thread::spawn(|| serve(listener));
        let mut clients: Vec<_> = (0..2).map(|_| TcpStream::connect(&address).unwrap()).collect();
        for _ in 0..50 {
            for _ in 0..REQUESTS / 10 {
                clients.iter_mut().for_each(|client| client.write_all(&REQUEST.repeat(10)).unwrap());
            }
            for client in &mut clients {
                let mut letters = 0;
                // Bodies consist of this letter, and "text/plain" in the head has one.
                while letters < REQUESTS * (REPLY_BYTES + 1) {
                    let mut bytes = [0; 4096];
                    let len = client.read(&mut bytes).unwrap();
                    assert_ne!(len, 0, "the server has failed");
                    letters += bytes[..len].iter().filter(|&&byte| byte == b'x').count();
                }
            }
        }
        assert_eq!(SUBMITS_MAX.load(Ordering::Relaxed), 1);
    }
}
