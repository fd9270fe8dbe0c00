//! A server under test, and a plain client of it.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::iter;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::SockRef;

use super::wire::{Exchange, Wire, is_right};
use crate::common::Engine;
use crate::process::PATIENCE;

pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Ipv4,
    Ipv6,
    Unix,
    /// On five ports.
    Five,
}

impl Listen {
    const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "",
            Self::Ipv6 => " on IPv6",
            Self::Unix => " on a path",
            Self::Five => " on 5 ports",
        }
    }

    fn addresses(self) -> Vec<String> {
        static PATHS: AtomicUsize = AtomicUsize::new(0);
        let ipv4 = "127.0.0.1:0".to_owned();
        match self {
            Self::Ipv4 => vec![ipv4],
            Self::Ipv6 => vec!["[::1]:0".to_owned()],
            Self::Five => vec![ipv4; 5],
            Self::Unix => {
                let number = PATHS.fetch_add(1, Ordering::Relaxed);
                let name = format!("iolab-conformance-{}-{number}.sock", std::process::id());
                vec![format!("{UNIX}{}", env::temp_dir().join(name).display())]
            }
        }
    }
}

/// The prefix of an address that is a path.
const UNIX: &str = "unix:";

/// A model with its options, its workers and its addresses.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) model: String,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) workers: usize,
    /// `thread` or `process`.
    pub(crate) worker_kind: &'static str,
    pub(crate) listen: Listen,
}

impl Variant {
    pub(crate) fn name(&self) -> String {
        let options: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let options = if options.is_empty() { String::new() } else { format!("[{}]", options.join(",")) };
        let workers = match (self.workers, self.worker_kind) {
            (1, "thread") => String::new(),
            (count, "thread") => format!(" x {count}"),
            (count, kind) => format!(" x {count} {kind}"),
        };
        format!("{}{options}{workers}{}", self.model, self.listen.name())
    }
}

/// The resources of all processes of a server together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Footprint {
    descriptors: usize,
    threads: usize,
    processes: usize,
}

/// A running server.
pub(crate) struct Subject {
    engine: Engine,
    addresses: Vec<String>,
    /// Connections opened so far, which use the addresses in turn.
    connects: AtomicUsize,
    footprint: Footprint,
    pub(crate) variant: Variant,
    pub(crate) wire: Wire,
    /// How many connections a worker serves at the same time, if that is limited.
    holds: Option<usize>,
    /// It ends a connection after each HTTP reply, and says so in the reply.
    pub(crate) closes: bool,
}

impl Subject {
    pub(crate) fn start(variant: &Variant, wire: Wire, connections_max: usize) -> Outcome<Self> {
        Self::start_answering(&wire.workload(), variant, wire, connections_max)
    }

    /// Starts a server with another workload than the protocol's usual one.
    pub(crate) fn start_answering(
        workload: &Value,
        variant: &Variant,
        wire: Wire,
        connections_max: usize,
    ) -> Outcome<Self> {
        let options = Value::from_iter(variant.options.clone());
        let engine = Engine::start(&json!({
            "schema": 1, "role": "serve", "model": variant.model, "options": options,
            "workload": workload, "listen": variant.listen.addresses(), "workers": variant.workers,
            "worker_kind": variant.worker_kind, "connections_max": connections_max,
        }));
        let ready = engine.event().ok_or("it ended, or hung, before it was ready")?;
        let addresses = ready["listen"].as_array().ok_or_else(|| format!("it is not ready: {ready}"))?;
        let mut subject = Self {
            engine,
            addresses: addresses.iter().flat_map(Value::as_str).map(str::to_owned).collect(),
            connects: AtomicUsize::new(0),
            footprint: Footprint::default(),
            variant: variant.clone(),
            wire,
            holds: ready["holds"].as_u64().map(|holds| holds as usize),
            closes: false,
        };
        subject.closes = subject.finds_that_it_closes()?;
        subject.footprint = subject.first_footprint()?;
        Ok(subject)
    }

