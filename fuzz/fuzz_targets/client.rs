#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctxfs_fuzz::client(data));
