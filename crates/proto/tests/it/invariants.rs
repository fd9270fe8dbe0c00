//! Properties that hold for any bytes, as functions for the fuzzer and the seeded tests.
//!
//! Each takes its input as a fuzzer gives it: the first eight bytes choose how to split it, and other choices; the rest
//! is sent.

use std::sync::LazyLock;

use proto::echo::{self, Framing};
use proto::http::{self, Request, Verify};
use proto::{Client, Verdict, line, rpc};

use super::drive::{Checked, Random, ask, check, cut, serve, ways_to_cut};

/// Any bytes, however split, get the same replies from the HTTP server, which never panics and never buffers more than
/// a head, or a body to echo.
pub fn http_server(data: &[u8]) {
    let Some((_, mut random, stream)) = parts(data) else { return };
    let whole = serve::<http::Workload, http::Server>(&HTTP, [stream]);
    let echoes = stream.windows(5).any(|window| window == b"/echo");
    assert!(whole.tail_bytes < 16 * 1024 || echoes, "{} bytes are held", whole.tail_bytes);
    for pieces in ways_to_cut(stream, &mut random) {
        assert_eq!(serve::<http::Workload, http::Server>(&HTTP, pieces), whole);
    }
}

/// The HTTP client gives the same verdict on any bytes, however split, whether it is new or has a template, and whether
/// it requested pages or their heads.
pub fn http_client(data: &[u8]) {
    let Some((choice, mut random, stream)) = parts(data) else { return };
    let requests = 1 + usize::from(choice % 4);
    let workload = if choice & 4 == 0 { &*HTTP } else { &*HTTP_HEAD };
    let whole = judge(http::Client::new(workload), requests, vec![stream]);
    for pieces in ways_to_cut(stream, &mut random) {
        assert_eq!(judge(http::Client::new(workload), requests, pieces.clone()), whole);
        assert_eq!(judge(experienced(workload), requests, pieces), whole, "with a template");
    }
}

/// Any content in chunks with any extension, however split, comes back unchanged from the HTTP server, and the HTTP
/// client finds it correct, if the extension is valid; otherwise both refuse it. The bytes up to the first LF are the
/// extension, the others the content.
pub fn http_echo(data: &[u8]) {
    let Some((_, mut random, stream)) = parts(data) else { return };
    let Some(end) = stream.iter().take(EXTENSION_BYTES_MAX).position(|byte| *byte == b'\n') else { return };
    let (extension, content) = (&stream[..end], &stream[end + 1..]);
    if extension.first().is_some_and(u8::is_ascii_hexdigit) {
        return; // It would be a part of the size.
    }
    let body = in_chunks(content, extension, &mut random);
    let is_right = are_extensions(extension);

    let head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = [head.as_slice(), &body].concat();
    let want = if is_right { echoed(content) } else { None };
    for pieces in ways_to_cut(&request, &mut random) {
        let served = serve::<http::Workload, http::Server>(&HTTP, pieces);
        match &want {
            Some(reply) => assert_eq!(&served.output, reply),
            None => assert!(served.output.starts_with(b"HTTP/1.1 400 ") && served.closed),
        }
        assert_eq!(served.tail_bytes, 0);
    }

    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let reply = [head.as_slice(), &body].concat();
    for pieces in ways_to_cut(&reply, &mut random) {
        let checked = judge(http::Client::new(&HTTP_ANY), 1, pieces);
        assert_eq!((checked.malformed, checked.verdicts.is_empty()), (!is_right, !is_right));
    }
}

/// So short that the extensions of all chunks are within the limit.
const EXTENSION_BYTES_MAX: usize = 300;

/// The content in at most some twenty chunks, with the same bytes after each size.
fn in_chunks(content: &[u8], extension: &[u8], random: &mut Random) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = content;
    loop {
        let length = rest.len().min(1 + content.len() / 20 + random.below(100));
        let (chunk, later) = rest.split_at(length);
        body.extend([format!("{length:X}").as_bytes(), extension, b"\r\n", chunk, b"\r\n"].concat());
        if length == 0 {
            return body;
        }
        rest = later;
    }
}