    pub(crate) fn connect(&self) -> Outcome<Client> {
        let turn = self.connects.fetch_add(1, Ordering::Relaxed);
        let address = &self.addresses[turn % self.addresses.len()];
        let connected = match address.strip_prefix(UNIX) {
            // Sockets are descriptors, so a Unix socket can be used through the type for TCP.
            Some(path) => UnixStream::connect(path).map(|socket| TcpStream::from(OwnedFd::from(socket))),
            None => TcpStream::connect(address).and_then(|socket| socket.set_nodelay(true).map(|()| socket)),
        };
        let socket = connected.map_err(|error| format!("cannot connect: {error}"))?;
        let set_up =
            (socket.set_read_timeout(Some(PATIENCE))).and_then(|()| socket.set_write_timeout(Some(PATIENCE)));
        set_up.map_err(|error| format!("cannot set up a socket: {error}"))?;
        Ok(Client { socket })
    }

    /// `count` connections, or as many as it serves at the same time.
    pub(crate) fn at_most(&self, count: usize) -> usize {
        self.holds.map_or(count, |holds| holds.min(count))
    }

    /// The `index`th small exchange, with the reply expected from this server.
    pub(crate) fn small(&self, index: usize) -> Exchange {
        self.owed(self.wire.small(index))
    }

    pub(crate) fn large(&self, index: usize) -> Exchange {
        self.owed(self.wire.large(index))
    }

    /// The resident memory of all its processes.
    pub(crate) fn resident_bytes(&self) -> usize {
        family(self.engine.pid()).into_iter().map(resident_bytes).sum()
    }

