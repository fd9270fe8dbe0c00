//! What the client half asks, and what it learns from replies.

use proto::http::{Client, Verify, Workload};
use proto::{Client as _, Verdict};

use super::drive::{ask, check};

fn workload(target: &str, keep_alive: bool, verify: Verify) -> &'static Workload {
    Box::leak(Box::new(Workload::new(1, target, "a:80", keep_alive, verify).unwrap()))
}

fn reply(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Gives one client the replies, one after another, and checks the verdict on the last.
fn check_last(client: &mut Client, replies: &[String], want: Verdict) {
    ask(client, replies.len());
    let bytes = replies.concat();
    let checked = check(client, replies.len(), [bytes.as_bytes()], false);
    assert_eq!(
        (checked.verdicts.len(), checked.verdicts.last()),
        (replies.len(), Some(&want)),
        "{replies:?}"
    );
}

#[test]
fn requests_are_as_the_workload_says() {
    let request = |workload| Client::new(workload).request();
    assert_eq!(request(workload("/a?b", true, Verify::Bytes)), b"GET /a?b HTTP/1.1\r\nHost: a:80\r\n\r\n");
    let close = b"GET http://b/ HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n";
    assert_eq!(request(workload("http://b/", false, Verify::Bytes)), close);
}

#[test]
fn workloads_that_cannot_be_are_refused_with_a_hint() {
    let check = |reply_bytes, target: &str, host: &str, want: &str| {
        let error = Workload::new(reply_bytes, target, host, true, Verify::Bytes).err();
        let line = error.unwrap_or_else(|| panic!("{target:?} {host:?} is accepted"));
        assert!(line.contains(want) && !line.contains('\n'), "{line}");
    };
    check(Workload::REPLY_BYTES_MAX + 1, "/", "a", "at most 16777216 bytes");
    for target in ["", "x", "*", "/ ", "/\r\nA: b", "/\u{e9}", "https://a/", &"/".repeat(8193)] {
        check(1, target, "a", "give a path");
    }
    for host in ["", "a b", "a/b", "u@a", "a\r\n", &"a".repeat(260)] {
        check(1, "/", host, "give a name or an address");
    }
}

#[test]
fn a_head_that_equals_the_last_is_taken_with_any_date_and_no_other_change() {
    let date = |text: &str| reply("200 OK", &format!("Date: {text}\r\nETag: 1\r\n"), "hello");
    let first = date("Sun, 06 Nov 1994 08:49:37 GMT");
    for (name, last, want) in [
        ("same", first.clone(), Verdict::Correct),
        ("next second", date("Sun, 06 Nov 1994 08:49:38 GMT"), Verdict::Correct),
        ("another tag", first.replace("ETag: 1", "ETag: 2"), Verdict::Correct),
        ("another status", first.replace("200 OK", "404 No"), Verdict::Wrong),
        ("another body", first.replace("hello", "hallo"), Verdict::Wrong),
        ("another length", first.replace("5\r\n\r\nhello", "4\r\n\r\nhell"), Verdict::Wrong),
        ("fewer fields", reply("200 OK", "", "hello"), Verdict::Correct),
    ] {
        let mut client = Client::new(workload("/", true, Verify::Bytes));
        check_last(&mut client, &[first.clone(), last.clone()], want);
        assert!(client.keeps_alive(), "{name}");
        // What was learnt on one connection holds on the next.
        check_last(&mut client.clone(), &[last], want);
    }
}

#[test]
fn a_date_that_hides_a_field_is_no_date() {
    let with = |date: &str| reply("200 OK", &format!("Date: {date}\r\n"), "hello");
    let (plain, hiding) = ("Sun, 06 Nov 1994 08:49:37 GMT", "x\r\nConnection: close\r\nA:  GMT");
    assert_eq!(plain.len(), hiding.len());
    let mut client = Client::new(workload("/", true, Verify::Bytes));
    check_last(&mut client, &[with(plain), with(plain), with(hiding)], Verdict::Correct);
    assert!(!client.keeps_alive(), "the hidden field is not seen");
}

#[test]
fn the_first_body_is_the_one_to_equal_and_errors_teach_nothing() {
    let mut client = Client::new(workload("/", true, Verify::Bytes));
    check_last(&mut client, &[reply("500 Oops", "", "busy"), reply("200 OK", "", "one")], Verdict::Correct);
    check_last(&mut client, &[reply("200 OK", "", "two")], Verdict::Wrong);
    check_last(&mut client, &[reply("200 OK", "", "one")], Verdict::Correct);
    check_last(&mut client, &[reply("500 Oops", "", "one")], Verdict::Wrong);
}

#[test]
fn connections_that_learn_at_the_same_time_hold_each_other_to_the_same_body() {
    let mut first = Client::new(workload("/", true, Verify::Bytes));
    let mut second = first.clone();
    ask(&mut first, 1);
    ask(&mut second, 1);
    let (hello, other) = (reply("200 OK", "", "hello"), reply("200 OK", "", "help!"));
    let middle = hello.len() - 1;
    assert_eq!(check(&mut first, 1, [&hello.as_bytes()[..middle]], false).verdicts, []);
    assert_eq!(check(&mut second, 1, [other.as_bytes()], false).verdicts, [Verdict::Wrong]);
    assert_eq!(check(&mut first, 1, [&hello.as_bytes()[middle..]], false).verdicts, [Verdict::Correct]);
}

#[test]
fn status_alone_is_verified_if_that_is_asked() {
    let mut client = Client::new(workload("/", true, Verify::Status));
    check_last(
        &mut client,
        &[reply("200 OK", "", "one"), reply("201 Created", "", "other")],
        Verdict::Correct,
    );
    check_last(&mut client, &[reply("302 Found", "", "one")], Verdict::Wrong);
}

#[test]
fn a_body_too_long_to_keep_asks_for_the_status_alone() {
    let mut client = Client::new(workload("/", true, Verify::Bytes));
    client.request();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n";
    assert_eq!(client.reply(head), Ok((head.len(), None)));
    let piece = vec![0; 1024 * 1024];
    let error = (0..1024).find_map(|_| client.reply(&piece).err()).expect("64 MiB are kept at most");
    assert!(error.0.contains("verify the status only"), "{}", error.0);
}

#[test]
fn replies_are_taken_one_at_a_time() {
    let mut client = Client::new(workload("/", true, Verify::Bytes));
    ask(&mut client, 2);
    let one = reply("200 OK", "", "hello");
    let both = one.repeat(2);
    assert_eq!(client.reply(both.as_bytes()), Ok((one.len(), Some(Verdict::Correct))));
    assert_eq!(client.reply(one.as_bytes()), Ok((one.len(), Some(Verdict::Correct))));
    assert!(client.reply(b"HTTP").is_err());
}

#[test]
fn interim_replies_are_counted_for_each_request() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(16);
    let one = interim + &reply("200 OK", "", "hello");
    check_last(&mut Client::new(workload("/", true, Verify::Bytes)), &[one.clone(), one], Verdict::Correct);
}
