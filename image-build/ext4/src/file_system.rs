//! Finds and reads files by their paths.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use crate::blocks::{Blocks, Storage};
use crate::directory::{Entry, Layout};
use crate::error::{Error, Result, damaged};
use crate::extents::Map;
use crate::groups::Groups;
use crate::inode::{Inode, Kind, MAP_LEN, ROOT, flag};
use crate::superblock::{LEN, OFFSET, Protection, Superblock};

/// The maximum size of a directory in bytes. A directory with 4000 long names has 1 MiB.
const MOST_DIRECTORY: u64 = 4 << 20;
/// The maximum length of a link's target in bytes: `PATH_MAX` of Linux.
const MOST_TARGET: u64 = 4096;
/// The maximum number of symbolic links in a path, as in Linux.
const MOST_LINKS: usize = 40;

/// An open file system with the changes that were made to it.
#[derive(Debug)]
pub struct FileSystem<S> {
    pub(crate) blocks: Blocks<S>,
    pub(crate) superblock: Superblock,
    pub(crate) groups: Groups,
}

impl<S: Storage> FileSystem<S> {
    /// Opens the file system of a partition of `len` bytes.
    ///
    /// # Errors
    /// If the partition cannot be read or is too short, if it contains no clean ext4 file
    /// system, if the file system has a feature that this crate does not know, or if the
    /// superblock or a group descriptor is damaged.
    pub fn open(storage: S, len: u64) -> Result<Self> {
        if len < OFFSET + LEN as u64 {
            return Err(Error::NoMagic);
        }
        let mut raw = vec![0; LEN];
        storage
            .read_at(OFFSET, &mut raw)
            .map_err(|source| Error::Read {
                offset: OFFSET,
                source,
            })?;
        let superblock = Superblock::parse(raw, len)?;
        let blocks = Blocks::new(storage, superblock.block_size, superblock.blocks);
        let groups = Groups::read(&blocks, &superblock)?;
        Ok(Self {
            blocks,
            superblock,
            groups,
        })
    }

