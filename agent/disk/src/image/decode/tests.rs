use std::io::Write;

use liblzma::stream::{Check, Filters, LzmaOptions, MtStreamBuilder, Stream};
use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
use proptest::prelude::*;

use super::*;

pub(in crate::image) fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
    match packing {
        Packing::Raw => bytes.to_vec(),
        Packing::Gzip => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Packing::Zstd => zstd::bulk::compress(bytes, 1).unwrap(),
        Packing::Xz => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Packing::Lz4 => {
            // Linked blocks of 64 KiB and every checksum.
            let info = FrameInfo::new()
                .block_mode(BlockMode::Linked)
                .block_checksums(true)
                .content_checksum(true);
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Packing::Bzip2 => {
            let level = bzip2::Compression::fast();
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

/// Packs like `xz -T2`: in blocks of this size, which contain their length.
fn pack_xz_blocks(bytes: &[u8], block: u64) -> Vec<u8> {
    let stream = MtStreamBuilder::new()
        .threads(2)
        .block_size(block)
        .preset(0)
        .check(Check::Crc64)
        .encoder()
        .unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(in crate::image) const PACKED: [Packing; 5] = [
    Packing::Gzip,
    Packing::Zstd,
    Packing::Xz,
    Packing::Lz4,
    Packing::Bzip2,
];

/// Fixed limits, so that the tests do not depend on the machine.
const LIMITS: Limits = Limits {
    threads: 2,
    memory: 80 << 20,
};

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    unpack_within(packed, LIMITS)
}

fn unpack_within(packed: &[u8], limits: Limits) -> io::Result<Vec<u8>> {
    let (mut decoder, _) = Decoder::with_limits(packed, limits)?;
    let mut out = Vec::new();
    decoder.read_to_end(&mut out)?;
    Ok(out)
}

fn sample() -> Vec<u8> {
    (0..100_000u32)
        .flat_map(|n| (n % 251).to_le_bytes())
        .collect()
}

#[test]
fn every_packing_is_known_by_content() {
    for packing in PACKED.into_iter().chain([Packing::Raw]) {
        let packed = pack(packing, &sample());
        let (mut decoder, _) = Decoder::new(&packed[..]).unwrap();
        assert_eq!(decoder.packing(), packing);
        let mut buffer = vec![0; 1 << 20];
        assert_eq!(decoder.fill(&mut buffer).unwrap(), sample().len());
        assert_eq!(buffer[..sample().len()], sample());
        assert_eq!(unpack(&pack(packing, b"")).unwrap(), b"", "{packing}");
    }
    // Plain text is not bzip2.
    assert_eq!(Packing::by_content(b"BZh9 and more"), Packing::Raw);
}

#[test]
fn several_members_are_one_image() {
    for packing in PACKED {
        let mut packed = pack(packing, b"first ");
        packed.extend(pack(packing, b""));
        packed.extend(pack(packing, b"second"));
        assert_eq!(unpack(&packed).unwrap(), b"first second", "{packing}");
    }
}

#[test]
fn truncated_anywhere_is_an_error() {
    for packing in PACKED {
        let packed = pack(packing, &sample());
        let ends = (1..40).map(|n| packed.len() - n);
        for keep in [8, 20, packed.len() / 3, packed.len() / 2]
            .into_iter()
            .chain(ends)
        {
            assert!(unpack(&packed[..keep]).is_err(), "{packing} cut at {keep}");
        }
        // Each cut is inside the second member, down to its first byte.
        let mut two = packed.clone();
        two.extend(pack(packing, b"second"));
        for keep in packed.len() + 1..two.len() {
            assert!(unpack(&two[..keep]).is_err(), "{packing} cut at {keep}");
        }
    }
}

#[test]
fn trailing_bytes_are_an_error() {
    for packing in PACKED {
        for tail in [
            &b"garbage"[..],
            b"x",
            &[0x1f, 0x8b],
            b"BZ",
            &[4, 0x22],
            &[0],
        ] {
            let mut packed = pack(packing, &sample());
            packed.extend_from_slice(tail);
            assert!(unpack(&packed).is_err(), "{packing} + {tail:?}");
        }
    }
}

#[test]
fn damaged_content_is_an_error() {
    // Checksums are optional in zstd and lz4. The lz4 files of this test have them.
    for packing in PACKED {
        if packing == Packing::Zstd {
            continue;
        }
        let packed = pack(packing, &sample());
        for part in 1..8 {
            let mut packed = packed.clone();
            let place = packed.len() * part / 8;
            packed[place] ^= 0x10;
            assert!(unpack(&packed).is_err(), "{packing} at {part}/8");
        }
    }
}

#[test]
fn zstd_promises_its_size() {
    let packed = pack(Packing::Zstd, &sample());
    let (_, promised) = Decoder::new(&packed[..]).unwrap();
    assert_eq!(promised, Some(sample().len() as u64));
}

/// `into_input` returns the input where the decoder stopped, so that the caller can
/// read the rest.
#[test]
fn unused_input_is_returned() {
    for packing in PACKED {
        let mut packed = pack(packing, b"short");
        packed.extend_from_slice(&[0x55; 1000]);
        let (mut decoder, _) = Decoder::new(&packed[..]).unwrap();
        assert!(io::copy(&mut decoder, &mut io::sink()).is_err());
        let rest = decoder.into_input();
        assert!(
            rest.len() <= 1000 && rest.len() > 900,
            "{packing}: {}",
            rest.len()
        );
    }
}

#[test]
fn an_xz_dictionary_beyond_the_limit_is_refused() {
    // The header announces a dictionary of 1 GiB, although the stream has only one
    // byte of data.
    let mut options = LzmaOptions::new_preset(0).unwrap();
    options.dict_size(1 << 30);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let stream = Stream::new_stream_encoder(&filters, Check::Crc32).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(b"x").unwrap();
    let packed = encoder.finish().unwrap();
    for threads in [1, 2] {
        let limits = Limits { threads, ..LIMITS };
        let error = unpack_within(&packed, limits).unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }
}

/// Covers several threads, too little memory for all threads, and a single
/// thread.
#[test]
fn blocks_of_xz_are_the_same_with_any_limits() {
    let sample: Vec<u8> = sample().into_iter().cycle().take(3 << 20).collect();
    for block in [64 << 10, 1 << 20, 300_001] {
        let packed = pack_xz_blocks(&sample, block);
        for limits in [
            LIMITS,
            Limits {
                threads: 8,
                ..LIMITS
            },
            Limits {
                threads: 1,
                ..LIMITS
            },
            Limits {
                threads: 8,
                memory: 1 << 20,
            },
        ] {
            assert!(
                unpack_within(&packed, limits).unwrap() == sample,
                "{limits:?}"
            );
            let cut = &packed[..packed.len() * 2 / 3];
            assert!(unpack_within(cut, limits).is_err(), "{limits:?}");
            let mut damaged = packed.clone();
            damaged[packed.len() / 2] ^= 1;
            assert!(unpack_within(&damaged, limits).is_err(), "{limits:?}");
        }
    }
}

/// xz file format 2.2: zeros in multiples of four, between streams and at the end.
#[test]
fn padding_of_xz_streams() {
    for (zeros, good) in [(4, true), (400, true), (1, false), (6, false)] {
        let mut packed = pack(Packing::Xz, b"first ");
        packed.resize(packed.len() + zeros, 0);
        assert_eq!(unpack(&packed).is_ok(), good, "{zeros} at the end");
        packed.extend(pack(Packing::Xz, b"second"));
        assert_eq!(unpack(&packed).is_ok(), good, "{zeros} between");
    }
}

proptest! {
    /// Reads of any size over input chunks of any size return the same bytes.
    #[test]
    fn chunking_changes_nothing(
        kind in 0..PACKED.len(),
        chunk in 1usize..3000,
        read in 1usize..5000,
    ) {
        let packed = pack(PACKED[kind], &sample());
        let input = io::BufReader::with_capacity(chunk, &packed[..]);
        let (mut decoder, _) = Decoder::new(input).unwrap();
        let mut out = Vec::new();
        let mut buffer = vec![0; read];
        loop {
            let n = decoder.fill(&mut buffer).unwrap();
            out.extend_from_slice(&buffer[..n]);
            if n < read {
                break;
            }
        }
        prop_assert!(out == sample());
    }
}
