//! Connections to servers that are slow to accept: at the start, where Ctrl-C ends the wait, and during a run, where a
//! full queue is not an error.

use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::Engine;
use crate::process::signal;
use serde_json::{Value, json};
use sys::net::{Address, Listener, Socket};
use sys::poll::Poll;

const DRIVERS: [&str; 3] = ["epoll", "io_uring", "thread"];
const MESSAGE_BYTES: usize = 64;

/// Stops a load whose connections are not accepted, and expects it to end although its timeout is an hour.
fn check_stopped(address: &str, backlog: i32, change: impl Fn(&mut Value)) {
    let listener = listen(address, backlog);
    let mut spec = spec(&listener.address().expect("it listens").to_string());
    (spec["requests"], spec["timeout_ms"]) = (10.into(), 3_600_000.into());
    change(&mut spec);
    let mut engine = Engine::start(&spec);
    // The first connection in the queue shows that it has started to open them. It can open no more than the queue
    // holds.
    let mut queue = Poll::new();
    queue.add(&listener);
    queue.wait().expect("the listener is open");
    assert_eq!(engine.ended(), None, "{spec}");
    signal("INT", engine.pid());
    let failed = engine.event().expect("it says how it ended");
    assert_eq!(failed["kind"], "interrupted", "{spec}: {failed}");
}

