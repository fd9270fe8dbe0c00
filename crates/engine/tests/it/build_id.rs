//! The build id of a tree small enough to check with `sha256sum`.

#[path = "../../build/sources.rs"]
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

/// `printf` of the seven sources in the format of `docs/contract.md`, through `sha256sum`.
const KNOWN: &str = "e3b2bb206cb36f3f";

#[test]
fn only_sources_count_in_the_order_of_their_paths() {
    let tree = tree("build-id-order");
    assert_eq!(sources::build_id(&tree).expect("it can be read"), KNOWN);
    write(&tree, "crates/a/README.md", "not a source");
    write(&tree, "README.md", "not a source");
    assert_eq!(sources::build_id(&tree).expect("it can be read"), KNOWN);
}

#[test]
fn a_change_of_contents_or_of_a_name_changes_it() {
    let tree = tree("build-id-change");
    write(&tree, "crates/a/src/lib.rs", "fn a() { }\n");
    let changed = sources::build_id(&tree).expect("it can be read");
    assert_ne!(changed, KNOWN);
    fs::rename(tree.join("crates/a/src/lib.rs"), tree.join("crates/a/src/main.rs")).expect("it is there");
    assert_ne!(sources::build_id(&tree).expect("it can be read"), changed);
}

#[test]
fn a_tree_without_its_lock_file_has_none() {
    let tree = tree("build-id-lock");
    fs::remove_file(tree.join("Cargo.lock")).expect("it is there");
    assert!(sources::build_id(&tree).is_err());
}

fn tree(name: &str) -> PathBuf {
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Left over from an earlier run, or missing.
    let _ = fs::remove_dir_all(&tree);
    write(&tree, "Cargo.toml", "[workspace]\n");
    write(&tree, "Cargo.lock", "version = 4\n");
    write(&tree, "crates/a/src/lib.rs", "fn a() {}\n");
    write(&tree, "crates/a/Cargo.toml", "[package]\n");
    write(&tree, "crates/a-b/src/lib.rs", "");
    write(&tree, "crates/a/vendor/c.c", "int c;\n");
    write(&tree, "crates/a/vendor/c.h", "extern int c;\n");
    tree
}

fn write(tree: &Path, path: &str, contents: &str) {
    let path = tree.join(path);
    fs::create_dir_all(path.parent().expect("it is in the tree")).expect("the target folder can be written");
    fs::write(path, contents).expect("the target folder can be written");
}