/// The server's reply to a body: the same as to one with a Content-Length.
fn echoed(content: &[u8]) -> Option<Vec<u8>> {
    let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len());
    let reply = serve::<http::Workload, http::Server>(&HTTP, [head.as_bytes(), content]).output;
    assert!(reply.starts_with(b"HTTP/1.1 200 OK\r\n") && reply.ends_with(content), "other bytes come back");
    Some(reply)
}

/// The grammar of chunk extensions as in RFC 9112, section 7.1.1, and RFC 9110, section 5.6.
fn are_extensions(bytes: &[u8]) -> bool {
    let Some(rest) = trim(bytes).strip_prefix(b";") else { return bytes.is_empty() };
    let Some(rest) = after_token(trim(rest)) else { return false };
    let Some(value) = trim(rest).strip_prefix(b"=") else { return are_extensions(rest) };
    let value = trim(value);
    after_token(value).or_else(|| after_quoted(value.strip_prefix(b"\"")?)).is_some_and(are_extensions)
}

fn trim(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| b" \t".contains(byte)).count()..]
}

fn after_token(bytes: &[u8]) -> Option<&[u8]> {
    let is_token = |byte: &&u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
    let length = bytes.iter().take_while(is_token).count();
    (length > 0).then(|| &bytes[length..])
}

fn after_quoted(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [b'"', rest @ ..] => Some(rest),
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] if *byte == b'\t' || !byte.is_ascii_control() => {
            after_quoted(rest)
        }
        _ => None,
    }
}

/// Any bytes, however split, get the same replies from the echo server, which never panics. The replies are a prefix of
/// what was sent.
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

/// Any bytes, however split, get the same replies from the line server, which never panics. The replies are a prefix of
/// what was sent, followed by the refusal if a line is too long.
pub fn line_server(data: &[u8]) {
    let Some((_, mut random, stream)) = parts(data) else { return };
    let whole = serve::<line::Workload, line::Server>(&LINE, [stream]);
    let lines = whole.output.strip_suffix(if whole.closed { LINE_REFUSAL } else { b"" });
    let lines = lines.expect("a line that is too long is said to be");
    assert!(stream.starts_with(lines), "what came back is not what was sent");
    assert!(whole.closed || lines.len() + whole.tail_bytes == stream.len(), "bytes were lost");
    assert!(whole.tail_bytes < line::Workload::LINE_BYTES_MAX, "{} bytes are held", whole.tail_bytes);
    for pieces in ways_to_cut(stream, &mut random) {
        assert_eq!(serve::<line::Workload, line::Server>(&LINE, pieces), whole);
    }
}

/// Any bytes, however split, get the same replies from the rpc server, which never panics. The replies are frames of
/// JSON, one for each of the first requests, and it closes after an error and only then.
pub fn rpc_server(data: &[u8]) {
    let Some((_, mut random, stream)) = parts(data) else { return };
    let whole = serve::<rpc::Workload, rpc::Server>(&RPC, [stream]);
    let (mut requests, mut replies) = (Frames(stream), Frames(&whole.output));
    let mut ended = false;
    for reply in replies.by_ref() {
        assert!(!ended, "a reply comes after an error");
        let reply = str::from_utf8(reply).expect("replies are text");
        assert!(reply.ends_with("\"}"), "{reply}");
        ended = reply.starts_with("{\"error\": \"");
        // An incomplete frame may be refused too, but only a complete one is answered.
        let is_answer = reply.starts_with("{\"answer\": ") && requests.next().is_some();
        assert!(ended != is_answer, "{reply}");
    }
    assert!(replies.0.is_empty() && ended == whole.closed, "the last reply is not whole, or not an error");
    assert!(whole.closed || whole.tail_bytes == requests.0.len(), "bytes were lost");
    for pieces in ways_to_cut(stream, &mut random) {
        assert_eq!(serve::<rpc::Workload, rpc::Server>(&RPC, pieces), whole);
    }
}

/// The echo client finds a reply correct exactly if it equals its request, however the stream is damaged and split.
pub fn echo_client(data: &[u8]) {
    let Some((choice, random, edits)) = parts(data) else { return };
    let client = || ECHO_CLIENTS.with(|clients| clients[usize::from(choice) % clients.len()].clone());
    mirrored(client, choice, random, edits);
}

