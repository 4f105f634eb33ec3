use std::io::Cursor;

use super::*;
use crate::compress::tests::{archive, gzip, long_data, xz};
use crate::compress::{Compression, pack, padding_after, stored_frame};

const LEVEL_1: Compression = Compression::Zstd { level: 1 };

fn check(bytes: &[u8]) -> Result<Vec<Packing>, WholeError> {
    check_whole(Cursor::new(bytes), 0..bytes.len() as u64)
}

/// What `lz4 -l` writes.
fn lz4(blocks: &[&[u8]]) -> Vec<u8> {
    let mut bytes = LZ4_MAGIC.to_vec();
    for block in blocks {
        bytes.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(block);
    }
    bytes
}

/// A frame that announces the size of its content, and has no checksum and no window.
fn single_segment(data: &[u8]) -> Vec<u8> {
    let frame = zstd::bulk::compress(data, 1).unwrap();
    assert!(frame[4] & 1 << 5 != 0);
    frame
}

/// Whether only padding lies between this offset and a member of a cpio archive.
fn is_before_member(bytes: &[u8], offset: usize) -> bool {
    let next = offset.next_multiple_of(4).min(bytes.len());
    let padding = &bytes[offset..next];
    padding.iter().all(|&byte| byte == 0) && Packing::of(&bytes[next..]) == Some(Packing::None)
}

#[test]
fn each_packing_is_complete_only_with_its_last_byte() {
    let cpio = archive("a");
    let long = long_data();
    // Some tools write checksums of the content, which the kernel skips.
    let text = String::from_utf8(cpio.clone()).unwrap();
    let with_checksums = text.replace("070701", "070702").into_bytes();
    for (packing, bytes) in [
        (Packing::None, cpio.clone()),
        (Packing::None, with_checksums),
        (Packing::Zstd, pack(LEVEL_1, &cpio).unwrap()),
        (Packing::Zstd, pack(LEVEL_1, &long[..1 << 20]).unwrap()),
        // Blocks that repeat one byte.
        (Packing::Zstd, pack(LEVEL_1, &vec![b'x'; 1 << 20]).unwrap()),
        (Packing::Zstd, single_segment(&cpio)),
        (Packing::Zstd, single_segment(&long[..100_000])),
        (Packing::Zstd, stored_frame(&cpio, b"end")),
        (Packing::Gzip, gzip(&cpio)),
        (Packing::Gzip, gzip(&long[..100_000])),
        (Packing::Xz, xz(&cpio)),
        (Packing::Xz, xz(&long[..100_000])),
        (Packing::Lz4, lz4(&[b"block"])),
    ] {
        assert_eq!(check(&bytes).unwrap(), [packing]);
        // Cuts the archive at every length, or at some lengths if it is long.
        let step = bytes.len() / 500 + 1;
        let lengths = (7..bytes.len()).step_by(step).chain([bytes.len() - 1]);
        for length in lengths.filter(|&length| !is_before_member(&bytes, length)) {
            let error = check(&bytes[..length]).unwrap_err();
            let is_cut = matches!(&error, WholeError::Broken { offset: 0, source, .. }
                if source.to_string().ends_with("it is cut off -- copy or build it again"));
            assert!(is_cut, "{packing}, {length} of {}: {error:?}", bytes.len());
        }
    }
}

#[test]
fn a_cpio_archive_at_the_end_needs_no_trailer() {
    let whole = archive("a");
    let member = whole.len() - newc::TRAILER_LEN;
    // The content has three bytes, so the member ends with a zero.
    for length in [member, member - 1] {
        let without = &whole[..length];
        assert_eq!(check(without).unwrap(), [Packing::None]);
        // An archive without a trailer may also precede another archive: the kernel
        // continues with the other archive.
        let mut more = without.to_vec();
        more.resize(length.next_multiple_of(4), 0);
        more.extend(&whole);
        assert_eq!(check(&more).unwrap(), [Packing::None]);
        // A file whose end became zeros.
        let zeros = [without, &[0; 400]].concat();
        assert!(check(&zeros).is_err());
    }
    assert!(check(&whole[..member - 2]).is_err());
    assert!(check(&whole[..member + 1]).is_err());
}

