#![no_main]

use landfall_initramfs::newc::Reader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data);
    for entry in reader.by_ref().flatten() {
        assert!(entry.data.len() <= data.len());
        let _ = entry.is_file();
    }
    assert!(reader.consumed() <= data.len());
});
