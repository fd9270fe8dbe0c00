//! Several requests outstanding on a connection: those that are ready at the same moment are sent together.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::common::Engine;
use serde_json::{Value, json};

/// Sends messages of this number and length on one connection, with at most `depth` outstanding, to a server that runs
/// `serve`. Expects all replies to be correct, and returns the result of `serve`.
fn check<T: Send + 'static>(
    (requests, message_bytes, depth): (u64, usize, usize),
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address").to_string();
    let server = thread::spawn(move || serve(listener.accept().expect("it listens").0));
    let engine = Engine::start(&json!({
        "schema": 1, "role": "load", "workload": {"protocol": "echo", "message_bytes": message_bytes},
        "connect": [address], "connections": 1, "requests": requests, "pipeline": depth,
    }));
    let report: Value = std::iter::from_fn(|| engine.event()).last().expect("it reports");
    let counts = &report["requests"];
    assert_eq!((&counts["sent"], &counts["correct"]), (&json!(requests), &json!(requests)), "{report}");
    assert_eq!(report["bytes"]["sent"], requests * message_bytes as u64, "{report}");
    drop(engine);
    server.join().expect("the server does not panic")
}

#[test]
fn requests_that_replies_have_made_room_for_go_out_in_one_call() {
    const MESSAGE_BYTES: usize = 64;
    let received = check((160, MESSAGE_BYTES, 16), |mut socket| {
        let (mut input, mut received) = ([0; 64 * MESSAGE_BYTES], Vec::new());
        loop {
            let length = socket.read(&mut input).expect("the generator ends it in order");
            if length == 0 {
                return received;
            }
            received.push(length);
            socket.write_all(&input[..length]).expect("the generator takes it");
        }
    });
    assert_eq!(received, [16 * MESSAGE_BYTES; 10]);
}

#[test]
fn what_does_not_fit_goes_on_where_it_ended() {
    // Eight megabytes exceed the socket buffers of both sides.
    check((2000, 8000, 1000), |mut socket| {
        thread::sleep(Duration::from_millis(100));
        let mut input = vec![0; 100_000];
        while let Ok(length @ 1..) = socket.read(&mut input) {
            socket.write_all(&input[..length]).expect("the generator takes it");
        }
    });
}
