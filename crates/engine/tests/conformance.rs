//! Every model must serve every protocol right, whatever its clients do: one generated matrix of models, their
//! options, protocols and ill-treatment. The client is plain blocking sockets, the server the real engine.
//!
//! After each cell the server must be alive, answer a fresh request within a second, and have let go of every
//! descriptor, thread and child.

mod common;
mod conformance {
    pub(crate) mod cells;
    pub(crate) mod subject;
    pub(crate) mod wire;
}

use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use conformance::cells::{CELLS, Cell};
use conformance::subject::{Outcome, Subject, Variant};
use conformance::wire::Wire;
use serde_json::Value;

/// Servers under test at the same time: most of a cell is waiting.
const PARALLEL: usize = 8;

/// As many as the engine's default; none of the cells but one comes near it.
const CONNECTIONS_MAX: usize = 16_384;

#[test]
fn every_model_serves_every_protocol_whatever_its_clients_do() {
    let mut subjects = subjects(&describe());
    subjects.reverse();
    let (left, failures) = (Mutex::new(subjects), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("nobody panics with it").pop();
                    let Some((variant, wire)) = next else { break };
                    let failed = check(&variant, wire);
                    failures.lock().expect("nobody panics with it").extend(failed);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nobody panics with it");
    assert!(failures.is_empty(), "{} cells failed:\n{}", failures.len(), failures.join("\n"));
}

/// Puts a server through all cells, and returns what went wrong by name. A server that has failed is replaced.
fn check(variant: &Variant, wire: Wire) -> Vec<String> {
    let mut failures = Vec::new();
    let mut subject = None;
    for cell in CELLS {
        let name = format!("{}, {}: {}", variant.name(), wire.name(), cell.name);
        let begin = Instant::now();
        let started = subject.take().map_or_else(|| Subject::start(variant, wire, CONNECTIONS_MAX), Ok);
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

/// Runs a cell and what must hold after it; or says why not.
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

/// Every model as it comes, with each of its options changed, and with two workers; for every protocol.
fn subjects(description: &Value) -> Vec<(Variant, Wire)> {
    let mut subjects = Vec::new();
    for model in list(&description["models"]) {
        let name = text(&model["name"]);
        if model["available"] != true {
            eprintln!("{name}: skipped, {}", text(&model["why_not"]));
            continue;
        }
        let holds_many = text(&model["holds"]) == "many";
        let with = |options, workers| Variant { model: name.clone(), options, workers, holds_many };
        let mut variants = vec![with(Vec::new(), 1), with(Vec::new(), 2)];
        for option in list(&model["options"]) {
            for value in list(&option["values"]).iter().skip(1) {
                variants.push(with(vec![(text(&option["name"]), text(value))], 1));
            }
        }
        let protocols = list(&model["protocols"]);
        let wires = Wire::ALL.into_iter().filter(|wire| protocols.iter().any(|word| word == wire.protocol()));
        for wire in wires {
            subjects.extend(variants.iter().cloned().map(|variant| (variant, wire)));
        }
    }
    subjects
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("the contract has a list here")
}

fn text(value: &Value) -> String {
    value.as_str().expect("the contract has a text here").to_owned()
}
