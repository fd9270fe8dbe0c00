//! What a run by hand writes beside its summary: the ending of a path says in which form, and each form is a file here;
//! `place.rs` is how one that is written whole gets where it belongs.
//!
//! A path that cannot be written costs no run: that is said before anything is sent. Each slice of the window goes to
//! the kernel as soon as it is over, so that a crash leaves what was measured. What is written only at the end takes
//! the place of an earlier file as a whole, and no file is emptied before there is something to write. A file that
//! fails later is told of at the end: the run is worth more than its copy.

mod csv;
mod hlog;
mod json;
mod ndjson;
mod place;
mod svg;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::path::{Path, PathBuf};

use ::load::Slice;
use contract::{Interval, Report};

use self::csv::Csv;
use self::hlog::Hlog;
use self::json::Json;
use self::ndjson::Ndjson;
use self::svg::Svg;
use crate::failure::{Failure, for_people};
use crate::result::report::interval;

/// Where to write, and in which form.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Csv,
    Hlog,
    Json,
    Ndjson,
    Svg,
}

impl Kind {
    const ALL: [(Self, &str); 5] = [
        (Self::Csv, "csv"),
        (Self::Hlog, "hlog"),
        (Self::Json, "json"),
        (Self::Ndjson, "ndjson"),
        (Self::Svg, "svg"),
    ];

    /// Whether nothing is written before the end.
    const fn is_whole(self) -> bool {
        matches!(self, Self::Json | Self::Svg)
    }

    fn form(self) -> Box<dyn Form> {
        match self {
            Self::Csv => Box::new(Csv::default()),
            Self::Hlog => Box::new(Hlog::default()),
            Self::Json => Box::new(Json),
            Self::Ndjson => Box::new(Ndjson),
            Self::Svg => Box::new(Svg),
        }
    }
}

impl Target {
    /// Reads a path with one of the known endings.
    ///
    /// # Errors
    /// One line with the endings there are.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match Kind::ALL.iter().find(|(_, known)| ending.eq_ignore_ascii_case(known)) {
            Some(&(kind, _)) => Ok(Self { path, kind }),
            None => {
                let endings = Kind::ALL.map(|(_, known)| format!(".{known}")).join(", ");
                Err(format!("`{text}` does not say in which form: end it in one of {endings}"))
            }
        }
    }

    /// Whether it tells of each slice of the window.
    pub(crate) fn has_slices(&self) -> bool {
        !self.kind.is_whole()
    }
}

/// What a form may say at the end.
pub(crate) struct Ended<'a> {
    pub(crate) report: &'a Report,
    pub(crate) measured: &'a ::load::Report,
    /// The server as the user wrote it.
    pub(crate) subject: &'a str,
}

/// A way to write a run down. What it returns is written at once; the default is to say nothing.
trait Form {
    /// A slice of the window is over.
    fn slice(&mut self, _slice: &Interval) -> String {
        String::new()
    }

    /// The run is over.
    fn end(&mut self, _ended: &Ended<'_>) -> String {
        String::new()
    }
}

/// The files of a run. Those that it has made and not begun are removed again.
pub(crate) struct Files(Vec<Output>);

struct Output {
    path: PathBuf,
    form: Box<dyn Form>,
    sink: Sink,
    /// Why it was given up.
    failure: Option<io::Error>,
}

/// Where what is written goes.
enum Sink {
    /// Into the file itself.
    Stream {
        file: File,
        /// It was not there before.
        is_new: bool,
        /// What an earlier run has left is gone.
        has_begun: bool,
    },
    /// Into another file, which then takes its place.
    Place,
}

impl Files {
    /// Opens all files for writing. What was in them stays until there is something to write.
    ///
    /// # Errors
    /// `bad_flag`, where one of them cannot be written, or is named twice.
    pub(crate) fn open(targets: &[Target]) -> Result<Self, Failure> {
        let mut files = Self(Vec::new());
        for Target { path, kind } in targets {
            if let Some(twin) = files.0.iter().find(|output| place::is_one(&output.path, path)) {
                let mut message = format!("--write: {} is named twice", path.display());
                if twin.path != *path {
                    message += &format!(", also as {}", twin.path.display());
                }
                return Err(Failure::request("bad_flag", message));
            }
            let sink = Sink::open(path, *kind).map_err(|error| {
                let message = format!("--write: cannot write {}: {}", path.display(), reason(&error));
                Failure::request("bad_flag", message)
            })?;
            files.0.push(Output { path: path.clone(), form: kind.form(), sink, failure: None });
        }
        Ok(files)
    }

    /// A slice of the window is over.
    pub(crate) fn slice(&mut self, slice: &Slice) {
        if self.0.is_empty() {
            return;
        }
        // Made once for all: percentiles and a packed histogram cost the generator's processor a millisecond.
        let told = interval(slice);
        for output in &mut self.0 {
            let text = output.form.slice(&told);
            output.write(&text);
        }
    }

    /// The run is over.
    ///
    /// # Errors
    /// `write_failed`, with all files that could not be written to their end.
    pub(crate) fn end(&mut self, ended: &Ended<'_>) -> Result<(), Failure> {
        for output in &mut self.0 {
            let text = output.form.end(ended);
            output.write(&text);
        }
        let failed = |output: &Output| {
            let error = output.failure.as_ref()?;
            Some(format!("cannot write {}: {}", output.path.display(), reason(error)))
        };
        match self.0.iter().filter_map(failed).collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            some => Err(Failure::work("write_failed", some.join("; "))),
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for output in &self.0 {
            if let Sink::Stream { is_new: true, has_begun: false, .. } = output.sink {
                // Who has removed it meanwhile has done what is wanted here.
                let _ = fs::remove_file(&output.path);
            }
        }
    }
}

impl Output {
    fn write(&mut self, text: &str) {
        if self.failure.is_none() && !text.is_empty() {
            self.failure = self.sink.write(&self.path, text).err();
        }
    }
}

impl Sink {
    fn open(path: &Path, kind: Kind) -> io::Result<Self> {
        if kind.is_whole() && place::can_be_taken(path)? {
            return Ok(Self::Place);
        }
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => Ok(Self::Stream { file, is_new: true, has_begun: false }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
                Ok(Self::Stream { file, is_new: false, has_begun: false })
            }
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let Self::Stream { file, has_begun, .. } = self else { return place::take(path, text) };
        // A device or a pipe has nothing of an earlier run.
        if !mem::replace(has_begun, true) && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        file.write_all(text.as_bytes())
    }
}

/// The kernel's reason, without its number.
fn reason(error: &io::Error) -> String {
    for_people(&error.to_string())
}

#[cfg(test)]
mod tests;
