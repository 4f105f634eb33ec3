//! Kernel modules, their index, and the archive that holds them.

use landfall_initramfs::modinfo::ModInfo;
use landfall_initramfs::newc::Reader;
use landfall_module_index::{Index, IndexContent};

pub fn modinfo(data: &[u8]) {
    let _ = ModInfo::parse(data).kernel_release();
    let _ = ModInfo::of_elf(data);
}

pub fn module_index(data: &[u8]) {
    // The first line is a modalias to look up in the index after it.
    let text = String::from_utf8_lossy(data);
    let (alias, text) = text.split_once('\n').unwrap_or(("", &text));
    let Ok(content) = IndexContent::parse(text) else {
        return;
    };
    let Ok(written) = content.to_text() else {
        panic!("what was read cannot be written");
    };
    assert_eq!(IndexContent::parse(&written).as_ref(), Ok(&content));
    let index = Index::new(content);
    let _ = index.resolve(alias);
    let _ = index.load_order(index.modules_for(alias));
    let _ = index.load_order(index.modules().map(|(id, _)| id));
}

pub fn newc(data: &[u8]) {
    let mut reader = Reader::new(data);
    for entry in reader.by_ref().flatten() {
        assert!(entry.data.len() <= data.len());
        let _ = entry.is_file();
    }
    assert!(reader.consumed() <= data.len());
}
