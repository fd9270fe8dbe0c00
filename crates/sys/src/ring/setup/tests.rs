use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::thread;

use super::super::{Send, Slot};
use super::*;
use crate::net::{Address, Listener, connect};

const FULL: Options = Options {
    entries: 64,
    connections_max: 64,
    direct: true,
    multishot: true,
    incremental: true,
    task_run: TaskRun::Deferred,
};

fn full() -> Variant {
    Variant::from(&FULL)
}

/// Variants that differ from a full ring in one or two things each.
fn variants() -> Vec<Variant> {
    let polling = Some(Polling { idle_ms: 1, cpu: None });
    let mut variants = vec![
        Variant { accept_multishot: false, ..full() },
        Variant { own_buffers: true, ..full() },
        Variant { own_buffers: true, options: Options { direct: false, ..FULL }, ..full() },
        Variant { polling, ..full() },
        Variant { registered: false, ..full() },
        Variant { shared: true, ..full() },
        Variant { shared: true, polling, ..full() },
    ];
    for sending in [Sending::Silent, Sending::Plain, Sending::Bundle, Sending::ZeroCopy] {
        for direct in [true, false] {
            variants.push(Variant { sending, options: Options { direct, ..FULL }, ..full() });
        }
    }
    variants
}

fn options() -> Vec<Options> {
    let mut all = Vec::new();
    for direct in [true, false] {
        for multishot in [true, false] {
            for incremental in [true, false] {
                for task_run in [TaskRun::Deferred, TaskRun::Cooperative, TaskRun::Interrupting] {
                    all.push(Options { direct, multishot, incremental, task_run, ..FULL });
                }
            }
        }
    }
    all
}

fn listen(ring: &mut Ring) -> Address {
    let listener = Listener::open(&"127.0.0.1:0".parse().unwrap(), false, 64).unwrap();
    let address = listener.address().unwrap();
    ring.accept(listener).unwrap();
    address
}

fn dial(address: &Address) -> Socket {
    let socket = connect(address.into(), Duration::from_secs(60)).unwrap();
    socket.set_nonblocking(false).unwrap();
    socket
}

fn pair() -> (Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Socket::from(OwnedFd::from(ours)), theirs)
}