    /// Waits until a full server has noticed that its clients are gone, and all its workers have accepted a connection
    /// since. From then on a worker that gave up its spare descriptor has a new one.
    pub(crate) fn wait_for_room(&mut self) -> Outcome {
        self.wait_for_footprint(|now, first| {
            now.descriptors <= first.descriptors
                && now.threads <= first.threads
                && now.processes <= first.processes
        })?;
        let (begin, before) = (Instant::now(), self.taken());
        while self.taken().iter().zip(&before).any(|(now, before)| now == before) {
            match self.connect()?.ask(&self.small(0)) {
                Err(error) if begin.elapsed() > PATIENCE => {
                    return Err(format!("it stays full: {error}"));
                }
                Err(_) => thread::sleep(Duration::from_millis(2)),
                Ok(()) if begin.elapsed() > PATIENCE => {
                    return Err(format!(
                        "a worker takes no connection: {:?}, then {:?}",
                        before,
                        self.taken()
                    ));
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Checks that it is alive, answers, and has no more resources than at the beginning.
    pub(crate) fn check_recovery(&mut self) -> Outcome {
        if let Some(status) = self.engine.ended() {
            return Err(format!("it has died: {status}"));
        }
        self.check_footprint()?;
        let answered = self.connect()?.ask(&self.small(0));
        answered.map_err(|error| format!("afterwards, a fresh request: {error}"))?;
        self.check_footprint()
    }

    /// The same exchange, with the way this server ends it.
    pub(crate) fn owed(&self, exchange: Exchange) -> Exchange {
        if self.closes { exchange.closing() } else { exchange }
    }

    /// Whether its HTTP replies end the connection. The cells check the rest of them.
    fn finds_that_it_closes(&self) -> Outcome<bool> {
        if self.wire != Wire::Http {
            return Ok(false);
        }
        let mut client = self.connect()?;
        client.send(&self.wire.small(0).request)?;
        client.half_close()?;
        Ok(String::from_utf8_lossy(&client.rest()?).contains("\r\nConnection: close\r\n"))
    }

    /// Its resources after the start: when all of it sleeps and nothing has changed for a while. On a busy machine a
    /// server may pause in the middle of its start, but then it is runnable, not asleep.
    fn first_footprint(&self) -> Outcome<Footprint> {
        let begin = Instant::now();
        let mut before = Footprint::default();
        let mut same = 0;
        while same < 3 {
            thread::sleep(Duration::from_millis(20));
            let asleep = family(self.engine.pid()).into_iter().flat_map(tasks).all(|task| is_asleep(&task));
            let now = footprint(self.engine.pid());
            same = if asleep && now == before { same + 1 } else { 0 };
            before = now;
            if begin.elapsed() > PATIENCE {
                return Err("it does not come to rest".into());
            }
        }
        Ok(before)
    }

    /// Waits until it has the resources of the beginning.
    fn check_footprint(&self) -> Outcome {
        self.wait_for_footprint(|now, first| now == first)
    }

    /// Waits until its resources compare with those of the beginning as expected.
    fn wait_for_footprint(&self, is_right: impl Fn(&Footprint, &Footprint) -> bool) -> Outcome {
        let begin = Instant::now();
        loop {
            thread::sleep(Duration::from_millis(2));
            let now = footprint(self.engine.pid());
            if is_right(&now, &self.footprint) {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("afterwards it holds {now:?}; before it was {:?}", self.footprint));
            }
        }
    }

    /// Leaves each of its processes this many free descriptors.
    pub(crate) fn limit_descriptors(&self, free: usize) -> Outcome {
        family(self.engine.pid()).into_iter().try_for_each(|pid| {
            // Inherited descriptors may have high numbers, and leave gaps below them.
            let taken: HashSet<usize> = descriptors(pid).collect();
            let last = (0..).filter(|number| !taken.contains(number)).nth(free - 1).expect("there is no end");
            let limit = format!("--nofile={0}:{0}", last + 1);
            let status = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status();
            match status {
                Ok(status) if status.success() => Ok(()),
                other => Err(format!("prlimit {limit}: {other:?}")),
            }
        })
    }

    /// Sends one request from each of many simultaneous clients. Checks that each is either served or refused by
    /// closing, and that the server has counted the refused ones. Returns how many were served.
    pub(crate) fn serves_or_refuses(&mut self, count: usize, exchange: &Exchange) -> Outcome<usize> {
        let counted_before = self.refused();
        let mut clients = (0..count).map(|_| self.connect()).collect::<Outcome<Vec<Client>>>()?;
        let mut served = 0;
        for client in &mut clients {
            match client.ask(exchange) {
                Ok(()) => served += 1,
                Err(_) if client.is_dropped() => {}
                Err(error) => return Err(format!("neither served nor refused: {error}")),
            }
        }
        let (begin, refused) = (Instant::now(), (count - served) as u64);
        // Some count a connection after closing it.
        while self.refused() - counted_before != refused {
            if begin.elapsed() > PATIENCE {
                let counted = self.refused() - counted_before;
                return Err(format!("{refused} connections were refused, and {counted} counted"));
            }
        }
        Ok(served)
    }

    /// The number of refused connections, by its own count.
    fn refused(&mut self) -> u64 {
        let workers = self.workers();
        let limits = workers.iter().flat_map(|worker| worker["refused"].as_object());
        limits.flat_map(|limits| limits.values()).filter_map(Value::as_u64).sum()
    }

    /// The number of connections that each worker accepted, by its own count.
    fn taken(&mut self) -> Vec<u64> {
        self.workers().iter().flat_map(|worker| worker["connections"].as_u64()).collect()
    }

    /// Its counts of each worker.
    fn workers(&mut self) -> Vec<Value> {
        self.engine.served()["workers"].as_array().expect("it tells of each worker").clone()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        for path in self.addresses.iter().filter_map(|address| address.strip_prefix(UNIX)) {
            // It may have been removed already.
            let _ = fs::remove_file(path);
        }
    }
}

/// A blocking client.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
}

impl Client {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Outcome {
        self.socket.write_all(bytes).map_err(|error| format!("cannot send: {error}"))
    }

    /// Receives a reply and checks it.
    pub(crate) fn expect(&mut self, reply: &[u8]) -> Outcome {
        let mut came = vec![0; reply.len()];
        let mut count = 0;
        while count < came.len() {
            match uninterrupted(|| self.socket.read(&mut came[count..])) {
                Ok(0) => return Err(format!("it closed after {count} of {} bytes of a reply", reply.len())),
                Ok(received) => count += received,
                Err(error) => {
                    return Err(format!("after {count} of {} bytes of a reply: {error}", reply.len()));
                }
            }
        }
        if is_right(reply, &came) { Ok(()) } else { Err(format!("wrong reply: {}", excerpt(&came))) }
    }

    /// Keeps this side's buffers small, so that unread bytes wait at the server.
    pub(crate) fn limit_buffers(&self) -> Outcome {
        const BYTES: usize = 64 * 1024;
        let socket = SockRef::from(&self.socket);
        (socket.set_recv_buffer_size(BYTES))
            .and_then(|()| socket.set_send_buffer_size(BYTES))
            .map_err(|error| format!("cannot limit its buffers: {error}"))
    }

    pub(crate) fn ask(&mut self, exchange: &Exchange) -> Outcome {
        self.send(&exchange.request)?;
        self.expect(&exchange.reply)
    }

    pub(crate) fn half_close(&self) -> Outcome {
        self.socket.shutdown(Shutdown::Write).map_err(|error| format!("cannot half-close: {error}"))
    }

    /// Waits until something can be received, and leaves it there.
    pub(crate) fn wait(&self) -> Outcome {
        match uninterrupted(|| self.socket.peek(&mut [0])) {
            Ok(0) => Err("it closed without a reply".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("no reply: {error}")),
        }
    }

    /// The rest until the server closes.
    pub(crate) fn rest(&mut self) -> Outcome<Vec<u8>> {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => Ok(rest),
            Err(error) => Err(format!("it did not close, after {} more bytes: {error}", rest.len())),
        }
    }

    pub(crate) fn expect_end(&mut self) -> Outcome {
        let rest = self.rest()?;
        if rest.is_empty() {
            Ok(())
        } else {
            Err(format!("bytes came that nobody asked for: {}", excerpt(&rest)))
        }
    }

    /// Whether the server has dropped the connection, in any way.
    pub(crate) fn is_dropped(&mut self) -> bool {
        match uninterrupted(|| self.socket.read(&mut [0])) {
            Ok(count) => count == 0,
            Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        }
    }
}

/// Repeats a call that a signal interrupts. The kernel does not restart calls on a socket with a timeout, even if the
/// process was only stopped for a while.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

fn footprint(pid: u32) -> Footprint {
    let family = family(pid);
    Footprint {
        descriptors: family.iter().map(|&pid| descriptors(pid).count()).sum(),
        threads: family.iter().map(|&pid| tasks(pid).count()).sum(),
        processes: family.len(),
    }
}

/// A process with its descendants, including those that have ended and were not reaped.
fn family(pid: u32) -> Vec<u32> {
    let lists = tasks(pid).filter_map(|task| fs::read_to_string(task.join("children")).ok());
    let children = lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>());
    iter::once(pid).chain(children.flat_map(family)).collect()
}

/// The descriptors of all threads of a process: each may have its own table.
fn descriptors(pid: u32) -> impl Iterator<Item = usize> {
    let entries = tasks(pid).flat_map(|task| fs::read_dir(task.join("fd"))).flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The folders of a process's threads; none if it has ended. The kernel's own threads are left out, because they come
/// and go with a ring.
fn tasks(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let is_own =
        |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| !name.starts_with("iou-"));
    entries.map(|entry| entry.path()).filter(is_own)
}

fn is_asleep(task: &Path) -> bool {
    let status = fs::read_to_string(task.join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:\tS"))
}

fn resident_bytes(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<usize> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(0) * 1024
}
