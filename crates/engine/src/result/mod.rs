//! What a load has shown: its report, how far to trust it, and the summary for people.

pub(crate) mod report;
pub(crate) mod summary;
pub(crate) mod validity;