    /// All changes since [`FileSystem::open`]: the place in bytes within the
    /// partition, and what to write there.
    pub fn changes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.changes()
    }

    /// What a path names; `None` if it names nothing. Does not follow a symbolic link
    /// at the end of the path.
    ///
    /// # Errors
    /// If the path leads out of the file system, if a part of it before the end is not a
    /// directory, or if something on it is damaged.
    pub fn kind(&self, path: &Path) -> Result<Option<Kind>> {
        let Some((parent, name)) = split(path) else {
            return Ok(self.find(path)?.map(|inode| inode.kind()));
        };
        let Some(directory) = self.find(parent)? else {
            return Ok(None);
        };
        let found = self.entry(&directory, parent, name)?;
        found
            .map(|number| Ok(self.inode(number)?.kind()))
            .transpose()
    }

    /// The content of a file of at most `limit` bytes. Follows symbolic links.
    ///
    /// # Errors
    /// If there is no such regular file, if it is longer than `limit`, or if it is
    /// damaged or uses a feature that this crate does not support.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let inode = self.existing(path)?;
        require(path, &inode, Kind::File)?;
        self.content(path, &inode, limit)
    }

    /// The names in a directory, without `.` and `..`. Follows symbolic links.
    ///
    /// # Errors
    /// If there is no such directory, or it is damaged.
    pub fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        let inode = self.existing(directory)?;
        let entries = self.entries(directory, &inode)?;
        let names = entries.into_iter().map(|entry| entry.name);
        let names = names.filter(|name| name != b"." && name != b"..");
        Ok(names.map(OsString::from_vec).collect())
    }

    pub(crate) fn existing(&self, path: &Path) -> Result<Inode> {
        let found = self.find(path)?;
        found.ok_or_else(|| Error::NotFound(path.to_owned()))
    }

    /// The inode of a path that starts at the root; `None` if it does not exist. Follows
    /// all symbolic links.
    fn find(&self, path: &Path) -> Result<Option<Inode>> {
        let outside = || Error::Path {
            path: path.to_owned(),
            expected: "a path that stays in the file system",
        };
        let mut above = vec![self.inode(ROOT)?];
        let mut rest: VecDeque<OsString> = steps(path).ok_or_else(outside)?;
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            let Some(directory) = above.last() else {
                return Err(outside());
            };
            if name == ".." {
                if above.len() == 1 {
                    return Err(outside());
                }
                above.pop();
                continue;
            }
            let Some(number) = self.entry(directory, path, name.as_bytes())? else {
                return Ok(None);
            };
            let inode = self.inode(number)?;
            if inode.kind() != Kind::Link {
                above.push(inode);
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                let expected = "a path with fewer symbolic links";
                let path = path.to_owned();
                return Err(Error::Path { path, expected });
            }
            let target = PathBuf::from(OsString::from_vec(self.target(path, &inode)?));
            let mut target = steps(&target).ok_or_else(outside)?;
            target.append(&mut rest);
            rest = target;
        }
        Ok(above.pop())
    }

    /// The number of the inode that a directory has under this name. `path` is for
    /// messages.
    pub(crate) fn entry(&self, directory: &Inode, path: &Path, name: &[u8]) -> Result<Option<u32>> {
        let entries = self.entries(path, directory)?;
        let found = entries.into_iter().find(|entry| entry.name == name);
        Ok(found.map(|entry| entry.inode))
    }

    fn entries(&self, path: &Path, directory: &Inode) -> Result<Vec<Entry>> {
        require(path, directory, Kind::Directory)?;
        directory.require_plain()?;
        let layout = Layout::new(directory, &self.superblock);
        let mut all = Vec::new();
        for block in self.directory_blocks(directory)? {
            all.extend(layout.entries(&self.blocks.read(block)?)?);
        }
        Ok(all)
    }

    pub(crate) fn directory_blocks(&self, directory: &Inode) -> Result<Vec<u64>> {
        let size = directory.size();
        let block_size = self.superblock.block_size as u64;
        if size == 0 || size > MOST_DIRECTORY || !size.is_multiple_of(block_size) {
            let reason = "its size is impossible or too large";
            return Err(damaged(format!("directory {}", directory.number), reason));
        }
        let map = Map::read(directory, &self.blocks, &self.superblock)?;
        let blocks: Option<Vec<u64>> = (0..size / block_size)
            .map(|logical| map.physical(logical))
            .collect();
        blocks.ok_or_else(|| damaged(format!("directory {}", directory.number), "it has a hole"))
    }

    fn target(&self, path: &Path, link: &Inode) -> Result<Vec<u8>> {
        // A short target is in the inode, in the place of the map.
        if link.flags() & flag::EXTENTS == 0 {
            let len = usize::try_from(link.size()).unwrap_or(usize::MAX);
            let target = link.map().get(..len).filter(|_| len < MAP_LEN);
            let fault = || damaged(link.name(), "its target has an impossible length");
            return target.map(<[u8]>::to_vec).ok_or_else(fault);
        }
        self.content(path, link, MOST_TARGET)
    }

    fn content(&self, path: &Path, inode: &Inode, limit: u64) -> Result<Vec<u8>> {
        inode.require_plain()?;
        let size = inode.size();
        if size > limit {
            return Err(Error::TooLong {
                path: path.to_owned(),
                limit,
                found: size,
            });
        }
        let map = Map::read(inode, &self.blocks, &self.superblock)?;
        let block_size = self.superblock.block_size;
        let mut content = Vec::new();
        for logical in 0..size.div_ceil(block_size as u64) {
            match map.physical(logical) {
                Some(block) => content.extend(self.blocks.read(block)?),
                None => content.resize(content.len() + block_size, 0),
            }
        }
        content.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(content)
    }

    /// The block that contains this inode, and the place of the inode in the block.
    pub(crate) fn inode_place(&self, number: u32) -> Result<(u64, usize)> {
        let index = number
            .checked_sub(1)
            .filter(|_| number <= self.superblock.inodes());
        let index = index.ok_or_else(|| damaged(format!("inode {number}"), "there is none"))?;
        let per_group = self.superblock.inodes_per_group;
        let group = self.groups.get(index / per_group)?;
        let offset = u64::from(index % per_group) * self.superblock.inode_size as u64;
        let block_size = self.superblock.block_size as u64;
        let block = group.inode_table() + offset / block_size;
        // Less than the size of a block.
        Ok((block, (offset % block_size) as usize))
    }

    pub(crate) fn inode(&self, number: u32) -> Result<Inode> {
        let (block, at) = self.inode_place(number)?;
        let raw = self.blocks.read(block)?[at..at + self.superblock.inode_size].to_vec();
        let inode = Inode { number, raw };
        let protected = self.superblock.protection == Protection::Metadata;
        if protected && !inode.has_right_checksum(&self.superblock) {
            return Err(Error::Checksum { what: inode.name() });
        }
        Ok(inode)
    }
}

pub(crate) fn require(path: &Path, inode: &Inode, expected: Kind) -> Result<()> {
    if inode.kind() == expected {
        return Ok(());
    }
    Err(Error::Kind {
        path: path.to_owned(),
        expected: expected.name(),
        found: inode.kind().name(),
    })
}

/// Splits a path into the directory and the name at its end. `None` if the path does not
/// end in a name.
pub(crate) fn split(path: &Path) -> Option<(&Path, &[u8])> {
    let name = path.file_name()?.as_bytes();
    Some((path.parent()?, name))
}

/// The names of a relative path, with `..` as one of them. `None` if it is absolute.
fn steps(path: &Path) -> Option<VecDeque<OsString>> {
    let parts = path.components().filter_map(|part| match part {
        Component::CurDir => None,
        Component::Normal(name) => Some(Some(name.to_owned())),
        Component::ParentDir => Some(Some("..".into())),
        Component::RootDir | Component::Prefix(_) => Some(None),
    });
    parts.collect()
}
