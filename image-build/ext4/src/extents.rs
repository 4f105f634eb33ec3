//! The extent tree of an inode, which maps the blocks of a file
//! (Documentation/filesystems/ext4/ifork.rst).

use crate::blocks::{Blocks, Storage};
use crate::checksums::crc32c;
use crate::error::{Error, Result, damaged, unsupported};
use crate::fields::{put_u16, put_u32, u16_at, u32_at};
use crate::inode::{Inode, MAP_LEN};
use crate::superblock::{Protection, Superblock};

const MAGIC: u16 = 0xf30a;
/// The size in bytes of the header, and of each entry.
const ENTRY: usize = 12;
/// `EXT4_MAX_EXTENT_DEPTH` of the kernel.
const MOST_LEVELS: u16 = 5;
/// The maximum number of blocks of a tree. A file of 64 MiB without contiguous blocks
/// needs fewer.
const MOST_TREE_BLOCKS: usize = 1024;
/// The maximum number of blocks of a file that is changed.
const MOST_BLOCKS: usize = 1 << 17;
/// In blocks: the longest written extent. A larger number in an entry marks blocks that
/// are allocated but not written.
const LONGEST: u16 = 1 << 15;
/// The maximum number of extents in the inode itself.
const ROOT_ENTRIES: usize = MAP_LEN / ENTRY - 1;

/// A run of contiguous blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Number of the first block within the file.
    pub(crate) logical: u32,
    /// Number of the first block within the file system.
    pub(crate) physical: u64,
    /// In blocks.
    pub(crate) len: u16,
    /// Allocated, but reads as zeros.
    pub(crate) unwritten: bool,
}

/// The extents of a file in their order, and the blocks of the tree itself.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) extents: Vec<Extent>,
    pub(crate) tree: Vec<u64>,
}

impl Map {
    /// Reads the tree of this inode, which must use extents.
    pub(crate) fn read<S: Storage>(
        inode: &Inode,
        blocks: &Blocks<S>,
        superblock: &Superblock,
    ) -> Result<Self> {
        let mut map = Self::default();
        let levels = u16_at(inode.map(), 6);
        if levels > MOST_LEVELS {
            return Err(damaged(inode.name(), "its extent tree has too many levels"));
        }
        let reader = Reader {
            inode,
            blocks,
            superblock,
        };
        reader.node(inode.map(), levels, &mut map)?;
        Ok(map)
    }

    /// The blocks of a file without holes, in their order.
    ///
    /// # Errors
    /// If the file has holes, blocks that are allocated but not written, or more than
    /// `MOST_BLOCKS` blocks.
    pub(crate) fn dense(&self, inode: &Inode) -> Result<Vec<u64>> {
        let mut all = Vec::new();
        for extent in &self.extents {
            if extent.unwritten || u64::from(extent.logical) != all.len() as u64 {
                return Err(unsupported(inode.name(), "it has holes"));
            }
            if all.len() + usize::from(extent.len) > MOST_BLOCKS {
                return Err(unsupported(inode.name(), "it is too large"));
            }
            all.extend(extent.physical..extent.physical + u64::from(extent.len));
        }
        Ok(all)
    }

    /// The block of the file system for a block of the file; `None` if it reads as
    /// zeros.
    pub(crate) fn physical(&self, logical: u64) -> Option<u64> {
        let after = self
            .extents
            .partition_point(|extent| u64::from(extent.logical) <= logical);
        let extent = self.extents.get(after.checked_sub(1)?)?;
        let within = logical - u64::from(extent.logical);
        (!extent.unwritten && within < u64::from(extent.len)).then(|| extent.physical + within)
    }
}

struct Reader<'a, S> {
    inode: &'a Inode,
    blocks: &'a Blocks<S>,
    superblock: &'a Superblock,
}

impl<S: Storage> Reader<'_, S> {
    fn node(&self, node: &[u8], level: u16, map: &mut Map) -> Result<()> {
        let fault = |reason| damaged(self.inode.name(), reason);
        let count = usize::from(u16_at(node, 2));
        let room = (node.len() / ENTRY).saturating_sub(1);
        if u16_at(node, 0) != MAGIC || u16_at(node, 6) != level || count > room {
            return Err(fault("its extent tree has an invalid header"));
        }
        for entry in node.chunks_exact(ENTRY).skip(1).take(count) {
            if level == 0 {
                self.leaf(entry, map)?;
                continue;
            }
            let block = u64::from(u32_at(entry, 4)) | u64::from(u16_at(entry, 8)) << 32;
            if map.tree.len() >= MOST_TREE_BLOCKS {
                return Err(unsupported(
                    self.inode.name(),
                    "its extent tree is too large",
                ));
            }
            map.tree.push(block);
            let child = self.blocks.read(block)?;
            self.check_tail(&child, block)?;
            self.node(&child, level - 1, map)?;
        }
        Ok(())
    }

    fn leaf(&self, entry: &[u8], map: &mut Map) -> Result<()> {
        let len = u16_at(entry, 4);
        let unwritten = len > LONGEST;
        let extent = Extent {
            logical: u32_at(entry, 0),
            physical: u64::from(u32_at(entry, 8)) | u64::from(u16_at(entry, 6)) << 32,
            len: if unwritten { len - LONGEST } else { len },
            unwritten,
        };
        let after_last = map
            .extents
            .last()
            .map_or(0, |last| u64::from(last.logical) + u64::from(last.len));
        let end = extent.physical + u64::from(extent.len);
        if extent.len == 0
            || u64::from(extent.logical) < after_last
            || extent.physical < self.superblock.descriptor_blocks_end()
            || end > self.superblock.blocks
        {
            let reason = "an extent is empty, out of order or outside of the file system";
            return Err(damaged(self.inode.name(), reason));
        }
        map.extents.push(extent);
        Ok(())
    }

    fn check_tail(&self, node: &[u8], block: u64) -> Result<()> {
        if self.superblock.protection != Protection::Metadata {
            return Ok(());
        }
        let at = ENTRY * (1 + usize::from(u16_at(node, 4)));
        let sound = at + 4 <= node.len()
            && u32_at(node, at) == crc32c(self.inode.seed(self.superblock), &node[..at]);
        if sound {
            return Ok(());
        }
        Err(Error::Checksum {
            what: format!("{}: block {block} of its extent tree", self.inode.name()),
        })
    }
}

