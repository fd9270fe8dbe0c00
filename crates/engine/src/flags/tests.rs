use std::collections::BTreeMap;

use contract::{
    Arrivals, Driver, LoadSpec, LoadWord, Opening, Pace, ReplyStatus, Stage, Verification, Verify,
};

use super::*;
use crate::spec::check::{self, Names};

#[test]
fn a_server_by_hand_is_on_loopback_and_speaks_http() {
    check_serve("--model epoll", Ok(serve_spec()));
}

#[test]
fn flags_of_a_server_become_its_spec() {
    let options = BTreeMap::from([("recv".into(), "oneshot".into()), ("files".into(), "plain".into())]);
    check_serve(
        "--model io_uring --option recv=oneshot -o files=plain",
        Ok(ServeSpec { model: "io_uring".into(), options, ..serve_spec() }),
    );
    check_serve(
        "--model epoll --listen [::1]:0 --workers 2 --cpus 0,2-3 --connections-max 9",
        Ok(ServeSpec {
            listen: vec!["[::1]:0".parse().expect("an address")],
            workers: 2,
            cpus: vec![0, 2, 3],
            connections_max: 9,
            ..serve_spec()
        }),
    );
    check_serve(
        "--model epoll --listen unix:/tmp/a.sock --listen 127.0.0.1:1 --worker-kind process",
        Ok(ServeSpec {
            listen: ["unix:/tmp/a.sock", "127.0.0.1:1"].map(|text| text.parse().expect("an address")).into(),
            worker_kind: WorkerKind::Process,
            ..serve_spec()
        }),
    );
    check_serve(
        "--model epoll --protocol line --message-bytes 80",
        Ok(ServeSpec { workload: Workload::Line(Line { message_bytes: 80 }), ..serve_spec() }),
    );
    check_serve(
        "--model epoll --protocol rpc --target 5 --work 50us",
        Ok(ServeSpec {
            workload: Workload::Rpc(Rpc { target: 5, work_ns: 50_000, ..Rpc::default() }),
            ..serve_spec()
        }),
    );
    check_serve(
        "--model epoll --reply-bytes 1024",
        Ok(ServeSpec {
            workload: Workload::Http(Http { reply_bytes: 1024, ..Http::default() }),
            ..serve_spec()
        }),
    );
    for flags in ["--reply-status 204", "--reply-status 204 --reply-bytes 0"] {
        let http = Http { reply_bytes: 0, reply_status: ReplyStatus::NoContent, ..Http::default() };
        let spec = ServeSpec { workload: Workload::Http(http), ..serve_spec() };
        check_serve(&format!("--model epoll {flags}"), Ok(spec));
    }
    check_serve(
        "--model epoll --protocol echo --framing prefix --message-bytes 100",
        Ok(ServeSpec {
            workload: Workload::Echo(Echo { framing: Framing::Prefix, message_bytes: 100 }),
            ..serve_spec()
        }),
    );
}

#[test]
fn flags_of_a_server_that_cannot_be_say_what_to_do() {
    check_serve("", Err("--model <MODEL>; --help shows how"));
    check_serve("--modle epoll", Err("a similar argument exists: '--model'"));
    check_serve(
        "--model epoll --framing raw",
        Err("--framing has no effect with --protocol http: leave it out"),
    );
    check_serve("--model epoll --protocol echo --reply-bytes 1", Err("--reply-bytes has no effect"));
    check_serve("--model epoll --protocol echo --reply-status 204", Err("--reply-status has no effect"));
    check_serve("--model epoll --reply-status 404", Err("reply_status is 404; it can be 200 or 204"));
    check_serve("--model epoll --protocol line --framing raw", Err("--framing has no effect"));
    check_serve("--model epoll --protocol http --work 1ms", Err("--work has no effect with --protocol http"));
    check_serve("--model epoll --protocol rpc --message-bytes 1", Err("--message-bytes has no effect"));
    check_serve("--model epoll --option recv", Err("`recv` is not NAME=VALUE, as in recv=oneshot"));
    check_serve("--model epoll -o a=1 -o a=2", Err("option a is given twice, as 1 and as 2: keep one"));
    check_serve("--model epoll --listen 8080", Err("write it as in 127.0.0.1:8080 or [::1]:8080"));
    check_serve("--model epoll --cpus 3-1", Err("`3-1` is not a list of processors; write it as in 0,2-3"));
    check_serve("--model epoll --cpus 0,", Err("is not a list of processors"));
    check_serve("--model epoll --workers two", Err("invalid value 'two' for '--workers <N>'"));
    check_serve("--spec - --model epoll", Err("cannot be used with"));
    check_serve("--spec file.json", Err("[possible values: -]"));
}

