//! The block groups: where each group has its bitmaps and inodes, and how many of its
//! blocks and inodes are free (Documentation/filesystems/ext4/group_descr.rst).

use crate::blocks::{Blocks, Storage};
use crate::checksums::{crc16, crc32c};
use crate::error::{Error, Result, damaged};
use crate::fields::{low_half, put_u16, put_u32_in_halves, u16_at, u32_in_halves, u64_in_halves};
use crate::superblock::{Protection, Superblock};

mod field {
    pub(super) const BLOCK_BITMAP: usize = 0x00;
    pub(super) const INODE_BITMAP: usize = 0x04;
    pub(super) const INODE_TABLE: usize = 0x08;
    pub(super) const FREE_BLOCKS: usize = 0x0c;
    pub(super) const FREE_INODES: usize = 0x0e;
    pub(super) const DIRECTORIES: usize = 0x10;
    pub(super) const FLAGS: usize = 0x12;
    pub(super) const BLOCK_BITMAP_CHECKSUM: usize = 0x18;
    pub(super) const INODE_BITMAP_CHECKSUM: usize = 0x1a;
    pub(super) const UNUSED_INODES: usize = 0x1c;
    pub(super) const CHECKSUM: usize = 0x1e;
    /// The number of bytes from the low half of a field to its high half.
    pub(super) const HIGH: usize = 0x20;
}

const INODES_UNINITIALISED: u16 = 1;
const BLOCKS_UNINITIALISED: u16 = 2;

/// One of the two bitmaps of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bitmap {
    Blocks,
    Inodes,
}

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) number: u32,
    raw: Vec<u8>,
}

impl Group {
    fn wide(&self) -> bool {
        self.raw.len() >= 64
    }

    fn block_at(&self, at: usize) -> u64 {
        u64_in_halves(&self.raw, at, self.wide().then_some(at + field::HIGH))
    }

    fn count(&self, at: usize) -> u32 {
        u32_in_halves(&self.raw, at, self.high(at))
    }

    /// The place of the high half of a count or a checksum.
    fn high(&self, at: usize) -> Option<usize> {
        self.wide().then_some(at + field::HIGH)
    }

    fn change_count(&mut self, at: usize, by: i32) -> Result<()> {
        let count = self.count(at).checked_add_signed(by);
        let count = count.ok_or_else(|| self.damaged("its counts are wrong"))?;
        let high = self.high(at);
        put_u32_in_halves(&mut self.raw, at, high, count);
        Ok(())
    }

    fn damaged(&self, reason: &'static str) -> Error {
        damaged(format!("block group {}", self.number), reason)
    }

    pub(crate) fn bitmap_block(&self, bitmap: Bitmap) -> u64 {
        self.block_at(match bitmap {
            Bitmap::Blocks => field::BLOCK_BITMAP,
            Bitmap::Inodes => field::INODE_BITMAP,
        })
    }

    pub(crate) fn inode_table(&self) -> u64 {
        self.block_at(field::INODE_TABLE)
    }

    /// Whether the bitmap has been written. If it was never written, its content is
    /// undefined, and the kernel computes the bitmap before it uses the group.
    pub(crate) fn is_initialised(&self, bitmap: Bitmap, superblock: &Superblock) -> bool {
        let flag = match bitmap {
            Bitmap::Blocks => BLOCKS_UNINITIALISED,
            Bitmap::Inodes => INODES_UNINITIALISED,
        };
        superblock.protection == Protection::None || u16_at(&self.raw, field::FLAGS) & flag == 0
    }

    pub(crate) fn change_free_blocks(&mut self, by: i32) -> Result<()> {
        self.change_count(field::FREE_BLOCKS, by)
    }

    /// Counts one more inode as used. `index` is its place in the table of the group.
    pub(crate) fn take_inode(
        &mut self,
        index: u32,
        is_directory: bool,
        superblock: &Superblock,
    ) -> Result<()> {
        self.change_count(field::FREE_INODES, -1)?;
        if is_directory {
            self.change_count(field::DIRECTORIES, 1)?;
        }
        // Without checksums of the groups, no program uses this count.
        if superblock.protection != Protection::None {
            let at = field::UNUSED_INODES;
            let after = superblock.inodes_per_group - index - 1;
            let unused = self.count(at).min(after);
            let high = self.high(at);
            put_u32_in_halves(&mut self.raw, at, high, unused);
        }
        Ok(())
    }

    pub(crate) fn bitmap_checksum(&self, bitmap: Bitmap) -> u32 {
        let at = Self::bitmap_checksum_field(bitmap);
        u32_in_halves(&self.raw, at, self.high(at))
    }

    pub(crate) fn set_bitmap_checksum(&mut self, bitmap: Bitmap, checksum: u32) {
        let at = Self::bitmap_checksum_field(bitmap);
        let high = self.high(at);
        put_u32_in_halves(&mut self.raw, at, high, checksum);
    }

