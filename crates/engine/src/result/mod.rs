//! The results of a load: its report, its validity, and the summary for people.

pub(crate) mod report;
pub(crate) mod summary;
pub(crate) mod validity;