#[test]
fn a_load_by_hand_is_fifty_connections_for_ten_seconds() {
    check_load("http://127.0.0.1:8080/", Ok(load_spec()));
}

#[test]
fn what_tls_and_a_ring_cannot_measure_is_refused_with_them() {
    check_load(
        "http://127.0.0.1:8080 --one-receive --driver io_uring",
        Err("--one-receive does not go with --driver io_uring: leave out one of them"),
    );
    for flag in ["--open as_needed", "--details"] {
        let alone = format!("{flag} does not go with TLS: leave out one of them");
        check_load(&format!("https://127.0.0.1:8080 {flag}"), Err(&alone));
    }
}

#[test]
fn flags_of_a_load_become_its_spec() {
    check_load(
        "http://127.0.0.1:8080/a?b=c -c 7 -t 2 -z 500ms --warmup 1s --timeout 2s --driver io_uring --cpus 1",
        Ok(LoadSpec {
            driver: Driver::IoUring,
            workload: http(Http { target: "/a?b=c".into(), ..Http::default() }),
            connections: 7,
            threads: 2,
            cpus: vec![1],
            warmup_ms: Some(1000),
            duration_ms: Some(500),
            timeout_ms: 2000,
            ..load_spec()
        }),
    );
    check_load(
        "http://127.0.0.1:8080 -n 1000",
        Ok(LoadSpec { duration_ms: None, requests: Some(1000), ..load_spec() }),
    );
    check_load(
        "http://127.0.0.1:8080 -n 1000 -z 1h --warmup 0s",
        Ok(LoadSpec { duration_ms: None, requests: Some(1000), interval_ms: 360, ..load_spec() }),
    );
    check_load(
        "http://127.0.0.1:8080 --no-keepalive --verify status",
        Ok(LoadSpec {
            workload: http(Http { keep_alive: false, verify: Verify::Status, ..Http::default() }),
            ..load_spec()
        }),
    );
    check_load("http://127.0.0.1:8080 --details", Ok(LoadSpec { details: true, ..load_spec() }));
    let alone = "--details goes with --driver epoll, and without -p: leave out one of them";
    check_load("http://127.0.0.1:8080 --details --driver io_uring", Err(alone));
    check_load("http://127.0.0.1:8080 --details --driver thread", Err(alone));
    check_load("http://127.0.0.1:8080 --details -p 2", Err(alone));
    check_load(
        "http://127.0.0.1:8080 --open as_needed --warmup 0s",
        Ok(LoadSpec { open: Opening::AsNeeded, warmup_ms: Some(0), ..load_spec() }),
    );
    check_load("http://127.0.0.1:8080 --open as_needed --warmup 1s", Err("leave out --warmup or --open"));
    check_load(
        "http://127.0.0.1:8080 --open as_needed --connect-rate 9",
        Err("leave out --connect-rate or --open"),
    );
    check_load(
        "http://127.0.0.1:8080 --one-receive",
        Ok(LoadSpec { verify: Verification::OneReceive, ..load_spec() }),
    );
    check_load(
        "tcp://127.0.0.1:8080 --framing crlf",
        Ok(LoadSpec {
            workload: Workload::Echo(Echo { framing: Framing::Crlf, ..Echo::default() }),
            ..load_spec()
        }),
    );
    check_load(
        "unix:/tmp/a.sock --protocol rpc --text-bytes 7",
        Ok(LoadSpec {
            workload: Workload::Rpc(Rpc { text_bytes: 7, ..Rpc::default() }),
            connect: vec!["unix:/tmp/a.sock".parse().expect("an address")],
            ..load_spec()
        }),
    );
    check_load("http://127.0.0.1:8080 -z 1h", {
        Ok(LoadSpec { duration_ms: Some(3_600_000), interval_ms: 360, ..load_spec() })
    });
}

