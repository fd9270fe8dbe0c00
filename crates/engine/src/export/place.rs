//! A file that is written whole: beside its place first, and then into it in one step. Whatever happens meanwhile, what
//! lies there is an earlier file or this one, never a part of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process;

/// Whether a file can be put here. What is neither a plain file nor absent, such as a device, a pipe or a link, has to
/// be written itself, and so has a plain file in a folder in which none can be made.
///
/// # Errors
/// A plain file that this user may not write.
pub(super) fn can_be_taken(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => drop(OpenOptions::new().write(true).open(path)?),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        _ => return Ok(false),
    }
    let beside = beside(path);
    Ok(File::create_new(&beside).and_then(|_| fs::remove_file(&beside)).is_ok())
}

/// Whether two paths are of one file, be it there already or not.
pub(super) fn is_one(path: &Path, other: &Path) -> bool {
    match (fs::metadata(path), fs::metadata(other)) {
        _ if path == other => true,
        // Whatever all write to, such as a device, takes the words of each.
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => whole(path).is_some_and(|path| whole(other) == Some(path)),
        _ => false,
    }
}

/// The path of a file that is not there, through no link; none where its folder is not there either.
fn whole(path: &Path) -> Option<PathBuf> {
    // A link that leads nowhere makes what it names once it is written to.
    let target = fs::read_link(path).map_or_else(|_| path.to_owned(), |target| path.with_file_name(target));
    // A name by itself has no folder.
    let here = Path::new(".").join(&target);
    Some(fs::canonicalize(here.parent()?).ok()?.join(target.file_name()?))
}

/// Puts a file with this text here. It has the rights of the one that was here, as if that had been written anew.
///
/// # Errors
/// A disk without room, a folder that is gone: what was here then still is.
pub(super) fn take(path: &Path, text: &str) -> io::Result<()> {
    let beside = beside(path);
    // A file that is mounted by itself cannot be replaced.
    let put = || fs::rename(&beside, path).or_else(|_| fs::write(path, text));
    let taken = write_new(&beside, text, path).and_then(|()| put());
    // It is there only where something has failed.
    let _ = fs::remove_file(&beside);
    taken
}

fn write_new(beside: &Path, text: &str, path: &Path) -> io::Result<()> {
    let mut file = File::create_new(beside)?;
    file.write_all(text.as_bytes())?;
    if let Ok(there) = fs::metadata(path) {
        // Who may not give a file away writes their own.
        let _ = chown(beside, Some(there.uid()), Some(there.gid()));
        file.set_permissions(there.permissions())?;
    }
    Ok(())
}

/// A name in the same folder, and so on the same disk, that no other process takes.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", process::id()))
}
