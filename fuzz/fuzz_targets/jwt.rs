#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lease_broker::fuzzing::jwt(data));