/// The same for the line client.
pub fn line_client(data: &[u8]) {
    let Some((choice, random, edits)) = parts(data) else { return };
    mirrored(|| LINE_CLIENT.with(Clone::clone), choice, random, edits);
}

fn mirrored<W: 'static, C: Client<W>>(client: impl Fn() -> C, choice: u8, mut random: Random, edits: &[u8]) {
    let requests = 1 + usize::from(choice >> 4);
    for _ in 0..6 {
        let mut client = client();
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

/// The rpc client gives the same verdict on replies with any bytes changed, missing or added, however they are split. A
/// reply as our server writes it is correct, and one without all of its letters is not.
pub fn rpc_client(data: &[u8]) {
    let Some((choice, mut random, edits)) = parts(data) else { return };
    let requests = 1 + usize::from(choice >> 4);
    let first = RPC_CLIENT.with(Clone::clone);
    // Every eighth connection begins with the same message, so these send the same requests.
    let same = || {
        (0..7).for_each(|_| drop(RPC_CLIENT.with(Clone::clone)));
        RPC_CLIENT.with(Clone::clone)
    };
    let mut asked = first;
    let sent = ask(&mut asked, requests);
    let right = serve::<rpc::Workload, rpc::Server>(&RPC, sent.iter().copied()).output;
    let mut stream = right.clone();
    edit(&mut stream, edits);
    let whole = check(&mut asked, requests, [stream.as_slice()], false);
    let pairs = Frames(&stream).zip(Frames(&right)).zip(&whole.verdicts);
    for ((reply, right), verdict) in pairs {
        let has_letters = letters(reply).eq(letters(right));
        assert!(reply != right || *verdict == Verdict::Correct, "a right reply is called wrong");
        assert!(has_letters || *verdict == Verdict::Wrong, "a wrong reply is called correct");
    }
    for pieces in ways_to_cut(&stream, &mut random) {
        let mut client = same();
        assert_eq!(ask(&mut client, requests), sent);
        assert_eq!(check(&mut client, requests, pieces, false), whole);
    }
}

/// The content of a reply, without white space and punctuation.
fn letters(reply: &[u8]) -> impl Iterator<Item = &u8> {
    reply.iter().filter(|byte| byte.is_ascii_alphanumeric())
}

/// The payloads of complete frames, and the rest.
struct Frames<'a>(&'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        let (payload, rest) = rest.split_at_checked(u32::from_be_bytes(*head) as usize)?;
        self.0 = rest;
        Some(payload)
    }
}

/// One client for each interesting message; the fuzzer clones them, because their requests live for ever.
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

static LINE: LazyLock<line::Workload> = LazyLock::new(|| line::Workload::new(12).expect("it is possible"));

const LINE_REFUSAL: &[u8] = b"error: a line has at most 4096 bytes\n";

static RPC: LazyLock<rpc::Workload> = LazyLock::new(|| rpc::Workload::new(7, 11, 3).expect("it is possible"));

thread_local! {
    static LINE_CLIENT: line::Client = line::Client::new(&LINE);
    static RPC_CLIENT: rpc::Client = rpc::Client::new(&RPC);
}

static HTTP: LazyLock<http::Workload> =
    LazyLock::new(|| requesting(&Request { expect_body: Some(b"x"), ..Request::default() }));

/// Requests a page whose body is not known in advance.
static HTTP_ANY: LazyLock<http::Workload> = LazyLock::new(|| requesting(&Request::default()));

static HTTP_HEAD: LazyLock<http::Workload> =
    LazyLock::new(|| requesting(&Request { method: "HEAD", ..Request::default() }));

fn requesting(request: &Request<'_>) -> http::Workload {
    let workload = http::Workload::new(1, "/", "a", true, Verify::Bytes);
    workload.and_then(|workload| workload.requesting(request)).expect("it is possible")
}

/// The choice, the random source for splits, and the stream.
fn parts(data: &[u8]) -> Option<(u8, Random, &[u8])> {
    let (seed, stream) = data.split_first_chunk::<8>()?;
    Some((seed[0], Random(u64::from_le_bytes(*seed)), stream))
}

/// A client that has learnt our own server's reply.
fn experienced(workload: &'static http::Workload) -> http::Client {
    let mut client = http::Client::new(workload);
    let reply = serve::<http::Workload, http::Server>(workload, ask(&mut client, 1)).output;
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
