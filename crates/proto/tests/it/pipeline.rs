//! Several replies in one input: each is checked and ends by itself, wherever the input is split.

use proto::echo::{self, Echo, Framing};
use proto::http::{self, Http, Request, Verify};
use proto::line::{self, Line};
use proto::rpc::{self, Rpc};
use proto::{Client, Protocol, Verdict};

use super::drive::{Random, ask, check, serve, ways_to_cut};

/// Numbers of outstanding requests.
const DEPTHS: [usize; 3] = [1, 2, 16];

/// A reply, and the client's expected verdict.
#[derive(Clone, Debug)]
struct Reply {
    bytes: Vec<u8>,
    verdict: Verdict,
    status: Option<u16>,
}

/// Passes three pipelines of replies to a client, one after another, split in every way. `reply` makes a reply from the
/// number and the bytes of its request.
fn check_pipelines<P: Protocol>(
    name: &str,
    workload: &'static P::Workload,
    depth: usize,
    reply: impl Fn(usize, &'static [u8]) -> Reply,
) {
    const PIPELINES: usize = 3;
    let mut random = Random(depth as u64);
    for way in 0..ways_to_cut(&[], &mut random).len() {
        let mut client = P::Client::new(workload);
        for pipeline in 0..PIPELINES {
            let requests = ask(&mut client, depth).into_iter().enumerate();
            let replies: Vec<Reply> =
                requests.map(|(number, request)| reply(pipeline * depth + number, request)).collect();
            let ends: Vec<usize> = replies
                .iter()
                .scan(0, |end, reply| {
                    *end += reply.bytes.len();
                    Some(*end)
                })
                .collect();
            let stream: Vec<u8> = replies.iter().flat_map(|reply| reply.bytes.clone()).collect();
            let checked =
                check(&mut client, depth, ways_to_cut(&stream, &mut random).swap_remove(way), false);
            let of = format!("{name}: pipeline {pipeline} of {depth}, way {way}");
            assert!(!checked.malformed && checked.keeps_alive, "{of}");
            let verdicts: Vec<Verdict> = replies.iter().map(|reply| reply.verdict).collect();
            assert_eq!((checked.verdicts, checked.left_bytes), (verdicts, 0), "{of}");
            let statuses: Vec<Option<u16>> = replies.iter().map(|reply| reply.status).collect();
            assert_eq!((checked.ends, checked.statuses), (ends, statuses), "{of}");
        }
    }
}

/// Uses our own server's replies, and changes the last byte of every fifth one. The first stays correct, because a
/// client learns from it.
fn check_served<P: Protocol>(name: &str, workload: P::Workload, status: Option<u16>) {
    let workload: &P::Workload = Box::leak(Box::new(workload));
    for depth in DEPTHS {
        check_pipelines::<P>(name, workload, depth, |number, request| {
            let mut bytes = serve::<P::Workload, P::Server>(workload, [request]).output;
            let verdict = if number % 5 == 4 {
                *bytes.last_mut().expect("no reply is empty") ^= 1;
                Verdict::Wrong
            } else {
                Verdict::Correct
            };
            Reply { bytes, verdict, status }
        });
    }
}

#[test]
fn pipelined_messages_are_judged_one_by_one() {
    for (framing, sizes) in [
        (Framing::Raw, [1, 2, 64, 5_000]),
        (Framing::Prefix, [0, 1, 64, 5_000]),
        (Framing::Crlf, [0, 1, 64, 5_000]),
    ] {
        for size in sizes {
            let workload = echo::Workload::new(framing, size).unwrap();
            check_served::<Echo>(&format!("{framing:?} {size}"), workload, None);
        }
    }
    for size in [1, 2, 12, 4096] {
        check_served::<Line>(&format!("line {size}"), line::Workload::new(size).unwrap(), None);
    }
}

#[test]
fn pipelined_answers_are_judged_one_by_one() {
    for text_bytes in [0, 11, 5_000] {
        check_served::<Rpc>("rpc", rpc::Workload::new(7, text_bytes, 0).unwrap(), None);
    }
}

#[test]
fn pipelined_pages_are_judged_one_by_one() {
    for (target, reply_bytes) in [("/", 1), ("/", 5_000), ("/json", 1)] {
        let workload = http::Workload::new(reply_bytes, target, "a", true, Verify::Bytes).unwrap();
        check_served::<Http>(target, workload, Some(200));
    }
}

/// Passes these replies to an HTTP client in turn, beginning with each of them.
fn check_http(request: &Request<'_>, replies: &[(&str, Verdict, u16)]) {
    let workload = http::Workload::new(1, "/", "a", true, Verify::Bytes).unwrap();
    let workload: &http::Workload = Box::leak(Box::new(workload.requesting(request).unwrap()));
    for depth in DEPTHS {
        for first in 0..replies.len() {
            let name = format!("{} from {first}", request.method);
            check_pipelines::<Http>(&name, workload, depth, |number, _| {
                let (text, verdict, status) = replies[(first + number) % replies.len()];
                Reply { bytes: text.into(), verdict, status: Some(status) }
            });
        }
    }
}

#[test]
fn pipelined_replies_of_every_framing_and_status_are_told_apart() {
    let request = Request { expect_body: Some(b"hello"), ..Request::default() };
    check_http(
        &request,
        &[
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Verdict::Correct, 200),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Verdict::Status, 304),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Verdict::Correct, 200),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/", Verdict::Wrong, 200),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n",
                Verdict::Correct,
                200,
            ),
            (
                "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
                Verdict::Status,
                503,
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", Verdict::Wrong, 204),
            (
                "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 201 C\r\nContent-Length: 5\r\n\r\nhello",
                Verdict::Correct,
                201,
            ),
            ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", Verdict::Status, 404),
        ],
    );
}

#[test]
fn pipelined_replies_without_bodies_end_with_their_heads() {
    let replies = |length| {
        let (right, other) = (Verdict::Correct, Verdict::Status);
        let head = |first: &str, fields: &str| format!("HTTP/1.1 {first}\r\n{fields}\r\n");
        [
            (head("200 OK", length), right, 200),
            (head("200 OK", &format!("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n{length}")), right, 200),
            (head("304 Not Modified", length), other, 304),
            (head("200 OK", &format!("Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n{length}")), right, 200),
            (head("404 Not Found", length), other, 404),
        ]
    };
    for length in
        ["", "Content-Length: 0\r\n", "Content-Length: 1000000\r\n", "Transfer-Encoding: chunked\r\n"]
    {
        let replies = replies(length);
        let replies = replies.each_ref().map(|(text, verdict, status)| (text.as_str(), *verdict, *status));
        check_http(&Request { method: "HEAD", ..Request::default() }, &replies);
    }
    let not_modified = Request { expect_status: Some(304), ..Request::default() };
    check_http(
        &not_modified,
        &[
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Verdict::Correct, 304),
            ("HTTP/1.1 304 Not Modified\r\nETag: 1\r\n\r\n", Verdict::Correct, 304),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Verdict::Status, 200),
        ],
    );
}
