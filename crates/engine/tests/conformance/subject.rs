//! A server under test, and a plain client of it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{Exchange, Wire, is_right};
use crate::common::Engine;

pub(crate) type Outcome<T = ()> = Result<T, String>;

/// A client waits this long for anything; a server that needs longer stands still.
const PATIENCE: Duration = Duration::from_secs(5);

/// Within this a server must be as it was before, and answer.
const RECOVERY_MAX: Duration = Duration::from_secs(1);

/// A model with its options, and how many workers it runs.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) model: String,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) workers: usize,
    /// Whether a worker serves several connections at the same time.
    pub(crate) holds_many: bool,
}

impl Variant {
    pub(crate) fn name(&self) -> String {
        let options: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let options = if options.is_empty() { String::new() } else { format!("[{}]", options.join(",")) };
        let workers = if self.workers == 1 { String::new() } else { format!(" x {}", self.workers) };
        format!("{}{options}{workers}", self.model)
    }
}

/// What a process holds on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Footprint {
    descriptors: usize,
    threads: usize,
    children: usize,
}

/// A running server.
pub(crate) struct Subject {
    engine: Engine,
    pid: u32,
    address: SocketAddr,
    footprint: Footprint,
    pub(crate) variant: Variant,
    pub(crate) wire: Wire,
    /// It ends a connection after each HTTP reply, and says so in the reply.
    pub(crate) closes: bool,
}

