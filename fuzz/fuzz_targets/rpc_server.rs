//! Any bytes, however split, get the same replies from the rpc server, which never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::rpc_server(data));
