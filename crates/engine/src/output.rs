//! Standard output and standard error. A closed pipe ends the work; it is not a failure.

use std::io::{self, ErrorKind, Write};
use std::process;

use crate::failure::for_people;

/// Writes text and a line feed to standard output and flushes it.
///
/// If the reader has gone, the process ends quietly, because `| head` is a normal way to use it.
pub(crate) fn line(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            let reason = for_people(&error.to_string());
            say(&format!("error: cannot write to standard output: {reason}"));
            process::exit(1);
        }
        process::exit(0);
    }
}

/// Writes a line for people to standard error, and ignores errors.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
