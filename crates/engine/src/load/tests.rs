use base64::Engine;
use hdrhistogram::serialization::Deserializer;

use super::*;

#[test]
fn percentiles_and_the_packed_histogram_say_the_same() {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    for value_ns in (1..=1000).map(|index| index * 1_000) {
        histogram.record(value_ns).expect("it is in bounds");
    }
    let latency = latency(&histogram).expect("it can be packed");
    let packed = STANDARD.decode(&latency.histogram).expect("it is base64");
    let unpacked: Histogram<u64> =
        Deserializer::new().deserialize(&mut &packed[..]).expect("it is a histogram");
    assert_eq!(unpacked, histogram);
    for (shown_ns, exact_ns) in [
        (latency.min, 1_000.0),
        (latency.p50, 500_000.0),
        (latency.p90, 900_000.0),
        (latency.p99, 990_000.0),
        (latency.p99_9, 999_000.0),
        (latency.p99_99, 1_000_000.0),
        (latency.max, 1_000_000.0),
    ] {
        assert!((shown_ns as f64 / exact_ns - 1.0).abs() < 1e-3, "{shown_ns} is not {exact_ns}");
    }
}

#[test]
fn a_run_without_replies_has_a_latency_of_zeroes() {
    let histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    let latency = latency(&histogram).expect("it can be packed");
    assert_eq!((latency.min, latency.p99, latency.max), (0, 0, 0));
    assert_eq!((latency.mean, latency.stdev), (0.0, 0.0));
}

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
