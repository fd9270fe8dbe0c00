//! Messages that come back changed, and lines without end.

use proto::echo::{Client, Framing, Server, Workload};
use proto::{Client as _, Verdict};

use super::drive::{ask, check, serve};

fn workload(framing: Framing, message_bytes: usize) -> &'static Workload {
    Box::leak(Box::new(Workload::new(framing, message_bytes).unwrap()))
}

const FRAMINGS: [Framing; 3] = [Framing::Raw, Framing::Prefix, Framing::Crlf];

#[test]
fn messages_that_cannot_be_are_refused_with_a_hint() {
    for (framing, bytes, hint) in [
        (Framing::Raw, 0, "1 to 16777216 bytes"),
        (Framing::Raw, 16 * 1024 * 1024 + 1, "1 to 16777216 bytes"),
        (Framing::Prefix, 65_536, "0 to 65535 bytes"),
        (Framing::Crlf, 1024 * 1024 + 1, "0 to 1048576 bytes"),
    ] {
        let line = Workload::new(framing, bytes).err().unwrap();
        assert!(line.contains(hint) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn one_wrong_byte_anywhere_makes_that_message_wrong_and_no_other() {
    for framing in FRAMINGS {
        for at in 0..30 {
            let mut client = Client::new(workload(framing, 8));
            let sent = ask(&mut client, 4);
            let mut replies = sent.concat();
            let Some(byte) = replies.get_mut(at) else { continue };
            *byte ^= 1;
            let mut want = vec![Verdict::Correct; 4];
            want[at / sent[0].len()] = Verdict::Wrong;
            let checked = check(&mut client, 4, replies.chunks(3), false);
            assert_eq!((checked.verdicts, checked.malformed), (want, false), "{framing:?}, byte {at}");
        }
    }
}

#[test]
fn a_wrong_message_is_judged_when_it_is_whole() {
    let mut client = Client::new(workload(Framing::Raw, 4));
    let sent = client.request();
    assert_eq!(client.reply(&[!sent[0]]), Ok((1, None)));
    assert_eq!(client.reply(&sent[1..3]), Ok((2, None)));
    assert_eq!(client.reply(&[sent[3], 0]), Ok((1, Some(Verdict::Wrong))));
    assert!(client.reply(&[0]).is_err(), "a byte that was never sent is taken");
}

#[test]
fn messages_differ_from_one_to_the_next_and_from_one_connection_to_the_next() {
    for framing in FRAMINGS {
        for size in [1, 2, 64, 1000] {
            let mut client = Client::new(workload(framing, size));
            let mut other = client.clone();
            let requests = ask(&mut client, 5_000);
            assert!(requests.windows(2).all(|pair| pair[0] != pair[1]), "{framing:?} {size}");
            assert!(requests.iter().all(|request| request.len() == requests[0].len()));
            let others = ask(&mut other, 5_000);
            assert!(requests.iter().zip(others).all(|(one, other)| *one != other), "{framing:?} {size}");
        }
    }
}

#[test]
fn frames_are_where_they_belong() {
    let prefixed = Client::new(workload(Framing::Prefix, 300)).request();
    assert_eq!((&prefixed[..2], prefixed.len()), ([1, 44].as_slice(), 302));
    let line = Client::new(workload(Framing::Crlf, 5_000)).request();
    assert_eq!((&line[5_000..], line.len()), (b"\r\n".as_slice(), 5_002));
    assert!(!line[..5_000].iter().any(|byte| b"\r\n".contains(byte)), "the line has an end in it");
}

#[test]
fn a_line_ends_with_both_cr_and_lf() {
    let lines = b"a\nb\rc\n\rd\r\r\n\r\n\n";
    let served = serve::<_, Server>(workload(Framing::Crlf, 1), lines.chunks(1));
    assert_eq!(served.output, b"a\nb\rc\n\rd\r\r\n\r\n");
    assert_eq!((served.closed, served.tail_bytes), (false, 1));
}

/// Sends a line of `bytes` bytes after a short one, byte by byte. That would take hours if the server searched the line
/// from its beginning for every byte.
fn check_line(bytes: usize, want_closed: bool) {
    let stream = [b"short\r\n", vec![b'a'; bytes].as_slice(), b"\r\n"].concat();
    for pieces in [stream.chunks(1), stream.chunks(stream.len())] {
        let served = serve::<_, Server>(workload(Framing::Crlf, 1), pieces);
        assert_eq!(served.closed, want_closed, "{bytes} bytes");
        let want: &[u8] = if want_closed { b"short\r\n" } else { &stream };
        assert!(served.output == want, "{bytes} bytes: {} come back", served.output.len());
    }
}

#[test]
fn a_line_of_1_mib_comes_back_and_a_longer_one_is_refused() {
    check_line(Workload::LINE_BYTES_MAX, false);
    check_line(Workload::LINE_BYTES_MAX + 1, true);
    check_line(Workload::LINE_BYTES_MAX + 100_000, true);
}
