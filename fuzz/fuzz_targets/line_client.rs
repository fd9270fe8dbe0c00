//! The line client finds a reply correct exactly if it is the right line, however the stream is damaged and split.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::line_client(data));