#[test]
fn a_rate_makes_an_open_loop() {
    let open = |arrivals, seed, stages: &[(f64, f64, Option<u64>)]| Pace::Open {
        arrivals,
        seed,
        stages: (stages.iter())
            .map(|&(from_per_s, to_per_s, duration_ms)| Stage { from_per_s, to_per_s, duration_ms })
            .collect(),
    };
    check_load(
        "http://127.0.0.1:8080/ --rate 2k",
        Ok(LoadSpec { pace: open(Arrivals::Poisson, 1, &[(2000.0, 2000.0, None)]), ..load_spec() }),
    );
    // The stages determine the duration.
    check_load(
        "http://127.0.0.1:8080/ -r 0-100:3s,100:2s --arrivals even --seed 7 --spin 50us",
        Ok(LoadSpec {
            pace: open(Arrivals::Even, 7, &[(0.0, 100.0, Some(3000)), (100.0, 100.0, Some(2000))]),
            spin_us: 50,
            duration_ms: Some(5000),
            ..load_spec()
        }),
    );
    check_load("http://127.0.0.1:8080/ --arrivals even", Err("--rate"));
    check_load("http://127.0.0.1:8080/ --rate 5 --active 3", Err("connections are free: leave out --active"));
    check_load(
        "http://127.0.0.1:8080/ --rate 1k-2k:2s -z 3s",
        Err("take 2s in all: leave out -z, or add one"),
    );
    check_load("http://127.0.0.1:8080/ --rate 1k:1s,2k:1s -z 1s", Err("or give the last one no duration"));
    check_load(
        "http://127.0.0.1:8080/ --rate 1k:1s,2k -z 1s",
        Err("begins after 1s: give a -z that is longer"),
    );
    check_load("http://127.0.0.1:8080/ --rate 1k:10s,2k", Err("begins after 10s: give a -z that is longer"));
    check_load("http://127.0.0.1:8080/ --rate fast", Err("`fast` is not a rate"));
}

#[test]
fn the_stages_of_a_rate_end_a_run_of_a_number_of_requests_too() {
    for (flags, limit_s) in [
        ("--rate 1k:2s -n 9", Some(2)),
        ("--rate 1k -n 9 -z 3s", Some(3)),
        ("--rate 1k:1s,2k -n 9 -z 3s", Some(3)),
        ("--rate 1k:11s,2k -n 9", None),
        ("--rate 1k:2s", None),
        ("-z 3s", None),
    ] {
        let Command::Load(load) = command_of(&format!("load http://127.0.0.1:8080/ {flags}")) else {
            panic!("{flags} is no load")
        };
        let limit = load.time_limit().unwrap_or_else(|failure| panic!("{}", failure.message));
        assert_eq!(limit, limit_s.map(Duration::from_secs), "{flags}");
    }
}

fn command_of(line: &str) -> Command {
    let words = ["iolab-engine"].into_iter().chain(line.split_whitespace());
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).command
}

#[test]
fn numbers_that_cannot_be_are_told_by_their_flags_and_in_their_units() {
    for (flags, message) in [
        ("-z 0s", "-z is 0s; it can be from 1ms to 24h"),
        ("-z 25h", "-z is 25h; it can be from 1ms to 24h"),
        ("-n 5 -z 0s", "-z is 0s; it can be from 1ms to 24h"),
        ("--timeout 500us", "`500us` is shorter than a millisecond; write 1ms or more"),
        ("--warmup 90000s", "--warmup is 25h; it can be from 0s to 24h"),
        ("--spin 2s", "--spin is 2s; it can be from 0s to 1s"),
        ("-o a.csv --slice 50ms", "--slice is 50ms; it can be from 100ms to 24h"),
        ("--rate 50000k", "--rate is 50000000; it can be from 0 to 10000000"),
        ("--rate 5:25h", "the length of a stage of --rate is 25h; it can be from 1ms to 24h"),
        ("--rate 5:20h,6:20h", "-z is 40h; it can be from 1ms to 24h"),
        ("--rate 5:0s,5", "the length of a stage of --rate is 0s; it can be from 1ms to 24h"),
        ("--connect-rate 0", "--connect-rate is 0; it can be anything above 0, up to 10000000"),
        ("-c 0", "-c is 0; it can be from 1 to 1048576"),
        ("--driver thread -c 2000", "-c of --driver thread is 2000; it can be from 1 to 1024"),
        ("--idle 9999999", "--idle is 9999999; it can be from 0 to 1048576"),
        ("-c 3 --active 4", "--active is 4; it can be from 1 to 3"),
        ("--probes 101", "--probes is 101; it can be from 0 to 100"),
        ("-p 0", "-p is 0; it can be from 1 to 10000"),
        ("-p 2 --driver io_uring", "-p goes with --driver epoll only"),
        ("-t 0", "-t is 0; it can be from 1 to 1024"),
        ("--processes 0", "--processes is 0; it can be from 1 to 256"),
        ("-n 0", "-n is 0; it can be from 1 to 1000000000000"),
        ("--requests-per-connection 0", "--requests-per-connection is 0; it can be from 1 to"),
    ] {
        check_load(&format!("http://127.0.0.1:8080/ {flags}"), Err(message));
    }
}

