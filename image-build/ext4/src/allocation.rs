//! Allocates blocks and inodes, and frees blocks
//! (Documentation/filesystems/ext4/bitmaps.rst).

use crate::blocks::Storage;
use crate::checksums::crc32c;
use crate::error::{Error, Result, damaged};
use crate::file_system::FileSystem;
use crate::groups::{Bitmap, Group};
use crate::superblock::Protection;

impl<S: Storage> FileSystem<S> {
    /// Takes `count` free blocks. Prefers a contiguous run, searched from `goal` on. If
    /// no block group has a run of this length, takes the first free blocks of the file
    /// system.
    pub(crate) fn take_blocks(&mut self, count: usize, goal: u64) -> Result<Vec<u64>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let taken = match self.find_run(count, goal)? {
            Some(first) => (first..first + count as u64).collect(),
            None => self.find_single(count)?,
        };
        for &block in &taken {
            self.mark_block(block, true)?;
        }
        Ok(taken)
    }

    /// Frees blocks of a file.
    pub(crate) fn give_blocks(&mut self, blocks: &[u64]) -> Result<()> {
        blocks
            .iter()
            .try_for_each(|&block| self.mark_block(block, false))
    }

    /// The groups, beginning with the group of `goal`: the first block, the bitmap and
    /// the number of blocks of each. Leaves out groups whose bitmap was never written.
    fn searched(&self, goal: u64) -> impl Iterator<Item = Result<(u64, Vec<u8>, u64)>> {
        let groups = self.superblock.groups;
        let first = self.group_of(goal).unwrap_or(0);
        (0..groups)
            .map(move |n| (first + n) % groups)
            .filter_map(move |number| {
                let group = match self.groups.get(number) {
                    Ok(group) => group,
                    Err(error) => return Some(Err(error)),
                };
                if !group.is_initialised(Bitmap::Blocks, &self.superblock) {
                    return None;
                }
                let start = self.first_of(number);
                let len =
                    u64::from(self.superblock.blocks_per_group).min(self.superblock.blocks - start);
                let bitmap = self.bitmap(group, Bitmap::Blocks);
                Some(bitmap.map(|bitmap| (start, bitmap, len)))
            })
    }

    /// Searches for a free run: after `goal` in its group, then in the whole group, then
    /// in the other groups.
    fn find_run(&self, count: usize, goal: u64) -> Result<Option<u64>> {
        for (turn, found) in self.searched(goal).enumerate() {
            let (start, bitmap, len) = found?;
            let after = if turn == 0 {
                goal.saturating_sub(start)
            } else {
                0
            };
            for from in [after, 0] {
                if let Some(at) = run(&bitmap, from, len, count) {
                    return Ok(Some(start + at));
                }
            }
        }
        Ok(None)
    }

    fn find_single(&self, count: usize) -> Result<Vec<u64>> {
        let mut free = Vec::new();
        for found in self.searched(0) {
            let (start, bitmap, len) = found?;
            let bits = (0..len).filter(|&at| !is_set(&bitmap, at));
            free.extend(bits.map(|at| start + at).take(count - free.len()));
            if free.len() == count {
                return Ok(free);
            }
        }
        Err(Error::NoSpace("blocks"))
    }

    fn first_of(&self, group: u32) -> u64 {
        let per_group = u64::from(self.superblock.blocks_per_group);
        self.superblock.first_block + u64::from(group) * per_group
    }

    fn group_of(&self, block: u64) -> Option<u32> {
        let within = block.checked_sub(self.superblock.first_block)?;
        let group = within / u64::from(self.superblock.blocks_per_group);
        u32::try_from(group)
            .ok()
            .filter(|_| block < self.superblock.blocks)
    }

    fn mark_block(&mut self, block: u64, taken: bool) -> Result<()> {
        let fault = |reason| damaged(format!("block {block}"), reason);
        let number = self
            .group_of(block)
            .filter(|_| self.groups.is_for_files(block, &self.superblock))
            .ok_or_else(|| fault("it is not for files"))?;
        let group = self.groups.get(number)?.clone();
        if !group.is_initialised(Bitmap::Blocks, &self.superblock) {
            return Err(fault("its group has no bitmap"));
        }
        let mut bitmap = self.bitmap(&group, Bitmap::Blocks)?;
        let bit = block - self.first_of(number);
        if is_set(&bitmap, bit) == taken {
            return Err(fault("the bitmap and its use contradict each other"));
        }
        flip(&mut bitmap, bit);
        let mut group = self.put_bitmap(group, Bitmap::Blocks, bitmap)?;
        let change = if taken { -1 } else { 1 };
        group.change_free_blocks(change)?;
        self.put_group(group)?;
        self.change_free(i64::from(change), 0)
    }

    /// Takes a free inode, in the group of `near` if that group has one, otherwise in the
    /// next group that has one.
    pub(crate) fn take_inode(&mut self, near: u32, is_directory: bool) -> Result<u32> {
        let (per_group, groups) = (self.superblock.inodes_per_group, self.superblock.groups);
        let first = near.saturating_sub(1) / per_group;
        for number in (0..groups).map(|n| (first + n) % groups) {
            let group = self.groups.get(number)?.clone();
            if !group.is_initialised(Bitmap::Inodes, &self.superblock) {
                continue;
            }
            let mut bitmap = self.bitmap(&group, Bitmap::Inodes)?;
            let reserved = if number == 0 {
                self.superblock.first_inode - 1
            } else {
                0
            };
            let mut free = (reserved..per_group).filter(|&at| !is_set(&bitmap, u64::from(at)));
            let Some(index) = free.next() else {
                continue;
            };
            flip(&mut bitmap, u64::from(index));
            let mut group = self.put_bitmap(group, Bitmap::Inodes, bitmap)?;
            group.take_inode(index, is_directory, &self.superblock)?;
            self.put_group(group)?;
            self.change_free(0, -1)?;
            return Ok(number * per_group + index + 1);
        }
        Err(Error::NoSpace("inodes"))
    }

    fn bitmap(&self, group: &Group, which: Bitmap) -> Result<Vec<u8>> {
        let bitmap = self.blocks.read(group.bitmap_block(which))?;
        let found = group.bitmap_checksum(which);
        if self.superblock.protection == Protection::Metadata
            && found != self.bitmap_checksum(group, which, &bitmap)
        {
            return Err(Error::Checksum {
                what: format!("a bitmap of block group {}", group.number),
            });
        }
        Ok(bitmap)
    }

    /// The checksum covers the bits of a full group, not the rest of the block.
    fn bitmap_checksum(&self, group: &Group, which: Bitmap, bitmap: &[u8]) -> u32 {
        let bits = match which {
            Bitmap::Blocks => self.superblock.blocks_per_group,
            Bitmap::Inodes => self.superblock.inodes_per_group,
        };
        group.shortened(crc32c(self.superblock.seed, &bitmap[..bits as usize / 8]))
    }

    fn put_bitmap(&mut self, mut group: Group, which: Bitmap, bitmap: Vec<u8>) -> Result<Group> {
        if self.superblock.protection == Protection::Metadata {
            let checksum = self.bitmap_checksum(&group, which, &bitmap);
            group.set_bitmap_checksum(which, checksum);
        }
        self.blocks.write(group.bitmap_block(which), bitmap)?;
        Ok(group)
    }

    fn put_group(&mut self, group: Group) -> Result<()> {
        self.groups.put(group, &mut self.blocks, &self.superblock)
    }

    fn change_free(&mut self, blocks: i64, inodes: i32) -> Result<()> {
        self.superblock
            .change_free(blocks, inodes)
            .ok_or_else(|| damaged("superblock", "its free counts are wrong"))?;
        let block_size = self.superblock.block_size as u64;
        let offset = crate::superblock::OFFSET;
        // Less than the size of a block.
        let at = (offset % block_size) as usize;
        self.blocks
            .patch(offset / block_size, at, &self.superblock.sealed())
    }
}

/// The first run of `count` free bits between `from` and `len`.
fn run(bitmap: &[u8], from: u64, len: u64, count: usize) -> Option<u64> {
    let mut start = from;
    for at in from..len {
        if is_set(bitmap, at) {
            start = at + 1;
        } else if at + 1 - start == count as u64 {
            return Some(start);
        }
    }
    None
}

fn is_set(bitmap: &[u8], bit: u64) -> bool {
    // A group has at most 32768 bits.
    bitmap[(bit / 8) as usize] >> (bit % 8) & 1 == 1
}

fn flip(bitmap: &mut [u8], bit: u64) {
    bitmap[(bit / 8) as usize] ^= 1 << (bit % 8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_where_it_fits() {
        let bitmap = [0b0110_0001, 0b1000_0000];
        for (from, count, expected) in [
            (0, 1, Some(1)),
            (0, 4, Some(1)),
            (0, 5, Some(7)),
            (2, 4, Some(7)),
            (0, 8, Some(7)),
            (0, 9, None),
            (15, 1, None),
        ] {
            assert_eq!(run(&bitmap, from, 16, count), expected, "{from} {count}");
        }
        assert_eq!(run(&bitmap, 0, 12, 6), None, "the group ends there");
    }
}
