//! Both halves against each other in memory: the server answers the client, which finds every reply correct.

use proto::echo::{self, Echo, Framing};
use proto::http::{self, Http, Request, Verify};
use proto::line::{self, Line};
use proto::rpc::{self, Rpc};
use proto::{Client, Next, Output, Protocol, Server, Session, Verdict};

use super::drive::{Random, ask, check, cut, exchange};

/// Sends a burst of requests at once, `bursts` times, with both directions split at random.
fn converse<P: Protocol>(name: &str, workload: P::Workload, burst: usize, bursts: usize) {
    let workload: &P::Workload = Box::leak(Box::new(workload));
    let mut random = Random(burst as u64);
    let mut session = Session::new(P::Server::new(workload));
    let mut client = P::Client::new(workload);
    let mut output = Output::new();
    for _ in 0..bursts {
        let requests = ask(&mut client, burst).concat();
        let mut replies = Vec::new();
        let mut next = Next::Receive;
        for piece in cut_at_random(&requests, &mut random) {
            assert_eq!(next, Next::Receive, "{name}");
            next = exchange(&mut session, piece, &mut output, |sent| replies.extend_from_slice(sent));
        }
        assert_eq!(next == Next::Close, !client.keeps_alive(), "{name}");
        let checked = check(&mut client, burst, cut_at_random(&replies, &mut random), false);
        assert_eq!(checked.verdicts, vec![Verdict::Correct; burst], "{name}");
        assert_eq!((checked.malformed, checked.left_bytes, session.tail_bytes()), (false, 0, 0), "{name}");
    }
}

fn cut_at_random<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let cuts: Vec<usize> = (0..random.below(20)).map(|_| random.below(bytes.len() + 1)).collect();
    cut(bytes, &cuts).into_iter().filter(|piece| !piece.is_empty()).collect()
}

#[test]
fn http_pages_of_any_size_are_found_correct() {
    for (target, reply_bytes, verify) in [
        ("/", 0, Verify::Bytes),
        ("/", 1, Verify::Bytes),
        ("/", 1, Verify::Status),
        ("/?query", 1024, Verify::Bytes),
        ("http://b/", 65_536, Verify::Bytes),
        ("/", 1024 * 1024, Verify::Bytes),
        ("/", 1024 * 1024, Verify::Status),
        ("/plaintext", 1, Verify::Bytes),
        ("/json", 1, Verify::Bytes),
    ] {
        let workload = || http::Workload::new(reply_bytes, target, "127.0.0.1:8080", true, verify).unwrap();
        converse::<Http>(target, workload(), 1, 10);
        converse::<Http>(target, workload(), 5, 4);
        if target == "/" && verify == Verify::Bytes {
            let body = vec![b'x'; reply_bytes];
            let request = Request { expect_body: Some(&body), ..Request::default() };
            converse::<Http>(target, workload().requesting(&request).unwrap(), 3, 2);
        }
    }
}

#[test]
fn an_http_reply_without_content_is_found_correct_and_no_other_is() {
    let workload = |target: &str, request: &Request<'_>| {
        let workload = http::Workload::new(0, target, "a", true, Verify::Bytes).unwrap();
        workload.requesting(request).unwrap().without_content().unwrap()
    };
    for method in ["GET", "HEAD", "POST", "PUT"] {
        let request = Request { method, ..Request::default() };
        converse::<Http>(method, workload("/", &request), 1, 10);
        converse::<Http>(method, workload("/?a", &request), 5, 4);
    }
    // Other pages have content, so a client must expect their status.
    let page = Request { expect_status: Some(200), ..Request::default() };
    converse::<Http>("/json", workload("/json", &page), 1, 10);
}

#[test]
fn http_requests_of_any_kind_are_found_correct() {
    let headers = [("Accept", "*/*"), ("X-Empty", ""), ("Host", "b")].map(|(n, v)| (n.into(), v.into()));
    let body = vec![b'\n'; 100_000];
    for (target, method, expect_status) in [
        ("/", "GET", None),
        ("/", "HEAD", None),
        ("/json", "HEAD", Some(200)),
        ("/nowhere", "HEAD", Some(404)),
        ("/nowhere", "GET", Some(404)),
        ("/", "POST", None),
        ("/", "PUT", Some(200)),
        ("/", "DELETE", Some(405)),
        ("/", "BREW", Some(501)),
    ] {
        for (headers, body) in [([].as_slice(), [].as_slice()), (&headers, b"hello"), (&headers, &body)] {
            let request = Request { method, headers, body, expect_status, expect_body: None };
            for (burst, bursts) in [(1, 10), (5, 4)] {
                let workload = http::Workload::new(10_000, target, "a", true, Verify::Bytes).unwrap();
                converse::<Http>(method, workload.requesting(&request).unwrap(), burst, bursts);
            }
        }
    }
}

#[test]
fn an_http_body_of_any_length_that_is_posted_to_the_echo_is_found_correct() {
    for length in [0, 1, 1024, 65_536, 1024 * 1024, http::Workload::ECHO_BYTES_MAX] {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let request = Request { method: "POST", body: &body, expect_body: Some(&body), ..Request::default() };
        for (burst, bursts) in if length > 1024 * 1024 { [(1, 1), (1, 2)] } else { [(1, 10), (5, 4)] } {
            let workload = http::Workload::new(1, "/echo", "a", true, Verify::Bytes).unwrap();
            converse::<Http>("echo", workload.requesting(&request).unwrap(), burst, bursts);
        }
    }
}

