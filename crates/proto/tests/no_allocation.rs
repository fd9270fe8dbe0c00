//! Neither half allocates once it is warm: a run of twice as many requests allocates just as often.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proto::echo::{self, Echo, Framing};
use proto::http::{self, Http, Request, Verify};
use proto::line::{self, Line};
use proto::rpc::{self, Rpc};
use proto::{Client as _, Next, Output, Protocol, Server as _, Session, Verdict};

/// The system's allocator, with a counter of this thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator. Counting does not allocate, because the counter
// is a constant without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of this same function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from the system's allocator with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the memory came from the system's allocator with this layout.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a new connection and its client allocate for this many requests, with both directions split into pieces.
fn allocations<P: Protocol>(workload: &'static P::Workload, requests: usize, piece_bytes: usize) -> u64 {
    let before = ALLOCATIONS.get();
    let mut session = Session::new(P::Server::new(workload));
    let mut client = P::Client::new(workload);
    let mut output = Output::new();
    for second in 0..requests {
        output.tick(second as u64);
        for piece in client.request().chunks(piece_bytes) {
            assert_eq!(session.receive(piece, &mut output), Next::Receive);
        }
        let mut rest = output.as_bytes();
        loop {
            // An incomplete reply is passed again with more appended, as the contract says.
            let (used, verdict) = client.reply(rest).unwrap();
            rest = &rest[used..];
            if verdict.is_some() {
                assert_eq!((verdict, rest.len()), (Some(Verdict::Correct), 0));
                break;
            }
        }
        output.clear();
    }
    ALLOCATIONS.get() - before
}

fn check<P: Protocol>(name: &str, workload: P::Workload) {
    let workload: &P::Workload = Box::leak(Box::new(workload));
    for piece_bytes in [usize::MAX, 17] {
        let once = allocations::<P>(workload, 1_000, piece_bytes);
        let twice = allocations::<P>(workload, 2_000, piece_bytes);
        assert_eq!(once, twice, "{name}: 1,000 requests allocate {once} times, 2,000 {twice} times");
        assert!(once > 0, "{name}: the allocations are not counted");
    }
}

#[test]
fn twice_as_many_requests_allocate_just_as_often() {
    for verify in [Verify::Bytes, Verify::Status] {
        for (target, reply_bytes) in [("/", 1), ("/", 10_000), ("/json", 1)] {
            check::<Http>(target, http::Workload::new(reply_bytes, target, "a", true, verify).unwrap());
        }
    }
    for (method, target, expect_status) in
        [("HEAD", "/", None), ("POST", "/", None), ("GET", "/nowhere", Some(404))]
    {
        let headers = &[("Accept".into(), "*/*".into())];
        let request = Request { method, headers, body: b"hello", expect_status, expect_body: None };
        let workload = http::Workload::new(10_000, target, "a", true, Verify::Bytes).unwrap();
        check::<Http>(method, workload.requesting(&request).unwrap());
    }
    for bytes in [0, 5, 2_000] {
        let body = vec![b'e'; bytes];
        let request = Request { method: "POST", body: &body, expect_body: Some(&body), ..Request::default() };
        let workload = http::Workload::new(1, "/echo", "a", true, Verify::Bytes).unwrap();
        check::<Http>("echo", workload.requesting(&request).unwrap());
    }
    for framing in [Framing::Raw, Framing::Prefix, Framing::Crlf] {
        for message_bytes in [1, 64, 2_000] {
            check::<Echo>("echo", echo::Workload::new(framing, message_bytes).unwrap());
        }
    }
    for message_bytes in [1, 12, 2_000] {
        check::<Line>("line", line::Workload::new(message_bytes).unwrap());
    }
    for text_bytes in [0, 11, 2_000] {
        check::<Rpc>("rpc", rpc::Workload::new(10, text_bytes, 1).unwrap());
    }
}
