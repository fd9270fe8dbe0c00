//! A file that is written as a whole: to a temporary file first, which then replaces it atomically. At any time the
//! path holds an earlier file or the new one, never a part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process;

/// Whether a file at this path can be replaced. False for anything but a plain or absent file, such as a device, a pipe
/// or a link, and for files in a folder where none can be created: these are written directly.
///
/// # Errors
/// If it is a plain file that this user may not write.
pub(super) fn can_be_taken(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => drop(OpenOptions::new().write(true).open(path)?),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        _ => return Ok(false),
    }
    let beside = beside(path);
    Ok(File::create_new(&beside).and_then(|_| fs::remove_file(&beside)).is_ok())
}

/// Whether two paths lead to the same file, even if it does not exist yet.
pub(super) fn is_one(path: &Path, other: &Path) -> bool {
    match (fs::metadata(path), fs::metadata(other)) {
        _ if path == other => true,
        // Several outputs can share a device.
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => whole(path).is_some_and(|path| whole(other) == Some(path)),
        _ => false,
    }
}

/// The absolute path of a missing file, with links resolved. None if its folder does not exist either.
fn whole(path: &Path) -> Option<PathBuf> {
    // Writing to a dangling link creates its target.
    let target = fs::read_link(path).map_or_else(|_| path.to_owned(), |target| path.with_file_name(target));
    // A bare name has no folder.
    let here = Path::new(".").join(&target);
    Some(fs::canonicalize(here.parent()?).ok()?.join(target.file_name()?))
}

/// Writes the text to this path, with the owner and permissions of the file that was there.
///
/// # Errors
/// A full disk, or a missing folder. The earlier file then stays.
pub(super) fn take(path: &Path, text: &str) -> io::Result<()> {
    let beside = beside(path);
    // A file that is a mount point cannot be replaced.
    let put = || fs::rename(&beside, path).or_else(|_| fs::write(path, text));
    let taken = write_new(&beside, text, path).and_then(|()| put());
    // Left over only after an error.
    let _ = fs::remove_file(&beside);
    taken
}

fn write_new(beside: &Path, text: &str, path: &Path) -> io::Result<()> {
    let mut file = File::create_new(beside)?;
    file.write_all(text.as_bytes())?;
    if let Ok(there) = fs::metadata(path) {
        // Without the privilege to change the owner, the file is this user's.
        let _ = chown(beside, Some(there.uid()), Some(there.gid()));
        file.set_permissions(there.permissions())?;
    }
    Ok(())
}

/// A name in the same folder, and so on the same file system, that no other process uses.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", process::id()))
}
