//! The superblock: geometry, features and free counts
//! (Documentation/filesystems/ext4/super.rst).

use crate::checksums::crc32c;
use crate::error::{Error, Result};
use crate::fields::{put_u32, put_u64_in_halves, u16_at, u32_at, u64_in_halves};

/// The offset of the superblock in bytes from the start of the file system.
pub(crate) const OFFSET: u64 = 1024;
/// In bytes.
pub(crate) const LEN: usize = 1024;
const MAGIC: u16 = 0xef53;

mod field {
    pub(super) const INODES: usize = 0x00;
    pub(super) const BLOCKS: usize = 0x04;
    pub(super) const FREE_BLOCKS: usize = 0x0c;
    pub(super) const FREE_INODES: usize = 0x10;
    pub(super) const FIRST_BLOCK: usize = 0x14;
    pub(super) const LOG_BLOCK_SIZE: usize = 0x18;
    pub(super) const BLOCKS_PER_GROUP: usize = 0x20;
    pub(super) const INODES_PER_GROUP: usize = 0x28;
    pub(super) const WRITE_TIME: usize = 0x30;
    pub(super) const MAGIC: usize = 0x38;
    pub(super) const STATE: usize = 0x3a;
    pub(super) const REVISION: usize = 0x4c;
    pub(super) const FIRST_INODE: usize = 0x54;
    pub(super) const INODE_SIZE: usize = 0x58;
    pub(super) const COMPAT: usize = 0x5c;
    pub(super) const INCOMPAT: usize = 0x60;
    pub(super) const RO_COMPAT: usize = 0x64;
    pub(super) const UUID: usize = 0x68;
    pub(super) const LAST_ORPHAN: usize = 0xe8;
    pub(super) const DESCRIPTOR_SIZE: usize = 0xfe;
    pub(super) const BLOCKS_HIGH: usize = 0x150;
    pub(super) const FREE_BLOCKS_HIGH: usize = 0x158;
    pub(super) const WANTED_EXTRA_SIZE: usize = 0x15e;
    pub(super) const CHECKSUM_TYPE: usize = 0x175;
    pub(super) const CHECKSUM_SEED: usize = 0x270;
    pub(super) const CHECKSUM: usize = 0x3fc;
}

mod incompat {
    pub(super) const FILE_TYPE: u32 = 0x2;
    pub(super) const RECOVER: u32 = 0x4;
    pub(super) const BITS_64: u32 = 0x80;
    pub(super) const CHECKSUM_SEED: u32 = 0x2000;
    /// Includes extents (0x40) and flexible groups (0x200).
    pub(super) const KNOWN: u32 = FILE_TYPE | 0x40 | BITS_64 | 0x200 | CHECKSUM_SEED;
}

mod ro_compat {
    pub(super) const GROUP_CHECKSUM: u32 = 0x10;
    pub(super) const METADATA_CHECKSUM: u32 = 0x400;
    pub(super) const ORPHAN_PRESENT: u32 = 0x1_0000;
    /// Includes sparse superblocks, large files, huge files, more than 65000
    /// sub-directories, and larger inodes.
    pub(super) const KNOWN: u32 =
        0x1 | 0x2 | 0x8 | GROUP_CHECKSUM | 0x20 | 0x40 | METADATA_CHECKSUM;
}

/// Preallocated directories, journal, extended attributes, room for resizing,
/// indexed directories, two backups, fast commits, stable inodes, orphan file.
const COMPAT_KNOWN: u32 = 0x1 | 0x4 | 0x8 | 0x10 | 0x20 | 0x200 | 0x400 | 0x800 | 0x1000;

/// The maximum number of groups, which is 8 TiB with blocks of 4 KiB. The descriptors of
/// all groups are kept in memory.
const MOST_GROUPS: u64 = 1 << 16;

/// Which metadata have checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    /// CRC-16, of the group descriptors only.
    Groups,
    /// CRC-32C, of all metadata.
    Metadata,
}

#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    raw: Vec<u8>,
    /// In bytes: 1024, 2048 or 4096.
    pub(crate) block_size: usize,
    pub(crate) blocks: u64,
    /// 1 with blocks of 1024 bytes, because block 0 is for the boot loader; otherwise 0.
    pub(crate) first_block: u64,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) groups: u32,
    /// In bytes.
    pub(crate) inode_size: usize,
    /// The first inode that is not reserved.
    pub(crate) first_inode: u32,
    /// In bytes.
    pub(crate) descriptor_size: usize,
    pub(crate) protection: Protection,
    /// The start value of the checksums of all other metadata.
    pub(crate) seed: u32,
}

