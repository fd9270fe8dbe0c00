//! Compiles libevent's event loop into the engine, so that its model needs no library.

use std::path::Path;

const FOLDER: &str = "vendor/libevent";

const SOURCES: [&str; 12] = [
    "epoll.c",
    "event.c",
    "evmap.c",
    "evthread.c",
    "evutil.c",
    "evutil_rand.c",
    "evutil_time.c",
    "log.c",
    "poll.c",
    "select.c",
    "signal.c",
    "strlcpy.c",
];

fn main() {
    println!("cargo::rerun-if-changed={FOLDER}");
    let folder = Path::new(FOLDER);
    cc::Build::new()
        .files(SOURCES.map(|name| folder.join(name)))
        .includes(["config", "include", "compat", ""].map(|name| folder.join(name)))
        .define("_GNU_SOURCE", None)
        .define("_FILE_OFFSET_BITS", "64")
        // Released upstream code: its warnings help nobody here.
        .warnings(false)
        .compile("event_core");
}
