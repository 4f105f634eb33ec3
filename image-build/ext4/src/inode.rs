//! Inodes (Documentation/filesystems/ext4/inodes.rst).

use crate::checksums::crc32c;
use crate::error::{Result, unsupported};
use crate::fields::{
    put_u16, put_u32, put_u32_in_halves, put_u64_in_halves, u16_at, u32_at, u32_in_halves,
    u64_in_halves,
};
use crate::superblock::Superblock;

mod field {
    pub(super) const MODE: usize = 0x00;
    pub(super) const SIZE: usize = 0x04;
    pub(super) const ACCESS_TIME: usize = 0x08;
    pub(super) const CHANGE_TIME: usize = 0x0c;
    pub(super) const CONTENT_TIME: usize = 0x10;
    pub(super) const DELETION_TIME: usize = 0x14;
    pub(super) const LINKS: usize = 0x1a;
    pub(super) const SECTORS: usize = 0x1c;
    pub(super) const FLAGS: usize = 0x20;
    pub(super) const MAP: usize = 0x28;
    pub(super) const GENERATION: usize = 0x64;
    pub(super) const ATTRIBUTES: usize = 0x68;
    pub(super) const SIZE_HIGH: usize = 0x6c;
    pub(super) const SECTORS_HIGH: usize = 0x74;
    pub(super) const ATTRIBUTES_HIGH: usize = 0x76;
    pub(super) const CHECKSUM: usize = 0x7c;
    pub(super) const EXTRA_SIZE: usize = 0x80;
    pub(super) const CHECKSUM_HIGH: usize = 0x82;
    pub(super) const CHANGE_TIME_EXTRA: usize = 0x84;
    pub(super) const CONTENT_TIME_EXTRA: usize = 0x88;
    pub(super) const CREATION_TIME: usize = 0x90;
}

pub(crate) const ROOT: u32 = 2;
/// The size in bytes of the part that every inode has.
pub(crate) const SMALLEST: usize = 128;
/// The size in bytes of the map of the blocks, which a short symbolic link uses for its
/// target.
pub(crate) const MAP_LEN: usize = 60;

pub(crate) mod flag {
    pub(crate) const INDEXED: u32 = 0x1000;
    pub(crate) const EXTENTS: u32 = 0x8_0000;
    /// The flags that an inode may have: synchronous updates of files and directories, no
    /// dump, no access time, indexed directory, journalled data, top directory, extents.
    /// This crate neither reads nor changes the content of an inode with another flag.
    pub(crate) const PLAIN: u32 =
        0x8 | 0x40 | 0x80 | INDEXED | 0x4000 | 0x1_0000 | 0x2_0000 | EXTENTS;
}

/// What an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Link,
    /// A device, a FIFO or a socket.
    Other,
}

impl Kind {
    /// The kind as error messages name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Other => "a special file",
        }
    }

    /// The type in a directory entry.
    pub(crate) fn entry_type(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
            Self::Link => 7,
            Self::Other => 0,
        }
    }

    fn mode(self) -> u16 {
        match self {
            Self::File => 0x8000,
            Self::Directory => 0x4000,
            Self::Link => 0xa000,
            Self::Other => 0,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) number: u32,
    pub(crate) raw: Vec<u8>,
}

impl Inode {
    /// A new inode that belongs to root and has no content. `permissions` are the lowest
    /// 12 bits of its mode.
    pub(crate) fn new(number: u32, kind: Kind, permissions: u16, superblock: &Superblock) -> Self {
        let mut raw = vec![0; superblock.inode_size];
        put_u16(&mut raw, field::MODE, kind.mode() | permissions & 0o7777);
        put_u16(&mut raw, field::LINKS, 1);
        put_u32(&mut raw, field::FLAGS, flag::EXTENTS);
        let time = superblock.write_time();
        put_u32(&mut raw, field::ACCESS_TIME, time);
        if raw.len() > SMALLEST {
            let extra = superblock.wanted_extra_size();
            put_u16(&mut raw, field::EXTRA_SIZE, extra);
            if SMALLEST + usize::from(extra) >= field::CREATION_TIME + 4 {
                put_u32(&mut raw, field::CREATION_TIME, time);
            }
        }
        let mut inode = Self { number, raw };
        inode.touch(superblock);
        inode
    }

    pub(crate) fn name(&self) -> String {
        format!("inode {}", self.number)
    }

