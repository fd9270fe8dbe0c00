//! Any content in chunks with any extension comes back, or is refused if the extension is malformed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::http_echo(data));
