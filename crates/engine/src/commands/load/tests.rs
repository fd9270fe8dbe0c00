use super::*;

#[test]
fn more_connections_than_descriptors_are_refused() {
    check_refused(r#""connections": 1048576"#, "need more descriptors than the");
    check_refused(r#""connections": 2, "idle": 1048576"#, "need more descriptors than the");
}

#[test]
fn a_source_that_no_connection_can_come_from_is_named() {
    let check = |sources: &str, message: &str| {
        check_refused(&format!(r#""connections": 2, "sources": [{sources}]"#), message);
    };
    check(r#""127.0.0.1", "192.0.2.1""#, "192.0.2.1 is not an address of this machine: see `ip address`");
    check(r#""127.0.0.1", "::1""#, "a connection from ::1 cannot reach 127.0.0.1:1: give sources of IPv4");
    let to_six = r#""connections": 2, "sources": ["127.0.0.1"], "duration_ms": 1, "connect": ["[::1]:1"]"#;
    let head = r#""schema": 1, "role": "load", "workload": {"protocol": "echo"}"#;
    let spec: LoadSpec = contract::read(&format!("{{{head}, {to_six}}}")).expect("it is a spec");
    let failure = prepare(&spec).expect_err("the families differ");
    assert_eq!(failure.message, "a connection from 127.0.0.1 cannot reach [::1]:1: give sources of IPv6");
}

fn spec(fields: &str) -> LoadSpec {
    let head = r#""schema": 1, "role": "load", "workload": {"protocol": "echo"}, "connect": ["127.0.0.1:1"]"#;
    contract::read(&format!("{{{head}, {fields}}}")).expect("the fields are those of a spec")
}

fn check_refused(fields: &str, part: &str) {
    let failure = prepare(&spec(&format!(r#""duration_ms": 1, {fields}"#))).expect_err(fields);
    assert!(failure.message.contains(part), "{fields}: {}", failure.message);
}
