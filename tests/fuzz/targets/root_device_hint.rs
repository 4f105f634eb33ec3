#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| landfall_untrusted_input::root_device_hint(data));
