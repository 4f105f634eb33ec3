//! Reads and writes "newc", the cpio format that the kernel unpacks: see the
//! kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`.
//!
//! An entry is a header of 110 ASCII bytes (`070701` and 13 numbers of 8 hex
//! digits), the name with its NUL, padding to a multiple of 4, the content, and
//! padding to a multiple of 4. An archive ends with an entry named `TRAILER!!!`.

mod reader;
mod stream;
mod writer;

pub(crate) use reader::sizes;
pub use reader::{Entry, NewcError, NewcFault, Reader};
pub use stream::{Member, StreamError, StreamReader};
pub use writer::{Header, WriteError, Writer};

pub(crate) const MAGIC: &[u8; 6] = b"070701";
/// The magic number of the same format with checksums of the contents, which the kernel
/// ignores.
const MAGIC_WITH_CHECKSUMS: &[u8; 6] = b"070702";
pub(crate) const HEADER_LEN: usize = 110;
pub(crate) const TRAILER: &str = "TRAILER!!!";
/// The length limit of a name, NUL included (`PATH_MAX`). The kernel skips
/// entries with a longer name.
const MAX_NAME_LEN: usize = 4096;
/// The maximum number of entries: ten times as many as in a ramdisk with every module and
/// firmware file of a distribution.
pub(crate) const MAX_ENTRIES: usize = 100_000;

pub(crate) const S_IFMT: u32 = 0o170_000;
pub(crate) const S_IFDIR: u32 = 0o040_000;
pub(crate) const S_IFREG: u32 = 0o100_000;
pub(crate) const S_IFCHR: u32 = 0o020_000;

/// In bytes: the length of a member in an archive, for a `name` of this length. The
/// header with the name and its NUL is padded to a multiple of 4, and so is the content.
#[must_use]
pub const fn member_len(name: usize, content: usize) -> usize {
    (HEADER_LEN + name + 1).next_multiple_of(4) + content.next_multiple_of(4)
}

/// The length of the trailer in bytes.
pub const TRAILER_LEN: usize = member_len(TRAILER.len(), 0);

/// An archive without members: only the trailer, 124 bytes.
#[must_use]
pub fn empty_archive() -> Vec<u8> {
    // Cannot fail: the output is in memory.
    let archive = Writer::new(Vec::new()).finish();
    archive.map(|(bytes, _)| bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests;
