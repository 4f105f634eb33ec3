#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| landfall_untrusted_input::nvme_tcp_answer(data));
