//! The tests for each server. A cell drives the server through plain sockets and returns what was wrong.

use std::io::{ErrorKind, Read, Write};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::strict;
use super::subject::{Client, Outcome, Subject};
use super::wire::{Exchange, Wire, is_right};
use crate::process::PATIENCE;

/// A test that every server must pass.
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) run: fn(&Subject) -> Outcome,
}

/// What a server must support for a cell to make sense.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// More than one reply on a connection.
    KeepAlive,
    /// Several connections at the same time.
    Many,
    /// A limit on simultaneous connections; further ones are refused.
    Refusal,
    /// A way to limit the descriptors of a running process.
    Descriptors,
    /// A limit on the length of a request.
    Limit,
    Http,
}

/// All cells, the most basic first.
pub(crate) const CELLS: &[Cell] = &[
    Cell { name: "whole requests", needs: Needs::Nothing, run: whole },
    Cell { name: "one byte at a time", needs: Needs::Nothing, run: one_byte_at_a_time },
    Cell { name: "random splits", needs: Needs::Nothing, run: random_splits },
    Cell { name: "pipelined burst of 1000", needs: Needs::KeepAlive, run: pipelined_burst },
    Cell { name: "half-close after a request", needs: Needs::Nothing, run: half_close_after },
    Cell { name: "half-close within a request", needs: Needs::Nothing, run: half_close_within },
    Cell { name: "half-close behind a queue", needs: Needs::KeepAlive, run: half_close_behind_a_queue },
    Cell { name: "reset mid-request", needs: Needs::Nothing, run: reset_mid_request },
    Cell { name: "reset before the reply", needs: Needs::Nothing, run: reset_before_reply },
    Cell { name: "reset mid-reply", needs: Needs::Nothing, run: reset_mid_reply },
    Cell { name: "slow reader with 4000 replies queued", needs: Needs::KeepAlive, run: slow_reader },
    Cell { name: "slow writer", needs: Needs::Nothing, run: slow_writer },
    Cell { name: "500 idle beside 10 busy", needs: Needs::Many, run: idle_beside_busy },
    Cell { name: "oversized input", needs: Needs::Limit, run: oversized },
    Cell { name: "requests that break the rules", needs: Needs::Http, run: strict::refuses },
    Cell { name: "requests that use the rules", needs: Needs::Http, run: strict::serves },
    Cell { name: "bodies that come back", needs: Needs::Http, run: strict::echoes },
    Cell { name: "a page without content", needs: Needs::Http, run: strict::answers_without_content },
    Cell { name: "connections_max refuses and recovers", needs: Needs::Refusal, run: refuses_and_recovers },
    Cell { name: "no descriptor left", needs: Needs::Descriptors, run: no_descriptor_left },
];

impl Needs {
    /// Why a cell is skipped for a server, if it is.
    pub(crate) fn lacking(self, subject: &Subject) -> Option<&'static str> {
        let waits = subject.at_most(IDLE) < IDLE;
        match self {
            Self::Nothing => None,
            Self::KeepAlive => subject.closes.then_some("it closes after each reply"),
            Self::Many if sys::process::descriptors_max() < DESCRIPTORS => {
                Some("this process may have too few descriptors")
            }
            Self::Many => (subject.at_most(2) == 1).then_some("it holds one connection at a time"),
            Self::Refusal => waits.then_some("further connections wait for those it holds"),
            Self::Descriptors if waits => Some("it holds fewer connections than it has descriptors"),
            Self::Descriptors => {
                Command::new("prlimit").arg("--version").output().err().map(|_| "there is no prlimit")
            }
            Self::Http => (subject.wire != Wire::Http).then_some("its protocol is not HTTP"),
            Self::Limit => subject.wire.oversized().err(),
        }
    }
}

fn whole(subject: &Subject) -> Outcome {
    for index in 0..10 {
        subject.connect()?.ask(&subject.small(index))?;
        subject.connect()?.ask(&subject.large(index))?;
    }
    let mut client = subject.connect()?;
    let count = if subject.closes { 1 } else { 30 };
    for index in 0..count {
        client.ask(&subject.small(index))?;
    }
    Ok(())
}

