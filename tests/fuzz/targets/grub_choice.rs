#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| landfall_agent::fuzz_entry::grub_choice(data));