#[test]
fn an_http_connection_for_one_request_is_closed_by_both() {
    let workload = http::Workload::new(1, "/", "a", false, Verify::Bytes).unwrap();
    converse::<Http>("one request", workload, 1, 1);
}

#[test]
fn pipelined_http_requests_are_all_answered_in_order() {
    for (burst, reply_bytes) in [(1_000, 1), (10_000, 1), (1_000, 10_000), (100, 100_000)] {
        let workload = http::Workload::new(reply_bytes, "/", "a", true, Verify::Bytes).unwrap();
        converse::<Http>("pipeline", workload, burst, 2);
    }
}

#[test]
fn echoed_messages_of_any_size_are_found_correct() {
    for (framing, sizes) in [
        (Framing::Raw, [1, 2, 64, 4096, 65_536, 65_537, 1024 * 1024]),
        (Framing::Prefix, [0, 1, 64, 4096, 65_533, 65_534, 65_535]),
        (Framing::Crlf, [0, 1, 64, 4096, 65_536, 65_537, 1024 * 1024]),
    ] {
        for size in sizes {
            let name = format!("{framing:?} {size}");
            let workload = || echo::Workload::new(framing, size).unwrap();
            converse::<Echo>(&name, workload(), 1, 20);
            converse::<Echo>(&name, workload(), 3, 3);
        }
    }
}

#[test]
fn lines_of_any_size_are_found_correct() {
    for size in [1, 2, 12, 64, 4095, 4096] {
        let workload = || line::Workload::new(size).unwrap();
        converse::<Line>("line", workload(), 1, 20);
        converse::<Line>("line", workload(), 3, 3);
    }
}

#[test]
fn answers_with_texts_of_any_size_are_found_correct() {
    for (target, text_bytes, work_steps) in
        [(0, 0, 0), (1000, 11, 0), (1000, 11, 1000), (1, 110_000, 0), (10, 1_000_000, 1)]
    {
        let workload = || rpc::Workload::new(target, text_bytes, work_steps).unwrap();
        converse::<Rpc>("rpc", workload(), 1, 10);
        converse::<Rpc>("rpc", workload(), 3, 3);
    }
}

#[test]
fn pipelined_calls_are_all_answered_in_order() {
    for (burst, text_bytes) in [(1_000, 11), (10_000, 11), (100, 10_000)] {
        let workload = rpc::Workload::new(3, text_bytes, 0).unwrap();
        converse::<Rpc>("pipeline", workload, burst, 2);
    }
}

#[test]
fn pipelined_messages_all_come_back_in_order() {
    for (burst, size) in [(1_000, 12), (10_000, 12), (10_000, 1)] {
        converse::<Line>("pipeline", line::Workload::new(size).unwrap(), burst, 2);
    }
    for framing in [Framing::Raw, Framing::Prefix, Framing::Crlf] {
        for (burst, size) in [(1_000, 64), (10_000, 64), (10_000, 1)] {
            let workload = echo::Workload::new(framing, size).unwrap();
            converse::<Echo>("pipeline", workload, burst, 2);
        }
    }
}

#[test]
fn a_full_output_stops_a_server_until_it_is_sent() {
    fn check<P: Protocol>(workload: P::Workload, reply_bytes_max: usize) {
        let workload: &P::Workload = Box::leak(Box::new(workload));
        let requests = ask(&mut P::Client::new(workload), 20_000).concat();
        let mut session = Session::new(P::Server::new(workload));
        let mut output = Output::new();
        let mut turns = 0;
        let next = exchange(&mut session, &requests, &mut output, |sent| {
            assert!(sent.len() < Output::LIMIT_BYTES + reply_bytes_max, "{} bytes in a turn", sent.len());
            turns += 1;
        });
        assert!(next == Next::Receive && turns > 2, "{next:?} after {turns} turns");
    }
    check::<Http>(http::Workload::new(1, "/", "a", true, Verify::Bytes).unwrap(), 200);
    check::<Echo>(echo::Workload::new(Framing::Raw, 10).unwrap(), 1);
    check::<Echo>(echo::Workload::new(Framing::Prefix, 10).unwrap(), 12);
    check::<Echo>(echo::Workload::new(Framing::Crlf, 10).unwrap(), 12);
}

#[test]
fn a_turn_begins_behind_what_other_connections_have_appended() {
    let workload: &http::Workload =
        Box::leak(Box::new(http::Workload::new(1, "/", "a", true, Verify::Bytes).unwrap()));
    let mut output = Output::new();
    output.push(&vec![b'-'; 2 * Output::LIMIT_BYTES]);
    let begin = output.begin();
    assert_eq!(output.room_bytes(), Output::LIMIT_BYTES);
    let (used, next) = http::Server::new(workload).advance(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut output);
    assert_eq!((used, next), (27, Next::Receive));
    assert!(output.as_bytes()[begin..].starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[test]
fn bytes_set_aside_while_the_output_is_full_are_taken_up_in_order() {
    let workload: &echo::Workload = Box::leak(Box::new(echo::Workload::new(Framing::Raw, 1).unwrap()));
    let (first, second) = (vec![1; Output::LIMIT_BYTES + 10], vec![2; 10]);
    let mut session = Session::new(echo::Server::new(workload));
    let mut output = Output::new();
    assert_eq!(session.receive(&first, &mut output), Next::Send);
    session.set_aside(&second);
    assert_eq!(session.tail_bytes(), 20);
    output.clear();
    assert_eq!(session.resume(&mut output), Next::Receive);
    assert_eq!(output.as_bytes(), [&first[..10], &second].concat());
    assert_eq!(session.tail_bytes(), 0);
}
