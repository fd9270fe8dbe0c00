//! Drives the two halves like a server model and a load generator, without their sockets.

use proto::{Client, Next, Output, Server, Session, Verdict};

/// The second of all replies in the tests: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const UNIX_S: u64 = 784_111_777;

/// The most that a server half leaves unconsumed: a head for HTTP, a line for echo, a request for rpc.
pub const TAIL_BYTES_MAX: usize = 1024 * 1024 + 4;

/// The result of a connection to a server half.
#[derive(Debug, PartialEq, Eq)]
pub struct Served {
    pub output: Vec<u8>,
    pub closed: bool,
    /// Bytes of an incomplete request; refused input does not count.
    pub tail_bytes: usize,
}

/// Passes the pieces to a server half one after another, as a model would.
pub fn serve<'a, W: 'static, S: Server<W>>(
    workload: &'static W,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Served {
    let mut session = Session::new(S::new(workload));
    let mut output = Output::new();
    output.tick(UNIX_S);
    let mut served = Served { output: Vec::new(), closed: false, tail_bytes: 0 };
    for piece in pieces {
        let next = exchange(&mut session, piece, &mut output, |sent| served.output.extend_from_slice(sent));
        served.closed = next == Next::Close;
        served.tail_bytes = if served.closed { 0 } else { session.tail_bytes() };
        assert!(served.tail_bytes <= TAIL_BYTES_MAX, "{} bytes are held", served.tail_bytes);
        if served.closed {
            break;
        }
    }
    served
}

/// Passes one piece to a session and sends its replies, in as many turns as the output needs.
pub fn exchange<W: 'static, S: Server<W>>(
    session: &mut Session<S>,
    piece: &[u8],
    output: &mut Output,
    mut send: impl FnMut(&[u8]),
) -> Next {
    let mut next = session.receive(piece, output);
    loop {
        let full = next == Next::Send;
        assert!(!full || output.room_bytes() == 0, "an output with room is called full");
        send(output.as_bytes());
        output.clear();
        if !full {
            return next;
        }
        next = session.resume(output);
    }
}

/// A client half's verdicts on its input.
#[derive(Debug, PartialEq, Eq)]
pub struct Checked {
    pub verdicts: Vec<Verdict>,
    /// The status after each verdict.
    pub statuses: Vec<Option<u16>>,
    /// How many bytes were consumed at the end of each reply that does not end with the connection.
    pub ends: Vec<usize>,
    pub malformed: bool,
    pub keeps_alive: bool,
    /// Bytes that the client did not consume: they belong to no expected reply, or to an incomplete one.
    pub left_bytes: usize,
}

/// Takes `requests` requests from a client half.
pub fn ask<W: 'static, C: Client<W>>(client: &mut C, requests: usize) -> Vec<&'static [u8]> {
    (0..requests).map(|_| client.request()).collect()
}

/// Passes the pieces to a client half with `requests` outstanding one after another, and then the end if `ends`.
pub fn check<'a, W: 'static, C: Client<W>>(
    client: &mut C,
    requests: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    ends: bool,
) -> Checked {
    let mut checked = Checked {
        verdicts: Vec::new(),
        statuses: Vec::new(),
        ends: Vec::new(),
        malformed: false,
        keeps_alive: true,
        left_bytes: 0,
    };
    let mut received = Vec::new();
    let mut taken_bytes = 0;
    let mut status = client.status();
    for piece in pieces {
        received.extend_from_slice(piece);
        let mut used = 0;
        while checked.verdicts.len() < requests {
            match client.reply(&received[used..]) {
                Ok((length, verdict)) => {
                    used += length;
                    let Some(verdict) = verdict else { break };
                    checked.verdicts.push(verdict);
                    checked.ends.push(taken_bytes + used);
                    status = client.status();
                    checked.statuses.push(status);
                }
                Err(_) => {
                    checked.malformed = true;
                    return checked;
                }
            }
        }
        assert_eq!(client.status(), status, "the status changes before the reply is whole");
        received.drain(..used);
        taken_bytes += used;
    }
    if ends && let Some(verdict) = client.end() {
        checked.verdicts.push(verdict);
        checked.statuses.push(client.status());
    }
    checked.keeps_alive = client.keeps_alive();
    checked.left_bytes = received.len();
    checked
}

/// Splits `bytes` at `cuts`, which may be out of order or out of range.
pub fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|end| (*end).min(bytes.len())).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut begin = 0;
    ends.into_iter().map(|end| &bytes[core::mem::replace(&mut begin, end)..end]).collect()
}

/// A few ways to split the same bytes: whole, byte by byte, and seeded random ways.
pub fn ways_to_cut<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<Vec<&'a [u8]>> {
    let mut ways = vec![vec![bytes], bytes.chunks(1).collect()];
    for pieces in [1, 2, 3, 8, 64] {
        let cuts: Vec<usize> = (0..pieces).map(|_| random.below(bytes.len() + 1)).collect();
        ways.push(cut(bytes, &cuts));
    }
    ways
}

/// Seeded numbers (splitmix64), the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }
}
