//! The invariants, from the tests of the crate they are about: a seeded run of each is part of those tests.

#[path = "../../crates/proto/tests/it/drive.rs"]
pub mod drive;
#[path = "../../crates/proto/tests/it/invariants.rs"]
pub mod invariants;
