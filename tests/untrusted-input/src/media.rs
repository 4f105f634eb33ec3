//! Fuzz functions for the file systems of media that the agent reads, and for the ISOs
//! that the builder reads.

use landfall_initramfs::compress::unpack_segments;
use landfall_initramfs::newc::Reader;
use landfall_media_formats::Medium;
use landfall_media_formats::areas::Areas;
use landfall_media_formats::iso9660::{Iso, VOLUME_OFFSET};
use std::io::Cursor;

/// Reads a medium. The first byte chooses between a FAT file system and an ISO. The
/// input of an ISO starts at its first volume descriptor, because the reader ignores
/// everything before it.
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

/// Reads an ISO of the builder as `landfall-image inspect` does. The input starts at
/// the first volume descriptor, because the reader ignores everything before it.
pub fn iso_areas(data: &[u8]) {
    /// In bytes: the limit for unpacking an area.
    const LIMIT: usize = 1 << 20;
    let mut image = vec![0; VOLUME_OFFSET as usize];
    image.extend_from_slice(data);
    let Ok(mut iso) = Iso::open(Cursor::new(&image)) else {
        return;
    };
    let Ok((areas, places)) = Areas::of(&mut iso) else {
        return;
    };
    assert_eq!(places.kargs.size, areas.kargs.size as u64);
    if let Ok(file) = areas.kargs.read(&mut iso) {
        let arguments = areas.kargs.arguments(&file).unwrap_or_default();
        if let Ok(written) = areas.kargs.file(arguments) {
            assert_eq!(written.len(), areas.kargs.size);
            assert_eq!(areas.kargs.arguments(&written), Some(arguments));
        }
    }
    for area in [&areas.embed].into_iter().chain(&areas.ignition) {
        let Ok(bytes) = area.read(&mut iso) else {
            continue;
        };
        assert_eq!(bytes.len() as u64, area.size);
        let Ok(segments) = unpack_segments(&bytes, LIMIT) else {
            continue;
        };
        let unpacked: usize = segments.iter().map(|segment| segment.archive.len()).sum();
        assert!(unpacked <= LIMIT);
        for segment in &segments {
            assert!(segment.offset + segment.stored <= bytes.len());
            assert!(Reader::new(&segment.archive).count() <= LIMIT);
        }
    }
}
