//! A server reports its parser, and whether connections change threads, so that comparisons can name other differences.

use crate::common::Engine;
use serde_json::json;

#[test]
fn a_server_says_what_parses_its_requests_and_whether_connections_change_threads() {
    check("epoll", json!({}), 2, "iolab", false);
    check("tokio", json!({}), 2, "iolab", false);
    check("tokio", json!({"runtime": "multi"}), 2, "iolab", true);
    check("tokio", json!({"runtime": "multi"}), 1, "iolab", false);
    check("hyper", json!({}), 2, "hyper", false);
    check("hyper", json!({"runtime": "multi"}), 2, "hyper", true);
}

fn check(model: &str, options: serde_json::Value, workers: u32, parser: &str, moves_connections: bool) {
    let engine = Engine::start(&json!({
        "schema": 1, "role": "serve", "model": model, "options": options, "workers": workers,
        "workload": {"protocol": "http"}, "listen": ["127.0.0.1:0"],
    }));
    let ready = engine.event().expect("it starts");
    assert_eq!(ready["parser"], parser, "{ready}");
    assert_eq!(ready["moves_connections"], moves_connections, "{ready}");
}
