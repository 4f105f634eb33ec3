//! How an image is packed, by its first bytes. Pure.

use std::fmt;

/// How an image is packed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not packed.
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
    /// What the first bytes say; everything unknown is `Raw`, whose content is
    /// judged later.
    pub fn by_content(start: &[u8]) -> Self {
        match start {
            // RFC 1952, 2.3.1: the only compression method is 8.
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            // RFC 8878, 3.1.1 and 3.1.2: a frame, or a skippable frame, with
            // which pzstd begins its files.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            // A frame, or one of the legacy format, which its decoder refuses by
            // name.
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Self::Lz4,
            // The size of the blocks, and the first one's magic number or, of an
            // empty stream, that of its end: three letters are in too many
            // texts.
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