fn message(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

fn submit_and_wait(ring: &mut Ring) {
    ring.submit(&[], &[], Wait::AtMost(Duration::from_secs(60))).unwrap();
}

/// Sends a message to a ring in pieces, and expects it whole on any variant. Then the ring sends it back, to a peer
/// that does not read at first.
fn check(variant: &Variant, message: &[u8]) {
    let mut ring = Ring::new(variant).expect("this machine has io_uring");
    assert!(ring.missing_features().is_empty(), "this machine has everything: {:?}", ring.missing_features());
    let mut client = dial(&listen(&mut ring));
    let owned = message.to_vec();
    let sender = thread::spawn(move || {
        client.write_all(&owned).unwrap();
        client
    });
    let (slot, got) = receive(&mut ring, message.len());
    assert_eq!(got, message);
    let mut client = sender.join().unwrap();
    let expected = message.to_vec();
    let reader = thread::spawn(move || {
        let mut got = vec![0; expected.len()];
        client.read_exact(&mut got).unwrap();
        assert_eq!(got, expected);
        client
    });
    send(&mut ring, slot, message);
    drop(reader.join().unwrap());
}

fn receive(ring: &mut Ring, len: usize) -> (Slot, Vec<u8>) {
    let (mut from, mut got) = (None, Vec::new());
    while got.len() < len {
        submit_and_wait(ring);
        while let Some(completion) = ring.next() {
            match completion {
                Completion::Accepted(slot) => ring.receive(slot, true),
                Completion::Received { slot, buffer, armed } => {
                    from = Some(slot);
                    got.extend_from_slice(ring.bytes(&buffer));
                    ring.recycle(buffer);
                    if !armed {
                        ring.receive(slot, false);
                    }
                }
                other => panic!("not expected here: {other:?}"),
            }
        }
    }
    (from.unwrap(), got)
}

/// Sends as a server does: in one submission, with a tracked send for the rest.
fn send(ring: &mut Ring, slot: Slot, bytes: &[u8]) {
    let mut waiting = ring.reports_sends();
    ring.submit(bytes, &[Send { slot, range: 0..bytes.len() }], Wait::Not).unwrap();
    while let Some(unsent) = ring.unsent() {
        ring.send_tracked(slot, bytes[unsent.sent_bytes..].to_vec().into());
        waiting = true;
    }
    while waiting {
        submit_and_wait(ring);
        while let Some(completion) = ring.next() {
            match completion {
                Completion::Sent { slot: sent, result: Ok(()) } if sent == slot => waiting = false,
                other => panic!("not expected here: {other:?}"),
            }
        }
    }
}

#[test]
fn every_kind_of_ring_receives_what_was_sent_and_sends_it_back() {
    let all = options().iter().map(Variant::from).chain(variants()).collect::<Vec<_>>();
    let large = message(3_000_000);
    // Each in its own thread: one thread may register sixteen rings.
    thread::scope(|scope| {
        for variant in &all {
            let large = &large;
            let run = move || {
                check(variant, &large[..1]);
                check(variant, large);
            };
            scope.spawn(run).join().unwrap_or_else(|_| panic!("{variant:?}"));
        }
    });
}

#[test]
fn a_probe_finds_everything_that_a_ring_has() {
    for variant in variants() {
        assert_eq!(probe(&variant).unwrap(), Vec::<&str>::new(), "{variant:?}");
    }
}

#[test]
fn a_ring_accepts_from_all_its_listeners() {
    for accept_multishot in [true, false] {
        let mut ring = Ring::new(Variant { accept_multishot, ..full() }).unwrap();
        let addresses: Vec<Address> = (0..3).map(|_| listen(&mut ring)).collect();
        let clients: Vec<Socket> = addresses.iter().chain(&addresses).map(dial).collect();
        let mut accepted = 0;
        while accepted < clients.len() {
            submit_and_wait(&mut ring);
            while let Some(Completion::Accepted(_)) = ring.next() {
                accepted += 1;
            }
        }
    }
}

#[test]
fn completions_that_the_queue_has_no_room_for_come_all_the_same() {
    const COUNT: usize = 500;
    for task_run in [TaskRun::Deferred, TaskRun::Cooperative, TaskRun::Interrupting] {
        for own_buffers in [true, false] {
            // The queue has room for 32 completions.
            let options =
                Options { entries: 8, connections_max: 8, direct: false, multishot: false, task_run, ..FULL };
            let mut ring = Ring::new(Variant { own_buffers, ..Variant::from(&options) }).unwrap();
            let mut peers = Vec::new();
            for _ in 0..COUNT {
                let (ours, theirs) = pair();
                let slot = ring.adopt(ours).unwrap();
                ring.receive(slot, true);
                peers.push((slot, theirs));
            }
            ring.submit(&[], &[], Wait::Not).unwrap();
            for (slot, theirs) in &mut peers {
                theirs.write_all(&[slot.index() as u8]).unwrap();
            }
            // Deferred ones do not even start before the next submission.
            let overflows = task_run != TaskRun::Deferred;
            ring.submissions.sync();
            assert_eq!(ring.submissions.cq_overflow(), overflows, "{task_run:?}");
            let mut got = Vec::new();
            while got.len() < COUNT {
                submit_and_wait(&mut ring);
                while let Some(completion) = ring.next() {
                    let Completion::Received { slot, buffer, .. } = completion else {
                        panic!("not expected here: {completion:?}")
                    };
                    assert_eq!(ring.bytes(&buffer), [slot.index() as u8]);
                    ring.recycle(buffer);
                    got.push(slot.index());
                }
            }
            got.sort_unstable();
            let mut sent: Vec<usize> = peers.iter().map(|(slot, _)| slot.index()).collect();
            sent.sort_unstable();
            assert_eq!(got, sent);
        }
    }
}

#[test]
fn a_kernel_thread_takes_more_submissions_than_the_queue_holds() {
    const COUNT: usize = 48;
    let polling = Some(Polling { idle_ms: 1, cpu: None });
    let options = Options { entries: 8, ..FULL };
    let mut ring = Ring::new(Variant { polling, ..Variant::from(&options) }).unwrap();
    let mut peers = Vec::new();
    for _ in 0..COUNT {
        let (ours, theirs) = pair();
        let slot = ring.adopt(ours).unwrap();
        ring.receive(slot, true);
        peers.push(theirs);
    }
    drop(peers);
    let mut ended = 0;
    while ended < COUNT {
        submit_and_wait(&mut ring);
        while let Some(completion) = ring.next() {
            assert!(matches!(completion, Completion::Stopped { why: Stop::End, .. }), "{completion:?}");
            ended += 1;
        }
    }
}

#[test]
fn sockets_that_cannot_send_without_a_copy_send_plainly() {
    let mut ring = Ring::new(Variant { sending: Sending::ZeroCopy, ..full() }).unwrap();
    let (ours, mut theirs) = pair();
    let slot = ring.adopt(ours).unwrap();
    for text in [b"one", b"two"] {
        send(&mut ring, slot, text);
        let mut got = [0; 3];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, text);
    }
}