impl Subject {
    pub(crate) fn start(variant: &Variant, wire: Wire, connections_max: usize) -> Outcome<Self> {
        let options = Value::from_iter(variant.options.clone());
        let engine = Engine::start(&json!({
            "schema": 1, "role": "serve", "model": variant.model, "options": options,
            "workload": wire.workload(), "listen": "127.0.0.1:0", "workers": variant.workers,
            "connections_max": connections_max,
        }));
        let ready = engine.event().ok_or("it ended, or hung, before it was ready")?;
        let address = ready["listen"].as_str().and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| format!("it is not ready: {ready}"))?;
        let pid =
            ready["pid"].as_u64().and_then(|pid| pid.try_into().ok()).ok_or("it does not tell its pid")?;
        let footprint = Footprint { descriptors: 0, threads: 0, children: 0 };
        let mut subject =
            Self { engine, pid, address, footprint, variant: variant.clone(), wire, closes: false };
        subject.closes = subject.finds_that_it_closes()?;
        subject.footprint = subject.footprint_at_rest()?;
        Ok(subject)
    }

    pub(crate) fn connect(&self) -> Outcome<Client> {
        let socket = TcpStream::connect(self.address).map_err(|error| format!("cannot connect: {error}"))?;
        let set_up = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| socket.set_write_timeout(Some(PATIENCE)));
        set_up.map_err(|error| format!("cannot set up a socket: {error}"))?;
        Ok(Client { socket })
    }

    /// The `index`th small exchange, with the reply this server owes.
    pub(crate) fn small(&self, index: usize) -> Exchange {
        self.owed(self.wire.small(index))
    }

    pub(crate) fn large(&self, index: usize) -> Exchange {
        self.owed(self.wire.large(index))
    }

    /// What all its processes have in memory.
    pub(crate) fn resident_bytes(&self) -> usize {
        children(self.pid).into_iter().chain([self.pid]).map(resident_bytes).sum()
    }

    /// Waits until a server that was full has seen its clients go.
    pub(crate) fn wait_for_room(&self) -> Outcome {
        let begin = Instant::now();
        loop {
            match self.connect()?.ask(&self.small(0)) {
                Err(error) if begin.elapsed() > RECOVERY_MAX => {
                    return Err(format!("it stays full: {error}"));
                }
                Err(_) => thread::sleep(Duration::from_millis(2)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Checks that it lives, answers, and holds on to nothing that it did not hold in the beginning.
    pub(crate) fn check_recovery(&mut self) -> Outcome {
        if let Some(status) = self.engine.ended() {
            return Err(format!("it has died: {status}"));
        }
        let begin = Instant::now();
        let mut client = self.connect()?;
        client.ask(&self.small(0)).map_err(|error| format!("afterwards, a fresh request: {error}"))?;
        drop(client);
        let took = begin.elapsed();
        if took > RECOVERY_MAX {
            return Err(format!("afterwards, a fresh request took {took:?}"));
        }
        let after = self.footprint_at_rest()?;
        if after != self.footprint {
            return Err(format!("afterwards it holds {after:?}; before it was {:?}", self.footprint));
        }
        Ok(())
    }

    fn owed(&self, exchange: Exchange) -> Exchange {
        if self.closes { exchange.closing() } else { exchange }
    }

    /// Whether its HTTP replies end the connection. What else they are is left to the cells.
    fn finds_that_it_closes(&self) -> Outcome<bool> {
        if self.wire != Wire::Http {
            return Ok(false);
        }
        let mut client = self.connect()?;
        client.send(&self.wire.small(0).request)?;
        client.half_close()?;
        Ok(String::from_utf8_lossy(&client.rest()?).contains("\r\nConnection: close\r\n"))
    }

    /// The footprint once it is that of the beginning; or, if it does not come back to it, the last one.
    fn footprint_at_rest(&self) -> Outcome<Footprint> {
        let begin = Instant::now();
        let first_time = self.footprint.descriptors == 0;
        let mut before = footprint(self.pid)?;
        loop {
            thread::sleep(Duration::from_millis(if first_time { 50 } else { 2 }));
            let now = footprint(self.pid)?;
            let at_rest = if first_time { now == before } else { now == self.footprint };
            if at_rest || begin.elapsed() > RECOVERY_MAX {
                return Ok(now);
            }
            before = now;
        }
    }
}

/// A client in blocking calls.
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
            match self.socket.read(&mut came[count..]) {
                Ok(0) => return Err(format!("it closed after {count} of {} bytes of a reply", reply.len())),
                Ok(received) => count += received,
                Err(error) => {
                    return Err(format!("after {count} of {} bytes of a reply: {error}", reply.len()));
                }
            }
        }
        if is_right(reply, &came) { Ok(()) } else { Err(format!("wrong reply: {}", excerpt(&came))) }
    }

    pub(crate) fn ask(&mut self, exchange: &Exchange) -> Outcome {
        self.send(&exchange.request)?;
        self.expect(&exchange.reply)
    }

    pub(crate) fn half_close(&self) -> Outcome {
        self.socket.shutdown(Shutdown::Write).map_err(|error| format!("cannot half-close: {error}"))
    }

    /// Waits until there is something to receive, and leaves it there.
    pub(crate) fn wait(&self) -> Outcome {
        match self.socket.peek(&mut [0]) {
            Ok(0) => Err("it closed without a reply".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("no reply: {error}")),
        }
    }

    /// What still comes until the server closes.
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

    /// Whether the server has dropped the connection, in whichever way.
    pub(crate) fn is_dropped(&mut self) -> bool {
        match self.socket.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        }
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

fn footprint(pid: u32) -> Outcome<Footprint> {
    let entries = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        fs::read_dir(&path).map_err(|error| format!("cannot read {path}: {error}"))
    };
    // The kernel's own workers come and go with a ring, and belong to nobody.
    let is_own = |path: &std::path::Path| {
        let name = fs::read_to_string(path.join("comm"));
        name.is_ok_and(|name| !name.starts_with("iou-"))
    };
    Ok(Footprint {
        descriptors: entries("fd")?.count(),
        threads: entries("task")?.flatten().filter(|entry| is_own(&entry.path())).count(),
        children: children(pid).len(),
    })
}

/// The children of all threads of a process, those that have ended and were not reaped among them.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

fn resident_bytes(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<usize> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(0) * 1024
}
