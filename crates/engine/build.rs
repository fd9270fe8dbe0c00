//! Computes the build id and passes it to the compiler, so that the binary knows its sources.

#[path = "build/sources.rs"]
mod sources;

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for watched in ["crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rustc-env=IOLAB_BUILD={}", sources::build_id(&root)?);
    Ok(())
}