#[test]
fn the_end_of_a_unix_stream_is_seen_with_its_last_bytes() {
    let mut ring = Ring::new(&FULL).unwrap();
    let (ours, mut theirs) = pair();
    let slot = ring.adopt(ours).unwrap();
    ring.receive(slot, true);
    ring.submit(&[], &[], Wait::Not).unwrap();
    theirs.write_all(b"x").unwrap();
    drop(theirs);
    let mut ended = false;
    while !ended {
        submit_and_wait(&mut ring);
        let completion = ring.next().expect("something comes within seconds");
        match completion {
            Completion::Received { buffer, armed, .. } => {
                ring.recycle(buffer);
                assert!(!armed, "it must be asked for again");
                ring.receive(slot, false);
            }
            Completion::Stopped { why: Stop::End, .. } => ended = true,
            other => panic!("not expected here: {other:?}"),
        }
    }
}

#[test]
fn threads_take_turns_with_a_shared_ring() {
    let mut ring = Ring::new(Variant { shared: true, ..full() }).unwrap();
    let mut peers = Vec::new();
    for _ in 0..16 {
        let (ours, theirs) = pair();
        let slot = ring.adopt(ours).unwrap();
        ring.receive(slot, true);
        peers.push(theirs);
    }
    let state = Mutex::new((ring, 0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let (ring, got) = &mut *state.lock().unwrap();
                    if *got == 16 {
                        break;
                    }
                    ring.submit(&[], &[], Wait::AtMost(Duration::from_millis(10))).unwrap();
                    while let Some(completion) = ring.next() {
                        if let Completion::Received { buffer, .. } = completion {
                            *got += ring.bytes(&buffer).len();
                            ring.recycle(buffer);
                        }
                    }
                }
            });
        }
        peers.iter_mut().for_each(|peer| peer.write_all(b"x").unwrap());
    });
}

#[test]
fn a_slot_is_an_index_that_is_used_again_after_a_close() {
    let mut ring = Ring::new(&FULL).expect("this machine has io_uring");
    let (first, _theirs) = pair();
    let slot: Slot = ring.adopt(first).unwrap();
    ring.close(slot);
    ring.submit(&[], &[], Wait::Not).unwrap();
    let (second, _theirs) = pair();
    assert_eq!(ring.adopt(second).unwrap(), slot);
}

#[test]
fn a_connection_that_the_table_has_no_room_for_is_dropped_even_while_one_is_being_closed() {
    for accept_multishot in [true, false] {
        let options = Options { connections_max: 2, ..FULL };
        let mut ring = Ring::new(Variant { accept_multishot, ..Variant::from(&options) }).unwrap();
        let address = listen(&mut ring);
        let clients: Vec<Socket> = (0..3).map(|_| dial(&address)).collect();
        let (mut accepted, mut dropped) = (Vec::new(), 0);
        while accepted.len() + dropped < clients.len() {
            submit_and_wait(&mut ring);
            while let Some(completion) = ring.next() {
                match completion {
                    Completion::Accepted(slot) => accepted.push(slot),
                    Completion::Dropped => dropped += 1,
                    other => panic!("not expected here: {other:?}"),
                }
            }
        }
        assert_eq!((accepted.len(), dropped, ring.table.taken), (2, 1, 2));
        ring.close(accepted[0]);
        assert_eq!(ring.table.taken, 2, "the kernel has not been told yet");
        ring.submit(&[], &[], Wait::Not).unwrap();
        assert_eq!(ring.table.taken, 1);
        let _client = dial(&address);
        submit_and_wait(&mut ring);
        assert!(matches!(ring.next(), Some(Completion::Accepted(_))));
    }
}

#[test]
fn a_ring_that_is_not_shared_refuses_another_thread() {
    let mut ring = Ring::new(full()).unwrap();
    let other = thread::spawn(move || ring.submit(&[], &[], Wait::Not));
    let panic = other.join().unwrap_err();
    let text = panic.downcast_ref::<&str>().unwrap();
    assert_eq!(*text, "a ring that is not shared is for the thread that made it");
}

/// Connections that always have more to receive than there are buffers.
struct Floods {
    peers: Vec<(Slot, Socket)>,
    received_bytes: Vec<usize>,
}

impl Floods {
    const COUNT: usize = 24;
    /// Less than fits into a socket.
    const QUEUED_BYTES: usize = 32 * 1024;

