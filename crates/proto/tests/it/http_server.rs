//! Requests too long to write down: each is refused, or read to its end, with little memory.

use proto::http::{Server, Verify, Workload};
use proto::{Next, Output, Session};

use super::drive::exchange;

/// The result of an endless or long stream.
struct Streamed {
    taken_bytes: u64,
    held_bytes_max: usize,
    next: Next,
    replies: String,
}

/// Sends `begin` and then the same piece again and again, at most `times`, while the server accepts it.
fn stream(begin: &[u8], piece: &[u8], times: u64, end: &[u8]) -> Streamed {
    let workload: &Workload = Box::leak(Box::new(Workload::new(1, "/", "a", true, Verify::Bytes).unwrap()));
    let mut session = Session::new(<Server as proto::Server<_>>::new(workload));
    let mut output = Output::new();
    let mut streamed =
        Streamed { taken_bytes: 0, held_bytes_max: 0, next: Next::Receive, replies: String::new() };
    let pieces = std::iter::once(begin).chain((0..times).map(|_| piece)).chain([end]);
    for piece in pieces {
        streamed.taken_bytes += piece.len() as u64;
        streamed.next = exchange(&mut session, piece, &mut output, |sent| {
            streamed.replies += str::from_utf8(sent).unwrap();
        });
        streamed.held_bytes_max = streamed.held_bytes_max.max(session.tail_bytes());
        if streamed.next == Next::Close {
            break;
        }
    }
    streamed
}

fn check_refused(name: &str, begin: &str, piece: &[u8], status: &str) {
    const GIB: u64 = 1024 * 1024 * 1024;
    let streamed = stream(begin.as_bytes(), piece, GIB / piece.len() as u64, b"");
    assert!(streamed.replies.starts_with(status), "{name}: {:?}", streamed.replies);
    assert_eq!(streamed.next, Next::Close, "{name}");
    assert!(streamed.taken_bytes <= 64 * 1024, "{name}: refused after {} bytes", streamed.taken_bytes);
    assert!(streamed.held_bytes_max <= 64 * 1024, "{name}: {} bytes held", streamed.held_bytes_max);
}

#[test]
fn an_endless_head_body_line_or_trailer_is_refused_within_64_kib() {
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let letters = [b'a'; 1024];
    check_refused("value", "GET / HTTP/1.1\r\nHost: a\r\nA: ", &letters, "HTTP/1.1 431 ");
    check_refused("name", "GET / HTTP/1.1\r\nHost: a\r\n", &letters, "HTTP/1.1 431 ");
    check_refused("fields", "GET / HTTP/1.1\r\nHost: a\r\n", b"A: b\r\n", "HTTP/1.1 431 ");
    check_refused("target", "GET /", &letters, "HTTP/1.1 414 ");
    check_refused("method", "", &letters, "HTTP/1.1 501 ");
    check_refused("empty lines", "", b"\r\n", "HTTP/1.1 431 ");
    check_refused("extension", &format!("{chunked}1;"), &letters, "HTTP/1.1 400 ");
    check_refused("extensions", chunked, b"1;a=b\r\nx\r\n", "HTTP/1.1 400 ");
    check_refused("space after a size", &format!("{chunked}1"), b" ", "HTTP/1.1 400 ");
    check_refused("zeros of a size", chunked, b"0", "HTTP/1.1 400 ");
    check_refused("trailer", &format!("{chunked}0\r\nA: "), &letters, "HTTP/1.1 400 ");
    check_refused("trailers", &format!("{chunked}0\r\n"), b"A: b\r\n", "HTTP/1.1 431 ");
}

fn check_read(name: &str, begin: &str, piece: &[u8], times: u64, end: &str) {
    let end = format!("{end}GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n");
    let streamed = stream(begin.as_bytes(), piece, times, end.as_bytes());
    assert_eq!(streamed.next, Next::Receive, "{name}");
    assert_eq!(streamed.replies.matches("HTTP/1.1 200 OK").count(), 2, "{name}: {:?}", streamed.replies);
    assert!(streamed.replies.ends_with("Hello, World!"), "{name}: {:?}", streamed.replies);
    assert_eq!(streamed.held_bytes_max, 0, "{name}: bytes of a body are held");
}

#[test]
fn long_bodies_are_read_without_being_held() {
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let length = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n";
    let letters = vec![b'a'; 65_536];
    check_read("1 GiB", length, &letters, 16_384, "");
    check_read("1 GiB in one chunk", &format!("{chunked}40000000\r\n"), &letters, 16_384, "\r\n0\r\n\r\n");
    let chunk = [b"10000\r\n", letters.as_slice(), b"\r\n"].concat();
    check_read("1 GiB in chunks", chunked, &chunk, 16_384, "0\r\n\r\n");
    check_read("100,000 chunks of a byte", chunked, b"1\r\nx\r\n", 100_000, "0\r\n\r\n");
}

