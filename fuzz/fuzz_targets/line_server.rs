//! Any bytes, cut in any way, get the same replies from the line server: the beginning of what was sent.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::line_server(data));
