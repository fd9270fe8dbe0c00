//! The echo client finds a reply correct exactly if it equals its request, however the stream is damaged and split.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::echo_client(data));
