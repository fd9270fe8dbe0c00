//! The files that a run by hand writes besides its summary. The ending of a path selects the format, and each format is
//! a module here. `place.rs` puts files in place that are written as a whole.
//!
//! A path that cannot be written is refused before anything is sent. Each slice of the window is written as soon as it
//! is over, so a crash leaves what was measured. A file that is written only at the end replaces an earlier one as a
//! whole, and no file is emptied before there is something to write. A write that fails during the
//! run is reported at the end: the run is worth more than its copy.

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

/// Where to write, and in which format.
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
    /// Parses a path with a known ending.
    ///
    /// # Errors
    /// One line with the known endings.
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

    /// Whether its format has a row for each slice of the window.
    pub(crate) fn has_slices(&self) -> bool {
        !self.kind.is_whole()
    }
}

/// What a format can use at the end.
pub(crate) struct Ended<'a> {
    pub(crate) report: &'a Report,
    pub(crate) measured: &'a ::load::Report,
    /// The server as the user wrote it.
    pub(crate) subject: &'a str,
}

/// A file format. The returned text is written at once; by default there is none.
trait Form {
    /// Formats a slice of the window when it is over.
    fn slice(&mut self, _slice: &Interval) -> String {
        String::new()
    }

    /// Formats the end of the run.
    fn end(&mut self, _ended: &Ended<'_>) -> String {
        String::new()
    }
}

/// The files of a run. New files that are still empty are removed at the end.
pub(crate) struct Files(Vec<Output>);

struct Output {
    path: PathBuf,
    form: Box<dyn Form>,
    sink: Sink,
    /// The error after which nothing more is written to it.
    failure: Option<io::Error>,
}

/// How text reaches the file.
enum Sink {
    /// Directly.
    Stream {
        file: File,
        /// Whether the file is new.
        is_new: bool,
        /// Whether the contents of an earlier run are gone.
        has_begun: bool,
    },
    /// Into a temporary file, which then replaces it.
    Place,
}

impl Files {
    /// Opens all files for writing. Earlier contents stay until there is something to write.
    ///
    /// # Errors
    /// `bad_flag`: one of them cannot be written, or is named twice.
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

    /// Writes a slice of the window.
    pub(crate) fn slice(&mut self, slice: &Slice) {
        if self.0.is_empty() {
            return;
        }
        // Built once for all files: percentiles and a packed histogram cost a millisecond on the generator's processor.
        let told = interval(slice);
        for output in &mut self.0 {
            let text = output.form.slice(&told);
            output.write(&text);
        }
    }

    /// Writes the end of the run.
    ///
    /// # Errors
    /// `write_failed`, with all files that could not be written completely.
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
                // It may have been removed already.
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
        // A device or a pipe has no earlier contents.
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
