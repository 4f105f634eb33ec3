//! The index as text, with one fact per line.
//!
//! ```text
//! landfall-module-index 1
//! kernel 6.1.0-56-cloud-amd64
//! builtin crc32c_generic
//! alias crypto_crc32c
//! module virtio_net kernel/drivers/net/virtio_net.ko
//! needs net_failover virtio virtio_ring
//! alias virtio:d00000001v*
//! end
//! ```
//!
//! `needs`, `before`, `after` and `alias` belong to the last `module` line. `alias` may
//! also belong to a `builtin` line. `end` shows that the file is complete: if the host
//! has too little memory, the kernel may unpack only the start of the file.
//!
//! The format is text for two reasons: it compresses as well as a binary format (most of
//! it is alias patterns), and an operator can read it in a ramdisk that has only `cat`.

mod reader;
mod writer;

use std::fmt;

/// The number in the first line.
const FORMAT_VERSION: u32 = 1;
/// The size limit of an index in bytes. A whole Debian kernel (4023 modules, 26 222
/// aliases) needs 1.4 MB.
pub const MAX_INDEX_BYTES: usize = 16 << 20;
/// The length limit of a line in bytes. The longest line of a whole Debian kernel is a
/// `needs` line of about 300 bytes.
const MAX_LINE_BYTES: usize = 4096;
/// The maximum number of modules: four times as many as a distribution kernel has.
pub(crate) const MAX_MODULES: usize = 16_384;

const MAGIC: &str = "landfall-module-index";

/// Why a text is not an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("module index is {found} bytes, expected at most {MAX_INDEX_BYTES}")]
    TooLarge {
        /// In bytes.
        found: usize,
    },
    #[error("module index line {line}: {fault}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What was expected and what was found.
        fault: String,
    },
    /// The file that lists the drivers missing in the ramdisk is larger than any file of
    /// the builder. The agent cannot name the driver of a device without a driver; build
    /// the ramdisk again.
    #[error(
        "list of left-out drivers is {found} bytes, expected at most {}",
        crate::left_out::MAX_LEFT_OUT_BYTES
    )]
    LeftOutTooLarge {
        /// In bytes.
        found: usize,
    },
    /// The file that lists the drivers missing in the ramdisk is damaged. The agent
    /// cannot name the driver of a device without a driver; build the ramdisk again.
    #[error("list of left-out drivers line {line}: expected {expected}")]
    LeftOut {
        /// Counted from 1.
        line: usize,
        expected: &'static str,
    },
}

/// The file for which the content is written. Messages contain its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenFile {
    Index,
    LeftOut,
}

impl fmt::Display for WrittenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Index => "module index",
            Self::LeftOut => "list of left-out drivers",
        })
    }
}

/// Why content cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The reader would misread this word.
    #[error("{file}: {what} `{text}` is empty or contains white space or a control character")]
    BadWord {
        file: WrittenFile,
        /// The kind of word, such as a module name.
        what: &'static str,
        text: String,
    },
    /// The index has more modules than the reader accepts.
    #[error("module index: {what} is over the limit of {limit}")]
    OverLimit {
        /// The limit that the content exceeds.
        what: &'static str,
        limit: usize,
    },
    /// The reader rejects the text that was written. Its error names the file.
    #[error("the written text cannot be read back: {0}")]
    Unreadable(#[from] ParseError),
}

pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// An alias may contain spaces: a few hand-written `dmi:` aliases do.
pub(crate) fn is_alias(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
