//! Recognises the compression of an archive of a ramdisk.

use std::fmt;

pub(super) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The format of `lz4 -l`, the only one that the kernel unpacks (lib/decompress_unlz4.c).
pub(super) const LZ4_MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// The compression of one archive of a ramdisk. The kernel can unpack all these formats
/// (lib/decompress.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// A newc cpio archive.
    None,
    Zstd,
    Gzip,
    Xz,
    Lz4,
    Bzip2,
    /// The format of `xz --format=lzma`.
    Lzma,
    /// The format of lzop.
    Lzo,
}

impl Packing {
    /// Finds the format from the first bytes of an archive. Six bytes are enough.
    #[must_use]
    pub fn of(start: &[u8]) -> Option<Self> {
        Some(match start {
            // In an archive with the magic 070702, the headers of the members have
            // checksums.
            [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => Self::None,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'B', b'Z', b'h', ..] => Self::Bzip2,
            [0x5d, 0, 0, ..] => Self::Lzma,
            [0x89, b'L', b'Z', b'O', ..] => Self::Lzo,
            _ if start.starts_with(&ZSTD_MAGIC) => Self::Zstd,
            _ if start.starts_with(&LZ4_MAGIC) => Self::Lz4,
            _ => return None,
        })
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "cpio",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
            Self::Lzma => "lzma",
            Self::Lzo => "lzo",
        })
    }
}
