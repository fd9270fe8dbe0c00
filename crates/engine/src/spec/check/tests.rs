use super::*;

#[test]
fn a_window_is_ended_by_time_or_by_a_count() {
    check_end(r#""duration_ms": 2000"#, Ok(()));
    check_end(r#""duration_ms": 2000, "warmup_ms": 0"#, Ok(()));
    check_end(r#""requests": 100"#, Ok(()));
    check_end(r#""requests": 100, "warmup_ms": 0, "duration_ms": null"#, Ok(()));
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
    check_refused(r#""connections": 0"#, "connections is 0");
    check_refused(r#""connections": 2, "threads": 3"#, "3 threads cannot share 2 connections");
    check_refused(r#""connections": 2, "timeout_ms": 0"#, "timeout_ms is 0");
    check_refused(r#""connections": 2, "interval_ms": 0"#, "interval_ms is 0");
    check_refused(r#""connections": 2, "threads": 0"#, "threads is 0");
    check_refused(r#""connections": 2, "processes": 0"#, "processes is 0; it can be from 1 to 256");
    check_refused(r#""connections": 2, "active": 3"#, "active is 3; it can be from 1 to 2");
    check_refused(r#""connections": 2, "threads": 2, "active": 1"#, "2 threads cannot share 1 connection");
    check_refused(r#""connections": 2, "pipeline": 0"#, "pipeline is 0");
    check_refused(
        r#""connections": 2, "pipeline": 2, "driver": "io_uring""#,
        "goes with the driver epoll only",
    );
    check_refused(r#""connections": 2000, "driver": "thread""#, "connections of the driver thread is 2000");
    check_refused(r#""connections": 2, "slice_ms": 5"#, "slice_ms is 5");
    for rate_per_s in ["-1", "0"] {
        let message = format!("connect_per_s is {rate_per_s}; it can be anything above 0, up to 10000000");
        check_refused(&format!(r#""connections": 2, "connect_per_s": {rate_per_s}"#), &message);
    }
    check_refused(r#""connections": 2, "spin_us": 2000000"#, "spin_us is 2000000");
}

#[test]
fn a_place_is_that_of_one_process_among_all() {
    let place = |before: usize| {
        format!(r#""place": {{"threads_before": {before}, "threads": 2, "connections_before": 0}}"#)
    };
    let two_processes = format!(r#""connections": 9, "processes": 2, {}"#, place(0));
    check_refused(&two_processes, "a place is that of one process");
    let third = format!(r#""connections": 9, {}"#, place(2));
    check_refused(&third, "a process of 1 thread with 2 before it is none of 2");
}

#[test]
fn a_schedule_that_cannot_be_kept_is_refused() {
    check_pace("", "the number of stages is 0");
    check_pace(r#"{"from_per_s": 0, "to_per_s": 0, "duration_ms": null}"#, "a rate of 0 sends no requests");
    check_pace(r#"{"from_per_s": -1, "to_per_s": 1, "duration_ms": 5}"#, "a rate is -1");
    check_pace(r#"{"from_per_s": 1, "to_per_s": 2, "duration_ms": null}"#, "only the last stage may lack");
    check_pace(r#"{"from_per_s": 1, "to_per_s": 2, "duration_ms": 0}"#, "the length of a stage in ms is 0");
    let endless = r#"{"from_per_s": 1, "to_per_s": 1, "duration_ms": null}"#;
    check_pace(&format!("{endless}, {endless}"), "only the last stage may lack");
}

fn check_pace(stages: &str, part: &str) {
    let pace = format!(r#"{{"loop": "open", "arrivals": "even", "stages": [{stages}]}}"#);
    check_refused(&format!(r#""connections": 2, "pace": {pace}"#), part);
}

fn spec(fields: &str) -> LoadSpec {
    let head = r#""schema": 1, "role": "load", "workload": {"protocol": "echo"}, "connect": ["127.0.0.1:1"]"#;
    contract::read(&format!("{{{head}, {fields}}}")).expect("the fields are those of a spec")
}

fn check_end(fields: &str, expected: Result<(), &str>) {
    check(&format!(r#""connections": 1, {fields}"#), expected);
}

fn check_refused(fields: &str, part: &str) {
    check(&format!(r#""duration_ms": 1, {fields}"#), Err(part));
}

fn check(fields: &str, expected: Result<(), &str>) {
    match (load(&spec(fields), Names::Fields), expected) {
        (Ok(()), Ok(())) => {}
        (Err(failure), Err(part)) => assert!(failure.message.contains(part), "{fields}: {}", failure.message),
        (found, expected) => panic!("{fields}: {found:?}, expected {expected:?}"),
    }
}
