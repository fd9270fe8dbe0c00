//! Recorded conversations in `testdata`, each replayed whole, byte by byte, and split at random.
//!
//! A file is one connection. A line begins with the sender, `>` for the client and `<` for the server, and ends on the
//! wire with CR LF. After `>|` or `<|` it has no line end, and after `>4` or `<4` its length precedes it in four bytes
//! instead. `\r`, `\n`, `\\` and `\x00` stand for bytes. Lines with `=` tell how it ends: for a server, `receive` or
//! `close`; for a client, a verdict for each reply and then `malformed`, `keeps alive` or `closes`, with `end` if the
//! server ends the connection.

use std::fs;
use std::path::{Path, PathBuf};

use proto::http::{Client, Request, Verify, Workload};
use proto::{Client as _, Protocol, Verdict, http, line, rpc};

use super::drive::{Checked, Random, Served, ask, check, serve, ways_to_cut};

struct Transcript {
    name: String,
    requests: Vec<u8>,
    replies: Vec<u8>,
    ending: Vec<String>,
}

/// Replays the transcripts of a protocol's servers, each alone and with the beginning of a request after it.
fn check_servers<P: Protocol>(workload: P::Workload, beginning: &[u8]) {
    let workload: &P::Workload = Box::leak(Box::new(workload));
    let mut random = Random(1);
    for transcript in transcripts(P::NAME, "server") {
        let Transcript { name, requests, replies, ending } = transcript;
        let closed = match ending.join(" ").as_str() {
            "receive" => false,
            "close" => true,
            other => panic!("{name}: a server cannot end with {other:?}"),
        };
        let want = Served { output: replies, closed, tail_bytes: 0 };
        let run = |bytes: &[u8], tail_bytes: usize, random: &mut Random| {
            for pieces in ways_to_cut(bytes, random) {
                let served = serve::<P::Workload, P::Server>(workload, pieces.iter().copied());
                let text = String::from_utf8_lossy(&served.output);
                assert!(
                    served.output == want.output,
                    "{name}: cut as {:?}, it answers\n{text}",
                    lengths(&pieces)
                );
                assert_eq!((served.closed, served.tail_bytes), (want.closed, tail_bytes), "{name}");
            }
        };
        run(&requests, 0, &mut random);
        // The rest is either the beginning of a request, or not read.
        run(&[&requests, beginning].concat(), if closed { 0 } else { beginning.len() }, &mut random);
    }
}

#[test]
fn servers_answer_as_written_down_however_the_requests_are_cut() {
    let http = Workload::new(1, "/", "a", true, Verify::Bytes).unwrap();
    check_servers::<http::Http>(http, b"GET / HTTP/1.1\r\nHo");
    check_servers::<line::Line>(line::Workload::new(1).unwrap(), b"hello\r");
    check_servers::<rpc::Rpc>(rpc::Workload::new(0, 0, 0).unwrap(), b"\0\0\0\x09{\"target");
}

#[test]
fn clients_judge_as_written_down_however_the_replies_are_cut() {
    let mut random = Random(2);
    for transcript in transcripts("http", "client") {
        let Transcript { name, requests, replies, ending } = transcript;
        let workload = workload_of(&requests);
        let asked = str::from_utf8(&requests).unwrap().matches("\r\nHost: ").count();
        let ends = ending.iter().any(|word| word == "end");
        for pieces in ways_to_cut(&replies, &mut random) {
            let mut client = Client::new(workload);
            assert_eq!(ask(&mut client, asked).concat(), requests, "{name}: other requests");
            let checked = check(&mut client, asked, pieces.iter().copied(), ends);
            let mut got: Vec<&str> = Vec::new();
            got.extend(checked.verdicts.iter().map(|verdict| match verdict {
                Verdict::Correct => "correct",
                Verdict::Wrong => "wrong",
                Verdict::Status => "status",
            }));
            got.push(match checked {
                Checked { malformed: true, .. } => "malformed",
                Checked { keeps_alive: true, .. } => "keeps alive",
                _ => "closes",
            });
            let want: Vec<&str> = ending.iter().map(String::as_str).filter(|word| *word != "end").collect();
            assert_eq!(got, want, "{name}: cut as {:?}", lengths(&pieces));
            assert_eq!(checked.left_bytes, 0, "{name}: bytes are left");
            if checked.verdicts.len() == asked {
                assert!(client.reply(b"H").is_err(), "{name}: a byte that nobody asked for is taken");
            }
        }
    }
}

/// One side of every transcript of a kind, the client's or the server's, as a corpus for other tests.
pub(crate) fn streams(protocol: &str, kind: &str) -> Vec<Vec<u8>> {
    let side =
        |transcript: Transcript| if kind == "server" { transcript.requests } else { transcript.replies };
    transcripts(protocol, kind).into_iter().map(side).collect()
}

fn transcripts(protocol: &str, kind: &str) -> Vec<Transcript> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(protocol);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(kind));
    paths.sort();
    assert!(!paths.is_empty(), "there are no transcripts of a {protocol} {kind}");
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Transcript {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut transcript = Transcript { name, requests: Vec::new(), replies: Vec::new(), ending: Vec::new() };
    for line in fs::read_to_string(path).unwrap().lines() {
        let (mark, text) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            "" | "#" => {}
            ">" => transcript.requests.extend([unescape(text), b"\r\n".to_vec()].concat()),
            ">|" => transcript.requests.extend(unescape(text)),
            ">4" => transcript.requests.extend(framed(unescape(text))),
            "<4" => transcript.replies.extend(framed(unescape(text))),
            "<" => transcript.replies.extend([unescape(text), b"\r\n".to_vec()].concat()),
            "<|" => transcript.replies.extend(unescape(text)),
            "=" => transcript.ending.push(text.to_owned()),
            _ => panic!("{}: a line begins with {mark:?}", transcript.name),
        }
    }
    transcript
}

pub(crate) fn framed(payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    [&(payload.len() as u32).to_be_bytes(), payload].concat()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(b'\\') => b'\\',
                Some(b'x') => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => panic!("{text:?} has an unknown escape {other:?}"),
            },
            other => other,
        });
    }
    bytes
}

fn workload_of(requests: &[u8]) -> &'static Workload {
    let text = str::from_utf8(requests).unwrap();
    let (method, rest) = text.split_once(' ').unwrap();
    let (target, _) = rest.split_once(' ').unwrap();
    let keep_alive = !text.contains("Connection: close");
    let workload = Workload::new(1, target, "a", keep_alive, Verify::Bytes).unwrap();
    Box::leak(Box::new(workload.requesting(&Request { method, ..Request::default() }).unwrap()))
}

fn lengths(pieces: &[&[u8]]) -> Vec<usize> {
    pieces.iter().map(|piece| piece.len()).collect()
}
