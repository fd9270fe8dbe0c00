//! Any bytes, cut in any way, are judged alike by the HTTP client, whether it is new or has a template, and whether it
//! has asked for pages or for their heads.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::http_client(data));