#[test]
fn every_archive_of_a_ramdisk_is_checked() {
    // Microcode, the ramdisk, its padding, and what was appended.
    let mut bytes = archive("kernel/x86/microcode/GenuineIntel.bin");
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes.extend(pack(LEVEL_1, &archive("init")).unwrap());
    bytes.extend(padding_after(LEVEL_1, bytes.len() as u64));
    bytes.extend(gzip(&archive("config.ign")));
    bytes.extend([0; 5]);
    bytes.extend(xz(&archive("a")));
    bytes.extend([0; 3]);
    bytes.extend(lz4(&[b"one", b"two"]));
    bytes.extend([0; 6]);
    bytes.extend(archive("b"));
    let end = bytes.len();
    bytes.extend([0; 20_000]);
    let expected = [
        Packing::None,
        Packing::Zstd,
        Packing::Zstd,
        Packing::Gzip,
        Packing::Xz,
        Packing::Lz4,
        Packing::None,
    ];
    let first = bytes.len() % 4;
    for skipped in [0, first] {
        assert_eq!(check(&bytes[..bytes.len() - skipped]).unwrap(), expected);
    }
    assert!(check(&bytes[..end - 1]).is_err());
    // The same ramdisk inside a larger file, such as an ISO.
    let around = [b"before".as_slice(), &bytes, b"after"].concat();
    let place = 6..6 + bytes.len() as u64;
    assert_eq!(check_whole(Cursor::new(&around), place).unwrap(), expected);
    let place = 6..6 + (end as u64) - 1;
    assert!(check_whole(Cursor::new(&around), place).is_err());
}

#[test]
fn a_place_behind_the_end_of_the_file_is_a_cut() {
    let bytes = archive("a");
    let end = bytes.len() as u64;
    for place in [0..end + 1, end..end + 1, end + 5..end + 9] {
        let error = check_whole(Cursor::new(&bytes), place.clone()).unwrap_err();
        assert!(matches!(error, WholeError::Io(_)), "{place:?}: {error:?}");
    }
    assert_eq!(check_whole(Cursor::new(&bytes), end..end).unwrap(), []);
}

#[test]
fn the_walk_ends_at_bzip2_lzma_and_lzo() {
    for (magic, packing) in [
        (&b"BZh9"[..], Packing::Bzip2),
        (&b"]\0\0\x80\0"[..], Packing::Lzma),
        (&b"\x89LZO\0\r\n"[..], Packing::Lzo),
    ] {
        let alone = [magic, b"any bytes"].concat();
        assert_eq!(check(&alone).unwrap(), [packing]);
        let microcode = archive("a");
        let both = [microcode.as_slice(), &[0; 4], &alone].concat();
        assert_eq!(check(&both).unwrap(), [Packing::None, packing]);
        // The check also covers the archive that precedes `alone`. The file must not
        // end before `place` ends.
        let cut = [&microcode[..50], &alone].concat();
        assert!(check(&cut).is_err());
        let place = 0..both.len() as u64 + 1;
        assert!(check_whole(Cursor::new(&both), place).is_err());
    }
}

/// The kernel reserves as much memory as an archive requests (`XZ_DYNALLOC`).
#[test]
fn a_dictionary_above_the_limit_is_no_cut() {
    let mut bytes = xz(&archive("a"));
    // The header of the block: its length, the flags, the filter LZMA2 with the size of its
    // dictionary, padding, a CRC32 (xz-file-format.txt, 3.1 and 5.3.1).
    assert_eq!(bytes[12..17], [2, 0, 0x21, 1, 28]);
    // 96 MiB, 128 MiB.
    for (size, is_allowed) in [(29, true), (30, false)] {
        bytes[16] = size;
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[12..20]);
        bytes[20..24].copy_from_slice(&crc.sum().to_le_bytes());
        match check(&bytes) {
            Ok(found) => assert!(is_allowed && found == [Packing::Xz]),
            Err(error) => {
                let expected = "ramdisk at byte 0: expected an xz archive that unpacks in 128 MiB of memory, found a larger dictionary -- ";
                assert!(error.to_string().starts_with(expected), "{error}");
                assert!(!is_allowed);
            }
        }
    }
}

/// An archive whose header states this length for the first name.
fn with_name_size(digits: &[u8; 8]) -> Vec<u8> {
    let mut bytes = archive("a");
    bytes[94..102].copy_from_slice(digits);
    bytes
}

#[test]
fn invalid_archives_are_rejected() {
    let behind = |more: &[u8]| [archive("a").as_slice(), more].concat();
    for (bytes, expected) in [
        (b"hello".to_vec(), "byte 0: expected zeros or an archive"),
        (behind(b"old bytes"), "found `old by`"),
        (behind(b"0707"), "found `0707`"),
        // A reserved type of block.
        (
            [ZSTD_MAGIC.as_slice(), &[0, 0, 0x07, 0, 0]].concat(),
            "byte 0: expected a complete zstd archive",
        ),
        (
            with_name_size(b"00002000"),
            "expected a complete cpio archive",
        ),
    ] {
        let error = check(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let mut damaged = gzip(&archive("a"));
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    assert!(check(&damaged).is_err());
}
