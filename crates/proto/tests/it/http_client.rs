//! What the client half requests, and what it learns from replies.

use proto::http::{Client, Request, Verify, Workload};
use proto::{Client as _, Verdict};

use super::drive::{ask, check};

fn workload(target: &str, keep_alive: bool, verify: Verify) -> &'static Workload {
    Box::leak(Box::new(Workload::new(1, target, "a:80", keep_alive, verify).unwrap()))
}

fn requesting(request: &Request<'_>) -> Result<&'static Workload, String> {
    let workload = Workload::new(1, "/", "a:80", true, Verify::Bytes).unwrap();
    workload.requesting(request).map(|workload| &*Box::leak(Box::new(workload)))
}

fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn reply(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Passes the replies to one client, one after another, and checks the last verdict.
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
    let with_body = Workload::new(1, "/", "a", true, Verify::Bytes).unwrap().without_content().err();
    assert_eq!(
        with_body.as_deref(),
        Some("reply_bytes is 1, but a reply with the status 204 has no body: give reply_bytes = 0")
    );
    for target in ["/json", "/nowhere", "http://b/json?x"] {
        let other = Workload::new(0, target, "a", true, Verify::Bytes).unwrap().without_content().err();
        assert_eq!(
            other.unwrap_or_default(),
            format!(
                "reply_status is 204, which is the status of / only, but the target is {target}: ask for /, or name \
                 the status to expect (expect_status)"
            )
        );
    }
    for target in ["", "x", "*", "/ ", "/\r\nA: b", "/\u{e9}", "https://a/", &"/".repeat(8193)] {
        check(1, target, "a", "give a path");
    }
    for host in ["", "a b", "a/b", "u@a", "a\r\n", &"a".repeat(260)] {
        check(1, "/", host, "give a name or an address");
    }
}

#[test]
fn requests_have_the_method_the_fields_and_the_body_they_are_given() {
    let check = |method, headers: &[(&str, &str)], body: &str, want: &str| {
        let headers = &fields(headers);
        let request = Request { method, headers, body: body.as_bytes(), ..Request::default() };
        let bytes = Client::new(requesting(&request).unwrap()).request();
        assert_eq!(String::from_utf8_lossy(bytes), want);
    };
    check("HEAD", &[], "", "HEAD / HTTP/1.1\r\nHost: a:80\r\n\r\n");
    check("DELETE", &[], "", "DELETE / HTTP/1.1\r\nHost: a:80\r\n\r\n");
    check("M-SEARCH", &[], "", "M-SEARCH / HTTP/1.1\r\nHost: a:80\r\n\r\n");
    for method in ["POST", "PUT", "PATCH"] {
        let want = format!("{method} / HTTP/1.1\r\nHost: a:80\r\nContent-Length: 0\r\n\r\n");
        check(method, &[], "", &want);
    }
    for method in ["GET", "POST", "post"] {
        let want = format!("{method} / HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\n\r\na\r\n");
        check(method, &[], "a\r\n", &want);
    }
    check(
        "GET",
        &[("Accept", "*/*"), ("x-empty", ""), ("host", "[::1]:80"), ("Accept", "text/\u{e9}\t")],
        "",
        "GET / HTTP/1.1\r\nHost: [::1]:80\r\nAccept: */*\r\nx-empty: \r\nAccept: text/\u{e9}\t\r\n\r\n",
    );
}

#[test]
fn requests_that_cannot_be_are_refused_with_a_hint() {
    let check = |method, headers: &[(&str, &str)], body: &[u8], want: &str| {
        let request = Request { method, headers: &fields(headers), body, ..Request::default() };
        let line = requesting(&request).err().unwrap_or_else(|| panic!("{method:?} {headers:?} is accepted"));
        assert!(line.contains(want) && !line.contains('\n') && !line.contains("secret"), "{line}");
    };
    for method in ["", "GET ", "GE T", "GET\r\n", "G:T", "G\u{e9}T", "\0"] {
        check(method, &[], b"", "give a word such as POST");
    }
    check("CONNECT", &[], b"", "opens a tunnel");
    check("TRACE", &[], b"x", "cannot have a body");
    for name in ["", "a b", "a:", "a\r\nb", "\u{e9}", "(a)"] {
        check("GET", &[(name, "x")], b"", "give a word such as Accept");
    }
    for value in ["secret\r", "\nsecret", "a\r\nB: secret", "secret\0", "\u{1b}", "\u{7f}"] {
        check("GET", &[("A", value)], b"", "header A has a control character");
    }
    check("POST", &[("Content-Length", "1")], b"x", "it is the length of the body");
    check("POST", &[("transfer-encoding", "chunked")], b"x", "a body is sent with its length");
    check("GET", &[("CONNECTION", "close")], b"", "keep_alive says it");
    check("GET", &[("Host", "a"), ("A", "b"), ("host", "a")], b"", "Host twice");
    for host in ["", "a b", "a/b", "u@a"] {
        check("GET", &[("Host", host)], b"", "give a name or an address");
    }
    check("POST", &[], &vec![0; Request::BODY_BYTES_MAX + 1], "at most 16777216");
    check("GET", &[("A", "b"); 62], b"", "62 headers");
    check("GET", &[("A", &"b".repeat(16 * 1024))], b"", "leave some out");
}

#[test]
fn expectations_that_no_reply_meets_are_refused_with_a_hint() {
    let check = |method, expect_status, expect_body: Option<&[u8]>, want: &str| {
        let line = requesting(&Request { method, expect_status, expect_body, ..Request::default() }).err();
        let line = line.unwrap_or_else(|| panic!("{method} {expect_status:?} {expect_body:?} is accepted"));
        assert!(line.contains(want) && !line.contains('\n'), "{line}");
    };
    for status in [0, 99, 100, 101, 199, 600, u16::MAX] {
        check("GET", Some(status), None, "200 to 599");
    }
    check("HEAD", None, Some(b"x"), "to HEAD has no body");
    check("GET", Some(204), Some(b"x"), "status 204 has no body");
    check("GET", Some(304), Some(b"x"), "status 304 has no body");
    let status_only = Workload::new(1, "/", "a", true, Verify::Status).unwrap();
    let line = status_only.requesting(&Request { expect_body: Some(b"x"), ..Request::default() }).err();
    assert!(line.unwrap().contains("only verify bytes looks at bodies"));
}

#[test]
fn a_client_that_is_told_of_no_content_takes_no_other_status() {
    let check = |request: &Request<'_>, status, body, want| {
        let workload = Workload::new(0, "/", "a", true, Verify::Bytes).and_then(Workload::without_content);
        let workload = workload.and_then(|workload| workload.requesting(request)).unwrap();
        let mut client = Client::new(Box::leak(Box::new(workload)));
        let reply = match status {
            "204 No Content" => format!("HTTP/1.1 {status}\r\n\r\n"),
            _ => reply(status, "", body),
        };
        check_last(&mut client, &[reply], want);
    };
    let (any, ok) = (Request::default(), Request { expect_status: Some(200), ..Request::default() });
    check(&any, "204 No Content", "", Verdict::Correct);
    check(&any, "200 OK", "", Verdict::Status);
    check(&any, "200 OK", "x", Verdict::Status);
    check(&ok, "200 OK", "x", Verdict::Correct);
    check(&ok, "204 No Content", "", Verdict::Status);
}