/// Joins contiguous blocks into extents.
pub(crate) fn joined(blocks: &[u64]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for (logical, &physical) in blocks.iter().enumerate() {
        match extents.last_mut() {
            Some(last) if last.len < LONGEST && last.physical + u64::from(last.len) == physical => {
                last.len += 1;
            }
            _ => extents.push(Extent {
                // A file or directory that this crate changes has far fewer than 2^32
                // blocks.
                logical: u32::try_from(logical).unwrap_or(u32::MAX),
                physical,
                len: 1,
                unwritten: false,
            }),
        }
    }
    extents
}

/// Whether these extents fit into the inode, without a block for the tree.
pub(crate) fn fit_in_inode(extents: &[Extent]) -> bool {
    extents.len() <= ROOT_ENTRIES
}

/// How many extents fit into one block of a tree.
pub(crate) fn leaf_capacity(superblock: &Superblock) -> usize {
    (superblock.block_size - ENTRY) / ENTRY
}

/// Writes the extents into the inode.
pub(crate) fn put_in_inode(inode: &mut Inode, extents: &[Extent]) {
    inode.map_mut().fill(0);
    put_node(inode.map_mut(), ROOT_ENTRIES, extents);
}

/// Makes a leaf of the extents for `block`, and writes a root that refers to this block
/// into the inode. Returns the content of the block.
pub(crate) fn put_in_leaf(
    inode: &mut Inode,
    block: u64,
    extents: &[Extent],
    superblock: &Superblock,
) -> Vec<u8> {
    let mut leaf = vec![0; superblock.block_size];
    let capacity = leaf_capacity(superblock);
    put_node(&mut leaf, capacity, extents);
    if superblock.protection == Protection::Metadata {
        let at = ENTRY * (1 + capacity);
        let checksum = crc32c(inode.seed(superblock), &leaf[..at]);
        put_u32(&mut leaf, at, checksum);
    }
    let map = inode.map_mut();
    map.fill(0);
    put_header(map, 1, ROOT_ENTRIES, 1);
    let entry = &mut map[ENTRY..2 * ENTRY];
    let [a, b, c, d, e, f, ..] = block.to_le_bytes();
    entry[4..10].copy_from_slice(&[a, b, c, d, e, f]);
    leaf
}

fn put_node(node: &mut [u8], capacity: usize, extents: &[Extent]) {
    put_header(node, extents.len(), capacity, 0);
    for (entry, extent) in node[ENTRY..].chunks_exact_mut(ENTRY).zip(extents) {
        put_u32(entry, 0, extent.logical);
        put_u16(entry, 4, extent.len);
        let [a, b, c, d, e, f, ..] = extent.physical.to_le_bytes();
        entry[6..12].copy_from_slice(&[e, f, a, b, c, d]);
    }
}

fn put_header(node: &mut [u8], count: usize, capacity: usize, level: u16) {
    put_u16(node, 0, MAGIC);
    // At most 340 entries fit into a block of 4096 bytes.
    put_u16(node, 2, u16::try_from(count).unwrap_or(u16::MAX));
    put_u16(node, 4, u16::try_from(capacity).unwrap_or(u16::MAX));
    put_u16(node, 6, level);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_up_to_the_longest_extent() {
        let extent = |logical, physical, len| Extent {
            logical,
            physical,
            len,
            unwritten: false,
        };
        assert_eq!(joined(&[]), []);
        assert_eq!(
            joined(&[7, 8, 5, 6, 9]),
            [extent(0, 7, 2), extent(2, 5, 2), extent(4, 9, 1)]
        );
        let long: Vec<u64> = (100..100 + u64::from(LONGEST) + 3).collect();
        assert_eq!(
            joined(&long),
            [extent(0, 100, LONGEST), extent(32768, 32868, 3)]
        );
    }
}
