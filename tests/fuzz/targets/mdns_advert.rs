#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| landfall_fuzz::mdns_advert(data));