#[test]
fn a_head_that_equals_the_last_is_taken_with_any_date_and_no_other_change() {
    let date = |text: &str| reply("200 OK", &format!("Date: {text}\r\nETag: 1\r\n"), "hello");
    let first = date("Sun, 06 Nov 1994 08:49:37 GMT");
    for (name, last, want) in [
        ("same", first.clone(), Verdict::Correct),
        ("next second", date("Sun, 06 Nov 1994 08:49:38 GMT"), Verdict::Correct),
        ("another tag", first.replace("ETag: 1", "ETag: 2"), Verdict::Correct),
        ("another status", first.replace("200 OK", "404 No"), Verdict::Status),
        ("another body", first.replace("hello", "hallo"), Verdict::Wrong),
        ("another length", first.replace("5\r\n\r\nhello", "4\r\n\r\nhell"), Verdict::Wrong),
        ("fewer fields", reply("200 OK", "", "hello"), Verdict::Correct),
    ] {
        let mut client = Client::new(workload("/", true, Verify::Bytes));
        check_last(&mut client, &[first.clone(), last.clone()], want);
        assert!(client.keeps_alive(), "{name}");
        // What one connection has learnt is valid on the next.
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
    check_last(&mut client, &[reply("500 Oops", "", "one")], Verdict::Status);
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
    check_last(&mut client, &[reply("302 Found", "", "one")], Verdict::Status);
}

#[test]
fn the_status_that_is_expected_is_the_only_right_one_and_its_body_is_compared() {
    let client = |expect_status, expect_body| {
        Client::new(requesting(&Request { expect_status, expect_body, ..Request::default() }).unwrap())
    };
    let not_found = || reply("404 Not Found", "", "gone");
    for (expect_status, expect_body, last, want) in [
        (Some(404), None, not_found(), Verdict::Correct),
        (Some(404), None, reply("404 Other Words", "ETag: 1\r\n", "gone"), Verdict::Correct),
        (Some(404), None, reply("404 Not Found", "", "lost"), Verdict::Wrong),
        (Some(404), Some(b"gone".as_slice()), not_found(), Verdict::Correct),
        (Some(404), None, reply("200 OK", "", "gone"), Verdict::Status),
        (Some(404), None, reply("410 Gone", "", "gone"), Verdict::Status),
        (Some(201), None, not_found(), Verdict::Status),
        (None, None, not_found(), Verdict::Status),
    ] {
        check_last(&mut client(expect_status, expect_body), &[not_found(), last], want);
    }
    let other = Some(b"here".as_slice());
    check_last(&mut client(Some(404), other), &[not_found()], Verdict::Wrong);
    check_last(&mut client(Some(200), None), &[reply("201 Created", "", "")], Verdict::Status);
    check_last(&mut client(Some(304), None), &["HTTP/1.1 304 No\r\n\r\n".into()], Verdict::Correct);
}

#[test]
fn the_status_is_that_of_the_last_whole_reply() {
    let mut client = Client::new(workload("/", true, Verify::Bytes));
    let ok = || reply("200 OK", "", "one");
    let interim = |rest: String| format!("HTTP/1.1 103 Early Hints\r\n\r\n{rest}");
    // Two replies that are parsed and two that equal the template; a wrong one has a status too.
    let replies =
        [ok(), ok(), reply("503 Busy", "", "one"), interim(reply("201 Created", "", "two")), ok()].concat();
    ask(&mut client, 5);
    assert_eq!(client.status(), None);
    let checked = check(&mut client, 5, [replies.as_bytes()], false);
    assert_eq!(checked.statuses, [200, 200, 503, 201, 200].map(Some));
    assert_eq!(client.clone().status(), None, "another connection has no reply yet");
    let mut until_close = client.clone();
    ask(&mut until_close, 1);
    let checked = check(&mut until_close, 1, [b"HTTP/1.0 500 Oops\r\n\r\nbusy".as_slice()], true);
    assert_eq!((checked.verdicts, checked.statuses), (vec![Verdict::Status], vec![Some(500)]));
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

#[test]
fn a_wrong_body_is_told_beside_the_expected_one() {
    let same = "=".repeat(30);
    check_deviation("right", "wrong one", "expected 5 bytes `right`, got 9 bytes `wrong one`");
    check_deviation("right", "righ", "expected 5 bytes `right`, got 4 bytes `righ`");
    check_deviation("right", "right\n\u{1b}", "expected 5 bytes `right`, got 7 bytes `right..`");
    check_deviation("right", "", "expected 5 bytes `right`, got 0 bytes");
    let (long, other) = (format!("{same}a"), format!("{same}b{same}"));
    check_deviation(
        &long,
        &other,
        "expected 31 bytes `==========a`, \
         got 61 bytes `==========b=============================…`; both from byte 20 on",
    );
}

/// The text about a body that came after another one, in any pieces.
fn check_deviation(expected: &str, came: &str, text: &str) {
    for piece in [1, 7, 4096] {
        let mut client = Client::new(workload("/", true, Verify::Bytes));
        let replies = [reply("200 OK", "", expected), reply("200 OK", "", came)];
        ask(&mut client, replies.len());
        let bytes = replies.concat();
        let checked = check(&mut client, replies.len(), bytes.as_bytes().chunks(piece), false);
        assert_eq!(checked.verdicts, [Verdict::Correct, Verdict::Wrong], "{came:?}");
        assert_eq!(client.deviation().as_deref(), Some(text), "in pieces of {piece}");
    }
}
