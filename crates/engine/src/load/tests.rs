use super::*;

#[test]
fn a_window_is_ended_by_time_or_by_a_count() {
    let two = Duration::from_secs(2);
    check_end(r#""duration_ms": 2000"#, Duration::from_millis(500), End::After(two));
    check_end(r#""duration_ms": 2000, "warmup_ms": 0"#, Duration::ZERO, End::After(two));
    check_end(r#""requests": 100"#, Duration::ZERO, End::Requests(100));
}

#[test]
fn more_connections_than_descriptors_are_refused() {
    check_config(r#""connections": 1048576"#, "need more descriptors than the");
    check_config(r#""connections": 2, "idle": 1048576"#, "need more descriptors than the");
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

fn spec(fields: &str) -> LoadSpec {
    let head = r#""schema": 1, "role": "load", "workload": {"protocol": "echo"}, "connect": ["127.0.0.1:1"]"#;
    contract::read(&format!("{{{head}, {fields}}}")).expect("the fields are those of a spec")
}

fn check_end(fields: &str, warmup: Duration, end: End) {
    let config = to_config(&spec(&format!(r#""connections": 1, {fields}"#)))
        .unwrap_or_else(|failure| panic!("{fields}: {}", failure.message));
    assert_eq!((config.warmup, config.end), (warmup, end), "{fields}");
}

fn check_config(fields: &str, part: &str) {
    let failure = to_config(&spec(&format!(r#""duration_ms": 1, {fields}"#))).expect_err(fields);
    assert!(failure.message.contains(part), "{fields}: {}", failure.message);
}
