use super::packing::LZ4_MAGIC;
use super::*;
use crate::newc;
use liblzma::stream::{Check, Stream};
use std::io::Write as _;

pub(super) fn archive(name: &str) -> Vec<u8> {
    let mut writer = newc::Writer::new(Vec::new());
    writer
        .member(
            name,
            newc::Header {
                mode: 0o100_644,
                ..Default::default()
            },
            3,
            &b"abc"[..],
        )
        .unwrap();
    writer.finish().unwrap().0
}

pub(super) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn xz(data: &[u8]) -> Vec<u8> {
    let stream = Stream::new_easy_encoder(9, Check::Crc32).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Blocks as `lz4 -l` writes them.
fn lz4(data: &[u8]) -> Vec<u8> {
    let mut packed = LZ4_MAGIC.to_vec();
    for block in data.chunks(8 << 20) {
        let block = lz4_flex::block::compress(block);
        packed.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
        packed.extend(block);
    }
    packed
}

fn bzip2(data: &[u8]) -> Vec<u8> {
    let level = bzip2::Compression::fast();
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn lzma(data: &[u8]) -> Vec<u8> {
    let options = liblzma::stream::LzmaOptions::new_preset(1).unwrap();
    let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// 9 MB of data that is neither random nor constant.
pub(super) fn long_data() -> Vec<u8> {
    let mut state = 1u32;
    (0..9_000_000)
        .map(|n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if n.is_multiple_of(7) {
                (state >> 24) as u8
            } else {
                (n >> 10) as u8
            }
        })
        .collect()
}

#[test]
fn names() {
    for (text, expected) in [
        ("none", Compression::None),
        ("zstd", Compression::Zstd { level: 19 }),
        ("zstd:3", Compression::Zstd { level: 3 }),
    ] {
        assert_eq!(text.parse(), Ok(expected));
    }
    assert_eq!(Compression::Zstd { level: 3 }.to_string(), "zstd:3");
    for text in [
        "", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "gzip", "none:1", "zstd:x",
    ] {
        assert!(text.parse::<Compression>().is_err(), "{text}");
    }
}

#[test]
fn concatenated_archives_are_taken_apart() {
    let (a, b, c) = (archive("a"), archive("b"), archive("c"));
    let level_3 = Compression::Zstd { level: 3 };
    let mut file = pack(level_3, &a).unwrap();
    let first = file.len();
    file.extend(padding_after(level_3, first as u64));
    let second = file.len();
    file.extend_from_slice(&b);
    file.extend_from_slice(&[0; 4096]);
    let third = file.len();
    file.extend(pack(Compression::Zstd { level: 1 }, &c).unwrap());

    let segments = unpack_segments(&file, 1 << 20).unwrap();
    let expected = [(0, "zstd", &a), (second, "none", &b), (third, "zstd", &c)];
    assert_eq!(segments.len(), expected.len());
    for (segment, (offset, packing, archive)) in segments.iter().zip(expected) {
        assert_eq!(
            (segment.offset, segment.packing, &segment.archive),
            (offset, packing, archive)
        );
    }
    assert_eq!(segments[0].stored, first);
}

/// The archives that image-customization-controller appends (gzip) and that
/// coreos-installer writes (xz, preset 9).
#[test]
fn gzip_and_xz_end_where_their_stream_ends() {
    let (a, b, c) = (archive("a"), archive("b"), archive("c"));
    let (first, second) = (gzip(&a), xz(&b));
    let mut file = first.clone();
    file.extend_from_slice(&second);
    file.extend_from_slice(&[0; 5]);
    let third = file.len();
    file.extend_from_slice(&gzip(&c));
    file.extend_from_slice(&[0; 1000]);

    let found = unpack_segments(&file, 1 << 20).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|segment| {
            (
                segment.offset,
                segment.stored,
                segment.packing,
                &segment.archive,
            )
        })
        .collect();
    let expected = [
        (0, first.len(), "gzip", &a),
        (first.len(), second.len(), "xz", &b),
        (third, gzip(&c).len(), "gzip", &c),
    ];
    assert_eq!(found, expected);

    // Old bytes after a shorter overlay are an error for the kernel, too.
    file.extend_from_slice(b"old bytes");
    assert!(unpack_segments(&file, 1 << 20).is_err());
}

/// Compressions that other builders use. After lz4, zeros precede the next archive.
#[test]
fn lz4_bzip2_and_lzma_end_where_their_stream_ends() {
    let (a, b, c) = (archive("a"), archive("b"), archive("c"));
    let mut file = lz4(&a);
    file.extend([0; 4]);
    let second = file.len();
    file.extend(bzip2(&b));
    let third = file.len();
    file.extend(lzma(&c));
    file.extend([0; 100]);
    let last = file.len();
    // An archive without a trailer, and without zeros after it.
    file.extend(lz4(&c[..c.len() - newc::TRAILER_LEN]));

    let found = unpack_segments(&file, 1 << 20).unwrap();
    let names = |archive: &[u8]| {
        let names = newc::Reader::new(archive).map(|entry| entry.unwrap().name.to_owned());
        names.collect::<Vec<_>>()
    };
    let found: Vec<_> = found
        .iter()
        .map(|segment| (segment.offset, segment.packing, names(&segment.archive)))
        .collect();
    let expected = [
        (0, "lz4", names(&a)),
        (second, "bzip2", names(&b)),
        (third, "lzma", names(&c)),
        (last, "lz4", names(&c)),
    ];
    assert_eq!(found, expected);
}

/// Each block has one byte. With a separate buffer for each block, this test would clear
/// 190 GiB.
#[test]
fn tiny_blocks_of_lz4_share_a_buffer() {
    let a = archive("a");
    let mut file = LZ4_MAGIC.to_vec();
    for byte in a.iter().cycle().take(a.len() * 100) {
        file.extend([2, 0, 0, 0, 0x10, *byte]);
    }
    let found = unpack_segments(&file, 1 << 20).unwrap();
    assert_eq!(found[0].archive, a.repeat(100));
}

#[test]
fn zeros_alone_are_no_archive_and_no_fault() {
    assert_eq!(unpack_segments(&[0; 512], 10).unwrap(), []);
    assert_eq!(unpack_segments(&[], 10).unwrap(), []);
}

#[test]
fn limits_and_faults() {
    let bomb = pack(Compression::Zstd { level: 3 }, &vec![0; 5_000_000]).unwrap();
    for (file, expected) in [
        (bomb.clone(), "ramdisk unpacks to more than 1000 bytes"),
        (
            archive("a").repeat(5),
            "ramdisk unpacks to more than 1000 bytes",
        ),
        (
            bomb[..bomb.len() / 2].to_vec(),
            "ramdisk at byte 0: cannot unpack zstd",
        ),
        (
            gzip(&[0; 5_000_000]),
            "ramdisk unpacks to more than 1000 bytes",
        ),
        (
            xz(&[0; 5_000_000]),
            "ramdisk unpacks to more than 1000 bytes",
        ),
        (
            b"\x1f\x8bxxxx".to_vec(),
            "ramdisk at byte 0: cannot unpack gzip",
        ),
        (
            gzip(&archive("a"))[..40].to_vec(),
            "ramdisk at byte 0: cannot unpack gzip",
        ),
        (
            xz(&archive("a"))[..80].to_vec(),
            "ramdisk at byte 0: cannot unpack xz",
        ),
        (
            b"\x02\x21\x4c\x18xxxx".to_vec(),
            "ramdisk at byte 0: cannot unpack lz4",
        ),
        (
            b"]\0\0\x80xxxx".to_vec(),
            "ramdisk at byte 0: cannot unpack lzma",
        ),
        (
            b"BZh9xxxx".to_vec(),
            "ramdisk at byte 0: cannot unpack bzip2",
        ),
        (
            b"\x89LZO\0\r\n".to_vec(),
            "ramdisk at byte 0: expected a newc cpio archive, gzip, xz, zstd, lz4, bzip2 or lzma, found lzo",
        ),
        (
            lz4(&[0; 5_000_000]),
            "ramdisk unpacks to more than 1000 bytes",
        ),
        (
            b"\0\0\0\0hello".to_vec(),
            "ramdisk at byte 4: expected a newc cpio archive, gzip, xz, zstd, lz4, bzip2 or lzma, found `hello`",
        ),
    ] {
        let limit = if expected.contains("cannot unpack") {
            10_000_000
        } else {
            1000
        };
        assert_eq!(
            unpack_segments(&file, limit).unwrap_err().to_string(),
            expected
        );
    }
}

#[test]
fn padding_of_a_bare_archive_is_zeros() {
    let lengths = [0, 1, 2, 3, 4].map(|size| padding_after(Compression::None, size).len());
    assert_eq!(lengths, [0, 3, 2, 1, 0]);
}

/// Every byte of the file must belong to a frame, because zstd(1), which Ironic runs,
/// rejects all other bytes. The decoder of this test does the same.
#[test]
fn padding_after_zstd_is_a_frame_that_unpacks_to_zeros() {
    let level_3 = Compression::Zstd { level: 3 };
    let mut remainders = [false; 4];
    let data = long_data();
    for length in 0..64 {
        let archive = &data[..length];
        let mut file = pack(level_3, archive).unwrap();
        remainders[file.len() % 4] = true;
        file.extend(padding_after(level_3, file.len() as u64));
        assert_eq!(file.len() % 4, 0);
        let unpacked = zstd::decode_all(&file[..]).unwrap();
        assert_eq!(unpacked[..length], *archive);
        // The next archive in the unpacked file is also at a multiple of 4.
        let padding = &unpacked[length..];
        assert!(padding.is_empty() || padding == [0; 4], "{length}");
    }
    assert_eq!(remainders, [true; 4]);
}

#[test]
fn a_stored_frame_ends_with_the_last_bytes() {
    let data = long_data();
    for (first, last) in [
        (0, 0),
        (0, 1),
        (1, 200),
        (ZSTD_BLOCK, 200),
        (ZSTD_BLOCK + 1, 0),
        (1_000_000, ZSTD_BLOCK),
    ] {
        let (first, last) = (&data[..first], &data[first..first + last]);
        let frame = stored_frame(first, last);
        assert!(frame.ends_with(last));
        assert_eq!(
            zstd::decode_all(&frame[..]).unwrap(),
            [first, last].concat()
        );
    }
}

#[test]
fn archives_without_members_are_padding() {
    let level_3 = Compression::Zstd { level: 3 };
    let a = archive("a");
    let empty = newc::empty_archive();
    for padding in [stored_frame(&[], &[0; 4]), gzip(&empty), empty] {
        let mut file = pack(level_3, &a).unwrap();
        file.extend(padding);
        let segments = unpack_segments(&file, 1 << 20).unwrap();
        assert_eq!(segments.len(), 1);
        assert_eq!(segments[0].archive, a);
    }
}
