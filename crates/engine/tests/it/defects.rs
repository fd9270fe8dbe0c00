//! Variants kept for a published defect have it, report it, and are the only ones with one.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::Engine;
use crate::process::PATIENCE;
use serde_json::json;

#[test]
fn every_defect_is_told_when_the_server_is_ready() {
    for (model, option, value) in [
        ("blocking", "backlog", "3"),
        ("fork", "reap", "never"),
        ("thread", "pass", "shared"),
        ("thread", "join", "never"),
    ] {
        assert_eq!(Server::start(model, option, value).defects, 1, "{model}[{option}={value}]");
    }
    assert_eq!(Server::start("thread", "pass", "own").defects, 0);
}

#[test]
fn a_fork_that_never_reaps_leaves_a_dead_process_for_each_connection() {
    check_dead_children("never", 20);
    check_dead_children("soon", 0);
}

#[test]
fn a_thread_that_is_never_joined_leaves_its_stack() {
    const CONNECTIONS: usize = 200;
    let check = |join, is_right: fn(usize) -> bool| {
        let server = Server::start("thread", "join", join);
        server.serve_in_turn(10);
        let before = server.mappings();
        server.serve_in_turn(CONNECTIONS);
        // A thread may end long after its connection has.
        let begin = Instant::now();
        let grown = || server.mappings().saturating_sub(before);
        while !is_right(grown()) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_right(grown()), "{join}: {} mappings more after {CONNECTIONS} connections", grown());
    };
    check("never", |grown| grown >= CONNECTIONS);
    check("detached", |grown| grown < CONNECTIONS / 2);
}

#[test]
fn threads_that_share_the_place_of_their_connection_lose_some() {
    // A reply counted as lost may merely be late on a busy machine. Without the defect every reply must arrive, however
    // late.
    assert!((0..20).any(|_| Server::start("thread", "pass", "shared").loses_one(Duration::from_secs(2))));
    assert!(!Server::start("thread", "pass", "own").loses_one(PATIENCE));
}

fn check_dead_children(reap: &str, expected: usize) {
    let server = Server::start("fork", "reap", reap);
    server.serve_in_turn(20);
    let begin = Instant::now();
    while server.dead_children() != expected && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.dead_children(), expected, "with reap={reap}");
}

/// An echo server of a variant.
struct Server {
    engine: Engine,
    address: String,
    defects: usize,
}

impl Server {
    fn start(model: &str, option: &str, value: &str) -> Self {
        let engine = Engine::start(&json!({
            "schema": 1, "role": "serve", "model": model, "options": {option: value},
            "workload": {"protocol": "echo"}, "listen": ["127.0.0.1:0"],
        }));
        let ready = engine.event().expect("it starts");
        let address = ready["listen"][0].as_str().expect("it is ready").to_owned();
        let defects = ready["defects"].as_array().expect("it is a list").len();
        Self { engine, address, defects }
    }

    /// Serves this many connections, each after the one before it has ended.
    fn serve_in_turn(&self, count: usize) {
        for _ in 0..count {
            let mut client = TcpStream::connect(&self.address).expect("it listens");
            client.write_all(b"hello").expect("it is connected");
            client.shutdown(std::net::Shutdown::Write).expect("it is connected");
            let mut reply = Vec::new();
            client.read_to_end(&mut reply).expect("it is served");
            assert_eq!(reply, b"hello");
        }
    }

    /// Whether one of many simultaneous connections gets no reply within `patience`.
    fn loses_one(&self, patience: Duration) -> bool {
        let connect = |_| TcpStream::connect(&self.address).expect("it listens");
        let mut clients: Vec<TcpStream> = (0..64).map(connect).collect();
        clients.iter_mut().for_each(|client| client.write_all(b"hello").expect("it is connected"));
        clients.iter_mut().any(|client| {
            client.set_read_timeout(Some(patience)).expect("it takes a timeout");
            client.read_exact(&mut [0; 5]).is_err()
        })
    }

    fn mappings(&self) -> usize {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.engine.pid()));
        maps.expect("it runs").lines().count()
    }

    fn dead_children(&self) -> usize {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.engine.pid())).expect("it runs").flatten();
        let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let is_dead = |pid: &str| {
            let status = fs::read_to_string(format!("/proc/{pid}/status"));
            status.is_ok_and(|status| status.contains("State:\tZ"))
        };
        lists.map(|list| list.split_whitespace().filter(|pid| is_dead(pid)).count()).sum()
    }
}
