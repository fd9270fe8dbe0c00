//! Events of a run by hand, on a pipe to the process that shows them.
//!
//! They never delay the run: what does not fit into the pipe at once is written later or dropped.

use std::fs::File;
use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// The pipe to the process that shows the run.
pub(crate) struct EventPipe {
    /// None after its reader has gone.
    pipe: Option<File>,
    /// The unwritten rest of the last line.
    left: Vec<u8>,
}

impl EventPipe {
    /// The pipe behind an inherited descriptor.
    ///
    /// # Errors
    /// If there is no such pipe.
    pub(crate) fn open(descriptor: u32) -> Result<Self, Failure> {
        let pipe = sys::pipe::inherited(descriptor).map_err(|error| {
            Failure::request("bad_flag", format!("--events-fd: descriptor {descriptor} is no pipe: {error}"))
        })?;
        Ok(Self { pipe: Some(pipe), left: Vec::new() })
    }

    /// Emits a line, completely or not at all.
    pub(crate) fn emit(&mut self, line: &str) {
        self.push();
        if self.left.is_empty() {
            self.left.extend_from_slice(line.as_bytes());
            self.left.push(b'\n');
            self.push();
        }
    }

    /// Writes what fits.
    fn push(&mut self) {
        while let (Some(pipe), false) = (&mut self.pipe, self.left.is_empty()) {
            match pipe.write(&self.left) {
                Ok(written) => drop(self.left.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}
