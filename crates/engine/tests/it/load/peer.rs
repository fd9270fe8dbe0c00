//! The peer at the address of a run.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::load::server::{Behaviour, Server, own_address};
use crate::process::{PATIENCE, Supervised, signal};
use crate::tls::identity::Identity;
use crate::tls::server as tls;

/// Its kind.
#[derive(Clone, Copy)]
pub(crate) enum Peer {
    /// Whatever is at the address in the case.
    Named,
    /// Nothing: the port is taken, but nobody listens.
    Nobody,
    /// A listener without room for another connection.
    Full,
    /// A listener that accepts none of its connections.
    Away,
    Plain(Behaviour),
    Tls(tls::Behaviour, fn() -> Identity),
    /// A server of this engine that is killed once this many are connected.
    Killed(u64),
}

/// A running peer.
pub(crate) struct Running {
    address: String,
    /// Its certificate authority, and another one.
    identities: [Option<Identity>; 2],
    end: Box<dyn FnOnce()>,
}

impl Peer {
    pub(crate) fn start(self) -> Running {
        match self {
            Self::Named => Running::new(String::new(), || ()),
            Self::Nobody => {
                let socket = bound();
                Running::new(address(&socket), || drop(socket))
            }
            Self::Full => {
                let socket = bound();
                socket.listen(0).expect("it is bound");
                // Linux queues one more than the backlog. Further ones stay half open.
                let waiting: Vec<Socket> = (0..3).map(|_| knock(&socket)).collect();
                Running::new(address(&socket), || drop((socket, waiting)))
            }
            Self::Away => {
                let socket = bound();
                socket.listen(128).expect("it is bound");
                Running::new(address(&socket), || drop(socket))
            }
            Self::Plain(behaviour) => {
                let server = Server::start(behaviour);
                Running::new(server.address().to_string(), || {
                    server.end();
                })
            }
            Self::Tls(behaviour, identity) => {
                let identities = [identity(), Identity::sound()];
                let server = tls::Server::start(behaviour, &identities[0].server);
                let running = Running::new(server.address.to_string(), || drop(server.end()));
                Running { identities: identities.map(Some), ..running }
            }
            Self::Killed(connections) => {
                let mut server = Supervised::start("serve", &spec().to_string());
                let ready = server.event();
                let address = ready["listen"][0].as_str().expect("it says where").to_owned();
                let killer = thread::spawn(move || kill(server, connections));
                Running::new(address, || killer.join().expect("it is killed"))
            }
        }
    }
}

impl Running {
    fn new(address: String, end: impl FnOnce() + 'static) -> Self {
        Self { address, identities: [None, None], end: Box::new(end) }
    }

    /// Replaces ADDRESS, PORT, CACERT (its authority) and OTHER (another authority).
    pub(crate) fn fill(&self, text: &str) -> String {
        let port = self.address.rsplit(':').next().unwrap_or_default();
        let path = |index: usize| {
            let identity = self.identities[index].as_ref();
            identity.map_or(String::new(), |identity| identity.cacert.display().to_string())
        };
        text.replace("ADDRESS", &self.address)
            .replace("PORT", port)
            .replace("CACERT", &path(0))
            .replace("OTHER", &path(1))
    }

    pub(crate) fn end(self) {
        (self.end)();
    }
}

fn bound() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are descriptors");
    socket.bind(&SocketAddr::from((own_address(), 0)).into()).expect("a port is free");
    socket
}

fn address(socket: &Socket) -> String {
    let address = socket.local_addr().expect("it is bound");
    address.as_socket().expect("it is of IPv4").to_string()
}

/// Starts to connect to a listener.
fn knock(listener: &Socket) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are descriptors");
    socket.set_nonblocking(true).expect("it can be told not to block");
    // The call fails because it is in progress.
    let _ = socket.connect(&listener.local_addr().expect("it is bound"));
    socket
}

fn spec() -> Value {
    json!({
        "schema": 1, "role": "serve", "model": "epoll", "workload": {"protocol": "http"},
        "listen": [format!("{}:0", own_address())],
    })
}

/// Kills a server once it has this many connections and answers on them.
fn kill(mut server: Supervised, connections: u64) {
    /// CPU time that the serving thread uses after all connections were seen open: more than a few requests take.
    const SERVED_NS: u64 = 2_000_000;
    let begin = Instant::now();
    let mut first_ns = None;
    loop {
        let served = server.answer();
        if served["workers"][0]["connections"].as_u64() >= Some(connections) {
            let now_ns = cpu_time_ns(server.pid());
            if now_ns > *first_ns.get_or_insert(now_ns) + SERVED_NS {
                break;
            }
        }
        assert!(begin.elapsed() < PATIENCE, "it has nothing to answer: {served}");
        thread::sleep(Duration::from_millis(20));
    }
    signal("KILL", server.pid());
}

/// CPU time of the first thread of a process. A single worker serves on it; another thread reports the counts.
fn cpu_time_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat"))
        .expect("the kernel reports CPU times in schedstat");
    text.split_whitespace().next().and_then(|field| field.parse().ok()).expect("the first field is a time")
}
