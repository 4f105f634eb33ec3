//! Detects from its first bytes how an image is packed. Does no I/O.

use std::fmt;

/// How an image is packed for the download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// The image is not packed.
    Raw,
    /// gzip, one or more members (RFC 1952).
    Gzip,
    /// Zstandard, one or more frames (RFC 8878).
    Zstd,
    /// xz, one or more streams.
    Xz,
    /// lz4, one or more frames.
    Lz4,
    /// bzip2, one or more streams.
    Bzip2,
}

impl Packing {
    /// Detects the packing. Unknown content counts as `Raw` and is checked later.
    pub fn by_content(start: &[u8]) -> Self {
        match start {
            // RFC 1952, 2.3.1: the only compression method is 8.
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            // RFC 8878, 3.1.1 and 3.1.2: a frame or a skippable frame. Files made
            // by pzstd begin with a skippable frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            // A frame, or a frame of the legacy format. The decoder rejects the
            // legacy format with an error that names it.
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Self::Lz4,
            // "BZh", the block size, and the magic number of the first block (of the
            // end of the stream if the stream is empty). "BZh" alone is not enough,
            // because texts may begin with it.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Self::Bzip2,
            _ => Self::Raw,
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
        })
    }
}
