//! Why the engine gives up: whose fault it is, and one line that says what to do.

use std::io;
use std::process::ExitCode;

use contract::FirstFailure;

/// Whose fault a failure is, which is also its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It failed while working.
    Work = 1,
    /// The flags or the spec are wrong.
    Request = 2,
    /// This machine cannot do it. The number is EX_CONFIG of `sysexits.h`.
    Machine = 78,
}

/// A failure as the user and the lab see it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    /// A word for programs, such as `address_in_use`. `docs/contract.md` lists them.
    pub(crate) kind: &'static str,
    /// One line for people.
    pub(crate) message: String,
    /// If connections of a load could not be opened: the first one, and its error.
    pub(crate) first_failure: Option<FirstFailure>,
}

impl Failure {
    pub(crate) fn new(fault: Fault, kind: &'static str, message: impl Into<String>) -> Self {
        Self { fault, kind, message: message.into(), first_failure: None }
    }

    /// The request is wrong.
    pub(crate) fn request(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(Fault::Request, kind, message)
    }

    /// The request is valid, but this machine cannot fulfil it.
    pub(crate) fn machine(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(Fault::Machine, kind, message)
    }

    /// It failed while working.
    pub(crate) fn work(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(Fault::Work, kind, message)
    }

    /// An unknown word. Lists the known ones, and suggests the nearest if one is near.
    pub(crate) fn unknown<'a>(
        kind: &'static str,
        noun: &str,
        word: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let offer =
            nearest(word, known.clone()).map_or(String::new(), |near| format!("did you mean {near}? "));
        let list = known.collect::<Vec<_>>().join(", ");
        Self::request(kind, format!("{noun} `{word}` is not known; {offer}one of: {list}"))
    }

    /// The line as printed for people.
    pub(crate) fn line(&self) -> String {
        format!("error: {}", for_people(&self.message))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.fault as u8)
    }
}

/// Work on this machine failed, for the kernel's reason.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::Unsupported => Self::machine("unavailable", error.to_string()),
            _ => Self::work("failed", error.to_string()),
        }
    }
}

/// The kernel's message without its error number.
pub(crate) fn for_people(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_number, rest)| rest))
}

/// The known word that is a typing mistake away, if there is one: at most one edit per three letters, rounded up.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::osa_distance(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::{for_people, nearest};

    #[test]
    fn a_typing_mistake_finds_the_word_that_was_meant() {
        check("epol", Some("epoll"));
        check("EPOLL", Some("epoll"));
        check("iouring", Some("io_uring"));
        check("io-uring", Some("io_uring"));
        check("pol", Some("poll"));
    }

    #[test]
    fn a_word_that_is_far_from_all_finds_none() {
        check("nginx", None);
        check("", None);
        check("thread_per_core_runtime", None);
    }

    #[test]
    fn people_are_not_told_the_numbers_of_the_kernel() {
        assert_eq!(for_people("nothing listens"), "nothing listens");
        assert_eq!(for_people("it failed: No way (os error 101)"), "it failed: No way");
        assert_eq!(for_people("a: No (os error 1); b: No way (os error 101): go"), "a: No; b: No way: go");
    }

    fn check(word: &str, expected: Option<&str>) {
        let known = ["blocking", "epoll", "io_uring", "poll", "thread"];
        assert_eq!(nearest(word, known.into_iter()), expected, "nearest to {word:?}");
    }
}
