//! Parses the magic number and the header of a frame.

use std::io::{self, Read};

use twox_hash::XxHash32;

use super::invalid;

const FRAME: u32 = 0x184d_2204;
const LEGACY: u32 = 0x184c_2102;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Magic {
    Frame,
    Skippable,
}

/// The reason why a frame with this beginning cannot be unpacked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnknownFrame {
    /// The Linux kernel and old versions of lz4 use this format, which has no
    /// checksums.
    #[error("the file has the legacy lz4 format: compress it without the option -l of lz4")]
    Legacy,
    /// The file begins like an lz4 file, but is not an lz4 file. Compare its digest,
    /// and create the file again.
    #[error("expected a frame, found {0:#010x}")]
    Other(u32),
}

/// Identifies the kind of frame by its first four bytes.
pub(super) fn magic(number: u32) -> Result<Magic, UnknownFrame> {
    match number {
        FRAME => Ok(Magic::Frame),
        0x184d_2a50..=0x184d_2a5f => Ok(Magic::Skippable),
        // The legacy format has neither an end mark nor a checksum, so a truncated
        // file would go unnoticed.
        LEGACY => Err(UnknownFrame::Legacy),
        _ => Err(UnknownFrame::Other(number)),
    }
}

mod flag {
    pub(super) const VERSION: u8 = 0b1100_0000;
    pub(super) const VERSION_1: u8 = 0b0100_0000;
    pub(super) const INDEPENDENT: u8 = 1 << 5;
    pub(super) const BLOCK_CHECKSUMS: u8 = 1 << 4;
    pub(super) const CONTENT_SIZE: u8 = 1 << 3;
    pub(super) const CONTENT_CHECKSUM: u8 = 1 << 2;
    pub(super) const RESERVED: u8 = 1 << 1;
    pub(super) const DICTIONARY: u8 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Blocks refer to earlier blocks.
    pub(super) linked: bool,
    pub(super) block_checksums: bool,
    /// The frame has a checksum of its unpacked content.
    pub(super) content_checksum: bool,
    /// Unpacked size of the frame in bytes, if the header states it.
    pub(super) content_size: Option<u64>,
    /// Maximum size of a block, packed or unpacked, in bytes.
    pub(super) block_size: usize,
}

impl Header {
    /// Reads the header, which follows the magic number.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut start = [0; 2];
        input.read_exact(&mut start)?;
        let [flags, block] = start;
        let bit = |bit: u8| flags & bit != 0;
        if flags & flag::VERSION != flag::VERSION_1 || bit(flag::RESERVED) || block & 0x8f != 0 {
            return Err(invalid(format!(
                "unknown kind of frame: {flags:#04x} {block:#04x}"
            )));
        }
        if bit(flag::DICTIONARY) {
            return Err(invalid("the file needs a dictionary".to_owned()));
        }
        let block_size = match block >> 4 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => 4 << 20,
            other => {
                return Err(invalid(format!(
                    "expected blocks of size 4 to 7, found {other}"
                )));
            }
        };
        let mut described = start.to_vec();
        let content_size = if bit(flag::CONTENT_SIZE) {
            let mut size = [0; 8];
            input.read_exact(&mut size)?;
            described.extend(size);
            Some(u64::from_le_bytes(size))
        } else {
            None
        };
        let mut checksum = [0];
        input.read_exact(&mut checksum)?;
        // The header checksum is the second byte of the hash.
        if checksum[0] != XxHash32::oneshot(0, &described).to_le_bytes()[1] {
            return Err(invalid("the header's checksum is wrong".to_owned()));
        }
        Ok(Self {
            linked: !bit(flag::INDEPENDENT),
            block_checksums: bit(flag::BLOCK_CHECKSUMS),
            content_checksum: bit(flag::CONTENT_CHECKSUM),
            content_size,
            block_size,
        })
    }
}