fn one_byte_at_a_time(subject: &Subject) -> Outcome {
    in_pieces(subject, |_| 1)
}

fn random_splits(subject: &Subject) -> Outcome {
    let mut random = Random(SEED);
    in_pieces(subject, |left| 1 + random.below(left.min(40)))
        .map_err(|error| format!("{error} (seed {SEED:#x})"))
}

/// Sends requests in pieces, many on one connection if it stays open. `cut` chooses the length of the next piece.
fn in_pieces(subject: &Subject, mut cut: impl FnMut(usize) -> usize) -> Outcome {
    let exchanges: Vec<Exchange> = (0..20).map(|index| subject.small(index)).collect();
    let per_connection = if subject.closes { 1 } else { exchanges.len() };
    for batch in exchanges.chunks(per_connection) {
        let mut client = subject.connect()?;
        let bytes = in_a_row(batch);
        let mut left = bytes.as_slice();
        while !left.is_empty() {
            let (piece, rest) = left.split_at(cut(left.len()));
            client.send(piece)?;
            // Usually lets the server receive the piece alone.
            thread::yield_now();
            left = rest;
        }
        for exchange in batch {
            client.expect(&exchange.reply)?;
        }
    }
    Ok(())
}

fn pipelined_burst(subject: &Subject) -> Outcome {
    let exchanges: Vec<Exchange> = (0..1000).map(|index| subject.small(index)).collect();
    let burst = in_a_row(&exchanges);
    let mut client = subject.connect()?;
    client.send(&burst)?;
    exchanges.iter().try_for_each(|exchange| client.expect(&exchange.reply))
}

fn half_close_after(subject: &Subject) -> Outcome {
    (0..20).try_for_each(|index| {
        let exchange = if index % 2 == 0 { subject.small(index) } else { subject.large(index) };
        let mut client = subject.connect()?;
        client.send(&exchange.request)?;
        client.half_close()?;
        client.expect(&exchange.reply)?;
        client.expect_end()
    })
}

fn half_close_within(subject: &Subject) -> Outcome {
    (0..20).try_for_each(|index| {
        let request = subject.small(index).request;
        let part = &request[..request.len() / 2];
        let mut client = subject.connect()?;
        client.send(part)?;
        client.half_close()?;
        client.expect(&subject.wire.reply_to_part(part))?;
        client.expect_end()
    })
}

/// The end of the client's side comes while replies wait for a client that has not begun to read. All must still
/// arrive.
fn half_close_behind_a_queue(subject: &Subject) -> Outcome {
    (600..800).step_by(80).try_for_each(|count| {
        let exchanges: Vec<Exchange> = (0..count).map(|index| subject.large(index)).collect();
        let requests = in_a_row(&exchanges);
        let mut client = subject.connect()?;
        let mut sender = Client { socket: client.socket.try_clone().map_err(|error| error.to_string())? };
        thread::scope(|scope| {
            let sending = scope.spawn(move || sender.send(&requests).and_then(|()| sender.half_close()));
            thread::sleep(FULL_AFTER);
            for (index, exchange) in exchanges.iter().enumerate() {
                client
                    .expect(&exchange.reply)
                    .map_err(|error| format!("reply {index} of {count}: {error}"))?;
            }
            sending.join().expect("sending does not panic")
        })?;
        client.expect_end()
    })
}

/// The requests of many exchanges. `concat` copies blocks: in a debug build, collecting byte by byte takes half of the
/// matrix's time.
fn in_a_row(exchanges: &[Exchange]) -> Vec<u8> {
    exchanges.iter().map(|exchange| exchange.request.as_slice()).collect::<Vec<&[u8]>>().concat()
}

/// How often a cell resets a connection.
const RESETS: usize = 100;

fn reset_mid_request(subject: &Subject) -> Outcome {
    reset_after(subject, |rest| rest.len() / 2)
}

