//! Divides a ramdisk file into its archives, as the kernel does.

use std::io::{self, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use lz4_flex::block::decompress_into;

use super::packing::{LZ4_MAGIC, Packing};
use crate::newc;

/// The memory limit of the xz decoder in bytes. The largest preset, which
/// coreos-installer uses, needs 65 MiB.
pub(crate) const XZ_MEMORY: u64 = 128 << 20;
/// In bytes: the maximum unpacked size of an lz4 block (the kernel's
/// lib/decompress_unlz4.c).
const LZ4_BLOCK: usize = 8 << 20;

/// One of the archives in a ramdisk file.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    pub offset: usize,
    /// The number of bytes in the file, before unpacking.
    pub stored: usize,
    /// How the archive is packed: `none`, `gzip`, `xz`, `zstd`, `lz4`, `bzip2` or `lzma`.
    pub packing: &'static str,
    /// The archive after unpacking.
    pub archive: Vec<u8>,
}

/// Why a file is not a ramdisk.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error(
        "ramdisk at byte {offset}: expected a newc cpio archive, gzip, xz, zstd, lz4, bzip2 or lzma, found {found}"
    )]
    UnknownFormat {
        offset: usize,
        /// The name of the format, or the first bytes.
        found: String,
    },
    #[error("ramdisk at byte {offset}: cannot unpack {packing}")]
    Broken {
        /// The offset at which the packed archive begins.
        offset: usize,
        packing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("ramdisk unpacks to more than {limit} bytes")]
    TooLarge {
        /// The limit from the caller, in bytes.
        limit: usize,
    },
    #[error(transparent)]
    Newc(#[from] newc::NewcError),
}

/// Unpacks every archive of a ramdisk file, and returns those that are not only padding.
/// Fails if the archives unpack to more than `limit` bytes in total.
pub fn unpack_segments(file: &[u8], limit: usize) -> Result<Vec<Segment>, UnpackError> {
    let mut segments = Vec::new();
    let mut left = limit;
    let mut offset = 0;
    loop {
        offset += file[offset..].iter().take_while(|&&b| b == 0).count();
        let rest = &file[offset..];
        if rest.is_empty() {
            return Ok(segments);
        }
        let segment = unpack_one(rest, offset, left, limit)?;
        left -= segment.archive.len();
        offset += segment.stored;
        if !is_padding(&segment.archive) {
            segments.push(segment);
        }
    }
}

/// Whether an archive is only padding: it consists of zeros, or it has no members.
fn is_padding(archive: &[u8]) -> bool {
    archive.iter().all(|&byte| byte == 0) || newc::Reader::new(archive).next().is_none()
}

fn unpack_one(
    rest: &[u8],
    offset: usize,
    left: usize,
    limit: usize,
) -> Result<Segment, UnpackError> {
    let unknown = |found| UnpackError::UnknownFormat { offset, found };
    let unpack: Unpack = match Packing::of(rest) {
        Some(Packing::None) => return bare(rest, offset, left, limit),
        Some(Packing::Gzip) => ("gzip", gunzip),
        Some(Packing::Xz) => ("xz", unxz),
        Some(Packing::Zstd) => ("zstd", unzstd),
        Some(Packing::Lz4) => ("lz4", unlz4),
        Some(Packing::Bzip2) => ("bzip2", bunzip2),
        Some(Packing::Lzma) => ("lzma", unlzma),
        // The builder has no decoder for lzo, because no distribution packs ramdisks with
        // it.
        Some(Packing::Lzo) => return Err(unknown(Packing::Lzo.to_string())),
        None => {
            let start = rest[..rest.len().min(8)].escape_ascii();
            return Err(unknown(format!("`{start}`")));
        }
    };
    let (packing, unpack) = unpack;
    // Unpack one byte more than allowed, to notice an archive that is too large.
    let (archive, after) = unpack(rest, left as u64 + 1).map_err(|source| UnpackError::Broken {
        offset,
        packing,
        source,
    })?;
    if archive.len() > left {
        return Err(UnpackError::TooLarge { limit });
    }
    Ok(Segment {
        offset,
        stored: rest.len() - after,
        packing,
        archive,
    })
}

