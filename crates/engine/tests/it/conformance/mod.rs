//! Every model must serve every protocol correctly, whatever its clients do: one generated matrix of models, their
//! options, protocols and misbehaviour. The client is plain blocking sockets, the server the real engine.
//!
//! After each cell the server must be alive, have released every descriptor, thread and child, and answer a fresh
//! request. How soon is not tested: that depends on the machine.
//!
//! `IOLAB_CELLS='epoll x 2' cargo test -p engine --test it conformance` runs the cells whose names contain that.

pub(crate) mod cells;
pub(crate) mod strict;
pub(crate) mod subject;
pub(crate) mod wire;

use std::env;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use cells::{CELLS, Cell, DESCRIPTORS};
use serde_json::Value;
use subject::{Listen, Outcome, Subject, Variant};
use wire::Wire;

/// Servers under test at the same time: most of a cell is waiting.
const PARALLEL: usize = 24;

/// The engine's default; no cell comes near it.
const CONNECTIONS_MAX: usize = 16_384;

/// Selects cells by a part of their names, such as `epoll x 2`.
const FILTER: &str = "IOLAB_CELLS";

/// A server and its cells.
struct Row {
    variant: Variant,
    wire: Wire,
    cells: Vec<(String, &'static Cell)>,
}

#[test]
fn every_model_serves_every_protocol_whatever_its_clients_do() {
    // By default many systems allow fewer descriptors than so many cells need in this process.
    let parallel = PARALLEL.min(sys::process::descriptors_max() / DESCRIPTORS).max(1);
    let mut rows = rows(&describe());
    assert!(rows.iter().any(|row| !row.cells.is_empty()), "no cell has what {FILTER} asks for in its name");
    rows.reverse();
    let (left, failures) = (Mutex::new(rows), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("nobody panics with it").pop();
                    let Some(row) = next else { break };
                    let failed = check(&row);
                    failures.lock().expect("nobody panics with it").extend(failed);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nobody panics with it");
    assert!(failures.is_empty(), "{} cells failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_documentation_lists_what_hyper_does_otherwise() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md");
    let text = std::fs::read_to_string(path).expect("it is there");
    let table = text.split_once("| a request with | all others | hyper |\n").map(|(_, table)| table);
    let rows = table.expect("it has the table").lines().skip(1).take_while(|line| line.starts_with('|'));
    assert!(rows.eq(strict::differences()), "its rows should be\n{}", strict::differences().join("\n"));
}

/// Runs a server's cells, and returns the failures by name. A server that has failed is replaced.
fn check(row: &Row) -> Vec<String> {
    let mut failures = Vec::new();
    let mut subject = None;
    for (name, cell) in &row.cells {
        let begin = Instant::now();
        let started =
            (subject.take()).map_or_else(|| Subject::start(&row.variant, row.wire, CONNECTIONS_MAX), Ok);
        let outcome = started.and_then(|mut running| {
            let outcome = check_cell(cell, &mut running)?;
            subject = Some(running);
            Ok(outcome)
        });
        match outcome {
            Ok(None) => eprintln!("{name}: ok in {} ms", begin.elapsed().as_millis()),
            Ok(Some(reason)) => eprintln!("{name}: skipped, {reason}"),
            Err(error) => {
                eprintln!("{name}: FAILED, {error}");
                failures.push(format!("{name}: {error}"));
            }
        }
    }
    failures
}

/// Runs a cell and the checks after it, or returns why it is skipped.
fn check_cell(cell: &Cell, subject: &mut Subject) -> Outcome<Option<&'static str>> {
    if let Some(reason) = cell.needs.lacking(subject) {
        return Ok(Some(reason));
    }
    (cell.run)(subject)?;
    subject.check_recovery()?;
    Ok(None)
}

fn describe() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_iolab-engine")).arg("describe").output().expect("it runs");
    serde_json::from_slice(&output.stdout).expect("describe prints JSON")
}

/// The matrix: every model with every protocol.
fn rows(description: &Value) -> Vec<Row> {
    let filter = env::var(FILTER).unwrap_or_default();
    let mut rows = Vec::new();
    for model in list(&description["models"]) {
        if model["available"] != true {
            eprintln!("{}: skipped, {}", text(&model["name"]), text(&model["why_not"]));
            continue;
        }
        let protocols = list(&model["protocols"]);
        for wire in Wire::ALL.into_iter().filter(|wire| protocols.iter().any(|word| word == wire.protocol()))
        {
            for (variant, cells) in variants(model) {
                let name = |cell: &Cell| format!("{}, {}: {}", variant.name(), wire.name(), cell.name);
                let cells = cells.iter().map(|cell| (name(cell), cell));
                let cells = cells.filter(|(name, _)| name.contains(&filter)).collect();
                rows.push(Row { variant, wire, cells });
            }
        }
    }
    rows
}

/// A model with its defaults, with two workers, and with each of its options changed, for all cells; and with worker
/// processes and on other kinds of addresses, for whole requests.
fn variants(model: &Value) -> Vec<(Variant, &'static [Cell])> {
    let plain = Variant {
        model: text(&model["name"]),
        options: Vec::new(),
        workers: 1,
        worker_kind: "thread",
        listen: Listen::Ipv4,
    };
    let whole = &CELLS[..1];
    let mut variants = vec![
        (plain.clone(), CELLS),
        (Variant { workers: 2, ..plain.clone() }, CELLS),
        (Variant { workers: 2, worker_kind: "process", ..plain.clone() }, whole),
        (Variant { listen: Listen::Ipv6, ..plain.clone() }, if has_ipv6() { whole } else { &[] }),
        (Variant { listen: Listen::Unix, ..plain.clone() }, whole),
        (Variant { listen: Listen::Five, ..plain.clone() }, whole),
    ];
    for option in list(&model["options"]) {
        // Values with a known defect would fail here; `defects.rs` shows their defects.
        let sound = |value: &&Value| option["defects"].get(text(value)).is_none();
        for value in list(&option["values"]).iter().skip(1).filter(sound) {
            let options = vec![(text(&option["name"]), text(value))];
            // Sharing takes two workers.
            let workers = if value == "shared" { 2 } else { 1 };
            variants.push((Variant { options, workers, ..plain.clone() }, CELLS));
        }
    }
    variants
}

/// Whether this machine has the other loopback address.
fn has_ipv6() -> bool {
    TcpListener::bind("[::1]:0").is_ok()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("the contract has a list here")
}

fn text(value: &Value) -> String {
    value.as_str().expect("the contract has a text here").to_owned()
}
