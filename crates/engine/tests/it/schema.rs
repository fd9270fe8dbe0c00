//! The committed schemas are those of the engine, and its output conforms to them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::engine;
use serde_json::Value;

/// Set to write the schemas instead of comparing them.
const WRITE: &str = "IOLAB_WRITE_SCHEMA";

#[test]
fn the_committed_schemas_are_the_generated_ones() {
    let generated: BTreeMap<String, Value> =
        serde_json::from_str(&engine("describe --schema").stdout).expect("they are JSON");
    for (name, schema) in &generated {
        let path = folder().join(format!("{name}.json"));
        let text = format!("{}\n", serde_json::to_string_pretty(schema).expect("a schema is JSON"));
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &text).expect("the checkout can be written");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "schema/{name}.json is not what the crate contract says; to write it anew:\n\
             {WRITE}=1 cargo test -p engine --test it schema"
        );
    }
    let committed: Vec<String> = stems(&folder());
    assert_eq!(
        committed,
        Vec::from_iter(generated.into_keys()),
        "schema/ holds other schemas than the engine"
    );
}

#[test]
fn there_is_an_example_of_every_document() {
    let mut kinds: Vec<String> = stems(&folder().join("examples"))
        .iter()
        .map(|stem| stem.split_once('.').map_or(stem.as_str(), |(kind, _variant)| kind).to_owned())
        .collect();
    kinds.dedup();
    assert_eq!(kinds, stems(&folder()));
}

#[test]
fn the_build_id_is_made_of_the_sources() {
    let description: Value = serde_json::from_str(&engine("describe").stdout).expect("it is JSON");
    let build = description["build"].as_str().expect("it is text");
    assert_eq!(build.len(), 16);
    assert!(build.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{build}");
}

/// The names of the JSON files in a folder without their extension, sorted.
fn stems(folder: &Path) -> Vec<String> {
    let mut stems: Vec<String> = fs::read_dir(folder)
        .expect("the folder is in the checkout")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
        .collect();
    stems.sort_unstable();
    stems
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema")
}
