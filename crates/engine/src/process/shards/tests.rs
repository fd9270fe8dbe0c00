use super::*;

fn spec(fields: &str) -> LoadSpec {
    let head = r#""schema": 1, "role": "load", "workload": {"protocol": "echo"}, "connect": ["127.0.0.1:1"]"#;
    contract::read(&format!("{{{head}, {fields}}}")).expect("the fields are those of a spec")
}

/// Splits a spec. Expects the parts to add up to it, the first to be the largest, and each to have work.
fn check(fields: &str) {
    let spec = spec(fields);
    let parts = parts(&spec);
    assert_eq!(parts.len(), spec.processes);
    let sum = |of: fn(&LoadSpec) -> u64| {
        assert!(parts.iter().all(|part| of(part) <= of(&parts[0])), "the first is the largest: {fields}");
        parts.iter().map(of).sum::<u64>()
    };
    let counts: [fn(&LoadSpec) -> u64; 6] = [
        |spec| spec.connections as u64,
        |spec| spec.idle as u64,
        |spec| spec.probes as u64,
        |spec| spec.threads as u64,
        |spec| spec.active.unwrap_or_default() as u64,
        |spec| spec.requests.unwrap_or_default(),
    ];
    for (index, of) in counts.into_iter().enumerate() {
        assert_eq!(sum(of), of(&spec), "count {index} of {fields}");
    }
    for part in &parts {
        assert_eq!((part.processes, part.held), (1, spec.processes > 1));
        assert!(part.threads <= part.active.unwrap_or(part.connections), "each thread is busy: {fields}");
        assert_eq!(part.active.is_some(), spec.active.is_some());
    }
}