#[test]
fn a_body_is_posted_unless_another_method_is_given() {
    let with_body = |method: &str| LoadSpec {
        workload: http(Http { method: method.into(), body: "x".into(), ..Http::default() }),
        ..load_spec()
    };
    check_load("http://127.0.0.1:8080/ -d x", Ok(with_body("POST")));
    check_load("http://127.0.0.1:8080/ -d x -m GET", Ok(with_body("GET")));
    check_load("http://127.0.0.1:8080/ -d @body.json", Err("what is in a file, write -D body.json"));
    for tool in ["hey", "oha"] {
        let like = crate::compat::parse(&format!("{tool} -n 50 -d x http://127.0.0.1:8080/"));
        let flags = parse_load(&like.expect("it is right").argv, std::iter::empty()).expect("so is this");
        let spec = flags.to_spec().unwrap_or_else(|failure| panic!("{}", failure.message));
        let Workload::Http(Http { method, body, .. }) = spec.workload else { panic!("it is HTTP") };
        assert_eq!((&*method, &*body), ("GET", "x"), "{tool}");
    }
}

#[test]
fn a_body_that_looks_like_a_duration_is_sent_only_with_a_method() {
    let http = http(Http { method: "PUT".into(), body: "1s".into(), ..Http::default() });
    check_load("http://127.0.0.1:8080/ -d 1s -m PUT", Ok(LoadSpec { workload: http, ..load_spec() }));
    check_load(
        "http://127.0.0.1:8080/ -t2 -c10 -d1s",
        Err("-d is the body of a request: for a duration write -z 1s; to send it write -m POST -d 1s"),
    );
}

#[test]
fn what_is_asked_over_http_can_be_chosen() {
    let flags =
        "http://127.0.0.1:8080/ -m POST -H A:b -H 'c:  d' -d hello --expect-status 201 --expect-body ok";
    check_load(
        &flags.replace('\'', "").replace("  d", "d"),
        Ok(LoadSpec {
            workload: http(Http {
                method: "POST".into(),
                headers: vec![("A".into(), "b".into()), ("c".into(), "d".into())],
                body: "hello".into(),
                expect_status: Some(201),
                expect_body: Some("ok".into()),
                ..Http::default()
            }),
            ..load_spec()
        }),
    );
    check_load(
        "http://127.0.0.1:8080/echo -d hello --expect-echo",
        Ok(LoadSpec {
            workload: http(Http {
                target: "/echo".into(),
                method: "POST".into(),
                body: "hello".into(),
                expect_body: Some("hello".into()),
                ..Http::default()
            }),
            ..load_spec()
        }),
    );
    check_load("http://127.0.0.1:8080/ --expect-echo --expect-body x", Err("cannot be used with"));
    check_load("tcp://127.0.0.1:8080 --expect-echo", Err("--expect-echo has no effect with --protocol echo"));
    check_load("http://127.0.0.1:8080/ -H nothing", Err("`nothing` is not 'Name: value'"));
    check_load("http://127.0.0.1:8080/ -D /absent/file", Err("cannot read /absent/file"));
    check_load("tcp://127.0.0.1:8080 -m POST", Err("--method has no effect with --protocol echo"));
}