fn reset_before_reply(subject: &Subject) -> Outcome {
    reset_after(subject, <[u8]>::len)
}

/// Closing a socket with unread bytes resets the connection. So a reply is left unread on purpose, and more is sent
/// just before.
fn reset_after(subject: &Subject, more: fn(&[u8]) -> usize) -> Outcome {
    let [first, rest] = subject.wire.in_two_parts();
    (0..RESETS).try_for_each(|_| {
        let mut client = subject.connect()?;
        client.send(&first)?;
        client.wait()?;
        client.send(&rest[..more(&rest)])
    })
}

fn reset_mid_reply(subject: &Subject) -> Outcome {
    let requests = if subject.closes { 1 } else { 100 };
    let burst = in_a_row(&(0..requests).map(|index| subject.large(index)).collect::<Vec<Exchange>>());
    (0..RESETS).try_for_each(|_| {
        let mut client = subject.connect()?;
        client.send(&burst)?;
        client.wait()?;
        client.socket.read_exact(&mut [0; 10]).map_err(|error| format!("no reply: {error}"))
    })
}

/// The most memory a server may use for a client that does not read: it must stop reading too.
const GROWTH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A socket that accepts nothing for this long is full, and so is the path to the peer and back.
const FULL_AFTER: Duration = Duration::from_millis(200);

fn slow_reader(subject: &Subject) -> Outcome {
    const COUNT: usize = 4000;
    let exchanges: Vec<Exchange> = (0..COUNT).map(|index| subject.large(index)).collect();
    let requests = in_a_row(&exchanges);
    let before_bytes = subject.resident_bytes();
    let mut client = subject.connect()?;
    client.limit_buffers()?;
    // All requests may be accepted: on recent Linux the kernel lets a server's receive buffer grow to tcp_rmem's 32
    // MiB. The replies fit into no send buffer, so a server that keeps reading buffers the rest itself, which shows.
    let sent = send_until_full(&mut client, &requests)?;
    thread::sleep(FULL_AFTER);
    let growth_bytes = subject.resident_bytes().saturating_sub(before_bytes);
    if growth_bytes > GROWTH_BYTES_MAX {
        return Err(format!("it grew by {growth_bytes} bytes while the client did not read"));
    }
    if subject.at_most(2) == 2 {
        subject
            .connect()?
            .ask(&subject.small(0))
            .map_err(|error| format!("meanwhile another client: {error}"))?;
    }
    let mut sender = Client { socket: client.socket.try_clone().map_err(|error| error.to_string())? };
    thread::scope(|scope| {
        let sending = scope.spawn(move || sender.send(&requests[sent..]));
        for (index, exchange) in exchanges.iter().enumerate() {
            client.expect(&exchange.reply).map_err(|error| format!("reply {index}: {error}"))?;
        }
        sending.join().expect("sending does not panic")
    })
}

