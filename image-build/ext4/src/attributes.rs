//! The SELinux label of an inode, one of its extended attributes
//! (Documentation/filesystems/ext4/attributes.rst).

use crate::blocks::{Blocks, Storage};
use crate::checksums::crc32c;
use crate::error::{Error, Result, damaged};
use crate::fields::{put_u16, put_u32, u16_at, u32_at};
use crate::inode::{Inode, SMALLEST};
use crate::superblock::{Protection, Superblock};

const MAGIC: u32 = 0xea02_0000;
/// The size in bytes of an entry without its name.
const ENTRY: usize = 16;
/// The size in bytes of the header of a block with attributes.
const BLOCK_HEADER: usize = 32;
/// The offset in bytes of the checksum in that header.
const CHECKSUM: usize = 16;
/// The prefix `security.` as a number.
const SECURITY: u8 = 6;
const NAME: &[u8] = b"selinux";
/// The size in bytes of the name with its padding.
const PADDED_NAME: usize = 8;

/// The label of this inode; `None` if it has none.
pub(crate) fn label<S: Storage>(
    inode: &Inode,
    blocks: &Blocks<S>,
    superblock: &Superblock,
) -> Result<Option<Vec<u8>>> {
    let start = SMALLEST + inode.extra_size();
    let in_inode = inode.raw.get(start + 4..).unwrap_or_default();
    if inode.raw.len() >= start + 4 && u32_at(&inode.raw, start) == MAGIC {
        let found = find(in_inode, 0, inode)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    match inode.attribute_block() {
        0 => Ok(None),
        number => {
            let block = blocks.read(number)?;
            check_block(&block, number, inode, superblock)?;
            find(&block, BLOCK_HEADER, inode)
        }
    }
}

fn check_block(block: &[u8], number: u64, inode: &Inode, superblock: &Superblock) -> Result<()> {
    if u32_at(block, 0) != MAGIC || u32_at(block, 8) != 1 {
        let reason = "its block with extended attributes has an invalid header";
        return Err(damaged(inode.name(), reason));
    }
    let protected = superblock.protection == Protection::Metadata;
    if protected && u32_at(block, CHECKSUM) != block_checksum(block, number, superblock) {
        return Err(Error::Checksum {
            what: format!("{}: its extended attributes", inode.name()),
        });
    }
    Ok(())
}

fn block_checksum(block: &[u8], number: u64, superblock: &Superblock) -> u32 {
    let mut checksum = crc32c(superblock.seed, &number.to_le_bytes());
    checksum = crc32c(checksum, &block[..CHECKSUM]);
    checksum = crc32c(checksum, &[0; 4]);
    crc32c(checksum, &block[CHECKSUM + 4..])
}

/// Searches the entries from offset `first` on for the SELinux label. The offsets of the
/// values count from the start of `bytes`.
fn find(bytes: &[u8], first: usize, inode: &Inode) -> Result<Option<Vec<u8>>> {
    let fault = || {
        damaged(
            inode.name(),
            "an extended attribute is outside of its place",
        )
    };
    let mut at = first;
    // Four zeros end the list.
    while at + 4 <= bytes.len() && u32_at(bytes, at) != 0 {
        let entry = bytes.get(at..at + ENTRY).ok_or_else(fault)?;
        let name_end = at + ENTRY + usize::from(entry[0]);
        let name = bytes.get(at + ENTRY..name_end).ok_or_else(fault)?;
        if entry[1] == SECURITY && name == NAME {
            if u32_at(entry, 4) != 0 {
                let reason = "its SELinux label is in an inode of its own";
                return Err(crate::error::unsupported(inode.name(), reason));
            }
            let start = usize::from(u16_at(entry, 2));
            let len = u32_at(entry, 8) as usize;
            let value = start
                .checked_add(len)
                .and_then(|end| bytes.get(start..end))
                .ok_or_else(fault)?;
            return Ok(Some(value.to_vec()));
        }
        at = name_end.next_multiple_of(4);
    }
    Ok(None)
}

/// Writes this label into the new inode itself. Returns `false` if the inode has no
/// room for the label.
pub(crate) fn put_in_inode(inode: &mut Inode, label: &[u8]) -> bool {
    let start = SMALLEST + inode.extra_size();
    let Some(room) = inode.raw.len().checked_sub(start + 4) else {
        return false;
    };
    let padded = label.len().next_multiple_of(4);
    // The inode must have room for the entry, the four zeros after it, and the value at
    // the end.
    if room < ENTRY + PADDED_NAME + 4 + padded {
        return false;
    }
    put_u32(&mut inode.raw, start, MAGIC);
    // The hash is 0, as the kernel writes it for an attribute in an inode.
    put_attribute(&mut inode.raw[start + 4..], 0, label, 0);
    true
}

/// A block that gives an inode this label. `None` if the label is too long.
pub(crate) fn block_with(label: &[u8], number: u64, superblock: &Superblock) -> Option<Vec<u8>> {
    let mut block = vec![0; superblock.block_size];
    let padded = label.len().next_multiple_of(4);
    if BLOCK_HEADER + ENTRY + PADDED_NAME + 4 + padded > block.len() {
        return None;
    }
    let hash = hash(label);
    put_u32(&mut block, 0, MAGIC);
    // The number of references, and the number of blocks.
    put_u32(&mut block, 4, 1);
    put_u32(&mut block, 8, 1);
    // The hash of all attributes. This attribute is the only one.
    put_u32(&mut block, 12, hash);
    put_attribute(&mut block, BLOCK_HEADER, label, hash);
    if superblock.protection == Protection::Metadata {
        let checksum = block_checksum(&block, number, superblock);
        put_u32(&mut block, CHECKSUM, checksum);
    }
    Some(block)
}

/// Writes the entry at `at` and its value at the end of `bytes`.
fn put_attribute(bytes: &mut [u8], at: usize, label: &[u8], hash: u32) {
    let place = bytes.len() - label.len().next_multiple_of(4);
    bytes[at] = NAME.len() as u8;
    bytes[at + 1] = SECURITY;
    // Always fits: a block has at most 4096 bytes.
    put_u16(bytes, at + 2, u16::try_from(place).unwrap_or(u16::MAX));
    put_u32(
        bytes,
        at + 8,
        u32::try_from(label.len()).unwrap_or(u32::MAX),
    );
    put_u32(bytes, at + 12, hash);
    bytes[at + ENTRY..at + ENTRY + NAME.len()].copy_from_slice(NAME);
    bytes[place..place + label.len()].copy_from_slice(label);
}

/// The hash of the attribute's name and value (`ext4_xattr_hash_entry` in
/// fs/ext4/xattr.c).
fn hash(label: &[u8]) -> u32 {
    let name = NAME
        .iter()
        .fold(0u32, |hash, &byte| hash.rotate_left(5) ^ u32::from(byte));
    let mut padded = label.to_vec();
    padded.resize(label.len().next_multiple_of(4), 0);
    padded
        .chunks_exact(4)
        .fold(name, |hash, word| hash.rotate_left(16) ^ u32_at(word, 0))
}
