//! Properties: however requests are mixed and split, each is answered as if it were alone, and each reply is found
//! correct.

use proptest::collection::vec;
use proptest::prelude::*;
use proto::Verdict;
use proto::echo::{self, Framing};
use proto::http::{self, Verify};
use proto::{rpc, work};

use super::drive::{check, cut, serve};
use super::transcripts::framed;

fn request() -> impl Strategy<Value = Vec<u8>> {
    let target = prop_oneof![
        Just("/"),
        Just("/plaintext"),
        Just("/json?x"),
        Just("/nowhere"),
        Just("http://b/"),
        Just("/echo")
    ];
    let fields = vec(("[a-zA-Z!#$%&'*+.^_`|~0-9-]{1,20}x", "[ -~]{0,40}"), 0..5);
    let body = prop_oneof![
        Just(Vec::new()),
        vec(any::<u8>(), 1..200).prop_map(with_length),
        vec(vec(any::<u8>(), 1..50), 0..5).prop_map(in_chunks),
    ];
    (prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("BREW")], target, fields, body).prop_map(
        |(method, target, fields, body)| {
            let mut request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n");
            for (name, value) in fields {
                request += &format!("{name}:{value}\r\n");
            }
            let end: &[u8] = if body.is_empty() { b"\r\n" } else { b"" };
            [request.as_bytes(), &body, end].concat()
        },
    )
}

/// The rest of a head, and a body.
fn with_length(body: Vec<u8>) -> Vec<u8> {
    [format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
}

fn in_chunks(chunks: Vec<Vec<u8>>) -> Vec<u8> {
    let mut body = b"Transfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in chunks {
        body.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), &chunk, b"\r\n"].concat());
    }
    body.extend(b"0\r\n\r\n");
    body
}

fn http_workload() -> &'static http::Workload {
    Box::leak(Box::new(http::Workload::new(5, "/", "a", true, Verify::Bytes).unwrap()))
}

/// A JSON string, with its quotes, as any library may write it.
fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        any::<char>()
            .prop_filter("these are escaped", |c| !c.is_ascii_control() && !['"', '\\'].contains(c))
            .prop_map(String::from),
        "\\\\[\"\\\\/bfnrt]",
        "\\\\u[0-9a-fA-F]{4}",
    ];
    vec(character, 0..30).prop_map(|characters| format!("\"{}\"", characters.concat()))
}

proptest! {
    #[test]
    fn each_http_request_is_answered_as_if_alone(
        requests in vec(request(), 1..8),
        cuts in vec(0..4000_usize, 0..12),
    ) {
        let workload = http_workload();
        let alone = |request: &Vec<u8>| serve::<_, http::Server>(workload, [request.as_slice()]).output;
        let want: Vec<u8> = requests.iter().flat_map(alone).collect();
        let stream = requests.concat();
        let served = serve::<_, http::Server>(workload, cut(&stream, &cuts));
        prop_assert_eq!(String::from_utf8(served.output), String::from_utf8(want));
        prop_assert_eq!((served.closed, served.tail_bytes), (false, 0));
    }

    #[test]
    fn each_reply_is_found_correct_in_any_framing(
        body in vec(any::<u8>(), 0..300),
        framings in vec(vec(1..50_usize, 0..6), 1..6),
        cuts in vec(0..3000_usize, 0..12),
    ) {
        let mut stream = Vec::new();
        for sizes in &framings {
            stream.extend(b"HTTP/1.1 200 OK\r\n");
            if sizes.is_empty() {
                stream.extend(with_length(body.clone()));
                continue;
            }
            let mut rest = body.as_slice();
            let mut chunks = Vec::new();
            for size in sizes.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, later) = rest.split_at(rest.len().min(*size));
                chunks.push(chunk.to_vec());
                rest = later;
            }
            stream.extend(in_chunks(chunks));
        }
        let mut client = <http::Client as proto::Client<_>>::new(http_workload());
        super::drive::ask(&mut client, framings.len());
        let checked = check(&mut client, framings.len(), cut(&stream, &cuts), false);
        prop_assert_eq!(checked.verdicts, vec![Verdict::Correct; framings.len()]);
        prop_assert_eq!((checked.malformed, checked.left_bytes), (false, 0));
    }

    #[test]
    fn each_whole_message_comes_back(
        messages in vec(vec(any::<u8>(), 0..300), 0..20),
        unfinished in vec(any::<u8>(), 0..10),
        cuts in vec(0..4000_usize, 0..12),
    ) {
        let workload = Box::leak(Box::new(echo::Workload::new(Framing::Prefix, 0).unwrap()));
        let frame = |message: &Vec<u8>| [&(message.len() as u16).to_be_bytes(), message.as_slice()].concat();
        let whole: Vec<u8> = messages.iter().flat_map(frame).collect();
        let tail = [&[1, 0], unfinished.as_slice()].concat();
        let stream = [whole.as_slice(), &tail].concat();
        let served = serve::<_, echo::Server>(workload, cut(&stream, &cuts));
        prop_assert_eq!((served.output, served.tail_bytes, served.closed), (whole, tail.len(), false));
    }

    #[test]
    fn a_call_is_answered_whoever_has_written_its_json(
        calls in vec((0..50_u32, text(), vec("[ \t\r\n]{0,3}", 9), any::<bool>()), 1..10),
        cuts in vec(0..2000_usize, 0..12),
    ) {
        let workload = Box::leak(Box::new(rpc::Workload::new(0, 0, 0).unwrap()));
        let (mut stream, mut want) = (Vec::new(), Vec::new());
        for (target, text, spaces, turned) in calls {
            let mut members = [("\"target\"", target.to_string()), ("\"text\"", text.clone())];
            if turned { members.reverse(); }
            let [(name, value), (other_name, other_value)] = members;
            let words = ["", "{", name, ":", &value, ",", other_name, ":", &other_value];
            let call: String = words.iter().zip(&spaces).map(|(word, space)| format!("{word}{space}")).collect();
            stream.extend(framed(call + "}"));
            let answer = work::compute(target);
            want.extend(framed(format!("{{\"answer\": {answer}, \"text\": {text}}}")));
        }
        let served = serve::<_, rpc::Server>(workload, cut(&stream, &cuts));
        prop_assert_eq!(String::from_utf8_lossy(&served.output), String::from_utf8_lossy(&want));
        prop_assert_eq!((served.tail_bytes, served.closed), (0, false));
    }
}