/// Sends until the socket is full, and returns how many bytes it accepted.
fn send_until_full(client: &mut Client, bytes: &[u8]) -> Outcome<usize> {
    let text = |error: std::io::Error| format!("cannot send: {error}");
    client.socket.set_nonblocking(true).map_err(text)?;
    let (mut sent, mut last) = (0, Instant::now());
    while sent < bytes.len() && last.elapsed() < FULL_AFTER {
        match client.socket.write(&bytes[sent..]) {
            Ok(count) => (sent, last) = (sent + count, Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(text(error)),
        }
    }
    client.socket.set_nonblocking(false).map_err(text)?;
    Ok(sent)
}

fn slow_writer(subject: &Subject) -> Outcome {
    let mut clients =
        (0..subject.at_most(20)).map(|_| subject.connect()).collect::<Outcome<Vec<Client>>>()?;
    let exchange = subject.small(0);
    for byte in &exchange.request {
        for client in &mut clients {
            client.send(&[*byte])?;
        }
        thread::sleep(Duration::from_millis(10));
    }
    clients.iter_mut().try_for_each(|client| client.expect(&exchange.reply))
}

/// Idle connections that a server should handle; one with a lower limit gets as many as it serves.
const IDLE: usize = 500;
const BUSY: usize = 10;

/// The most descriptors that a cell takes in this process: those of its clients, and of the pipes to its server.
pub(crate) const DESCRIPTORS: usize = IDLE + BUSY + 32;

fn idle_beside_busy(subject: &Subject) -> Outcome {
    let idle = subject.at_most(IDLE + BUSY) - BUSY;
    let mut idle = (0..idle).map(|_| subject.connect()).collect::<Outcome<Vec<Client>>>()?;
    let mut busy = (0..BUSY).map(|_| subject.connect()).collect::<Outcome<Vec<Client>>>()?;
    for index in 0..100 {
        let exchange = subject.small(index);
        busy.iter_mut().try_for_each(|client| client.send(&exchange.request))?;
        busy.iter_mut().try_for_each(|client| client.expect(&exchange.reply))?;
    }
    idle.iter_mut().enumerate().try_for_each(|(index, client)| {
        client.ask(&subject.small(index)).map_err(|error| format!("idle connection {index}: {error}"))
    })
}

fn oversized(subject: &Subject) -> Outcome {
    let Exchange { request, reply } = subject.wire.oversized()?;
    let mut client = subject.connect()?;
    client.send(&request)?;
    // Read the whole reply, because hyper's own refusal has another length.
    let came = client.rest()?;
    if !is_right(&reply, &came) {
        return Err(format!("wrong reply: {}", String::from_utf8_lossy(&came)));
    }
    // A client that does not stop sending is cut off without any guarantee.
    let mut client = subject.connect()?;
    let flood = vec![b'x'; 16 * 1024 * 1024];
    match client.send(&request).and_then(|()| client.send(&flood)) {
        Ok(()) if !client.is_dropped() => Err("it took 16 MiB beyond its limit and did not close".into()),
        _ => Ok(()),
    }
}

/// Uses its own small server.
fn refuses_and_recovers(subject: &Subject) -> Outcome {
    const CONNECTIONS_MAX: usize = 8;
    let room = CONNECTIONS_MAX * subject.variant.workers;
    let mut small = Subject::start(&subject.variant, subject.wire, CONNECTIONS_MAX)?;
    for round in 0..2 {
        let text = |error: String| format!("round {round}: {error}");
        // If the kernel spreads connections over workers at random, more clients are needed than there is room for.
        let mut served = small.serves_or_refuses(6 * room, &subject.small(round)).map_err(text)?;
        // A ring may still be closing earlier connections, which no descriptor shows and which take room for a while.
        let begin = Instant::now();
        while served < room && begin.elapsed() < PATIENCE {
            small.wait_for_room().map_err(text)?;
            served = small.serves_or_refuses(6 * room, &subject.small(round)).map_err(text)?;
        }
        if served != room {
            return Err(text(format!("{served} connections were served where there is room for {room}")));
        }
        small.wait_for_room().map_err(text)?;
        small.check_recovery().map_err(text)?;
    }
    Ok(())
}

/// Uses its own server without descriptors for most of its clients. A model that needs none in the accepting process
/// serves them all.
fn no_descriptor_left(subject: &Subject) -> Outcome {
    const FREE: usize = 8;
    let mut short = Subject::start(&subject.variant, subject.wire, IDLE)?;
    short.limit_descriptors(FREE)?;
    for round in 0..2 {
        let text = |error: String| format!("round {round}: {error}");
        let count = 6 * FREE * subject.variant.workers;
        let served = short.serves_or_refuses(count, &subject.small(round)).map_err(text)?;
        if served == 0 {
            return Err(text(format!("it served nobody, though there were {FREE} descriptors left")));
        }
        short.wait_for_room().map_err(text)?;
        short.check_recovery().map_err(text)?;
    }
    Ok(())
}

/// Fixed so that a failure can be reproduced; another seed is another test.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A source of pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}