/// Posts to the echo in pieces, and checks what comes back and how much is buffered meanwhile.
fn check_echoed(name: &str, framing: &str, piece: &[u8], times: u64, end: &str, held_bytes_max: usize) {
    let begin = format!("POST /echo HTTP/1.1\r\nHost: a\r\n{framing}");
    let streamed = stream(begin.as_bytes(), piece, times, end.as_bytes());
    assert_eq!(streamed.next, Next::Receive, "{name}");
    let (head, body) = streamed.replies.split_once("\r\n\r\n").expect("a reply has a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{name}: {head}");
    assert!(head.ends_with(&format!("\r\nContent-Length: {}", body.len())), "{name}: {head}");
    assert_eq!(body.len(), Workload::ECHO_BYTES_MAX, "{name}");
    assert!(body.bytes().all(|byte| byte == b'a'), "{name}: other bytes come back");
    assert!(streamed.held_bytes_max <= held_bytes_max, "{name}: {} bytes held", streamed.held_bytes_max);
}

#[test]
fn a_body_is_sent_back_up_to_the_limit_and_refused_beyond() {
    let most = Workload::ECHO_BYTES_MAX;
    let (coding, letters) = ("Transfer-Encoding: chunked\r\n\r\n", [b'a'; 65_536]);
    let (chunk, times) = ([b"10000\r\n", letters.as_slice(), b"\r\n"].concat(), (most / 65_536) as u64);
    let length = |length: usize| format!("Content-Length: {length}\r\n\r\n");
    check_echoed("length", &length(most), &letters, times, "", most);
    check_echoed("one chunk", &format!("{coding}{most:x}\r\n"), &letters, times, "\r\n0\r\n\r\n", 2 * most);
    check_echoed("chunks", coding, &chunk, times, "0\r\n\r\n", 2 * most);

    let check = |name: &str, framing: &str, piece: &[u8], status: &str, taken_bytes_max: usize| {
        let begin = format!("POST /echo HTTP/1.1\r\nHost: a\r\n{framing}");
        let streamed = stream(begin.as_bytes(), piece, 1024 * 1024, b"");
        assert_eq!(streamed.next, Next::Close, "{name}");
        assert!(streamed.replies.starts_with(status), "{name}: {:?}", streamed.replies);
        assert_eq!(streamed.replies.matches("HTTP/1.1 ").count(), 1, "{name}: {:?}", streamed.replies);
        let within = taken_bytes_max + 2 * piece.len();
        assert!(streamed.taken_bytes <= within as u64, "{name}: after {} bytes", streamed.taken_bytes);
    };
    let expecting = format!("Expect: 100-continue\r\n{}", length(most + 1));
    check("length", &length(most + 1), &letters, "HTTP/1.1 413 ", 0);
    check("length that is announced", &expecting, &letters, "HTTP/1.1 413 ", 0);
    check("chunks", coding, &chunk, "HTTP/1.1 413 ", most + 16 * 1024);
    check("one chunk", &format!("{coding}fffffff\r\n"), &letters, "HTTP/1.1 413 ", most);
    let tiny = b"0000000000000001\r\na\r\n".repeat(3_000);
    check("more lines than content", coding, &tiny, "HTTP/1.1 413 ", 2 * most);
    check("a malformed chunk", coding, &[&chunk, b"1;\r\n".as_slice()].concat(), "HTTP/1.1 400 ", 0);
}

#[test]
fn an_idle_connection_is_small() {
    assert!(size_of::<Server>() <= 48, "{} bytes", size_of::<Server>());
    assert!(size_of::<Session<Server>>() <= 72, "{} bytes", size_of::<Session<Server>>());
}

#[test]
fn a_server_that_allows_one_request_a_connection_says_so_and_closes() {
    let workload: &Workload = Box::leak(Box::new(Workload::new(1, "/", "a", false, Verify::Bytes).unwrap()));
    let mut session = Session::new(<Server as proto::Server<_>>::new(workload));
    let mut replies = Vec::new();
    let requests = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let next = exchange(&mut session, requests, &mut Output::new(), |sent| replies.extend_from_slice(sent));
    let replies = String::from_utf8(replies).unwrap();
    assert_eq!(next, Next::Close);
    assert_eq!(replies.matches("HTTP/1.1 200 OK\r\n").count(), 1, "{replies}");
    assert!(replies.contains("\r\nConnection: close\r\n"), "{replies}");
}
