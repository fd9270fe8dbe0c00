//! What must hold for any bytes at all, as functions that a fuzzer and the seeded tests both call.
//!
//! Each takes its input as a fuzzer gives it: the first eight bytes choose how it is cut, and what more there
//! is to choose; the rest goes over the wire.

use std::sync::LazyLock;

use proto::echo::{self, Framing};
use proto::http::{self, Verify};
use proto::{Client as _, Verdict};

use super::drive::{Checked, Random, ask, check, cut, serve, ways_to_cut};

/// Any bytes, cut in any way, get the same replies from the HTTP server, which never panics and never holds
/// more than a head.
pub fn http_server(data: &[u8]) {
    let Some((_, mut random, stream)) = parts(data) else { return };
    let whole = serve::<http::Workload, http::Server>(&HTTP, [stream]);
    assert!(whole.tail_bytes < 16 * 1024, "{} bytes are held", whole.tail_bytes);
    for pieces in ways_to_cut(stream, &mut random) {
        assert_eq!(serve::<http::Workload, http::Server>(&HTTP, pieces), whole);
    }
}

/// Any bytes, cut in any way, are judged alike by the HTTP client, whether it is new or has a template.
pub fn http_client(data: &[u8]) {
    let Some((choice, mut random, stream)) = parts(data) else { return };
    let requests = 1 + usize::from(choice % 4);
    let whole = judge(http::Client::new(&HTTP), requests, vec![stream]);
    for pieces in ways_to_cut(stream, &mut random) {
        assert_eq!(judge(http::Client::new(&HTTP), requests, pieces.clone()), whole);
        assert_eq!(judge(experienced(), requests, pieces), whole, "with a template");
    }
}

/// Any bytes, cut in any way, get the same replies from the echo server, which never panics; the replies are
/// the beginning of what was sent.
pub fn echo_server(data: &[u8]) {
    let Some((choice, mut random, stream)) = parts(data) else { return };
    let workload = &ECHO[usize::from(choice) % ECHO.len()];
    let whole = serve::<echo::Workload, echo::Server>(workload, [stream]);
    assert!(stream.starts_with(&whole.output), "what came back is not what was sent");
    assert!(whole.closed || whole.output.len() + whole.tail_bytes == stream.len(), "bytes were lost");
    for pieces in ways_to_cut(stream, &mut random) {
        assert_eq!(serve::<echo::Workload, echo::Server>(workload, pieces), whole);
    }
}

/// Replies with any bytes changed, missing or added, cut in any way, are found correct by the echo client
/// just where they are.
pub fn echo_client(data: &[u8]) {
    let Some((choice, mut random, edits)) = parts(data) else { return };
    let requests = 1 + usize::from(choice >> 4);
    for _ in 0..6 {
        let mut client = ECHO_CLIENTS.with(|clients| clients[usize::from(choice) % clients.len()].clone());
        let sent = ask(&mut client, requests);
        let mut stream = sent.concat();
        edit(&mut stream, edits);

        let mut rest = stream.as_slice();
        let mut want = Vec::new();
        for request in sent {
            let Some((reply, later)) = rest.split_at_checked(request.len()) else { break };
            want.push(if reply == request { Verdict::Correct } else { Verdict::Wrong });
            rest = later;
        }
        let cuts: Vec<usize> = (0..random.below(9)).map(|_| random.below(stream.len() + 1)).collect();
        let checked = check(&mut client, requests, cut(&stream, &cuts), false);
        assert_eq!(checked.verdicts, want);
        let is_over = want.len() == requests;
        assert_eq!(client.reply(b"?").is_err(), is_over, "bytes beyond the last reply are refused");
    }
}

/// One client for each message worth trying; the fuzzer clones them, because their requests live for ever.
const MESSAGES: [(Framing, usize); 9] = [
    (Framing::Raw, 1),
    (Framing::Raw, 64),
    (Framing::Raw, 5000),
    (Framing::Prefix, 0),
    (Framing::Prefix, 1),
    (Framing::Prefix, 300),
    (Framing::Crlf, 0),
    (Framing::Crlf, 1),
    (Framing::Crlf, 300),
];

static ECHO: LazyLock<Vec<echo::Workload>> = LazyLock::new(|| {
    MESSAGES
        .iter()
        .map(|(framing, bytes)| echo::Workload::new(*framing, *bytes).expect("they are possible"))
        .collect()
});

thread_local! {
    static ECHO_CLIENTS: Vec<echo::Client> = ECHO.iter().map(echo::Client::new).collect();
}

static HTTP: LazyLock<http::Workload> = LazyLock::new(|| {
    http::Workload::new(1, "/", "a", true, Verify::Bytes).expect("it is possible").expecting(b"x")
});

/// The number that chooses, how to cut, and the stream.
fn parts(data: &[u8]) -> Option<(u8, Random, &[u8])> {
    let (seed, stream) = data.split_first_chunk::<8>()?;
    Some((seed[0], Random(u64::from_le_bytes(*seed)), stream))
}

/// A client that has learnt what our own server answers.
fn experienced() -> http::Client {
    let mut client = http::Client::new(&HTTP);
    let reply = serve::<http::Workload, http::Server>(&HTTP, ask(&mut client, 1)).output;
    assert_eq!(check(&mut client, 1, [reply.as_slice()], false).verdicts, [Verdict::Correct]);
    client
}

fn judge(mut client: http::Client, requests: usize, pieces: Vec<&[u8]>) -> Checked {
    ask(&mut client, requests);
    check(&mut client, requests, pieces, true)
}

/// Changes, removes or inserts a byte for every four bytes of `edits`.
fn edit(stream: &mut Vec<u8>, edits: &[u8]) {
    for edit in edits.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (stream.len() + 1);
        match edit[2] % 3 {
            0 => stream.insert(at, edit[3]),
            1 if at < stream.len() => stream[at] = edit[3],
            2 if at < stream.len() => drop(stream.remove(at)),
            _ => {}
        }
    }
}