#[test]
fn connections_can_be_many_idle_and_short() {
    check_load(
        "http://127.0.0.1:8080/ --active 5 --idle 9 --connect-rate 100 -p 4 --requests-per-connection 8 \
         --source 127.0.0.1,127.0.0.2",
        Ok(LoadSpec {
            active: Some(5),
            idle: 9,
            connect_per_s: Some(100.0),
            pipeline: 4,
            requests_per_connection: Some(8),
            sources: ["127.0.0.1", "127.0.0.2"].map(|text| text.parse().expect("an address")).into(),
            ..load_spec()
        }),
    );
}

#[test]
fn flags_of_a_load_that_cannot_be_say_what_to_do() {
    check_load("", Err("<URL>; --help shows how"));
    check_load("127.0.0.1:8080", Err("write http://127.0.0.1:8080 or tcp://127.0.0.1:8080"));
    check_load("http://127.0.0.1:8080 -z 10", Err("write 10s or 10ms"));
    check_load("http://127.0.0.1:8080 --warmup 1s -n 5", Err("--warmup needs --duration"));
    check_load("http://127.0.0.1:8080 -H Connection:close", Err("header Connection cannot be given"));
    check_load("http://127.0.0.1:8080 -H connection:x", Err("or not with --no-keepalive"));
    check_load("http://127.0.0.1:8080 --driver select", Err("[possible values: epoll, io_uring, thread]"));
    check_load("http://127.0.0.1:8080 --protocol echo", Err("--protocol echo needs tcp://127.0.0.1:8080"));
    check_load("tcp://127.0.0.1:8080 --protocol http", Err("--protocol http needs http://127.0.0.1:8080/"));
    check_load("http://127.0.0.1:8080 --message-bytes 9", Err("--message-bytes has no effect"));
    check_load("tcp://127.0.0.1:8080 --no-keepalive", Err("--no-keepalive has no effect"));
    check_load("http://127.0.0.1:8080 --protocol line", Err("--protocol line needs tcp://127.0.0.1:8080"));
    check_load("tcp://127.0.0.1:8080 --verify bytes", Err("--verify has no effect"));
}

#[test]
fn the_tip_to_pass_an_unknown_flag_as_a_value_is_not_given() {
    let said = |flags: &str| {
        let line = format!("iolab-engine load http://127.0.0.1:8080 {flags}");
        one_line(&Cli::try_parse_from(line.split_whitespace()).expect_err("there is no such flag"))
    };
    assert_eq!(said("--xyzzy 1"), "error: unexpected argument '--xyzzy' found");
    for (flag, instead) in [("--output foo.json", "-o foo.json"), ("--csv", "-o foo.csv")] {
        let tip = format!("tip: to write a file, use {instead}");
        assert!(said(flag).ends_with(&tip), "{}", said(flag));
    }
}

#[test]
fn a_flag_beside_another_tools_line_wins_over_what_the_line_means() {
    let line = "http://127.0.0.1:8080/ -c 10 -t 2 -z 10s --warmup 0s --timeout 2s -H A:b";
    let timeless =
        LoadSpec { connections: 10, threads: 2, warmup_ms: Some(0), timeout_ms: 2000, ..load_spec() };
    let with_headers = |names: &[&str]| {
        let headers = names.iter().map(|name| ((*name).to_owned(), "b".to_owned())).collect();
        http(Http { headers, ..Http::default() })
    };
    let meant = LoadSpec { workload: with_headers(&["A"]), ..timeless };
    check_beside(line, "", Ok(meant.clone()));
    check_beside(
        line,
        "-c 5 --timeout=3s",
        Ok(LoadSpec { connections: 5, timeout_ms: 3000, ..meant.clone() }),
    );
    // Repeatable flags are added.
    check_beside(line, "-H C:b", Ok(LoadSpec { workload: with_headers(&["A", "C"]), ..meant.clone() }));
    check_beside(
        line,
        "-n 7",
        Ok(LoadSpec { warmup_ms: None, duration_ms: None, requests: Some(7), ..meant.clone() }),
    );
    check_beside(line, "-c 5 -c 6", Ok(LoadSpec { connections: 6, ..meant }));
    check_beside(line, "--modle x", Err("unexpected argument '--modle' found"));
    let trusting = "https://127.0.0.1:8080/ --insecure -c 10 -D /absent/file";
    check_beside(trusting, "--cacert ca.pem -d text --rate 5 --active 3", Err("leave out --active"));
    let flags =
        parse_load(&words(trusting), words("--cacert ca.pem -d text").into_iter()).expect("it is right");
    let spec = flags.to_spec().unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(spec.tls.map(|tls| (tls.cacert, tls.insecure)), Some((Some("ca.pem".into()), false)));
}

