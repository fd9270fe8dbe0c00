//! The rpc client gives the same verdict on damaged replies, however they are split.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::rpc_client(data));
