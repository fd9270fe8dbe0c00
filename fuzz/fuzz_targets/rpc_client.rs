//! Replies with any damage, cut in any way, are judged alike by the rpc client.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::rpc_client(data));
