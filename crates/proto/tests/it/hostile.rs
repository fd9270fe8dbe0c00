//! Messages that are broken, ambiguous or endless: each has one proper answer, however it is split.

use proto::http::{Client, Request, Server, Verify, Workload};
use proto::{Client as _, Verdict};

use super::drive::{Random, ask, check, serve, ways_to_cut};

/// How a connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Receive,
}
use End::{Close, Receive};

/// Sends a request and checks the statuses of all replies to it, and the end of the connection.
fn check_server(name: &str, request: &[u8], want: &[u16], end: End) {
    let workload: &Workload = Box::leak(Box::new(Workload::new(1, "/", "a", true, Verify::Bytes).unwrap()));
    let mut random = Random(3);
    for pieces in ways_to_cut(request, &mut random) {
        let served = serve::<Workload, Server>(workload, pieces);
        let text = String::from_utf8(served.output).unwrap();
        let got: Vec<u16> =
            text.split("HTTP/1.1 ").skip(1).map(|reply| reply[..3].parse().unwrap()).collect();
        let got_end = if served.closed { Close } else { Receive };
        assert_eq!((got.as_slice(), got_end), (want, end), "{name}: {:?}", beginning(request));
    }
}

/// Enough of a message to recognise it in a failure.
fn beginning(message: &[u8]) -> String {
    String::from_utf8_lossy(&message[..message.len().min(200)]).into_owned()
}

