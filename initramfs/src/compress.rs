//! Compresses and unpacks ramdisk archives, and pads them so that one can follow
//! another.

use std::fmt;
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::str::FromStr;

/// The highest level. Above it zstd needs a window of more than 8 MiB, and the
/// kernel must find that memory while it unpacks, even on the smallest host.
const MAX_ZSTD_LEVEL: i32 = 19;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression, which boots fastest if the image is local.
    None,
    /// Zstandard. With the modules of a Debian 6.1 kernel, level 19 makes the file
    /// a fifth smaller than level 3, but takes minutes of one core instead of a
    /// second. Unpacking takes the same time.
    Zstd {
        /// The compression level, 1 to 19.
        level: i32,
    },
}

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

/// A writer that compresses what is written to it.
pub enum Compressor<W: Write> {
    None(W),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    /// Compresses into `out`. Fails if the compressor cannot allocate its memory.
    pub fn new(compression: Compression, out: W) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::with_workers(compression, out, u32::try_from(cores).unwrap_or(1))
    }

    /// The output does not depend on `workers`: zstd splits its input by size, not
    /// by thread. Only 0, which selects the single-threaded code, would give other
    /// bytes.
    fn with_workers(compression: Compression, out: W, workers: u32) -> io::Result<Self> {
        match compression {
            Compression::None => Ok(Self::None(out)),
            Compression::Zstd { level } => {
                let mut encoder = zstd::Encoder::new(out, level)?;
                encoder.multithread(workers.max(1))?;
                encoder.include_checksum(true)?;
                Ok(Self::Zstd(encoder))
            }
        }
    }

    /// Writes the remaining bytes and returns the output.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::None(out) => Ok(out),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(out) => out.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::None(out) => out.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// Returns the bytes to write after an archive of `size` bytes so that another
/// archive can follow. The kernel looks for the next archive at a multiple of 4 and
/// skips the zeros before it.
///
/// After zstd, the zeros are in a frame of their own. Ironic unpacks every ramdisk
/// that begins as zstd with zstd(1) (`_handle_zstd_compression` in
/// ironic/common/images.py), which rejects bare zeros after a frame.
#[must_use]
pub fn padding_after(compression: Compression, size: u64) -> Vec<u8> {
    // The cast is lossless: less than 4.
    let missing = |size: u64| (size.next_multiple_of(4) - size) as usize;
    match (compression, missing(size)) {
        (_, 0) => Vec::new(),
        (Compression::None, zeros) => vec![0; zeros],
        (Compression::Zstd { .. }, _) => {
            let zeros = 1 + missing(size + FRAME_OF_ZEROS as u64 + 1);
            frame_of_zeros(zeros as u8)
        }
    }
}

/// The size of a [`frame_of_zeros`] without its zeros.
const FRAME_OF_ZEROS: usize = 9;

/// A zstd frame that holds `count` zeros (RFC 8878, 3.1.1). Its descriptor says
/// that it is a single segment with its size in one byte. Its only block is raw.
fn frame_of_zeros(count: u8) -> Vec<u8> {
    let last_raw_block = (u32::from(count) << 3 | 1).to_le_bytes();
    let mut frame = ZSTD_MAGIC.to_vec();
    frame.extend([0b0010_0000, count]);
    frame.extend(&last_raw_block[..3]);
    frame.resize(FRAME_OF_ZEROS + usize::from(count), 0);
    frame
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// One of the archives in a ramdisk file.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    pub offset: usize,
    /// The number of bytes in the file, before unpacking.
    pub stored: usize,
    /// How the archive is packed: `none` or `zstd`.
    pub packing: &'static str,
    /// The archive after unpacking.
    pub archive: Vec<u8>,
}

/// Why a file is not a ramdisk.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The file is neither cpio nor zstd.
    #[error("ramdisk at byte {offset}: expected a newc cpio archive or zstd, found {found}")]
    UnknownFormat {
        offset: usize,
        /// The name of the format, or the first bytes.
        found: String,
    },
    #[error("ramdisk at byte {offset}: cannot unpack zstd")]
    Zstd {
        /// The offset at which the frame begins.
        offset: usize,
        #[source]
        source: io::Error,
    },
    #[error("ramdisk unpacks to more than {limit} bytes")]
    TooLarge {
        /// The limit from the caller, in bytes.
        limit: usize,
    },
    #[error(transparent)]
    Newc(#[from] crate::newc::NewcError),
}

/// Unpacks every archive of a ramdisk file, at most `limit` bytes in total.
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
        // A frame of zeros is padding, not an archive.
        if segment.archive.iter().any(|&byte| byte != 0) {
            segments.push(segment);
        }
    }
}

fn unpack_one(
    rest: &[u8],
    offset: usize,
    left: usize,
    limit: usize,
) -> Result<Segment, UnpackError> {
    if rest.starts_with(crate::newc::MAGIC) {
        let mut reader = crate::newc::Reader::new(rest);
        reader.by_ref().try_for_each(|entry| entry.map(drop))?;
        let stored = reader.consumed();
        if stored > left {
            return Err(UnpackError::TooLarge { limit });
        }
        return Ok(Segment {
            offset,
            stored,
            packing: "none",
            archive: rest[..stored].to_vec(),
        });
    }
    if !rest.starts_with(&ZSTD_MAGIC) {
        let found = match rest {
            [0x1f, 0x8b, ..] => "gzip".to_owned(),
            [0xfd, b'7', b'z', ..] => "xz".to_owned(),
            [0x02, 0x21, 0x4c, 0x18, ..] => "lz4".to_owned(),
            [b'B', b'Z', b'h', ..] => "bzip2".to_owned(),
            _ => format!("`{}`", rest[..rest.len().min(8)].escape_ascii()),
        };
        return Err(UnpackError::UnknownFormat { offset, found });
    }
    let broken = |source| UnpackError::Zstd { offset, source };
    let mut decoder = zstd::Decoder::with_buffer(rest)
        .map_err(broken)?
        .single_frame();
    let mut archive = Vec::new();
    decoder
        .by_ref()
        .take(left as u64 + 1)
        .read_to_end(&mut archive)
        .map_err(broken)?;
    if archive.len() > left {
        return Err(UnpackError::TooLarge { limit });
    }
    let stored = rest.len() - decoder.finish().len();
    Ok(Segment {
        offset,
        stored,
        packing: "zstd",
        archive,
    })
}

#[cfg(test)]
mod tests;
