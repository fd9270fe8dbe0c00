//! Replies with any damage, cut in any way, are found correct by the line client just where they are.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::line_client(data));