#[test]
fn parts_add_up_to_the_whole() {
    check(r#""processes": 1, "connections": 7, "requests": 9"#);
    check(r#""processes": 2, "connections": 7, "idle": 9, "threads": 3, "requests": 1003"#);
    check(r#""processes": 3, "connections": 8, "active": 4, "threads": 4, "probes": 2, "duration_ms": 5"#);
    check(r#""processes": 6, "connections": 100000, "active": 1000, "threads": 6, "duration_ms": 5"#);
}

/// Splits a spec. Expects each part to begin where the one before it ends, in threads and in connections.
fn check_places(fields: &str) {
    let spec = spec(fields);
    let (mut threads_before, mut connections_before) = (0, 0);
    for part in parts(&spec) {
        let expected = Shard { threads_before, threads: spec.threads(), connections_before };
        assert_eq!(part.place, Some(expected), "{fields}");
        assert_eq!((&part.pace, part.connect_per_s), (&spec.pace, spec.connect_per_s), "{fields}");
        threads_before += part.threads();
        connections_before += part.connections + part.idle + part.probes;
    }
    assert_eq!(threads_before, spec.threads(), "{fields}");
    assert_eq!(connections_before, spec.connections + spec.idle + spec.probes, "{fields}");
}

#[test]
fn parts_keep_the_rates_of_the_whole_and_have_a_place_in_it() {
    let pace = pace(100.0);
    check_places(r#""processes": 2, "connections": 7, "duration_ms": 5"#);
    check_places(&format!(
        r#""processes": 4, "connections": 8, "threads": 4, "connect_per_s": 100.0, {pace}"#
    ));
    check_places(&format!(
        r#""processes": 3, "connections": 8, "threads": 5, "idle": 7, "probes": 2, {pace}"#
    ));
    check_places(&format!(r#""processes": 3, "connections": 10, "driver": "thread", {pace}"#));
}

#[test]
fn a_part_is_not_parted_again() {
    let spec = spec(r#""processes": 2, "connections": 7, "duration_ms": 5"#);
    for part in parts(&spec) {
        assert_eq!(parts(&part), [part]);
    }
}

#[test]
fn each_process_sends_as_many_requests_as_its_threads_of_the_schedule() {
    let requests = |fields: &str| Vec::from_iter(parts(&spec(fields)).iter().map(|part| part.requests));
    let fields = r#""processes": 2, "connections": 8, "threads": 3, "requests": 100"#;
    assert_eq!(requests(fields), [Some(50), Some(50)], "a closed loop has no schedule");
    assert_eq!(requests(&format!("{fields}, {}", pace(5.0))), [Some(67), Some(33)]);
}

fn pace(rate_per_s: f64) -> String {
    let stage = format!(r#"{{"from_per_s": {rate_per_s}, "to_per_s": {rate_per_s}, "duration_ms": null}}"#);
    format!(r#""pace": {{"loop": "open", "arrivals": "even", "stages": [{stage}]}}"#)
}

/// Of three processes, two send this many slices and finish. Expects five slices when the last one sends them.
fn check_ends(ends: [u64; 2]) {
    let slice = |index| Slice {
        index,
        begin_ns: 100 * index,
        end_ns: 100 * (index + 1),
        correct: 1,
        wrong: 0,
        failed: 0,
        latency: ::load::Report::empty(false).latency,
    };
    let mut slices = Slices { pending: Vec::new(), ends: vec![u64::MAX; 3] };
    for (shard, end) in ends.into_iter().enumerate() {
        (0..end).for_each(|index| slices.add(slice(index)));
        slices.ends[shard] = end;
        slices.pass_on(false, |slice| panic!("slice {} lacks a part: {ends:?}", slice.index));
    }
    for index in 0..5 {
        let mut told = Vec::new();
        slices.add(slice(index));
        slices.pass_on(false, |slice| told.push((slice.index, slice.correct)));
        let parts = 1 + ends.iter().filter(|end| **end > index).count() as u64;
        assert_eq!(told, [(index, parts)], "{ends:?}");
    }
}

#[test]
fn processes_that_have_measured_are_not_waited_for() {
    check_ends([1, 3]);
    check_ends([4, 0]);
}

#[test]
fn there_are_as_many_processes_as_the_connections_need_descriptors() {
    let needed = |fields: &str| processes_needed(&spec(&format!(r#"{fields}, "duration_ms": 5"#)), 1000);
    assert_eq!(needed(r#""connections": 1000"#), 1);
    assert_eq!(needed(r#""connections": 1001"#), 2);
    assert_eq!(needed(r#""connections": 1000, "idle": 1000"#), 2);
    assert_eq!(
        needed(r#""connections": 999, "idle": 1000, "probes": 1"#),
        3,
        "each has a share of all kinds"
    );
}

#[test]
fn connections_on_the_loopback_interface_get_the_addresses_they_need() {
    const SERVER: &[&str] = &["127.0.0.1:1"];
    check_sources(r#""connections": 450"#, SERVER, &[]);
    check_sources(r#""connections": 451"#, SERVER, &["127.0.0.2", "127.0.0.3"]);
    check_sources(r#""connections": 700, "idle": 201"#, SERVER, &["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    check_sources(r#""connections": 451, "sources": ["127.0.0.9"]"#, SERVER, &["127.0.0.9"]);
    check_sources(r#""connections": 900"#, &["127.0.0.1:1", "127.0.0.1:2"], &[]);
    check_sources(r#""connections": 5000"#, &["unix:/a"], &[]);
}

/// The sources that a spec for these addresses gets if each source has 1000 ports.
fn check_sources(fields: &str, connect: &[&str], expected: &[&str]) {
    let spec = with_sources(fields, connect).expect("they suffice");
    assert_eq!(spec.sources.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{fields}");
}

fn with_sources(fields: &str, connect: &[&str]) -> Result<LoadSpec, Failure> {
    let mut spec = spec(&format!(r#"{fields}, "duration_ms": 5"#));
    spec.connect = connect.iter().map(|text| text.parse().expect("it is an address")).collect();
    give_sources(&mut spec, 1000).map(|()| spec)
}

#[test]
fn other_servers_need_addresses_from_the_user() {
    const MESSAGE: &str =
        "1,001 connections need 2 source addresses, each with 1,000 ports: give more of them (--source)";
    for (fields, connect) in [
        (r#""connections": 1001"#, "10.0.0.1:1"),
        (r#""connections": 1001"#, "[::1]:1"),
        (r#""connections": 1001, "sources": ["127.0.0.2"]"#, "127.0.0.1:1"),
    ] {
        let failure = with_sources(fields, &[connect]).expect_err(fields);
        assert_eq!(failure.message, MESSAGE, "{connect}");
    }
}

#[test]
fn processes_without_anything_to_do_are_refused() {
    check_refused(r#""processes": 3, "connections": 2"#, "3 processes cannot share 2 busy connections");
    check_refused(
        r#""processes": 3, "connections": 9, "active": 1"#,
        "cannot share 1 busy connection: use fewer processes",
    );
    check_refused(
        r#""processes": 3, "connections": 9, "requests": 2"#,
        "cannot share fewer requests than processes",
    );
    check_refused(
        &format!(r#""processes": 3, "threads": 5, "connections": 9, "requests": 3, {}"#, pace(5.0)),
        "cannot share fewer requests than processes",
    );
}

fn check_refused(fields: &str, part: &str) {
    let failure = fit(spec(fields)).expect_err(fields);
    assert!(failure.message.contains(part), "{fields}: {}", failure.message);
}