/// Parses a translated line with the flags beside it.
fn check_beside(line: &str, beside: &str, expected: Result<LoadSpec, &str>) {
    let spec = parse_load(&words(line), words(beside).into_iter()).and_then(|flags| checked(&flags));
    match (spec, expected) {
        (Ok(spec), Ok(expected)) => assert_eq!(spec, expected, "{beside}"),
        (Err(failure), Err(part)) => assert!(failure.message.contains(part), "{beside}: {}", failure.message),
        (spec, expected) => panic!("{beside}\n  gave     {spec:?}\n  expected {expected:?}"),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn serve_spec() -> ServeSpec {
    ServeSpec {
        schema: Version,
        role: ServeWord::Is,
        model: "epoll".into(),
        options: BTreeMap::new(),
        workload: Workload::Http(Http::default()),
        listen: vec!["127.0.0.1:8080".parse().expect("an address")],
        workers: 1,
        worker_kind: WorkerKind::Thread,
        cpus: vec![],
        netns: None,
        connections_max: 16_384,
        count_calls: false,
    }
}

fn load_spec() -> LoadSpec {
    LoadSpec {
        schema: Version,
        role: LoadWord::Is,
        driver: Driver::Epoll,
        workload: http(Http::default()),
        connect: vec!["127.0.0.1:8080".parse().expect("an address")],
        tls: None,
        sources: vec![],
        connections: 50,
        idle: 0,
        open: Opening::Before,
        connect_per_s: None,
        pace: Pace::Closed,
        active: None,
        pipeline: 1,
        requests_per_connection: None,
        probes: 0,
        spin_us: 0,
        threads: 1,
        processes: 1,
        place: None,
        cpus: vec![],
        netns: None,
        warmup_ms: None,
        duration_ms: Some(10_000),
        requests: None,
        timeout_ms: 10_000,
        verify: Verification::Whole,
        details: false,
        interval_ms: 20,
        slice_ms: None,
        held: false,
    }
}

fn http(http: Http) -> Workload {
    Workload::Http(Http { host: Some("127.0.0.1:8080".into()), ..http })
}

fn check_serve(flags: &str, expected: Result<ServeSpec, &str>) {
    check("serve", flags, expected, |command| match command {
        Command::Serve(flags) => {
            flags.to_spec().and_then(|spec| check::serve(&spec, Names::Flags).map(|()| spec))
        }
        other => panic!("serve was read as {other:?}"),
    });
}

fn check_load(flags: &str, expected: Result<LoadSpec, &str>) {
    check("load", flags, expected, |command| match command {
        Command::Load(flags) => checked(&flags),
        other => panic!("load was read as {other:?}"),
    });
}

/// What the flags mean, if they are valid.
fn checked(flags: &LoadFlags) -> Result<LoadSpec, Failure> {
    flags.to_spec().and_then(|spec| check::load(&spec, Names::Flags).map(|()| spec))
}

/// Expects the spec of a command line, or a part of its one-line error.
fn check<S: std::fmt::Debug + PartialEq>(
    command: &str,
    flags: &str,
    expected: Result<S, &str>,
    to_spec: impl Fn(Command) -> Result<S, Failure>,
) {
    let line = format!("iolab-engine {command} {flags}");
    let spec = Cli::try_parse_from(line.split_whitespace())
        .map_err(|error| one_line(&error))
        .and_then(|cli| to_spec(cli.command).map_err(|failure| failure.message));
    match (spec, expected) {
        (Ok(spec), Ok(expected)) => assert_eq!(spec, expected, "{line}"),
        (Err(message), Err(part)) => {
            assert!(message.contains(part), "{line}\n  said     {message}\n  expected {part}");
            assert!(!message.contains('\n'), "{line}\n  said more than a line: {message}");
        }
        (spec, expected) => panic!("{line}\n  gave     {spec:?}\n  expected {expected:?}"),
    }
}