    fn bitmap_checksum_field(bitmap: Bitmap) -> usize {
        match bitmap {
            Bitmap::Blocks => field::BLOCK_BITMAP_CHECKSUM,
            Bitmap::Inodes => field::INODE_BITMAP_CHECKSUM,
        }
    }

    /// The part of a bitmap's checksum that the descriptor has room for.
    pub(crate) fn shortened(&self, checksum: u32) -> u32 {
        if self.wide() {
            checksum
        } else {
            checksum & 0xffff
        }
    }

    fn checksum(&self, superblock: &Superblock) -> Option<u16> {
        let number = self.number.to_le_bytes();
        let (before, after) = (
            &self.raw[..field::CHECKSUM],
            &self.raw[field::CHECKSUM + 2..],
        );
        match superblock.protection {
            Protection::None => None,
            Protection::Groups => Some(crc16(&[superblock.uuid(), &number, before, after])),
            Protection::Metadata => {
                let checksum = crc32c(crc32c(superblock.seed, &number), before);
                Some(low_half(crc32c(crc32c(checksum, &[0, 0]), after)))
            }
        }
    }

    fn check(&self, superblock: &Superblock) -> Result<()> {
        let checksum = self.checksum(superblock);
        if checksum.is_some_and(|expected| expected != u16_at(&self.raw, field::CHECKSUM)) {
            return Err(Error::Checksum {
                what: format!("block group {}", self.number),
            });
        }
        let table_end = self.inode_table().checked_add(table_blocks(superblock));
        let ends = [
            Some(self.bitmap_block(Bitmap::Blocks)),
            Some(self.bitmap_block(Bitmap::Inodes)),
            table_end.map(|end| end - 1),
        ];
        let starts = [ends[0], ends[1], Some(self.inode_table())];
        let fits = starts.into_iter().chain(ends).all(|block| {
            block.is_some_and(|block| {
                (superblock.descriptor_blocks_end()..superblock.blocks).contains(&block)
            })
        });
        if fits {
            Ok(())
        } else {
            Err(self.damaged("its bitmaps or inodes are outside of the file system"))
        }
    }

    /// Whether the block holds a bitmap or inodes of this group.
    fn has_metadata_in(&self, block: u64, superblock: &Superblock) -> bool {
        let table = self.inode_table();
        block == self.bitmap_block(Bitmap::Blocks)
            || block == self.bitmap_block(Bitmap::Inodes)
            || (table..table + table_blocks(superblock)).contains(&block)
    }
}

/// The number of blocks with inodes in a group.
fn table_blocks(superblock: &Superblock) -> u64 {
    let bytes = u64::from(superblock.inodes_per_group) * superblock.inode_size as u64;
    bytes.div_ceil(superblock.block_size as u64)
}

/// The descriptors of all groups.
#[derive(Debug)]
pub(crate) struct Groups(Vec<Group>);

impl Groups {
    /// Reads and checks the primary descriptors.
    pub(crate) fn read<S: Storage>(blocks: &Blocks<S>, superblock: &Superblock) -> Result<Self> {
        let mut groups = Vec::new();
        for block in superblock.first_block + 1..superblock.descriptor_blocks_end() {
            let bytes = blocks.read(block)?;
            for raw in bytes.chunks_exact(superblock.descriptor_size) {
                let number = groups.len() as u32;
                if number < superblock.groups {
                    let raw = raw.to_vec();
                    let group = Group { number, raw };
                    group.check(superblock)?;
                    groups.push(group);
                }
            }
        }
        Ok(Self(groups))
    }

    pub(crate) fn get(&self, number: u32) -> Result<&Group> {
        let group = self.0.get(number as usize);
        group.ok_or_else(|| damaged(format!("block group {number}"), "there is none"))
    }

    /// Writes a changed descriptor with its checksum. The backups stay as they are:
    /// the kernel does not change them either.
    pub(crate) fn put<S: Storage>(
        &mut self,
        mut group: Group,
        blocks: &mut Blocks<S>,
        superblock: &Superblock,
    ) -> Result<()> {
        if let Some(checksum) = group.checksum(superblock) {
            put_u16(&mut group.raw, field::CHECKSUM, checksum);
        }
        let size = superblock.descriptor_size;
        let offset = group.number as usize * size;
        let block = superblock.first_block + 1 + (offset / superblock.block_size) as u64;
        blocks.patch(block, offset % superblock.block_size, &group.raw)?;
        let number = group.number as usize;
        self.0[number] = group;
        Ok(())
    }

    /// Whether a file may have this block: it is after the primary group descriptors, and
    /// is neither a bitmap nor a part of an inode table. Does not recognise the backups
    /// of the superblock and the descriptors.
    pub(crate) fn is_for_files(&self, block: u64, superblock: &Superblock) -> bool {
        (superblock.descriptor_blocks_end()..superblock.blocks).contains(&block)
            && !self
                .0
                .iter()
                .any(|group| group.has_metadata_in(block, superblock))
    }
}
