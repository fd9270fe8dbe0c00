//! A supervised process: it is given its work as one line of JSON and never outlives whoever gave it.

use std::io::{self, BufRead, Read};
use std::os::unix::process::parent_id;
use std::process::{self, ExitCode};
use std::thread;

use contract::{Failed, FailedWord, Role, Spec, Version};

use crate::failure::Failure;
use crate::output;
use crate::spec::limits::SPEC_BYTES_MAX;

/// Whether a process works by hand or for a program; it decides where its news and its failures go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Person,
    Program,
}

/// Reads the spec, and from then on dies with the parent.
///
/// # Errors
/// A spec that is wrong, too long, not text, or never comes; a parent that is already gone.
pub(crate) fn read_spec<T: Spec>() -> Result<T, Failure> {
    contract::read(&spec_line()?).map_err(|error| {
        let message = format!("the spec is invalid: {error}; docs/contract.md describes it");
        Failure::request("bad_spec", message)
    })
}

fn spec_line() -> Result<String, Failure> {
    sys::process::die_with_parent(parent_id())?;
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(SPEC_BYTES_MAX)
        .read_line(&mut line)
        .map_err(|error| Failure::request("bad_spec", format!("cannot read the spec: {error}")))?;
    if !line.ends_with('\n') && line.len() as u64 == SPEC_BYTES_MAX {
        let message = format!("the spec is longer than {SPEC_BYTES_MAX} bytes; it must be one line of JSON");
        return Err(Failure::request("bad_spec", message));
    }
    if line.trim().is_empty() {
        let message =
            "no spec on standard input: --spec - reads one line of JSON, described in docs/contract.md";
        return Err(Failure::request("bad_spec", message));
    }
    Ok(line)
}

/// From here on a supervised process calls `answer` with each line that comes on standard input, and when that ends it
/// calls `last` and ends itself.
///
/// It is called once the spec has been checked, so that what is wrong with it is told even to somebody who ends
/// the input at once.
///
/// # Errors
/// Where there is no room for another thread.
pub(crate) fn answer_input(
    answer: impl Fn(&[u8]) + Send + 'static,
    last: impl FnOnce() + Send + 'static,
) -> Result<(), Failure> {
    thread::Builder::new().name("supervision".into()).spawn(move || {
        // An error means that the input is gone, too.
        io::stdin().lock().split(b'\n').map_while(Result::ok).for_each(|line| answer(&line));
        last();
        process::exit(0);
    })?;
    Ok(())
}

/// From here on a process that a person has started calls `last` and ends when it is asked to, by Ctrl-C or `kill`.
///
/// # Errors
/// Where there is no room for another thread.
pub(crate) fn end_with_signal(last: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    sys::process::hold_termination()?;
    thread::Builder::new().name("supervision".into()).spawn(move || {
        sys::process::wait_for_termination();
        last();
        process::exit(0);
    })?;
    Ok(())
}

/// Tells whoever started this process how it ended.
pub(crate) fn finish(outcome: Result<(), Failure>, owner: Owner, role: Role) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match owner {
                Owner::Person => output::say(&failure.line()),
                Owner::Program => output::line(&contract::line(&Failed {
                    schema: Version,
                    event: FailedWord::Is,
                    role,
                    kind: failure.kind.to_owned(),
                    message: failure.message.clone(),
                    first_failure: failure.first_failure,
                })),
            }
            failure.exit_code()
        }
    }
}