#[test]
fn a_load_that_waits_for_a_server_to_accept_is_stopped_at_once() {
    let (folder, path) = socket("stopped");
    for driver in ["epoll", "io_uring"] {
        check_stopped("127.0.0.1:0", 1, |spec| spec["driver"] = driver.into());
        check_stopped(&path, 1, |spec| spec["driver"] = driver.into());
    }
    check_stopped("127.0.0.1:0", 1, |spec| spec["processes"] = 2.into());
    fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_load_that_waits_for_a_server_to_shake_hands_is_stopped_at_once() {
    check_stopped("127.0.0.1:0", 128, |spec| {
        spec["tls"] = json!({"server_name": "localhost", "insecure": true});
    });
}

#[test]
fn a_full_queue_is_waited_for_when_connections_are_opened_anew() {
    for driver in DRIVERS {
        const REQUESTS: u64 = 100;
        // A separate address for each: an engine started by another test may hold the listener a moment longer.
        let (folder, path) = socket(&format!("slow-{driver}"));
        // Ten connections share a queue of two, and one is accepted every two milliseconds.
        let server = serve(&path, REQUESTS as usize, Duration::from_millis(2));
        let report = report(&path, driver, REQUESTS, 60_000);
        assert_eq!(report["requests"]["correct"], REQUESTS, "{driver}: {report}");
        drop(server.join().expect("it has accepted all"));
        fs::remove_dir_all(folder).expect("it is there");
    }
}

#[test]
fn a_full_queue_is_waited_for_no_longer_than_a_reply() {
    thread::scope(|scope| {
        for driver in DRIVERS {
            scope.spawn(move || {
                let (folder, path) = socket(&format!("dead-{driver}"));
                // It accepts the first ten connections and no other; two more fit into its queue. Replies have two
                // seconds to arrive, where an idle machine takes a millisecond.
                let server = serve(&path, 10, Duration::ZERO);
                let report = report(&path, driver, 30, 2_000);
                assert_eq!(report["requests"]["correct"], 10, "{driver}: {report}");
                assert_eq!(report["errors"]["timeout"], 20, "{driver}: {report}");
                drop(server.join().expect("it has accepted ten"));
                fs::remove_dir_all(folder).expect("it is there");
            });
        }
    });
}

#[test]
fn more_connections_than_a_server_takes_are_loaded_where_each_is_opened_as_needed() {
    const REQUESTS: u64 = 60;
    let address = Ipv4Addr::LOCALHOST;
    // It serves one connection to its end before it accepts the next, and two more fit into its queue.
    let listener = listen(&format!("{address}:0"), 1);
    let address = listener.address().expect("it listens").to_string();
    let echoed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&echoed);
    // It waits for connections as long as this process lives.
    thread::spawn(move || {
        while let Ok(mut socket) = listener.accept(false) {
            let mut message = [0; MESSAGE_BYTES];
            while socket.read_exact(&mut message).is_ok() && socket.write_all(&message).is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let mut spec = spec(&address);
    (spec["connections"], spec["requests"], spec["requests_per_connection"]) =
        (30.into(), REQUESTS.into(), 1.into());
    spec["timeout_ms"] = 500.into();
    let failed = Engine::start(&spec).event().expect("it says how it ended");
    assert_eq!(failed["kind"], "connect_timeout", "not all can be open at the same time: {failed}");
    let first = &failed["first_failure"];
    assert_eq!((&first["phase"], &first["saw"]), (&json!("connect"), &json!("timeout")), "{failed}");
    assert!((2..=30).contains(&first["connection"].as_u64().expect("a number")), "{failed}");

    (spec["open"], spec["timeout_ms"]) = ("as_needed".into(), 60_000.into());
    let report = last(&Engine::start(&spec));
    let requests = &report["requests"];
    let in_flight = requests["in_flight_end"].as_u64().expect("a number");
    assert_eq!((&requests["correct"], &requests["failed"]), (&json!(REQUESTS), &json!(0)), "{report}");
    assert_eq!(requests["sent"], REQUESTS + in_flight, "{report}");
    assert_eq!(echoed.load(Ordering::SeqCst), REQUESTS, "no more are sent than were asked for: {report}");
    assert!(!report["unsound"].to_string().contains("had no reply"), "others may wait: {report}");
}

#[test]
fn connections_that_a_server_does_not_take_in_time_are_failures_to_connect() {
    for driver in ["epoll", "io_uring"] {
        // Two fit into its queue, and it accepts none.
        let listener = listen("127.0.0.1:0", 1);
        let mut spec = spec(&listener.address().expect("it listens").to_string());
        (spec["driver"], spec["open"], spec["threads"]) = (driver.into(), "as_needed".into(), 1.into());
        (spec["connections"], spec["requests"], spec["timeout_ms"]) = (6.into(), 6.into(), 300.into());
        let report = last(&Engine::start(&spec));
        let phases = &report["errors_by_phase"];
        let counted = [&phases["connect"], &phases["receive"], &report["connections_made"]];
        assert_eq!(counted, [&json!(4), &json!(2), &json!(2)], "{driver}: {report}");
        assert_eq!(report["requests"]["failed"], 6, "{driver}: {report}");
    }
}

/// The report of a run with this many requests, each on its own connection.
fn report(address: &str, driver: &str, requests: u64, timeout_ms: u64) -> Value {
    let mut spec = spec(address);
    (spec["driver"], spec["requests"], spec["timeout_ms"]) =
        (driver.into(), requests.into(), timeout_ms.into());
    spec["requests_per_connection"] = 1.into();
    last(&Engine::start(&spec))
}

/// The last event of a load.
fn last(engine: &Engine) -> Value {
    std::iter::from_fn(|| engine.event()).last().expect("it reports")
}

/// Accepts this many connections, with a pause after each, and echoes what they send. Listens until the returned
/// listener is dropped.
fn serve(address: &str, connections: usize, pause: Duration) -> thread::JoinHandle<Listener> {
    let listener = listen(address, 1);
    thread::spawn(move || {
        for _ in 0..connections {
            let socket = listener.accept(false).expect("it listens");
            thread::spawn(move || echo(socket));
            thread::sleep(pause);
        }
        listener
    })
}

fn echo(mut socket: Socket) {
    let mut message = [0; MESSAGE_BYTES];
    while socket.read_exact(&mut message).is_ok() {
        if socket.write_all(&message).is_err() {
            return;
        }
    }
}

fn listen(address: &str, backlog: i32) -> Listener {
    let address: Address = address.parse().expect("it is an address");
    Listener::open(&address, false, backlog).expect("it is free")
}

/// The address of a Unix socket in its own folder.
fn socket(name: &str) -> (PathBuf, String) {
    let folder = std::env::temp_dir().join(format!("iolab-opening-{}-{name}", std::process::id()));
    fs::create_dir(&folder).expect("nobody else has that name");
    let path = format!("unix:{}", folder.join("server.sock").display());
    (folder, path)
}

fn spec(connect: &str) -> Value {
    json!({
        "schema": 1, "role": "load", "workload": {"protocol": "echo", "message_bytes": MESSAGE_BYTES},
        "connect": [connect], "connections": 10,
    })
}