    fn new(ring: &mut Ring) -> Self {
        let address = listen(ring);
        let mut peers = Vec::new();
        while peers.len() < Self::COUNT {
            let mut client = dial(&address);
            client.write_all(&[b'x'; Self::QUEUED_BYTES]).unwrap();
            submit_and_wait(ring);
            let Some(Completion::Accepted(slot)) = ring.next() else { panic!("nothing else is asked for") };
            peers.push((slot, client));
        }
        peers.iter().for_each(|&(slot, _)| ring.receive(slot, false));
        let slots = peers.iter().map(|(slot, _)| slot.index()).max().unwrap() + 1;
        Self { peers, received_bytes: vec![0; slots] }
    }

    /// Serves them once, and refills what was received.
    fn serve(&mut self, ring: &mut Ring) {
        submit_and_wait(ring);
        while let Some(completion) = ring.next() {
            let Completion::Received { slot, buffer, armed } = completion else {
                panic!("not expected here: {completion:?}")
            };
            let len = ring.bytes(&buffer).len();
            ring.recycle(buffer);
            self.received_bytes[slot.index()] += len;
            let (_, client) = self.peers.iter_mut().find(|(peer, _)| *peer == slot).unwrap();
            client.write_all(&vec![b'x'; len]).unwrap();
            if !armed {
                ring.receive(slot, false);
            }
        }
    }

    fn most_and_least(&self) -> (usize, usize) {
        let bytes = self.peers.iter().map(|(slot, _)| self.received_bytes[slot.index()]);
        (bytes.clone().max().unwrap(), bytes.min().unwrap())
    }
}

#[test]
fn connections_that_want_more_than_the_buffers_hold_receive_alike() {
    const TOTAL_BYTES: usize = 1024 * 1024;
    // A multishot receive may use all buffers once before the first receive finds none.
    const APART_BYTES: usize = 512 * 1024 + 2 * 64 * 1024;
    // Without deferred task work, the kernel receives whenever the test makes a syscall.
    for options in options().into_iter().filter(|options| options.task_run == TaskRun::Deferred) {
        let mut ring = Ring::new(&options).unwrap();
        let mut floods = Floods::new(&mut ring);
        while floods.most_and_least().1 < TOTAL_BYTES {
            floods.serve(&mut ring);
            let (most, least) = floods.most_and_least();
            assert!(most <= least + APART_BYTES, "{most} and {least} bytes with {options:?}");
        }
    }
}

#[test]
fn connections_with_small_messages_receive_in_turn_as_many_at_once_as_there_are_buffers() {
    const BUFFERS: u16 = 8;
    let options = Options { incremental: false, multishot: false, ..FULL };
    let mut ring = Ring::with_buffers(&Variant::from(&options), PROBE_BUFFERS, (BUFFERS, 2048)).unwrap();
    // Over Unix sockets a message is readable as soon as it is sent.
    let mut peers: Vec<(Slot, UnixStream)> = Vec::new();
    for _ in 0..3 * BUFFERS {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        peers.push((ring.adopt(ours).unwrap(), theirs));
    }
    peers.iter().for_each(|&(slot, _)| ring.receive(slot, false));
    for round in 0..12 {
        submit_and_wait(&mut ring);
        let mut served = Vec::new();
        while let Some(completion) = ring.next() {
            let Completion::Received { slot, buffer, .. } = completion else {
                panic!("not expected here: {completion:?}")
            };
            ring.recycle(buffer);
            served.push(slot);
        }
        let turns = peers.chunks(usize::from(BUFFERS)).cycle().nth(round).unwrap().iter();
        assert_eq!(served, turns.map(|&(slot, _)| slot).collect::<Vec<_>>(), "round {round}");
        for slot in served {
            let (_, theirs) = peers.iter_mut().find(|(peer, _)| *peer == slot).unwrap();
            theirs.write_all(b"x").unwrap();
            ring.receive(slot, false);
        }
    }
}

#[test]
fn a_connection_that_waits_for_a_buffer_can_be_stopped() {
    let mut ring = Ring::new(&FULL).unwrap();
    let mut floods = Floods::new(&mut ring);
    floods.serve(&mut ring);
    let mut left: Vec<Slot> = floods.peers.iter().map(|&(slot, _)| slot).collect();
    assert!(!ring.starved.is_empty(), "there are more connections than buffers");
    left.iter().for_each(|&slot| ring.stop_receiving(slot));
    while !left.is_empty() {
        submit_and_wait(&mut ring);
        while let Some(completion) = ring.next() {
            match completion {
                Completion::Received { buffer, armed, slot } => {
                    ring.recycle(buffer);
                    left.retain(|&other| armed || other != slot);
                }
                Completion::Stopped { slot, why: Stop::Asked } => left.retain(|&other| other != slot),
                other => panic!("not expected here: {other:?}"),
            }
        }
    }
    assert!(ring.starved.is_empty() && ring.stopping.is_empty());
}
