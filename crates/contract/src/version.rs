//! The fields that identify a document.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of the contract. There is only one, so the type has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Version;

impl Version {
    const NUMBER: u64 = 1;
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(Self::NUMBER)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            Self::NUMBER => Ok(Self),
            other => {
                Err(D::Error::custom(format!("schema {other} is not known to this engine, which knows 1")))
            }
        }
    }
}

impl JsonSchema for Version {
    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": Self::NUMBER, "description": "The version of the contract."})
    }
}

/// Types with a single word as their value: the fields that identify a document.
macro_rules! words {
    ($($name:ident = $word:literal,)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[schemars(inline)]
        pub enum $name {
            #[serde(rename = $word)]
            Is,
        }
    )*};
}

words! {
    ServeWord = "serve",
    LoadWord = "load",
    PathWord = "path",
    ReadyWord = "ready",
    ServedWord = "served",
    MeasuringWord = "measuring",
    IntervalWord = "interval",
    MeasuredWord = "measured",
    ReportWord = "report",
    FailedWord = "failed",
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Serve,
    Load,
    Path,
}
