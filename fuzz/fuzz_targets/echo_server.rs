//! Any bytes, however split, get the same replies from the echo server: a prefix of what was sent.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::echo_server(data));