/// Inserts lines between a request line with a host and the end of the head.
fn post(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

fn chunked(body: &str) -> Vec<u8> {
    [post("Transfer-Encoding: chunked\r\n"), body.as_bytes().to_vec()].concat()
}

#[test]
fn request_lines_are_read_strictly() {
    let cases: &[(&str, &[u8], u16)] = &[
        ("HTTP/0.9", b"GET /\r\n", 400),
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("version 2.0", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("version 1.2", b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
        ("version 0.9", b"GET / HTTP/0.9\r\n\r\n", 505),
        ("version 1.10", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
        ("version without minor", b"GET / HTTP/1\r\nHost: a\r\n\r\n", 400),
        ("version 01.01", b"GET / HTTP/01.01\r\nHost: a\r\n\r\n", 400),
        ("version 1.01", b"GET / HTTP/1.01\r\nHost: a\r\n\r\n", 400),
        ("version 2.00", b"GET / HTTP/2.00\r\nHost: a\r\n\r\n", 400),
        ("version 11.1", b"GET / HTTP/11.1\r\nHost: a\r\n\r\n", 400),
        ("version 2", b"GET / HTTP/2\r\nHost: a\r\n\r\n", 400),
        ("version 2.", b"GET / HTTP/2.\r\nHost: a\r\n\r\n", 400),
        ("version 2,0", b"GET / HTTP/2,0\r\nHost: a\r\n\r\n", 400),
        ("version with a sign", b"GET / HTTP/+1.1\r\nHost: a\r\n\r\n", 400),
        ("space after version 2.0", b"GET / HTTP/2.0 \r\nHost: a\r\n\r\n", 400),
        ("bare LF after version 2.0", b"GET / HTTP/2.0\nHost: a\r\n\r\n", 400),
        ("version in small letters", b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ("another protocol", b"GET / ICAP/1.0\r\nHost: a\r\n\r\n", 400),
        ("no version", b"GET / \r\nHost: a\r\n\r\n", 400),
        ("space after version", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        ("two spaces before target", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("two spaces after target", b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("tab for space", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("space in target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("no target", b"GET HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("no method", b" / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("method with a colon", b"GET: / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("method with a control character", b"G\x01T / HTTP/1.1\r\n", 400),
        ("bare LF", b"GET / HTTP/1.1\nHost: a\n\n", 400),
        ("bare LF after the request line", b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
        ("bare LF before the request line", b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("bare CR after the request line", b"GET / HTTP/1.1\rHost: a\r\n\r\n", 400),
        ("bare CR before the request line", b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("two CR", b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400),
        ("TLS", b"\x16\x03\x01\x02\x00\x01", 400),
        ("NUL", b"\0", 400),
    ];
    for (name, request, status) in cases {
        check_server(name, request, &[*status], Close);
    }
}

#[test]
fn targets_have_the_form_that_their_method_asks_for() {
    let cases: &[(&str, &[u8], u16)] = &[
        ("NUL in target", b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("DEL in target", b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("UTF-8 in target", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("byte 0xFF in target", b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("fragment", b"GET /#top HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("fragment after a query", b"GET /?a=b# HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("fragment of an absolute target", b"GET http://a#top HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("fragment of a page that is absent", b"GET /nowhere#top HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("fragment and an unknown method", b"BREW /#top HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("fragment alone", b"GET # HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("target without slash", b"GET plaintext HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("asterisk with GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("asterisk with more", b"OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("asterisk with POST", b"POST * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("asterisk with CONNECT", b"CONNECT * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("path with CONNECT", b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("absolute target with CONNECT", b"CONNECT http://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT without a port", b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT with an empty port", b"CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT with a port that is no number", b"CONNECT a:b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT without a host", b"CONNECT :80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT with a user", b"CONNECT u@a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT with a fragment", b"CONNECT a:80# HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("authority with OPTIONS", b"OPTIONS a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("authority with GET", b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("absolute target without host", b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("absolute target with a user", b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("absolute target with a port alone", b"GET http://:80/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("absolute target with two ports", b"GET http://a:80:81/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (
            "absolute target with a port that is no number",
            b"GET http://a:b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            400,
        ),
        ("absolute target of another scheme", b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ];
    for (name, request, status) in cases {
        check_server(name, request, &[*status], Close);
    }
}

#[test]
fn fields_are_read_strictly() {
    let cases: &[(&str, &[u8], u16)] = &[
        ("no host", b"GET / HTTP/1.1\r\n\r\n", 400),
        ("two hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("two hosts in 1.0", b"GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", 400),
        ("host and an empty host", b"GET / HTTP/1.1\r\nHost: a\r\nHost:\r\n\r\n", 400),
        ("two empty hosts", b"GET / HTTP/1.1\r\nHost:\r\nHost:\r\n\r\n", 400),
        ("two hosts and an absolute target", b"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("empty host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ("host of white space", b"GET / HTTP/1.1\r\nHost: \t \r\n\r\n", 400),
        ("empty host in 1.0", b"GET / HTTP/1.0\r\nHost:\r\n\r\n", 400),
        // The host of the target decides, but the field must be valid too (RFC 9112, section 3.2).
        ("empty host and an absolute target", b"GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ("no host and an absolute target", b"GET http://a/ HTTP/1.1\r\n\r\n", 400),
        ("host of a port", b"GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400),
        ("host with two ports", b"GET / HTTP/1.1\r\nHost: a:80:81\r\n\r\n", 400),
        ("host with a port that is no number", b"GET / HTTP/1.1\r\nHost: a:8o\r\n\r\n", 400),
        ("host with a signed port", b"GET / HTTP/1.1\r\nHost: a:+80\r\n\r\n", 400),
        ("host with half an escape", b"GET / HTTP/1.1\r\nHost: a%4\r\n\r\n", 400),
        ("host with an escape that is no number", b"GET / HTTP/1.1\r\nHost: a%zz\r\n\r\n", 400),
        ("host with a scheme", b"GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", 400),
        ("bracket that is not closed", b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
        ("bracket that is not opened", b"GET / HTTP/1.1\r\nHost: ::1]\r\n\r\n", 400),
        ("address of version 6 without brackets", b"GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", 400),
        ("empty brackets", b"GET / HTTP/1.1\r\nHost: []\r\n\r\n", 400),
        ("name in brackets", b"GET / HTTP/1.1\r\nHost: [a]\r\n\r\n", 400),
        ("brackets and more", b"GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", 400),
        ("host with a user", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
        ("host with a path", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        ("host with a space", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("host with byte 0x80", b"GET / HTTP/1.1\r\nHost: a\x80\r\n\r\n", 400),
        ("space before colon", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("tab before colon", b"GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", 400),
        ("empty name", b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400),
        ("no colon", b"GET / HTTP/1.1\r\nHost: a\r\nname\r\n\r\n", 400),
        ("folded line", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", 400),
        ("line folded with a tab", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\tc\r\n\r\n", 400),
        ("folded first line", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        ("line of a space", b"GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n", 400),
        ("NUL in name", b"GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n", 400),
        ("byte 0x80 in name", b"GET / HTTP/1.1\r\nHost: a\r\nA\x80: b\r\n\r\n", 400),
        ("NUL in value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\0\r\n\r\n", 400),
        ("DEL in value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\x7f\r\n\r\n", 400),
        ("control character in value", b"GET / HTTP/1.1\r\nHost: a\r\nA: \x0bb\r\n\r\n", 400),
        ("bare LF in value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\nB: c\r\n\r\n", 400),
        ("bare CR in value", b"GET / HTTP/1.1\r\nHost: a\r\nA: b\rB: c\r\n\r\n", 400),
        ("bare LF at the end", b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
        ("bare CR at the end", b"GET / HTTP/1.1\r\nHost: a\r\n\rGET", 400),
        ("two expectations", b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: 1\r\n\r\n", 400),
        ("unknown expectation", b"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417),
        ("empty expectation", b"GET / HTTP/1.1\r\nHost: a\r\nExpect:\r\n\r\n", 417),
    ];
    for (name, request, status) in cases {
        check_server(name, request, &[*status], Close);
    }
}

#[test]
fn a_body_of_doubtful_length_is_refused() {
    let digits = "9".repeat(400);
    let cases: &[(&str, &str, u16)] = &[
        ("length and coding", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("coding and length", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
        ("length and unknown coding", "Content-Length: 5\r\nTransfer-Encoding: x\r\n", 400),
        ("length and empty coding", "Content-Length: 5\r\nTransfer-Encoding:\r\n", 400),
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        ("a length twice", "Content-Length: 5\r\nContent-Length: 5\r\n", 400),
        ("list of lengths", "Content-Length: 5, 5\r\n", 400),
        ("length with a comma", "Content-Length: 5,\r\n", 400),
        ("length with a plus", "Content-Length: +5\r\n", 400),
        ("negative length", "Content-Length: -1\r\n", 400),
        ("empty length", "Content-Length:\r\n", 400),
        ("length with a space", "Content-Length: 1 0\r\n", 400),
        ("length with a unit", "Content-Length: 5b\r\n", 400),
        ("hexadecimal length", "Content-Length: 0x5\r\n", 400),
        ("fractional length", "Content-Length: 5.0\r\n", 400),
        ("quoted length", "Content-Length: \"5\"\r\n", 400),
        ("length 2^63", "Content-Length: 9223372036854775808\r\n", 413),
        ("length 2^64-1", "Content-Length: 18446744073709551615\r\n", 413),
        ("length 2^64", "Content-Length: 18446744073709551616\r\n", 400),
        ("length 2^64 + 5", "Content-Length: 18446744073709551621\r\n", 400),
        ("length of 400 digits", &format!("Content-Length: {digits}\r\n"), 400),
        ("unknown coding", "Transfer-Encoding: gzip\r\n", 501),
        ("two codings", "Transfer-Encoding: gzip, chunked\r\n", 501),
        ("two coding fields", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 501),
        ("identity", "Transfer-Encoding: identity\r\n", 501),
        ("coding that begins as chunked", "Transfer-Encoding: chunkedx\r\n", 501),
        ("coding that ends as chunked", "Transfer-Encoding: xchunked\r\n", 501),
        ("quoted coding", "Transfer-Encoding: \"chunked\"\r\n", 501),
        ("coding with a parameter", "Transfer-Encoding: chunked;q=1\r\n", 501),
        ("chunked not last", "Transfer-Encoding: chunked, gzip\r\n", 400),
        ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", 400),
        ("chunked in two fields", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
        ("chunked, then identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400),
        ("chunked, then nothing", "Transfer-Encoding: chunked,\r\n", 400),
        ("empty coding", "Transfer-Encoding:\r\n", 400),
        ("space before colon", "Transfer-Encoding : chunked\r\n", 400),
        ("vertical tab before chunked", "Transfer-Encoding: \x0bchunked\r\n", 400),
        ("folded coding", "Transfer-Encoding:\r\n chunked\r\n", 400),
    ];
    for (name, fields, status) in cases {
        check_server(name, &post(fields), &[*status], Close);
    }
    check_server(
        "chunked in 1.0",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[400],
        Close,
    );
    check_server("length 2^63-1", &post("Content-Length: 9223372036854775807\r\n"), &[], Receive);
}

#[test]
fn chunks_are_read_strictly() {
    for (name, body) in [
        ("no size", "\r\nhello\r\n0\r\n\r\n"),
        ("size with a sign", "+5\r\nhello\r\n"),
        ("negative size", "-5\r\nhello\r\n"),
        ("size with a prefix", "0x5\r\nhello\r\n"),
        ("size that is no number", "g\r\n"),
        ("size with an underscore", "1_0\r\n"),
        ("space before size", " 5\r\nhello\r\n"),
        ("space after size", "5 \r\nhello\r\n"),
        ("word after size", "5 x\r\nhello\r\n"),
        ("bare LF after size", "5\nhello\r\n"),
        ("bare CR after size", "5\rhello\r\n"),
        ("size 2^63", "8000000000000000\r\n"),
        ("size 2^64", "10000000000000000\r\n"),
        ("size 2^64 + 5", "10000000000000005\r\nhello\r\n"),
        ("size of 17 digits", "00000000000000005\r\nhello\r\n"),
        ("bare LF in extension", "5;a\nhello\r\n"),
        ("bare CR in extension", "5;a\rb\r\nhello\r\n"),
        ("NUL in extension", "5;a\0\r\nhello\r\n"),
        ("extension without a name", "5;\r\nhello\r\n"),
        ("extension of a space", "5; \r\nhello\r\n"),
        ("two semicolons", "5;;a\r\nhello\r\n"),
        ("semicolon after an extension", "5;a;\r\nhello\r\n"),
        ("semicolon after a value", "5;a=b;\r\nhello\r\n"),
        ("extension of a value alone", "5;=b\r\nhello\r\n"),
        ("extension with a name that is no token", "5;a/b\r\nhello\r\n"),
        ("extension with a quoted name", "5;\"a\"=b\r\nhello\r\n"),
        ("extension with byte 0x80 in its name", "5;a\u{80}\r\nhello\r\n"),
        ("extension of two words", "5;a b\r\nhello\r\n"),
        ("space after an extension", "5;a \r\nhello\r\n"),
        ("space after a value", "5;a=b \r\nhello\r\n"),
        ("space after a quoted value", "5;a=\"b\"\t\r\nhello\r\n"),
        ("extension without its value", "5;a=\r\nhello\r\n"),
        ("extension without its value, then another", "5;a=;b\r\nhello\r\n"),
        ("two equals signs", "5;a==b\r\nhello\r\n"),
        ("value that is no token", "5;a=b/c\r\nhello\r\n"),
        ("value of two words", "5;a=b c\r\nhello\r\n"),
        ("value that ends in quotes", "5;a=b\"c\"\r\nhello\r\n"),
        ("value that begins in quotes", "5;a=\"b\"c\r\nhello\r\n"),
        ("two quoted values", "5;a=\"b\"\"c\"\r\nhello\r\n"),
        ("quoted value without its end", "5;a=\"b\r\nhello\r\n0\r\n\r\n"),
        ("quoted value whose end is escaped", "5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n"),
        ("quoted value with an escaped CR", "5;a=\"\\\r\nhello\r\n"),
        ("quoted value with an escaped NUL", "5;a=\"\\\0\"\r\nhello\r\n"),
        ("quoted value with LF", "5;a=\"\n\"\r\nhello\r\n"),
        ("quoted value with DEL", "5;a=\"\x7f\"\r\nhello\r\n"),
        ("extension without a name after the last chunk", "0;\r\n\r\n"),
        ("chunk longer than its size", "5\r\nhello!\r\n0\r\n\r\n"),
        ("chunk shorter than its size", "5\r\nhell\r\n0\r\n\r\n"),
        ("bare LF after chunk", "5\r\nhello\n0\r\n\r\n"),
        ("bare CR after chunk", "5\r\nhello\r0\r\n\r\n"),
        ("bare LF after last chunk", "0\n\r\n"),
        ("bare LF after trailers", "0\r\n\n"),
        ("bare CR after trailers", "0\r\n\r0"),
        ("trailer without colon", "0\r\ntrailer\r\n\r\n"),
        ("trailer with space before colon", "0\r\ntrailer : x\r\n\r\n"),
        ("folded trailer", "0\r\nA: b\r\n c\r\n\r\n"),
        ("NUL in trailer", "0\r\nA: \0\r\n\r\n"),
        ("request for a trailer", "0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        check_server(name, &chunked(body), &[400], Close);
    }
}

#[test]
fn limits_hold_and_what_is_within_them_passes() {
    let get =
        |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
    let path = |length: usize| format!("/{}", "a".repeat(length - 1));
    check_server("target of 8192 bytes", &get(&path(8192), ""), &[404], Receive);
    check_server("target of 8193 bytes", &get(&path(8193), ""), &[414], Close);
    check_server("endless target", format!("GET /{}", "a".repeat(9000)).as_bytes(), &[414], Close);

    let field = |length: usize| format!("A: {}\r\n", "b".repeat(length - 5));
    let head_bytes = 16 * 1024 - get("/", "").len();
    check_server("head of 16 KiB", &get("/", &field(head_bytes)), &[200], Receive);
    check_server("head over 16 KiB", &get("/", &field(head_bytes + 1)), &[431], Close);
    check_server("empty lines over 16 KiB", &b"\r\n".repeat(8193), &[431], Close);
    let method = |bytes: usize| [b"A".repeat(bytes).as_slice(), b" / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    check_server("method of 1 KiB", &method(1024), &[501], Receive);
    check_server("method of 16 KiB less a byte", &method(16 * 1024 - 1), &[431], Close);
    check_server("method of 16 KiB", &method(16 * 1024), &[501], Close);
    check_server("method of 100 KiB", &method(100 * 1024), &[501], Close);
    check_server("64 fields", &get("/", &"A: b\r\n".repeat(63)), &[200], Receive);
    check_server("65 fields", &get("/", &"A: b\r\n".repeat(64)), &[431], Close);

    let extension = |bytes: usize| chunked(&format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(bytes - 1)));
    // Of the empty line at the end, the CR counts.
    check_server("extension of 16 KiB", &extension(16 * 1024 - 1), &[200], Receive);
    check_server("extension over 16 KiB", &extension(16 * 1024 + 1), &[400], Close);
    let many = "1;eeeeeee\r\nx\r\n".repeat(2049);
    check_server("extensions over 16 KiB together", &chunked(&many), &[400], Close);
    check_server(
        "trailers over 16 KiB",
        &chunked(&format!("0\r\nA: {}", "b".repeat(16 * 1024))),
        &[400],
        Close,
    );
    check_server("65 trailers", &chunked(&format!("0\r\n{}\r\n", "A: b\r\n".repeat(65))), &[431], Close);
}

#[test]
fn what_only_looks_hostile_is_served() {
    for (name, request, status) in [
        ("no host in 1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200),
        ("host with an empty port", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", 200),
        ("host with an escape and marks", "GET / HTTP/1.1\r\nHost: %41-._~!$&'()*+,;=:80\r\n\r\n", 200),
        (
            "address of version 6 that ends as one of version 4",
            "GET / HTTP/1.1\r\nHost: [::127.0.0.1]\r\n\r\n",
            200,
        ),
        ("address of version 6", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200),
        ("target like a host", "GET //evil HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("path that climbs", "GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("encoded slash", "GET /%2f HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("host and absolute target differ", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("query with a question mark", "GET /?? HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("unknown field", "GET / HTTP/1.1\r\nHost: a\r\nContent-Lengthy: x\r\n\r\n", 200),
        ("length 0 with GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 200),
        (
            "unknown connection option",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, x-close\r\n\r\n",
            200,
        ),
        ("trace", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("method with marks", "M-SEARCH* / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ] {
        check_server(name, request.as_bytes(), &[status], Receive);
    }
}

/// Passes one reply and then the end to a client, and checks its verdict; None means malformed.
fn check_client(name: &str, reply: &[u8], want: Option<&[Verdict]>) {
    let hello = Request { expect_body: Some(b"hello"), ..Request::default() };
    let workload = Workload::new(1, "/", "a", true, Verify::Bytes).unwrap().requesting(&hello);
    let workload: &Workload = Box::leak(Box::new(workload.unwrap()));
    let mut random = Random(4);
    for pieces in ways_to_cut(reply, &mut random) {
        let mut client = Client::new(workload);
        ask(&mut client, 1);
        let checked = check(&mut client, 1, pieces, true);
        let got = (!checked.malformed).then_some(checked.verdicts.as_slice());
        assert_eq!(got, want, "{name}: {:?}", beginning(reply));
    }
}

#[test]
fn replies_are_read_strictly() {
    let cases: &[(&str, &[u8])] = &[
        ("another protocol", b"SSH-2.0-OpenSSH\r\n"),
        ("an echoed request", b"GET / HTTP/1.1\r\n"),
        ("empty line first", b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        ("version 2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        ("version 1.2", b"HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        ("no status", b"HTTP/1.1\r\n\r\n"),
        ("status of two digits", b"HTTP/1.1 20 OK\r\n\r\n"),
        ("status of four digits", b"HTTP/1.1 2000 OK\r\n\r\n"),
        ("status 099", b"HTTP/1.1 099 OK\r\n\r\n"),
        ("status 600", b"HTTP/1.1 600 OK\r\n\r\n"),
        ("two spaces before status", b"HTTP/1.1  200 OK\r\n\r\n"),
        ("NUL in reason", b"HTTP/1.1 200 O\0K\r\n\r\n"),
        ("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"),
        ("one bare LF", b"HTTP/1.1 200 OK\r\nContent-Length: 5\nA: b\r\n\r\nhello"),
        ("bare CR", b"HTTP/1.1 200 OK\rContent-Length: 5\r\n\r\nhello"),
        ("folded line", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n x\r\n\r\nhello"),
        ("space before colon", b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello"),
        ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
        ("list of lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello"),
        ("signed length", b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"),
        ("length 2^64 + 5", b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\nhello"),
        ("length and coding", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("unknown coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        ("chunked not last", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"),
        ("chunked in 1.0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("bad chunk size", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nhello\r\n0\r\n\r\n"),
        (
            "chunk extension without a name",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "chunk extension with a name that is no token",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a/b\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "chunk extension with a quoted value without its end",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\r\nhello\r\n0\r\n\r\n",
        ),
        ("bad chunk end", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n"),
        ("bad trailer", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx\r\n\r\n"),
        ("204 with length", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"),
        ("204 with coding", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("interim with length", b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello"),
        ("switch of protocols", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
        ("17 interim replies", &b"HTTP/1.1 100 Continue\r\n\r\n".repeat(17)),
        ("head over 16 KiB", &[b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &b"b".repeat(16 * 1024)].concat()),
        ("65 fields", &[b"HTTP/1.1 200 OK\r\n".as_slice(), &b"A: b\r\n".repeat(65), b"\r\n"].concat()),
    ];
    for (name, reply) in cases {
        check_client(name, reply, None);
    }
}

#[test]
fn replies_that_are_well_formed_are_judged() {
    use Verdict::{Correct, Status, Wrong};
    let cases: &[(&str, &[u8], &[Verdict])] = &[
        ("no reason", b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", &[Correct]),
        ("empty reason", b"HTTP/1.1 201 \r\nContent-Length: 5\r\n\r\nhello", &[Correct]),
        ("reason with obs-text", b"HTTP/1.1 200 \xff\r\nContent-Length: 5\r\n\r\nhello", &[Correct]),
        ("body byte changed", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhallo", &[Wrong]),
        ("body one byte short", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", &[Wrong]),
        ("body one byte long", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", &[Wrong]),
        ("empty body", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", &[Wrong]),
        ("no content", b"HTTP/1.1 204 No Content\r\n\r\n", &[Wrong]),
        ("length too long for what comes", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", &[]),
        ("chunks cut off", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", &[]),
        ("head cut off", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", &[]),
        ("until the end", b"HTTP/1.1 200 OK\r\n\r\nhello", &[Correct]),
        ("until the end, too long", b"HTTP/1.1 200 OK\r\n\r\nhello!", &[Wrong]),
        ("until the end, too short", b"HTTP/1.1 200 OK\r\n\r\n", &[Wrong]),
        ("error until the end", b"HTTP/1.1 500 Oops\r\n\r\nhello", &[Status]),
        (
            "16 interim replies",
            &[
                b"HTTP/1.1 100 C\r\n\r\n".repeat(16).as_slice(),
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            ]
            .concat(),
            &[Correct],
        ),
        ("redirection", b"HTTP/1.1 302 Found\r\nContent-Length: 5\r\n\r\nhello", &[Status]),
        ("not modified", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", &[Status]),
    ];
    for (name, reply, want) in cases {
        check_client(name, reply, Some(want));
    }
}
