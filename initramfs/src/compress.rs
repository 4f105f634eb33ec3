//! Compresses and unpacks ramdisk archives, and pads them so that another archive can
//! follow.

mod packing;
mod segments;
mod whole;

use std::fmt;
use std::io;
use std::str::FromStr;

use zstd::zstd_safe::CParameter;

pub use packing::Packing;
pub(crate) use segments::XZ_MEMORY;
pub use segments::{Segment, UnpackError, unpack_segments};
pub(crate) use whole::xz_error;
pub use whole::{WholeError, check_whole};

/// The highest level. With a higher level zstd needs a window of more than 8 MiB. The
/// kernel needs memory for the window while it unpacks, also on the smallest host.
const MAX_ZSTD_LEVEL: i32 = 19;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression, which boots fastest if the image is local.
    None,
    /// Zstandard. For the modules of a Debian 6.1 kernel, the file of level 19 is a fifth
    /// smaller than that of level 3, but level 19 takes minutes of one core instead of a
    /// second. Unpacking takes the same time for both levels.
    Zstd {
        /// The compression level, 1 to 19.
        level: i32,
    },
}

/// The value of `--compress` is unknown. Give one of the expected ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compression `{0}`: expected `none`, `zstd` or `zstd:1` to `zstd:19`")]
pub struct BadCompression(String);

impl FromStr for Compression {
    type Err = BadCompression;

    fn from_str(text: &str) -> Result<Self, BadCompression> {
        let bad = || BadCompression(text.to_owned());
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "zstd" => Ok(Self::Zstd {
                level: MAX_ZSTD_LEVEL,
            }),
            Some(("zstd", level)) => match level.parse() {
                Ok(level) if (1..=MAX_ZSTD_LEVEL).contains(&level) => Ok(Self::Zstd { level }),
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

/// Compresses an archive on one core, so the bytes do not depend on the number of cores.
/// zstd itself can divide the work, but into parts of 32 MiB (level 19): too few parts
/// for more than three cores.
pub fn pack(compression: Compression, archive: &[u8]) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(archive.to_vec()),
        Compression::Zstd { level } => {
            let mut compressor = zstd::bulk::Compressor::new(level)?;
            compressor.set_parameter(CParameter::ChecksumFlag(true))?;
            let mut packed = compressor.compress(archive)?;
            // The buffer is as large as the archive: return the unused memory.
            packed.shrink_to_fit();
            Ok(packed)
        }
    }
}

/// Returns the bytes to write after an archive of `size` bytes so that another archive
/// can follow. The kernel looks for the next archive at a multiple of 4 and skips the
/// zeros before it.
///
/// After a zstd archive, the zeros are in a separate frame. Ironic unpacks every ramdisk
/// that begins as zstd with zstd(1) (`_handle_zstd_compression` in
/// ironic/common/images.py), which rejects bare zeros after a frame. coreos-installer
/// reads adjacent frames as one archive, and accepts zeros after that archive (its
/// src/io/zstd.rs).
///
/// The frame unpacks to four zeros, independent of its own length: in the ramdisk that
/// Ironic has unpacked, the next archive must also begin at a multiple of 4.
#[must_use]
pub fn padding_after(compression: Compression, size: u64) -> Vec<u8> {
    // The cast is lossless: less than 4.
    let missing = (size.next_multiple_of(4) - size) as usize;
    match (compression, missing) {
        (_, 0) => Vec::new(),
        (Compression::None, zeros) => vec![0; zeros],
        (Compression::Zstd { .. }, missing) => {
            // Empty blocks of three bytes each make the length of the frame fit.
            let mut frames = (0..4).map(|empty| raw_frame(&vec![&[][..]; empty], &[0; 4]));
            frames
                .find(|frame| frame.len() % 4 == missing)
                .unwrap_or_default()
        }
    }
}

/// In bytes: the largest block of a zstd frame (RFC 8878, 3.1.1.2.4).
const ZSTD_BLOCK: usize = 128 << 10;
/// The window descriptor for 128 KiB: no block may be larger than the window.
const ZSTD_WINDOW: u8 = 7 << 3;

/// A zstd frame that stores these bytes uncompressed and without a checksum. The frame
/// ends with the bytes of `last`, which are in a separate block.
///
/// The kernel reserves memory for the window of a frame. So the window has the size of
/// one block, not of the whole content.
#[must_use]
pub fn stored_frame(first: &[u8], last: &[u8]) -> Vec<u8> {
    let blocks: Vec<&[u8]> = first.chunks(ZSTD_BLOCK).collect();
    raw_frame(&blocks, last)
}

/// A frame of raw blocks (RFC 8878, 3.1.1), each of at most [`ZSTD_BLOCK`] bytes. Its
/// header states the size of the window, but neither the size of the content nor a
/// checksum.
fn raw_frame(blocks: &[&[u8]], last: &[u8]) -> Vec<u8> {
    let mut frame = packing::ZSTD_MAGIC.to_vec();
    frame.extend([0, ZSTD_WINDOW]);
    let mut put = |block: &[u8], is_last: bool| {
        // The cast is lossless: ZSTD_BLOCK has 18 bits.
        let header = (block.len() as u32) << 3 | u32::from(is_last);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    };
    blocks.iter().for_each(|block| put(block, false));
    put(last, true);
    frame
}

#[cfg(test)]
mod tests;
