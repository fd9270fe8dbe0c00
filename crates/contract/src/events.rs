//! Events of a running load generator, and the failure of either role.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Driver, FailedWord, FirstFailure, IntervalWord, Latency, LoadWord, MeasuredWord, MeasuringWord,
    ReadyWord, Report, Role, Version,
};

/// All connections of a load generator are open.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadReady {
    pub schema: Version,
    pub event: ReadyWord,
    pub role: LoadWord,
    pub driver: Driver,
    #[schemars(range(min = 1))]
    pub connections: usize,
    pub pid: u32,
    pub build: String,
    /// Missing kernel features.
    pub lacks: Vec<String>,
}

/// The warm-up is over and the window begins.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measuring {
    pub schema: Version,
    pub event: MeasuringWord,
    pub role: LoadWord,
    pub monotonic_ns: u64,
}

/// A slice of the window is over.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    pub schema: Version,
    pub event: IntervalWord,
    pub role: LoadWord,
    /// Which one it is, from 0.
    pub index: u64,
    pub begin_ns: u64,
    /// The last one may be shorter than the others.
    pub end_ns: u64,
    pub correct: u64,
    pub wrong: u64,
    pub failed: u64,
    /// Correct replies a second.
    #[schemars(range(min = 0.0))]
    pub rate_per_s: f64,
    /// As in the report.
    pub latency_ns: Latency,
}

/// The window has ended.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub schema: Version,
    pub event: MeasuredWord,
    pub role: LoadWord,
    pub monotonic_ns: u64,
}

/// An event of a load generator, for the process that started it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum LoadEvent {
    Ready(LoadReady),
    Measuring(Measuring),
    Interval(Box<Interval>),
    Measured(Measured),
    Report(Box<Report>),
    Failed(Failed),
}

/// The process failed.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    pub schema: Version,
    pub event: FailedWord,
    pub role: Role,
    /// A word for programs.
    pub kind: String,
    /// One line for people, that says what to do.
    pub message: String,
    /// If connections of a load generator could not be opened: the first one, and its error.
    #[serde(default)]
    pub first_failure: Option<FirstFailure>,
}
