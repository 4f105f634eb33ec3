//! Fuzz functions for disk images whose boot partition the builder changes.

use std::path::Path;

use landfall_ext4::FileSystem;

/// In bytes: the maximum size of a file that is read.
const LIMIT: u64 = 1 << 20;

/// Opens an ext4 file system, reads it, and changes it as the builder does. The
/// features with checksums are disabled first, because a fuzzer cannot guess a
/// checksum.
pub fn ext4(data: &[u8]) {
    let mut data = data.to_vec();
    // s_feature_ro_compat: metadata_csum and gdt_csum.
    if let Some(features) = data.get_mut(1024 + 0x64..1024 + 0x66) {
        features[0] &= !0x10;
        features[1] &= !0x04;
    }
    let len = data.len() as u64;
    let Ok(mut files) = FileSystem::open(&data[..], len) else {
        return;
    };
    for path in ["loader/entries", ".", "grub2"] {
        let path = Path::new(path);
        for name in files.names(path).unwrap_or_default() {
            let path = path.join(name);
            if let Ok(content) = files.read(&path, LIMIT) {
                assert!(content.len() as u64 <= LIMIT);
            }
            let _ = files.kind(&path);
        }
    }
    let content = vec![b'#'; 3000];
    let _ = files.replace(Path::new("loader/entries/a.conf"), &content);
    let _ = files.replace(Path::new("grub2/grub.cfg"), b"short");
    let _ = files.make_directory(Path::new("new"), 0o755);
    let _ = files.create(Path::new("new/file"), 0o600, &content);
    for (at, block) in files.changes() {
        assert!(at + block.len() as u64 <= len, "beyond the end");
    }
}
