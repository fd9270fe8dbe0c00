//! Calls that cannot be answered, and replies that are wrong.

use proto::rpc::{Client, Server, Workload};
use proto::{Client as _, Malformed, Verdict, work};

use super::drive::{Random, ask, check, serve, ways_to_cut};
use super::transcripts::framed;

fn workload(target: u32, text_bytes: usize) -> &'static Workload {
    Box::leak(Box::new(Workload::new(target, text_bytes, 0).unwrap()))
}

#[test]
fn workloads_that_cannot_be_are_refused_with_a_hint() {
    for (target, text_bytes, hint) in [
        (10_000_001, 0, "10000000 at most"),
        (u32::MAX, 0, "10000000 at most"),
        (0, 1_000_001, "at most 1000000 bytes"),
    ] {
        let line = Workload::new(target, text_bytes, 0).err().unwrap();
        assert!(line.contains(hint) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn a_request_is_as_the_documents_say() {
    let request = Client::new(workload(1000, 11)).request();
    let text = str::from_utf8(&request[4..]).unwrap();
    let (before, after) = (r#"{"target": 1000, "text": ""#, r#""}"#);
    let letters = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).unwrap();
    assert_eq!(request, framed(text));
    assert!(
        letters.len() == 11
            && letters.bytes().all(|byte| b"-_".contains(&byte) || byte.is_ascii_alphanumeric())
    );
}

#[test]
fn texts_differ_from_one_to_the_next_and_from_one_connection_to_the_next() {
    for text_bytes in [1, 11, 1000] {
        let mut client = Client::new(workload(1, text_bytes));
        let mut other = client.clone();
        let (requests, others) = (ask(&mut client, 100), ask(&mut other, 100));
        assert!(requests.windows(2).all(|pair| pair[0] != pair[1]), "{text_bytes}");
        assert!(requests.iter().zip(others).all(|(one, other)| *one != other), "{text_bytes}");
    }
}

// The error texts, as documented.
const BAD_LENGTH: &str = "a request has 1 to 1048576 bytes";
const BAD_REQUEST: &str = "a request is an object of target, a whole number, and text, a string";
const BAD_TARGET: &str = "target is 10000000 at most";

/// Sends a good request and then this one: the first is answered, the second gets the error and the end.
fn check_refused(name: &str, request: &[u8], error: &str) {
    let good = framed(r#"{"target": 0, "text": ""}"#);
    let stream = [good.as_slice(), request].concat();
    let want =
        [framed(r#"{"answer": 0, "text": ""}"#), framed(format!(r#"{{"error": "{error}"}}"#))].concat();
    for pieces in ways_to_cut(&stream, &mut Random(5)) {
        let served = serve::<_, Server>(workload(0, 0), pieces);
        let got = String::from_utf8_lossy(&served.output);
        assert_eq!((got, served.closed), (String::from_utf8_lossy(&want), true), "{name}");
    }
}

#[test]
fn a_frame_that_is_empty_or_too_long_is_refused_before_its_payload_comes() {
    check_refused("empty", &[0, 0, 0, 0], BAD_LENGTH);
    check_refused("a byte too long", &[0, 16, 0, 1], BAD_LENGTH);
    check_refused("as long as can be said", &[255; 4], BAD_LENGTH);
    check_refused("HTTP", b"GET / HTTP/1.1\r\n\r\n", BAD_LENGTH);
}

#[test]
fn what_is_no_request_is_refused() {
    let cases: &[(&str, &[u8])] = &[
        ("not JSON", b"hello"),
        ("white space", b" "),
        ("NUL", b"\0"),
        ("not whole", br#"{"target": 1, "text": "a""#),
        ("two objects", br#"{"target": 1, "text": "a"} {}"#),
        ("a comma at the end", br#"{"target": 1, "text": "a",}"#),
        ("no comma", br#"{"target": 1 "text": "a"}"#),
        ("single quotes", br#"{'target': 1, 'text': 'a'}"#),
        ("a comment", br#"{"target": 1, /* */ "text": "a"}"#),
        ("a byte order mark", b"\xef\xbb\xbf{\"target\": 1, \"text\": \"a\"}"),
        ("an array", br#"[1, "a"]"#),
        ("an array after white space", b"\n [1, \"a\"]"),
        ("a string", br#""target""#),
        ("no target", br#"{"text": "a"}"#),
        ("no text", br#"{"target": 1}"#),
        ("no members", b"{}"),
        ("another member", br#"{"target": 1, "text": "a", "more": 1}"#),
        ("two targets", br#"{"target": 1, "target": 1, "text": "a"}"#),
        ("two texts", br#"{"target": 1, "text": "a", "text": "a"}"#),
        ("a name in capitals", br#"{"Target": 1, "text": "a"}"#),
        ("target a string", br#"{"target": "1", "text": "a"}"#),
        ("target a fraction", br#"{"target": 1.5, "text": "a"}"#),
        ("target with an exponent", br#"{"target": 1e3, "text": "a"}"#),
        ("target negative", br#"{"target": -1, "text": "a"}"#),
        ("target with a zero", br#"{"target": 01, "text": "a"}"#),
        ("target with a plus", br#"{"target": +1, "text": "a"}"#),
        ("target hexadecimal", br#"{"target": 0x1, "text": "a"}"#),
        ("target null", br#"{"target": null, "text": "a"}"#),
        ("target beyond 32 bits", br#"{"target": 4294967296, "text": "a"}"#),
        ("target beyond 64 bits", br#"{"target": 99999999999999999999999, "text": "a"}"#),
        ("text a number", br#"{"target": 1, "text": 1}"#),
        ("text null", br#"{"target": 1, "text": null}"#),
        ("text an array", br#"{"target": 1, "text": ["a"]}"#),
        ("an unknown escape", br#"{"target": 1, "text": "\a"}"#),
        ("an unfinished escape", br#"{"target": 1, "text": "\u00"}"#),
        ("a line end in a text", b"{\"target\": 1, \"text\": \"a\n\"}"),
        ("NUL in a text", b"{\"target\": 1, \"text\": \"\0\"}"),
        ("byte 0xFF in a text", b"{\"target\": 1, \"text\": \"\xff\"}"),
        ("half a character in a text", b"{\"target\": 1, \"text\": \"\xc3\"}"),
        ("a surrogate in UTF-8", b"{\"target\": 1, \"text\": \"\xed\xa0\x80\"}"),
        ("an overlong NUL", b"{\"target\": 1, \"text\": \"\xc0\x80\"}"),
        ("byte 0xFF in a name", b"{\"target\": 1, \"text\": \"\", \"\xff\": 1}"),
    ];
    for (name, request) in cases {
        check_refused(name, &framed(request), BAD_REQUEST);
    }
    let nested = [br#"{"target": 1, "text": "#.as_slice(), &[b'['; 100_000]].concat();
    check_refused("100,000 brackets", &framed(nested), BAD_REQUEST);
}

#[test]
fn a_target_out_of_range_is_refused() {
    for target in ["10000001", "4294967295"] {
        check_refused(target, &framed(format!(r#"{{"target": {target}, "text": ""}}"#)), BAD_TARGET);
    }
}

#[test]
fn a_request_of_1_mib_is_answered() {
    let (before, after) = (r#"{"target":0,"text":""#, r#""}"#);
    let text = "a".repeat(Workload::PAYLOAD_BYTES_MAX - before.len() - after.len());
    let request = framed([before, &text, after].concat());
    assert_eq!(request.len(), 4 + Workload::PAYLOAD_BYTES_MAX);
    let served = serve::<_, Server>(workload(0, 0), request.chunks(100_000));
    assert!(served.output == framed(format!(r#"{{"answer": 0, "text": "{text}"}}"#)));
    assert_eq!((served.closed, served.tail_bytes), (false, 0));
}

/// Passes a payload to a client that sent the target 5 and a text of one letter. In the payload, `T` stands for the
/// letter and `A` for the answer.
fn check_reply(payload: &str, want: Verdict) {
    let mut client = Client::new(workload(5, 1));
    let request = client.request();
    let letter = char::from(request[request.len() - 3]).to_string();
    let reply = framed(payload.replace('A', &work::compute(5).to_string()).replace('T', &letter));
    for pieces in ways_to_cut(&reply, &mut Random(6)) {
        let mut client = Client::new(workload(5, 1));
        client.request();
        let checked = check(&mut client, 1, pieces, false);
        assert_eq!((checked.verdicts, checked.left_bytes), (vec![want], 0), "{payload}");
        assert!(client.reply(b"\0").is_err(), "{payload}: a byte that nobody asked for is taken");
    }
}

#[test]
fn a_reply_may_be_written_in_any_way_that_says_the_same() {
    for payload in [
        r#"{"answer": A, "text": "T"}"#,
        r#"{"answer":A,"text":"T"}"#,
        r#"{"text": "T", "answer": A}"#,
        " {\n  \"answer\" : A,\n  \"text\" : \"T\"\n}\n",
    ] {
        check_reply(payload, Verdict::Correct);
    }
}

#[test]
fn a_reply_that_says_something_else_is_wrong() {
    for payload in [
        r#"{"answer": A0, "text": "T"}"#,
        r#"{"answer": 5, "text": "T"}"#,
        r#"{"answer": "A", "text": "T"}"#,
        r#"{"answer": A, "text": "TT"}"#,
        r#"{"answer": A, "text": ""}"#,
        r#"{"answer": A, "text": T}"#,
        r#"{"answer": A}"#,
        r#"{"text": "T"}"#,
        r#"{"answer": A, "text": "T", "more": 1}"#,
        r#"{"answer": A, "answer": A, "text": "T"}"#,
        r#"{"target": 5, "text": "T"}"#,
        r#"{"error": "no"}"#,
        r#"[A, "T"]"#,
        "hello",
    ] {
        check_reply(payload, Verdict::Wrong);
    }
}

#[test]
fn one_wrong_byte_anywhere_makes_that_answer_wrong_and_no_other() {
    let replies = {
        let mut client = Client::new(workload(1000, 11));
        serve::<_, Server>(workload(1000, 11), ask(&mut client, 4)).output
    };
    let reply_bytes = replies.len() / 4;
    for at in (0..replies.len()).filter(|at| at % reply_bytes >= 4) {
        let mut client = Client::new(workload(1000, 11));
        ask(&mut client, 4);
        let mut replies = replies.clone();
        replies[at] ^= 1;
        let mut want = vec![Verdict::Correct; 4];
        want[at / reply_bytes] = Verdict::Wrong;
        let checked = check(&mut client, 4, replies.chunks(5), false);
        assert_eq!((checked.verdicts, checked.malformed), (want, false), "byte {at}");
    }
}

#[test]
fn a_length_that_no_reply_has_is_malformed() {
    for head in [[0; 4], [0, 16, 0, 1], [255; 4], *b"HTTP"] {
        let mut client = Client::new(workload(1, 1));
        client.request();
        assert_eq!(client.reply(&head[..3]), Ok((0, None)));
        assert!(matches!(client.reply(&head), Err(Malformed(_))), "{head:?}");
    }
}
