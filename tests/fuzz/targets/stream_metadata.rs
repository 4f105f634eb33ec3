#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| landfall_agent::fuzz_entry::stream_metadata(data));
