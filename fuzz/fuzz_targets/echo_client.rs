//! Replies with any damage, cut in any way, are found correct by the echo client just where they are.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::echo_client(data));
