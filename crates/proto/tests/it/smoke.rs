//! The invariants of the fuzz targets on a few thousand seeded inputs, each a known stream with some damage. A failure
//! prints the seed; the fuzzer searches further.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::drive::Random;
use super::{invariants, transcripts};

const SEEDS: u64 = 2_000;

fn check(invariant: fn(&[u8]), corpus: &[Vec<u8>]) {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let mut data = random.word().to_le_bytes().to_vec();
        data.extend(damaged(corpus, &mut random));
        if catch_unwind(AssertUnwindSafe(|| invariant(&data))).is_err() {
            panic!("seed {seed}: the invariant does not hold for {:?}", String::from_utf8_lossy(&data[8..]));
        }
    }
}

/// One or two streams of a corpus with up to three changes.
fn damaged(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const TOKENS: [&[u8]; 18] = [
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b":",
        b",",
        b"0",
        b"\r\n\r\n",
        b"\xff",
        b"HTTP/1.1 ",
        b"chunked",
        b"\"",
        b";",
        b"=",
        b"\\u00",
        b"{}",
        b"\0\0\0\x0a",
    ];
    let mut stream = corpus[random.below(corpus.len())].clone();
    if random.below(2) == 0 {
        stream.extend_from_slice(&corpus[random.below(corpus.len())]);
    }
    for _ in 0..random.below(4) {
        let begin = random.below(stream.len() + 1);
        let end = (begin + random.below(20)).min(stream.len());
        match random.below(4) {
            0 => drop(stream.splice(begin..begin, TOKENS[random.below(TOKENS.len())].iter().copied())),
            1 => drop(stream.drain(begin..end)),
            2 => stream[begin..end].iter_mut().for_each(|byte| *byte ^= 1 << (begin % 8)),
            _ => stream.extend_from_within(begin..end),
        }
    }
    stream
}

#[test]
fn http_server() {
    check(invariants::http_server, &transcripts::streams("http", "server"));
}

#[test]
fn http_echo() {
    let of = |extension: &str, content: &[u8]| [extension.as_bytes(), b"\n", content].concat();
    let long: Vec<u8> = (0..5_000_u16).map(|number| number as u8).collect();
    let corpus = [
        of("", b"hello"),
        of("", &long),
        of(";name", b""),
        of("; name\t= value ;other=\"quoted; \\\"text\\\\\"", b"hello\r\n0\r\n\r\n"),
        of(" ; a=\"\";b;c=1", &long[..300]),
    ];
    check(invariants::http_echo, &corpus);
}

#[test]
fn http_client() {
    check(invariants::http_client, &transcripts::streams("http", "client"));
}

#[test]
fn echo_server() {
    let lines =
        (0..40_u8).flat_map(|length| [vec![b'a'; usize::from(length)], b"\r\n".to_vec()].concat()).collect();
    let prefixed =
        (0..40_u8).flat_map(|length| [vec![0, length], vec![b'a'; usize::from(length)]].concat()).collect();
    check(invariants::echo_server, &[lines, prefixed, vec![b'x'; 1_000]]);
}

#[test]
fn line_server() {
    check(invariants::line_server, &transcripts::streams("line", "server"));
}

#[test]
fn rpc_server() {
    check(invariants::rpc_server, &transcripts::streams("rpc", "server"));
}

/// Streams of up to ten changes, in the input format of the client invariants.
fn edits() -> Vec<Vec<u8>> {
    let edits = |count: u8| (0..count).map(|number| number.wrapping_mul(101)).collect();
    [0, 4, 12, 40].map(edits).to_vec()
}

#[test]
fn echo_client() {
    check(invariants::echo_client, &edits());
}

#[test]
fn line_client() {
    check(invariants::line_client, &edits());
}

#[test]
fn rpc_client() {
    check(invariants::rpc_client, &edits());
}
