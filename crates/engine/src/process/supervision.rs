//! A supervised process gets its work as one line of JSON, and never outlives its parent.

use std::io::{self, BufRead, Read};
use std::os::unix::process::parent_id;
use std::process::{self, ExitCode};
use std::thread;

use contract::{Failed, FailedWord, Role, Spec, Version};

use crate::failure::Failure;
use crate::output;
use crate::spec::limits::SPEC_BYTES_MAX;

/// Who started the process, which decides the form of its events and failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Person,
    Program,
}

/// Reads the spec. From then on the process dies with its parent.
///
/// # Errors
/// If the spec is invalid, too long, not text or missing, or if the parent is already gone.
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

/// From here on a supervised process calls `answer` with each line of standard input. At its end it calls `last` and
/// exits.
///
/// Call it after the spec has been checked, so that errors in the spec are reported even if the input ends at once.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn answer_input(
    answer: impl Fn(&[u8]) + Send + 'static,
    last: impl FnOnce() + Send + 'static,
) -> Result<(), Failure> {
    thread::Builder::new().name("supervision".into()).spawn(move || {
        // An error means that the input has ended, too.
        io::stdin().lock().split(b'\n').map_while(Result::ok).for_each(|line| answer(&line));
        last();
        process::exit(0);
    })?;
    Ok(())
}

/// From here on a process started by a person calls `last` and exits on SIGINT or SIGTERM.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn end_with_signal(last: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    sys::process::hold_termination()?;
    thread::Builder::new().name("supervision".into()).spawn(move || {
        sys::process::wait_for_termination();
        last();
        process::exit(0);
    })?;
    Ok(())
}

/// Reports to the owner how this process ended.
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
