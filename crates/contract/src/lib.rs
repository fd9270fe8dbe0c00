//! The data exchanged between an engine and the program that runs it: `docs/contract.md` in types.
//!
//! A document is a struct, and its fields are the JSON fields, in order. The schemas in `schema/` are generated from
//! these types. Unknown fields are refused, because an ignored field is a setting that was not measured.
//!
//! The load generator and the servers use these types themselves. None is parsed or written while requests are in
//! flight.

#![forbid(unsafe_code)]

mod address;
mod describe;
mod events;
mod first_failure;
mod json;
mod latency;
pub mod limits;
mod load;
mod measured;
mod path;
mod report;
mod serve;
mod version;
mod workload;

pub use self::address::Address;
pub use self::describe::{Description, DriverDescription, ModelDescription, OptionDescription};
pub use self::events::{Failed, Interval, LoadEvent, LoadReady, Measured, Measuring};
pub use self::first_failure::{ErrorsByPhase, FirstFailure, Phase, Saw};
pub use self::json::{Spec, line, pretty, read, reports, schemas};
pub use self::latency::Latency;
pub use self::load::{
    Arrivals, Driver, INTERVAL_MS_DEFAULT, LoadSpec, Opening, Pace, SEED_DEFAULT, Shard, Stage,
    TIMEOUT_MS_DEFAULT, Tls, Verification, WARMUP_MS_DEFAULT,
};
pub use self::measured::{Bytes, Errors, Generator, Intervals, Probe, Requests, Statuses, Times, Views};
pub use self::path::{Carried, MTU_DEFAULT, PathEnd, PathReady, PathReport, PathSpec, QUEUE_PACKETS_DEFAULT};
pub use self::report::{Bound, BoundBy, Report, Schedule};
pub use self::serve::{CONNECTIONS_MAX_DEFAULT, ServeReady, ServeSpec, Served, ServedWorker, WorkerKind};
pub use self::version::{
    FailedWord, IntervalWord, LoadWord, MeasuredWord, MeasuringWord, PathWord, ReadyWord, ReportWord, Role,
    ServeWord, ServedWord, Version,
};
pub use self::workload::{Echo, Framing, Http, Line, ReplyStatus, Rpc, Verify, Workload};

/// The default of numbers with a minimum of one.
fn one() -> usize {
    1
}

#[cfg(test)]
mod tests;
