use super::*;

#[test]
fn a_window_is_ended_by_time_or_by_a_count() {
    check_end(r#""duration_ms": 2000"#, Ok((500, End::After(Duration::from_secs(2)))));
    check_end(r#""duration_ms": 2000, "warmup_ms": 0"#, Ok((0, End::After(Duration::from_secs(2)))));
    check_end(r#""requests": 100"#, Ok((0, End::Requests(100))));
    check_end(r#""requests": 100, "warmup_ms": 0, "duration_ms": null"#, Ok((0, End::Requests(100))));
}

#[test]
fn a_window_without_an_end_or_beyond_the_limits_is_refused() {
    check_end(r#""warmup_ms": 0"#, Err("give either duration_ms or requests"));
    check_end(r#""duration_ms": 1, "requests": 1"#, Err("give either duration_ms or requests"));
    check_end(r#""requests": 100, "warmup_ms": 5"#, Err("warmup_ms goes with duration_ms"));
    check_end(r#""duration_ms": 0"#, Err("duration_ms is 0; it can be from 1 to 86400000"));
    check_end(r#""duration_ms": 99999999999"#, Err("duration_ms is 99999999999"));
    check_end(r#""requests": 0"#, Err("requests is 0"));
    check_end(r#""duration_ms": 86400000, "interval_ms": 1"#, Err("the number of intervals is 86400500"));
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    check_config(r#""connections": 0"#, "connections is 0");
    check_config(r#""connections": 2, "threads": 3"#, "3 threads cannot share 2 connections");
    check_config(r#""connections": 2, "timeout_ms": 0"#, "timeout_ms is 0");
    check_config(r#""connections": 2, "interval_ms": 0"#, "interval_ms is 0");
    check_config(r#""connections": 2, "threads": 0"#, "threads is 0");
    check_config(r#""connections": 1048576"#, "need more descriptors than the");
    check_config(r#""connections": 2, "idle": 1048576"#, "need more descriptors than the");
    check_config(r#""connections": 2, "active": 3"#, "active is 3; it can be from 1 to 2");
    check_config(r#""connections": 2, "threads": 2, "active": 1"#, "2 threads cannot share 1 connection");
    check_config(r#""connections": 2, "pipeline": 0"#, "pipeline is 0");
    check_config(
        r#""connections": 2, "pipeline": 2, "driver": "io_uring""#,
        "goes with the driver epoll only",
    );
    check_config(r#""connections": 2000, "driver": "thread""#, "connections of the driver thread is 2000");
    check_config(r#""connections": 2, "slice_ms": 5"#, "slice_ms is 5");
    for rate_per_s in ["-1", "0"] {
        let message = format!("connect_per_s is {rate_per_s}; it can be anything above 0, up to 10000000");
        check_config(&format!(r#""connections": 2, "connect_per_s": {rate_per_s}"#), &message);
    }
    check_config(r#""connections": 2, "spin_us": 2000000"#, "spin_us is 2000000");
}

#[test]
fn a_source_that_no_connection_can_come_from_is_named() {
    let check = |sources: &str, message: &str| {
        check_config(&format!(r#""connections": 2, "sources": [{sources}]"#), message);
    };
    check(r#""127.0.0.1", "192.0.2.1""#, "192.0.2.1 is not an address of this machine: see `ip address`");
    check(r#""127.0.0.1", "::1""#, "a connection from ::1 cannot reach 127.0.0.1:1: give sources of IPv4");
    let to_six = r#""connections": 2, "sources": ["127.0.0.1"], "duration_ms": 1, "connect": ["[::1]:1"]"#;
    let head = r#""schema": 1, "role": "load", "workload": {"protocol": "echo"}"#;
    let spec: LoadSpec = contract::read(&format!("{{{head}, {to_six}}}")).expect("it is a spec");
    let failure = to_config(&spec).expect_err("the families differ");
    assert_eq!(failure.message, "a connection from 127.0.0.1 cannot reach [::1]:1: give sources of IPv6");
}

#[test]
fn a_schedule_that_cannot_be_kept_is_refused() {
    check_pace("", "the number of stages is 0");
    check_pace(r#"{"from_per_s": 0, "to_per_s": 0, "duration_ms": null}"#, "a rate of 0 never asks anything");
    check_pace(r#"{"from_per_s": -1, "to_per_s": 1, "duration_ms": 5}"#, "a rate is -1");
    check_pace(r#"{"from_per_s": 1, "to_per_s": 2, "duration_ms": null}"#, "only the last stage may lack");
    check_pace(r#"{"from_per_s": 1, "to_per_s": 2, "duration_ms": 0}"#, "the length of a stage in ms is 0");
    let endless = r#"{"from_per_s": 1, "to_per_s": 1, "duration_ms": null}"#;
    check_pace(&format!("{endless}, {endless}"), "only the last stage may lack");
}

fn check_pace(stages: &str, part: &str) {
    let pace = format!(r#"{{"loop": "open", "arrivals": "even", "stages": [{stages}]}}"#);
    check_config(&format!(r#""connections": 2, "pace": {pace}"#), part);
}

fn spec(fields: &str) -> LoadSpec {
    let head = r#""schema": 1, "role": "load", "workload": {"protocol": "echo"}, "connect": ["127.0.0.1:1"]"#;
    contract::read(&format!("{{{head}, {fields}}}")).expect("the fields are those of a spec")
}

fn check_end(fields: &str, expected: Result<(u64, End), &str>) {
    match (end(&spec(&format!(r#""connections": 1, {fields}"#))), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{fields}"),
        (Err(failure), Err(part)) => assert!(failure.message.contains(part), "{fields}: {}", failure.message),
        (found, expected) => panic!("{fields}: {found:?}, expected {expected:?}"),
    }
}

fn check_config(fields: &str, part: &str) {
    let failure = to_config(&spec(&format!(r#""duration_ms": 1, {fields}"#))).expect_err(fields);
    assert!(failure.message.contains(part), "{fields}: {}", failure.message);
}
