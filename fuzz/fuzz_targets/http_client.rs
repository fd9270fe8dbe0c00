//! The HTTP client gives the same verdict on any bytes, however split, whether it is new or has a template, and whether
//! it requested pages or their heads.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::invariants::http_client(data));
