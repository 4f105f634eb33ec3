//! The file systems of media that the agent reads.

use landfall_media_formats::Medium;
use landfall_media_formats::iso9660::VOLUME_OFFSET;
use std::io::Cursor;

/// The first byte chooses between a FAT file system and an ISO. The input of an ISO
/// starts at its first volume descriptor, because the reader ignores everything
/// before it.
pub fn medium(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let mut image = Vec::new();
    if choice % 2 == 1 {
        image.resize(VOLUME_OFFSET as usize, 0);
    }
    image.extend_from_slice(data);
    let Ok(Some(mut medium)) = Medium::open(Cursor::new(image)) else {
        return;
    };
    let _ = (medium.label().len(), medium.publisher());
    for path in ["parameters.txt", "etc/a/b.conf"] {
        if let Ok(Some(bytes)) = medium.read(path, 1 << 16) {
            assert!(bytes.len() <= 1 << 16);
        }
    }
    let _ = medium.files("etc/a");
}
