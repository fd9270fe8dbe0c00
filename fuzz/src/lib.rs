//! The invariants from the tests of `proto`, where a seeded run of each is a test.

#[path = "../../crates/proto/tests/it/drive.rs"]
pub mod drive;
#[path = "../../crates/proto/tests/it/invariants.rs"]
pub mod invariants;
