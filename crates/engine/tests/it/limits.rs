//! A server at a limit refuses the next connection, counts it under the name of the limit, serves the others and
//! recovers.

use std::fs;
use std::io::{Read, Write};
use std::iter;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ENGINE, Engine};
use crate::process::PATIENCE;
use serde_json::{Value, json};

/// A user without processes, even from other tests. Limits on processes count those of a user, and do not apply to
/// root.
fn stranger() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    1_000_000_000 + (std::process::id() << 4) + NUMBER.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn connections_beyond_the_most_it_was_told_to_hold() {
    for model in ["fork", "thread", "thread_pool", "epoll", "io_uring"] {
        check(Server::start(&json!({"model": model, "connections_max": 8})), "connections_max", 24);
    }
}

#[test]
fn descriptors() {
    for model in ["thread", "thread_pool", "epoll"] {
        let server = Server::start(&json!({"model": model}));
        // After its start: otherwise it would know in advance how many connections it can serve.
        let pid = server.engine.pid().to_string();
        // It may have inherited descriptors with any numbers.
        let taken: Vec<u32> = open_descriptors(&pid);
        let room = (0..).filter(|number| !taken.contains(number)).nth(ROOM).expect("there is no end");
        let limit =
            Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={room}:{room}")]).status();
        if limit.is_err() {
            eprintln!("skipped: there is no prlimit");
            return;
        }
        check(server, "descriptors", 40);
    }
}

/// Free descriptors of a server: more than it needs for itself, fewer than it has clients.
const ROOM: usize = 12;

/// The descriptors of all threads of a process: each may have its own table.
fn open_descriptors(pid: &str) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let entries = tasks.flat_map(|task| fs::read_dir(task.path().join("fd"))).flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn numbers_of_descriptors_that_select_can_watch() {
    if sys::process::descriptors_max() < 1_200 {
        eprintln!("skipped: this process may not have as many descriptors as select cannot watch");
        return;
    }
    check(Server::start(&json!({"model": "select"})), "set_size", 1100);
}

#[test]
fn processes() {
    check_tasks("fork", "processes");
}

#[test]
fn threads() {
    check_tasks("thread", "threads");
}

#[test]
fn a_full_cache_of_connections_closes_the_one_that_was_idle_longest() {
    // One thread serves them in the order of their requests.
    let options = json!({"cache": "10", "threads": "1"});
    let Server { mut engine, address } = Server::start(&json!({"model": "thread_pool", "options": options}));
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..10 {
        clients.push(TcpStream::connect(&address).expect("it listens"));
        assert!(clients.last_mut().is_some_and(echoes));
    }
    assert!(echoes(&mut clients[0]));
    clients.push(TcpStream::connect(&address).expect("it listens"));
    assert!(clients.last_mut().is_some_and(echoes));
    let open: Vec<usize> = (0..clients.len()).filter(|&index| echoes(&mut clients[index])).collect();
    assert_eq!(open, [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(engine.served()["workers"][0]["connections"], 11);
}

/// Runs a server as a user with a low limit on processes and threads.
fn check_tasks(model: &str, limit: &str) {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let (user, mut command) = (stranger(), Command::new("prlimit"));
    command.uid(user).args(["--nproc=16:16", ENGINE]);
    if !is_root || Command::new(ENGINE).uid(user).arg("--version").output().is_err() {
        eprintln!("skipped: it takes root to run the engine as another user");
        return;
    }
    check(Server::start_by(&mut command, &json!({"model": model})), limit, 40);
}

/// Connects more clients to a server than it has room for, twice.
fn check(server: Server, limit: &str, clients: usize) {
    let Server { mut engine, address } = server;
    let (mut counted, mut first) = (0, None);
    for round in 0..2 {
        let connect = || TcpStream::connect(&address).expect("it listens");
        let mut all: Vec<TcpStream> =
            first.into_iter().chain(iter::repeat_with(connect)).take(clients).collect();
        let served = all.iter_mut().filter_map(|client| echoes(client).then_some(())).count();
        assert!((1..clients).contains(&served), "{limit}, round {round}: {served} of {clients} were served");
        counted += (clients - served) as u64;
        let refused = wait_for_refusals(&mut engine, counted);
        assert_eq!(refused[limit], counted, "{limit}, round {round}: {served} served, {refused}");
        drop(all);
        // It notices step by step that they are gone, and refuses until then.
        let (begin, mut client) = (Instant::now(), connect());
        while !echoes(&mut client) {
            counted += 1;
            assert!(begin.elapsed() < PATIENCE, "{limit}, round {round}: it does not recover");
            thread::sleep(Duration::from_millis(5));
            client = connect();
        }
        first = Some(client);
    }
}

/// The refusals of a server, once it has counted this many.
fn wait_for_refusals(server: &mut Engine, count: u64) -> Value {
    let begin = Instant::now();
    loop {
        let served = server.served();
        let refused = &served["workers"][0]["refused"];
        let sum: u64 = refused.as_object().expect("it is").values().filter_map(Value::as_u64).sum();
        if sum == count || begin.elapsed() > PATIENCE {
            return refused.clone();
        }
    }
}

/// An echo server that is ready.
struct Server {
    engine: Engine,
    address: String,
}

impl Server {
    fn start(fields: &Value) -> Self {
        Self::start_by(&mut Command::new(ENGINE), fields)
    }

    fn start_by(command: &mut Command, fields: &Value) -> Self {
        let mut spec = json!({
            "schema": 1, "role": "serve", "workload": {"protocol": "echo"}, "listen": ["127.0.0.1:0"],
        });
        spec.as_object_mut().expect("it is").extend(fields.as_object().expect("it is").clone());
        let engine = Engine::start_by(command, &spec);
        let ready = engine.event().expect("it starts");
        let address = ready["listen"][0].as_str().unwrap_or_else(|| panic!("{ready}")).to_owned();
        Self { engine, address }
    }
}

/// Whether a message comes back; not if the connection is refused.
fn echoes(client: &mut TcpStream) -> bool {
    client.set_read_timeout(Some(PATIENCE)).expect("it takes a timeout");
    let mut reply = [0; 5];
    client.write_all(b"hello").and_then(|()| client.read_exact(&mut reply)).is_ok() && &reply == b"hello"
}