impl Superblock {
    /// `available` is the size in bytes of the partition.
    pub(crate) fn parse(raw: Vec<u8>, available: u64) -> Result<Self> {
        if raw.len() != LEN || u16_at(&raw, field::MAGIC) != MAGIC {
            return Err(Error::NoMagic);
        }
        let protection = check_features(&raw)?;
        let seed = check_checksum(&raw, protection)?;
        check_clean(&raw)?;
        let invalid = |field, value: u32| Error::Superblock {
            field,
            value: u64::from(value),
        };
        let number = |at| u32_at(&raw, at);
        let log = number(field::LOG_BLOCK_SIZE);
        if log > 2 {
            return Err(invalid("the block size", log));
        }
        let block_size = 1024 << log;
        let first_block = number(field::FIRST_BLOCK);
        if first_block != u32::from(log == 0) {
            return Err(invalid("the first data block", first_block));
        }
        let most_bits = 8 << (10 + log);
        let per_group = |field, name| {
            let value = number(field);
            let fits = value > 0 && value <= most_bits && value.is_multiple_of(8);
            if fits {
                Ok(value)
            } else {
                Err(invalid(name, value))
            }
        };
        let blocks_per_group = per_group(field::BLOCKS_PER_GROUP, "blocks per group")?;
        let inodes_per_group = per_group(field::INODES_PER_GROUP, "inodes per group")?;
        let is_64 = number(field::INCOMPAT) & incompat::BITS_64 != 0;
        let high = |at| is_64.then_some(at);
        let blocks = u64_in_halves(&raw, field::BLOCKS, high(field::BLOCKS_HIGH));
        let groups = group_count(blocks, u64::from(first_block), blocks_per_group)?;
        let superblock = Self {
            block_size,
            blocks,
            first_block: u64::from(first_block),
            blocks_per_group,
            inodes_per_group,
            groups,
            inode_size: usize::from(u16_at(&raw, field::INODE_SIZE)),
            first_inode: number(field::FIRST_INODE),
            descriptor_size: if is_64 {
                usize::from(u16_at(&raw, field::DESCRIPTOR_SIZE))
            } else {
                32
            },
            protection,
            seed,
            raw,
        };
        superblock.check_sizes(available)?;
        Ok(superblock)
    }

    fn check_sizes(&self, available: u64) -> Result<()> {
        let invalid = |field, value: usize| Error::Superblock {
            field,
            value: value as u64,
        };
        let size = self.inode_size;
        if !size.is_power_of_two() || !(128..=self.block_size).contains(&size) {
            return Err(invalid("the inode size", size));
        }
        let size = self.descriptor_size;
        let smallest = if self.is_64() { 64 } else { 32 };
        if !size.is_power_of_two() || !(smallest..=self.block_size).contains(&size) {
            return Err(invalid("the size of a group descriptor", size));
        }
        let inodes = self.groups.checked_mul(self.inodes_per_group);
        if inodes != Some(self.inodes()) {
            return Err(invalid("the number of inodes", self.inodes() as usize));
        }
        if !(11..=self.inodes_per_group).contains(&self.first_inode) {
            return Err(invalid("the first inode", self.first_inode as usize));
        }
        let bytes = self.blocks.saturating_mul(self.block_size as u64);
        if bytes > available {
            return Err(Error::TooShort { bytes, available });
        }
        if self.descriptor_blocks_end() >= self.blocks {
            return Err(invalid("the number of blocks", self.blocks as usize));
        }
        Ok(())
    }

    pub(crate) fn is_64(&self) -> bool {
        u32_at(&self.raw, field::INCOMPAT) & incompat::BITS_64 != 0
    }

    pub(crate) fn inodes(&self) -> u32 {
        u32_at(&self.raw, field::INODES)
    }

    pub(crate) fn uuid(&self) -> &[u8] {
        &self.raw[field::UUID..field::UUID + 16]
    }

    /// Seconds since 1970: when the file system was last written.
    pub(crate) fn write_time(&self) -> u32 {
        u32_at(&self.raw, field::WRITE_TIME)
    }

    /// The length in bytes of the fields after the first 128 bytes of a new inode.
    pub(crate) fn wanted_extra_size(&self) -> u16 {
        let room = self.inode_size.saturating_sub(128);
        match u16_at(&self.raw, field::WANTED_EXTRA_SIZE) {
            // If the value is invalid, use the size of the kernel's struct, as
            // ext4_fill_super does.
            wanted if usize::from(wanted) > room || !wanted.is_multiple_of(4) || wanted < 28 => 32,
            wanted => wanted,
        }
    }