    pub(crate) fn kind(&self) -> Kind {
        match u16_at(&self.raw, field::MODE) & 0xf000 {
            0x8000 => Kind::File,
            0x4000 => Kind::Directory,
            0xa000 => Kind::Link,
            _ => Kind::Other,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        u64_in_halves(&self.raw, field::SIZE, Some(field::SIZE_HIGH))
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        put_u64_in_halves(&mut self.raw, field::SIZE, Some(field::SIZE_HIGH), size);
    }

    pub(crate) fn links(&self) -> u16 {
        u16_at(&self.raw, field::LINKS)
    }

    pub(crate) fn set_links(&mut self, links: u16) {
        put_u16(&mut self.raw, field::LINKS, links);
    }

    pub(crate) fn flags(&self) -> u32 {
        u32_at(&self.raw, field::FLAGS)
    }

    pub(crate) fn map(&self) -> &[u8] {
        &self.raw[field::MAP..field::MAP + MAP_LEN]
    }

    pub(crate) fn map_mut(&mut self) -> &mut [u8] {
        &mut self.raw[field::MAP..field::MAP + MAP_LEN]
    }

    /// The block with the extended attributes that are not in the inode; 0 if there
    /// is none.
    pub(crate) fn attribute_block(&self) -> u64 {
        let high = u64::from(u16_at(&self.raw, field::ATTRIBUTES_HIGH));
        u64::from(u32_at(&self.raw, field::ATTRIBUTES)) | high << 32
    }

    pub(crate) fn set_attribute_block(&mut self, block: u64) {
        let [a, b, c, d, e, f, ..] = block.to_le_bytes();
        self.raw[field::ATTRIBUTES..field::ATTRIBUTES + 4].copy_from_slice(&[a, b, c, d]);
        self.raw[field::ATTRIBUTES_HIGH..field::ATTRIBUTES_HIGH + 2].copy_from_slice(&[e, f]);
    }

    /// Sets the space that the inode takes, in blocks.
    pub(crate) fn set_blocks(&mut self, blocks: u64, superblock: &Superblock) {
        let sectors = blocks * (superblock.block_size as u64 / 512);
        let [a, b, c, d, e, f, ..] = sectors.to_le_bytes();
        self.raw[field::SECTORS..field::SECTORS + 4].copy_from_slice(&[a, b, c, d]);
        self.raw[field::SECTORS_HIGH..field::SECTORS_HIGH + 2].copy_from_slice(&[e, f]);
    }

    /// The length in bytes of the fields after the first 128 bytes.
    pub(crate) fn extra_size(&self) -> usize {
        if self.raw.len() == SMALLEST {
            return 0;
        }
        let size = usize::from(u16_at(&self.raw, field::EXTRA_SIZE));
        size.min(self.raw.len() - SMALLEST)
    }

    /// Marks the content as changed at the time when the file system was last written.
    /// With the clock of this machine, every run would give different bytes.
    pub(crate) fn touch(&mut self, superblock: &Superblock) {
        let time = superblock.write_time();
        put_u32(&mut self.raw, field::CHANGE_TIME, time);
        put_u32(&mut self.raw, field::CONTENT_TIME, time);
        let extra = SMALLEST + self.extra_size();
        for at in [field::CHANGE_TIME_EXTRA, field::CONTENT_TIME_EXTRA] {
            if at + 4 <= extra {
                put_u32(&mut self.raw, at, 0);
            }
        }
    }

    /// Fails if the inode has a block map instead of extents, has flags that are not in
    /// [`flag::PLAIN`], or is deleted.
    pub(crate) fn require_plain(&self) -> Result<()> {
        let reason = if self.flags() & flag::EXTENTS == 0 {
            "it has a block map instead of extents"
        } else if self.flags() & !flag::PLAIN != 0 {
            "it is immutable, encrypted, verified or otherwise special"
        } else if self.links() == 0 || u32_at(&self.raw, field::DELETION_TIME) != 0 {
            "it is deleted"
        } else {
            return Ok(());
        };
        Err(unsupported(self.name(), reason))
    }

    /// The start value for the checksums of the blocks that belong to this inode.
    pub(crate) fn seed(&self, superblock: &Superblock) -> u32 {
        let seed = crc32c(superblock.seed, &self.number.to_le_bytes());
        let generation = &self.raw[field::GENERATION..field::GENERATION + 4];
        crc32c(seed, generation)
    }

    fn checksum_high(&self) -> Option<usize> {
        (self.extra_size() >= 4).then_some(field::CHECKSUM_HIGH)
    }

    /// The checksum, without the part for which the inode has no room.
    fn computed_checksum(&self, superblock: &Superblock) -> u32 {
        let mut raw = self.raw.clone();
        put_u32_in_halves(&mut raw, field::CHECKSUM, self.checksum_high(), 0);
        let checksum = crc32c(self.seed(superblock), &raw);
        match self.checksum_high() {
            Some(_) => checksum,
            None => checksum & 0xffff,
        }
    }

    pub(crate) fn has_right_checksum(&self, superblock: &Superblock) -> bool {
        let found = u32_in_halves(&self.raw, field::CHECKSUM, self.checksum_high());
        found == self.computed_checksum(superblock)
    }

    pub(crate) fn seal(&mut self, superblock: &Superblock) {
        let checksum = self.computed_checksum(superblock);
        let high = self.checksum_high();
        put_u32_in_halves(&mut self.raw, field::CHECKSUM, high, checksum);
    }
}
