use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

#[test]
fn every_example_is_read_and_written_without_loss() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/examples");
    for entry in fs::read_dir(folder).expect("the folder is in the checkout") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("it is text").to_owned();
        let text = fs::read_to_string(&path).expect("it is text");
        match name.split('.').next() {
            Some("serve-spec") => check_example::<ServeSpec>(&name, &text),
            Some("load-spec") => check_example::<LoadSpec>(&name, &text),
            Some("path-spec") => check_example::<PathSpec>(&name, &text),
            Some("path-ready") => check_example::<PathReady>(&name, &text),
            Some("path-report") => check_example::<PathReport>(&name, &text),
            Some("serve-ready") => check_example::<ServeReady>(&name, &text),
            Some("served") => check_example::<Served>(&name, &text),
            Some("load-ready") => check_example::<LoadReady>(&name, &text),
            Some("measuring") => check_example::<Measuring>(&name, &text),
            Some("interval") => check_example::<Interval>(&name, &text),
            Some("measured") => check_example::<Measured>(&name, &text),
            Some("report") => check_example::<Report>(&name, &text),
            Some("failed") => check_example::<Failed>(&name, &text),
            Some("description") => check_example::<Description>(&name, &text),
            _ => panic!("schema/examples/{name} is an example of no document"),
        }
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let spec: LoadSpec = read(
        r#"{"schema": 1, "role": "load", "workload": {"protocol": "http"}, "connect": ["127.0.0.1:1"],
            "connections": 9, "duration_ms": 1}"#,
    )
    .expect("it is complete");
    assert_eq!(
        (spec.driver, spec.threads, spec.timeout_ms, spec.interval_ms),
        (Driver::Epoll, 1, 10_000, 20)
    );
    assert_eq!(spec.workload, Workload::Http(Http::default()));
    // A run with a number of requests has no warm-up.
    assert_eq!((spec.warmup_ms(), LoadSpec { requests: Some(5), ..spec }.warmup_ms()), (500, 0));
}

#[test]
fn a_field_or_a_word_that_is_not_known_is_refused() {
    check_refused::<Failed>(
        r#"{"schema": 1, "event": "ready"}"#,
        "unknown variant `ready`, expected `failed`",
    );
    check_refused::<Failed>(r#"{"schema": 3}"#, "schema 3 is not known to this engine, which knows 1");
    check_refused::<Failed>(r#"{"sheme": 1}"#, "unknown field `sheme`");
    check_refused::<Workload>(r#"{"protocol": "echo", "reply_bytes": 1}"#, "unknown field `reply_bytes`");
    check_refused::<Workload>(r#"{"protocol": "http", "framing": "raw"}"#, "unknown field `framing`");
    check_refused::<Workload>(r#"{"reply_bytes": 1}"#, "missing field `protocol`");
    check_refused::<Workload>(r#"{"protocol": "echo", "message_bytes": -1}"#, "invalid value");
    check_refused::<Echo>(r#"{"framing": "line"}"#, "unknown variant `line`");
    check_refused::<Measured>(r#"{"schema": 1} {}"#, "missing field");
}

fn check_example<T>(name: &str, text: &str)
where
    T: DeserializeOwned + Serialize + PartialEq + fmt::Debug,
{
    let document: T = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let again: T = read(&line(&document)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(document, again, "{name}");
    let mut value: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
    value["a_field_nobody_knows"] = 1.into();
    let error = read::<T>(&value.to_string()).expect_err("an unknown field is refused");
    assert!(error.contains("a_field_nobody_knows"), "{name}: {error}");
}

fn check_refused<T: DeserializeOwned + fmt::Debug>(text: &str, part: &str) {
    let error = read::<T>(text).expect_err(text);
    assert!(error.contains(part), "{text}: {error}");
}
