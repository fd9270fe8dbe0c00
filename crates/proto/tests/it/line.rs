//! Lines that come back changed, and lines without end.

use proto::line::{Client, Server, Workload};
use proto::{Client as _, Verdict};

use super::drive::{ask, check, serve};

fn workload(message_bytes: usize) -> &'static Workload {
    Box::leak(Box::new(Workload::new(message_bytes).unwrap()))
}

#[test]
fn lines_that_cannot_be_are_refused_with_a_hint() {
    for bytes in [0, 4097, usize::MAX] {
        let line = Workload::new(bytes).err().unwrap();
        assert!(line.contains("1 to 4096 bytes") && !line.contains('\n'), "{line}");
    }
}

#[test]
fn a_request_is_one_line_of_the_length_that_was_asked_for() {
    for size in [1, 2, 12, 4096] {
        let mut client = Client::new(workload(size));
        for line in ask(&mut client, 20) {
            assert_eq!((line.len(), line.iter().position(|byte| *byte == b'\n')), (size, Some(size - 1)));
            assert!(line[..size - 1].iter().all(u8::is_ascii_graphic), "{line:?}");
        }
    }
}

#[test]
fn lines_differ_from_one_to_the_next_and_from_one_connection_to_the_next() {
    for size in [2, 12, 1000] {
        let mut client = Client::new(workload(size));
        let mut other = client.clone();
        let (requests, others) = (ask(&mut client, 100), ask(&mut other, 100));
        assert!(requests.windows(2).all(|pair| pair[0] != pair[1]), "{size}");
        assert!(requests.iter().zip(others).all(|(one, other)| *one != other), "{size}");
    }
}

#[test]
fn one_wrong_byte_anywhere_makes_that_line_wrong_and_no_other() {
    for at in 0..48 {
        let mut client = Client::new(workload(12));
        let mut replies = ask(&mut client, 4).concat();
        replies[at] ^= 1;
        let mut want = vec![Verdict::Correct; 4];
        want[at / 12] = Verdict::Wrong;
        let checked = check(&mut client, 4, replies.chunks(5), false);
        assert_eq!((checked.verdicts, checked.malformed), (want, false), "byte {at}");
    }
}

/// Sends a line of `bytes` bytes, including its LF, after a short one.
fn check_line(bytes: usize, want_closed: bool) {
    let stream = [b"short\n", vec![b'a'; bytes - 1].as_slice(), b"\n"].concat();
    for pieces in [stream.chunks(1), stream.chunks(4095), stream.chunks(stream.len())] {
        let served = serve::<_, Server>(workload(1), pieces);
        assert_eq!(served.closed, want_closed, "{bytes} bytes");
        let want: &[u8] =
            if want_closed { b"short\nerror: a line has at most 4096 bytes\n" } else { &stream };
        assert!(served.output == want, "{bytes} bytes: {} come back", served.output.len());
    }
}

#[test]
fn a_line_of_4096_bytes_comes_back_and_a_longer_one_is_refused() {
    check_line(Workload::LINE_BYTES_MAX, false);
    check_line(Workload::LINE_BYTES_MAX + 1, true);
    check_line(Workload::LINE_BYTES_MAX + 100_000, true);
}
