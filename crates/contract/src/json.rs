//! Documents as text.

use std::collections::BTreeMap;

use schemars::{Schema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    Description, Failed, Interval, LoadReady, LoadSpec, Measured, Measuring, PathReady, PathReport, PathSpec,
    Report, ServeReady, ServeSpec, Served,
};

/// A document that a process reads from standard input.
pub trait Spec: DeserializeOwned {}

impl Spec for ServeSpec {}
impl Spec for LoadSpec {}
impl Spec for PathSpec {}

/// Parses a document.
///
/// # Errors
/// What is wrong with it, and where in the text.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Parses all reports in a text. Other events of a run may be between them.
///
/// # Errors
/// What is wrong with one of them, and where.
pub fn reports(text: &str) -> Result<Vec<Report>, String> {
    /// Other events of a generator.
    const OTHERS: [&str; 4] = ["ready", "measuring", "interval", "measured"];
    #[derive(Deserialize)]
    struct Document {
        event: Option<String>,
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Document>();
    let (mut reports, mut begin) = (Vec::new(), 0);
    while let Some(document) = documents.next() {
        let Document { event } = document.map_err(|error| error.to_string())?;
        let document = &text[begin..documents.byte_offset()];
        begin = documents.byte_offset();
        if !event.is_some_and(|event| OTHERS.contains(&&*event)) {
            reports.push(read(document)?);
        }
    }
    Ok(reports)
}

/// A document as one line of JSON.
pub fn line<T: Serialize>(document: &T) -> String {
    serde_json::to_string(document).expect("the contract's documents have string keys and finite numbers")
}

/// A document as indented JSON.
pub fn pretty<T: Serialize>(document: &T) -> String {
    serde_json::to_string_pretty(document).expect("the contract's documents have string keys")
}

/// The schemas of all documents by name, as indented JSON.
pub fn schemas() -> String {
    let schemas: BTreeMap<&str, Schema> = BTreeMap::from([
        ("serve-spec", schema_for!(ServeSpec)),
        ("load-spec", schema_for!(LoadSpec)),
        ("path-spec", schema_for!(PathSpec)),
        ("serve-ready", schema_for!(ServeReady)),
        ("load-ready", schema_for!(LoadReady)),
        ("served", schema_for!(Served)),
        ("measuring", schema_for!(Measuring)),
        ("interval", schema_for!(Interval)),
        ("measured", schema_for!(Measured)),
        ("report", schema_for!(Report)),
        ("path-ready", schema_for!(PathReady)),
        ("path-report", schema_for!(PathReport)),
        ("failed", schema_for!(Failed)),
        ("description", schema_for!(Description)),
    ]);
    pretty(&schemas)
}
