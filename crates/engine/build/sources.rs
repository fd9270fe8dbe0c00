//! The build id, which identifies the sources of a binary. `docs/contract.md` defines it; the lab computes it too.

use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

const ENDINGS: [&str; 4] = ["Cargo.toml", ".rs", ".c", ".h"];

/// The first 16 hexadecimal digits of the SHA-256 over the engine's sources in the checkout at `root`.
///
/// # Errors
/// If a source cannot be read, or its path is not UTF-8.
pub(crate) fn build_id(root: &Path) -> io::Result<String> {
    let mut paths = vec!["Cargo.toml".to_owned(), "Cargo.lock".to_owned()];
    collect(root, "crates", &mut paths)?;
    paths.sort_unstable();
    let mut hash = Sha256::new();
    for path in paths {
        let contents = fs::read(root.join(&path))?;
        hash.update(path.as_bytes());
        hash.update(format!("\0{}\0", contents.len()));
        hash.update(&contents);
    }
    Ok(hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Adds every `Cargo.toml`, `*.rs`, `*.c` and `*.h` below `folder`. Paths are joined with `/` on every platform,
/// because they are part of the hash.
fn collect(root: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| io::Error::other(format!("{name:?} is not UTF-8")))?;
        let path = format!("{folder}/{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(root, &path, paths)?;
        } else if kind.is_file() && ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            paths.push(path);
        }
    }
    Ok(())
}
