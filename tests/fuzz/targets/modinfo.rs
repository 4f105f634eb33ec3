#![no_main]

use landfall_initramfs::modinfo::ModInfo;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = ModInfo::parse(data).kernel_release();
    let _ = ModInfo::of_elf(data);
});
