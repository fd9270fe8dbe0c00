//! The description of an engine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Driver, Version};

/// The models, drivers and protocols of this engine on this machine.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Description {
    pub schema: Version,
    pub build: String,
    pub version: String,
    pub models: Vec<ModelDescription>,
    pub drivers: Vec<DriverDescription>,
    pub protocols: Vec<String>,
}

/// An I/O model.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelDescription {
    pub name: String,
    pub about: String,
    /// Requirements beyond any Linux; empty for most.
    pub needs: String,
    pub protocols: Vec<String>,
    pub options: Vec<OptionDescription>,
    /// Connections a worker serves at the same time; null: as many as the system and `connections_max` allow. Over
    /// HTTP, a model that serves one ends each connection with its reply, so that others are served too.
    #[schemars(range(min = 1))]
    pub holds: Option<usize>,
    pub available: bool,
    /// Why it is not available, if so.
    pub why_not: Option<String>,
    /// Missing kernel features.
    pub lacks: Vec<String>,
}

/// An option of a model.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionDescription {
    pub name: String,
    /// The default comes first; for a number it is the only one.
    pub values: Vec<String>,
    /// The minimum and maximum of a number; null for words.
    pub min: Option<usize>,
    pub max: Option<usize>,
    pub about: String,
    /// Known defects of values that are kept because published servers have them.
    pub defects: BTreeMap<String, String>,
}

/// A driver of the load generator.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverDescription {
    pub name: Driver,
    pub about: String,
    pub available: bool,
    /// Why it is not available, if so.
    pub why_not: Option<String>,
    /// Missing kernel features.
    pub lacks: Vec<String>,
}
