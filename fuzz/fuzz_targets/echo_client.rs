//! The echo client finds damaged replies, however split, correct exactly where they are.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::echo_client(data));
