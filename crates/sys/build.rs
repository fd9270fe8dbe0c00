//! Looks for libevent. Where it is not found this crate is built without, and says so when it is asked for it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where distributions put libraries, for where `pkg-config` is not installed.
const PLACES: [&str; 5] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];

/// Linked into the program where it is there, so that the program needs no library where it runs.
const STATIC: (&str, &str) = ("static", "libevent_core.a");
const SHARED: (&str, &str) = ("dylib", "libevent_core.so");

fn main() {
    println!("cargo::rustc-check-cfg=cfg(libevent)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    // A library of this machine does not fit a program for another.
    if env::var_os("CARGO_FEATURE_LIBEVENT").is_none() || env::var_os("HOST") != env::var_os("TARGET") {
        return;
    }
    let places: Vec<PathBuf> = of_pkg_config().into_iter().chain(PLACES.map(PathBuf::from)).collect();
    let found = [STATIC, SHARED].into_iter().find_map(|(kind, name)| {
        let place = places.iter().find(|place| place.join(name).exists())?;
        Some((kind, place.join(name)))
    });
    match found {
        Some((kind, file)) => link(kind, &file),
        // Files that are missing have cargo look again at the next build.
        None => places.iter().for_each(|place| watch(&place.join(STATIC.1))),
    }
}

fn link(kind: &str, file: &Path) {
    let place = file.parent().expect("a file is in a directory");
    watch(file);
    println!("cargo::rustc-link-search=native={}", place.display());
    println!("cargo::rustc-link-lib={kind}=event_core");
    println!("cargo::rustc-cfg=libevent");
}

fn watch(file: &Path) {
    println!("cargo::rerun-if-changed={}", file.display());
}

fn of_pkg_config() -> Option<PathBuf> {
    let output = Command::new("pkg-config").args(["--variable=libdir", "libevent_core"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().into())
}