/// Reads an archive that is not compressed.
fn bare(rest: &[u8], offset: usize, left: usize, limit: usize) -> Result<Segment, UnpackError> {
    let mut reader = newc::Reader::new(rest);
    reader.by_ref().try_for_each(|entry| entry.map(drop))?;
    let stored = reader.consumed();
    if stored > left {
        return Err(UnpackError::TooLarge { limit });
    }
    Ok(Segment {
        offset,
        stored,
        packing: "none",
        archive: rest[..stored].to_vec(),
    })
}

/// The name of a compression, and the function that unpacks one archive up to a limit in
/// bytes. The function also returns the number of bytes after the compressed archive.
type Unpack = (&'static str, fn(&[u8], u64) -> io::Result<(Vec<u8>, usize)>);

fn gunzip(packed: &[u8], limit: u64) -> io::Result<(Vec<u8>, usize)> {
    let mut decoder = GzDecoder::new(packed);
    let archive = start_of(&mut decoder, limit)?;
    Ok((archive, decoder.into_inner().len()))
}

fn bunzip2(packed: &[u8], limit: u64) -> io::Result<(Vec<u8>, usize)> {
    let mut decoder = BzDecoder::new(packed);
    let archive = start_of(&mut decoder, limit)?;
    Ok((archive, decoder.into_inner().len()))
}

/// Unpacks an lz4 archive: blocks, each after its size in 4 little-endian bytes. Zeros or
/// the end of the file end the archive.
fn unlz4(packed: &[u8], limit: u64) -> io::Result<(Vec<u8>, usize)> {
    let mut archive = Vec::new();
    // One buffer for all blocks, because a file may have many tiny blocks.
    let mut block = vec![0; LZ4_BLOCK];
    let mut rest = &packed[LZ4_MAGIC.len()..];
    while let Some((size, after)) = rest.split_first_chunk() {
        rest = match *size {
            [0, 0, 0, 0] => return Ok((archive, after.len())),
            LZ4_MAGIC => after,
            size => {
                // The cast is lossless: this is a program for 64-bit systems.
                let size = u32::from_le_bytes(size) as usize;
                let (packed, after) = after
                    .split_at_checked(size)
                    .ok_or(io::ErrorKind::UnexpectedEof)?;
                let unpacked = decompress_into(packed, &mut block)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                archive.extend_from_slice(&block[..unpacked]);
                after
            }
        };
        if archive.len() as u64 >= limit {
            break;
        }
    }
    Ok((archive, rest.len()))
}

fn unlzma(packed: &[u8], limit: u64) -> io::Result<(Vec<u8>, usize)> {
    unxz_with(Stream::new_lzma_decoder(XZ_MEMORY)?, packed, limit)
}

fn unxz(packed: &[u8], limit: u64) -> io::Result<(Vec<u8>, usize)> {
    unxz_with(Stream::new_stream_decoder(XZ_MEMORY, 0)?, packed, limit)
}

fn unxz_with(stream: Stream, packed: &[u8], limit: u64) -> io::Result<(Vec<u8>, usize)> {
    let mut decoder = XzDecoder::new_stream(packed, stream);
    let archive = start_of(&mut decoder, limit)?;
    Ok((archive, decoder.into_inner().len()))
}

fn unzstd(packed: &[u8], limit: u64) -> io::Result<(Vec<u8>, usize)> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?.single_frame();
    let archive = start_of(&mut decoder, limit)?;
    Ok((archive, decoder.finish().len()))
}

fn start_of(decoder: &mut impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    decoder.by_ref().take(limit).read_to_end(&mut archive)?;
    Ok(archive)
}
