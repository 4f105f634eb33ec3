//! The entries of a directory (Documentation/filesystems/ext4/directory.rst).

use crate::checksums::crc32c;
use crate::error::{Error, Result, damaged};
use crate::fields::{put_u16, put_u32, u16_at, u32_at};
use crate::inode::{Inode, Kind, flag};
use crate::superblock::{Protection, Superblock};

/// The size in bytes of an entry without its name.
const HEADER: usize = 8;
/// The size in bytes of the tail of a block. The tail looks like an empty entry and holds
/// the checksum of the block.
const TAIL: usize = 12;
const TAIL_TYPE: u8 = 0xde;
pub(crate) const LONGEST_NAME: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) inode: u32,
    pub(crate) name: Vec<u8>,
}

/// Reads and writes the blocks of one directory, including their checksums.
pub(crate) struct Layout<'a> {
    directory: &'a Inode,
    superblock: &'a Superblock,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(directory: &'a Inode, superblock: &'a Superblock) -> Self {
        Self {
            directory,
            superblock,
        }
    }

    fn is_indexed(&self) -> bool {
        self.directory.flags() & flag::INDEXED != 0
    }

    /// The end of the entries in a block.
    fn end(&self) -> usize {
        // A directory with an index has its checksums in other places.
        if self.superblock.protection == Protection::Metadata && !self.is_indexed() {
            self.superblock.block_size - TAIL
        } else {
            self.superblock.block_size
        }
    }

    fn fault(&self, reason: &'static str) -> Error {
        damaged(format!("directory {}", self.directory.number), reason)
    }

    /// The entries of a block, in their order. Skips entries with the inode number 0,
    /// which are unused.
    pub(crate) fn entries(&self, block: &[u8]) -> Result<Vec<Entry>> {
        self.check_tail(block)?;
        let mut found = Vec::new();
        self.each(block, |at, _| {
            let inode = u32_at(block, at);
            let name = &block[at + HEADER..at + HEADER + usize::from(block[at + 6])];
            if inode != 0 {
                let name = name.to_vec();
                found.push(Entry { inode, name });
            }
        })?;
        Ok(found)
    }

    /// Calls `f` with the place and the length of each entry. The name of an entry
    /// is within its length.
    fn each(&self, block: &[u8], mut f: impl FnMut(usize, usize)) -> Result<()> {
        let mut at = 0;
        let end = self.end();
        while at < end {
            if at + HEADER > end {
                return Err(self.fault("an entry is cut off"));
            }
            let len = usize::from(u16_at(block, at + 4));
            let name = usize::from(block[at + 6]);
            if len < HEADER + 4 || !len.is_multiple_of(4) || at + len > end || HEADER + name > len {
                return Err(self.fault("an entry has an invalid length"));
            }
            f(at, len);
            at += len;
        }
        Ok(())
    }

    fn check_tail(&self, block: &[u8]) -> Result<()> {
        let end = self.end();
        if end == self.superblock.block_size {
            return Ok(());
        }
        let tail = &block[end..];
        let sound = u32_at(tail, 0) == 0
            && usize::from(u16_at(tail, 4)) == TAIL
            && tail[7] == TAIL_TYPE
            && u32_at(tail, 8) == crc32c(self.directory.seed(self.superblock), &block[..end]);
        if sound {
            return Ok(());
        }
        Err(Error::Checksum {
            what: format!("directory {}", self.directory.number),
        })
    }

    fn seal(&self, block: &mut [u8]) {
        let end = self.end();
        if end < self.superblock.block_size {
            let checksum = crc32c(self.directory.seed(self.superblock), &block[..end]);
            let tail = &mut block[end..];
            tail.fill(0);
            put_u16(tail, 4, TAIL as u16);
            tail[7] = TAIL_TYPE;
            put_u32(tail, 8, checksum);
        }
    }

    /// Adds an entry to a block. `false` if the block has no room.
    pub(crate) fn add(&self, block: &mut [u8], entry: &Entry, kind: Kind) -> Result<bool> {
        let needed = length_of(entry.name.len());
        let mut place = None;
        self.each(block, |at, len| {
            let used = match u32_at(block, at) {
                0 => 0,
                _ => length_of(usize::from(block[at + 6])),
            };
            if place.is_none() && len >= used + needed {
                place = Some((at, used, len));
            }
        })?;
        let Some((at, used, len)) = place else {
            return Ok(false);
        };
        if used > 0 {
            put_u16(block, at + 4, as_length(used));
        }
        put_entry(&mut block[at + used..at + len], entry, kind);
        self.seal(block);
        Ok(true)
    }

    /// An empty block of this directory.
    pub(crate) fn empty(&self) -> Vec<u8> {
        let mut block = vec![0; self.superblock.block_size];
        put_u16(&mut block, 4, as_length(self.end()));
        self.seal(&mut block);
        block
    }

    /// The only block of a new directory, with the entries `.` and `..`.
    pub(crate) fn first(&self, parent: u32) -> Vec<u8> {
        let mut block = self.empty();
        let own = Entry {
            inode: self.directory.number,
            name: b".".to_vec(),
        };
        let above = Entry {
            inode: parent,
            name: b"..".to_vec(),
        };
        let first = length_of(1);
        put_entry(&mut block[..first], &own, Kind::Directory);
        put_entry(&mut block[first..self.end()], &above, Kind::Directory);
        self.seal(&mut block);
        block
    }
}

/// The size in bytes of an entry with a name of this length.
fn length_of(name: usize) -> usize {
    (HEADER + name).next_multiple_of(4)
}

/// The length of an entry as a number of 16 bits. Blocks have at most 4096 bytes.
fn as_length(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Writes an entry that takes all these bytes.
fn put_entry(bytes: &mut [u8], entry: &Entry, kind: Kind) {
    let len = as_length(bytes.len());
    put_u32(bytes, 0, entry.inode);
    put_u16(bytes, 4, len);
    // A name has at most `LONGEST_NAME` bytes.
    bytes[6] = u8::try_from(entry.name.len()).unwrap_or(u8::MAX);
    bytes[7] = kind.entry_type();
    bytes[HEADER..HEADER + entry.name.len()].copy_from_slice(&entry.name);
}