    /// The first block after the primary group descriptors.
    pub(crate) fn descriptor_blocks_end(&self) -> u64 {
        let bytes = u64::from(self.groups) * self.descriptor_size as u64;
        self.first_block + 1 + bytes.div_ceil(self.block_size as u64)
    }

    /// Adds to the number of free blocks and inodes. `None` if a number would become
    /// negative or too large.
    pub(crate) fn change_free(&mut self, blocks: i64, inodes: i32) -> Option<()> {
        let high = self.is_64().then_some(field::FREE_BLOCKS_HIGH);
        let free = u64_in_halves(&self.raw, field::FREE_BLOCKS, high);
        let free = free.checked_add_signed(blocks)?;
        put_u64_in_halves(&mut self.raw, field::FREE_BLOCKS, high, free);
        let free = u32_at(&self.raw, field::FREE_INODES);
        put_u32(
            &mut self.raw,
            field::FREE_INODES,
            free.checked_add_signed(inodes)?,
        );
        Some(())
    }

    /// The bytes with their checksum.
    pub(crate) fn sealed(&self) -> Vec<u8> {
        let mut raw = self.raw.clone();
        if self.protection == Protection::Metadata {
            let checksum = crc32c(!0, &raw[..field::CHECKSUM]);
            put_u32(&mut raw, field::CHECKSUM, checksum);
        }
        raw
    }
}

fn group_count(blocks: u64, first: u64, per_group: u32) -> Result<u32> {
    let groups = blocks.saturating_sub(first).div_ceil(u64::from(per_group));
    u32::try_from(groups)
        .ok()
        .filter(|_| (1..=MOST_GROUPS).contains(&groups))
        .ok_or(Error::Superblock {
            field: "the number of blocks",
            value: blocks,
        })
}

fn check_features(raw: &[u8]) -> Result<Protection> {
    let incompat = u32_at(raw, field::INCOMPAT);
    if incompat & incompat::RECOVER != 0 {
        return Err(Error::Unclean(
            "its journal has changes that are not in the file system yet",
        ));
    }
    let ro_compat = u32_at(raw, field::RO_COMPAT);
    if ro_compat & ro_compat::ORPHAN_PRESENT != 0 {
        return Err(Error::Unclean("it has deleted files that were still open"));
    }
    for (set, bits) in [
        ("incompatible", incompat & !incompat::KNOWN),
        ("read-only compatible", ro_compat & !ro_compat::KNOWN),
        ("compatible", u32_at(raw, field::COMPAT) & !COMPAT_KNOWN),
    ] {
        if bits != 0 {
            return Err(Error::Features { set, bits });
        }
    }
    let revision = u32_at(raw, field::REVISION);
    if revision != 1 || incompat & incompat::FILE_TYPE == 0 {
        return Err(Error::Superblock {
            field: "the revision or the feature filetype",
            value: u64::from(revision),
        });
    }
    Ok(if ro_compat & ro_compat::METADATA_CHECKSUM != 0 {
        Protection::Metadata
    } else if ro_compat & ro_compat::GROUP_CHECKSUM != 0 {
        Protection::Groups
    } else {
        Protection::None
    })
}

/// Checks the checksum of the superblock. Returns the start value of the other
/// checksums.
fn check_checksum(raw: &[u8], protection: Protection) -> Result<u32> {
    if protection == Protection::Metadata {
        let kind = raw[field::CHECKSUM_TYPE];
        if kind != 1 {
            return Err(Error::Superblock {
                field: "the type of the checksums",
                value: u64::from(kind),
            });
        }
        if u32_at(raw, field::CHECKSUM) != crc32c(!0, &raw[..field::CHECKSUM]) {
            return Err(Error::Checksum {
                what: "superblock".to_owned(),
            });
        }
    }
    let has_seed = u32_at(raw, field::INCOMPAT) & incompat::CHECKSUM_SEED != 0;
    Ok(if has_seed {
        u32_at(raw, field::CHECKSUM_SEED)
    } else {
        crc32c(!0, &raw[field::UUID..field::UUID + 16])
    })
}

fn check_clean(raw: &[u8]) -> Result<()> {
    let state = u16_at(raw, field::STATE);
    if state & 1 == 0 {
        return Err(Error::Unclean("it was not unmounted"));
    }
    if state & !1 != 0 {
        return Err(Error::Unclean("it is marked as having errors"));
    }
    if u32_at(raw, field::LAST_ORPHAN) != 0 {
        return Err(Error::Unclean("it has deleted files that were still open"));
    }
    Ok(())
}
