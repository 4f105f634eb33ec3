//! Replaces and creates files and directories.

use std::path::{Path, PathBuf};

use crate::attributes;
use crate::blocks::Storage;
use crate::directory::{Entry, LONGEST_NAME, Layout};
use crate::error::{Error, Result, unsupported};
use crate::extents::{self, Map};
use crate::file_system::{FileSystem, require, split};
use crate::inode::{Inode, Kind, ROOT, flag};
use crate::superblock::Protection;

/// The maximum size of the content of a written file, in bytes.
const MOST_CONTENT: usize = 16 << 20;
/// `EXT4_LINK_MAX` of the kernel.
const MOST_LINKS: u16 = 65000;

impl<S: Storage> FileSystem<S> {
    /// Replaces the content of a file; mode, owner and attributes stay. Follows
    /// symbolic links.
    ///
    /// # Errors
    /// If there is no such file, if it is not a regular file, if the content is larger
    /// than 16 MiB, if the file system is full or damaged, or if the file uses a feature
    /// that this crate cannot change. Changes may be incomplete after an error: drop this
    /// value.
    pub fn replace(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        let mut inode = self.existing(path)?;
        require(path, &inode, Kind::File)?;
        self.set_content(path, &mut inode, content)?;
        inode.touch(&self.superblock);
        self.put_inode(inode)
    }

    /// Creates a file that belongs to root and has these permissions. It gets the SELinux
    /// label of its directory.
    ///
    /// # Errors
    /// As [`FileSystem::replace`]; also if the directory does not exist, or if something
    /// already has this name.
    pub fn create(&mut self, path: &Path, permissions: u16, content: &[u8]) -> Result<()> {
        let (mut parent, name) = self.place_for(path)?;
        let number = self.take_inode(parent.number, false)?;
        let mut inode = Inode::new(number, Kind::File, permissions, &self.superblock);
        extents::put_in_inode(&mut inode, &[]);
        self.inherit_label(&parent, &mut inode)?;
        self.set_content(path, &mut inode, content)?;
        self.put_inode(inode)?;
        self.add_entry(&mut parent, number, name, Kind::File)?;
        self.put_inode(parent)
    }

    /// Creates a directory that belongs to root and has these permissions. It gets the
    /// SELinux label of its parent.
    ///
    /// # Errors
    /// As [`FileSystem::create`].
    pub fn make_directory(&mut self, path: &Path, permissions: u16) -> Result<()> {
        let (mut parent, name) = self.place_for(path)?;
        // A link count of 1 means that the directory has too many sub-directories to
        // count (Documentation/filesystems/ext4/directory.rst; feature dir_nlink).
        if !(2..MOST_LINKS).contains(&parent.links()) {
            return Err(unsupported(
                parent.name(),
                "it has too many sub-directories",
            ));
        }
        let number = self.take_inode(parent.number, true)?;
        let mut inode = Inode::new(number, Kind::Directory, permissions, &self.superblock);
        inode.set_links(2);
        inode.set_size(self.superblock.block_size as u64);
        extents::put_in_inode(&mut inode, &[]);
        self.inherit_label(&parent, &mut inode)?;
        let goal = self.goal(&inode);
        let block = self.take_blocks(1, goal)?;
        self.set_map(&mut inode, &Map::default(), &block)?;
        let first = Layout::new(&inode, &self.superblock).first(parent.number);
        self.blocks.write(block[0], first)?;
        self.put_inode(inode)?;
        parent.set_links(parent.links() + 1);
        self.add_entry(&mut parent, number, name, Kind::Directory)?;
        self.put_inode(parent)
    }

    /// The parent directory and the name of a new file or directory. Fails if `path`
    /// exists.
    fn place_for(&self, path: &Path) -> Result<(Inode, Vec<u8>)> {
        let fault = || Error::Path {
            path: path.to_owned(),
            expected: "a path that ends in a name of at most 255 bytes",
        };
        let (above, name) = split(path).ok_or_else(fault)?;
        if name.len() > LONGEST_NAME {
            return Err(fault());
        }
        let parent = self.existing(above)?;
        require(above, &parent, Kind::Directory)?;
        parent.require_plain()?;
        if self.entry(&parent, above, name)?.is_some() {
            return Err(Error::Exists(path.to_owned()));
        }
        Ok((parent, name.to_vec()))
    }

    fn add_entry(
        &mut self,
        directory: &mut Inode,
        number: u32,
        name: Vec<u8>,
        kind: Kind,
    ) -> Result<()> {
        if directory.flags() & flag::INDEXED != 0 {
            return Err(unsupported(
                directory.name(),
                "it is a directory with an index",
            ));
        }
        let inode = number;
        let entry = Entry { inode, name };
        directory.touch(&self.superblock);
        let mut blocks = self.directory_blocks(directory)?;
        for &number in &blocks {
            let mut block = self.blocks.read(number)?;
            if Layout::new(directory, &self.superblock).add(&mut block, &entry, kind)? {
                return self.blocks.write(number, block);
            }
        }
        let map = Map::read(directory, &self.blocks, &self.superblock)?;
        if map.dense(directory)? != blocks {
            return Err(unsupported(directory.name(), "it has blocks after its end"));
        }
        let goal = blocks.last().map_or(0, |last| last + 1);
        let added = self.take_blocks(1, goal)?[0];
        let layout = Layout::new(directory, &self.superblock);
        let mut block = layout.empty();
        layout.add(&mut block, &entry, kind)?;
        self.blocks.write(added, block)?;
        blocks.push(added);
        directory.set_size((blocks.len() * self.superblock.block_size) as u64);
        self.set_map(directory, &map, &blocks)
    }

    fn set_content(&mut self, path: &Path, inode: &mut Inode, content: &[u8]) -> Result<()> {
        if content.len() > MOST_CONTENT {
            return Err(Error::TooLong {
                path: PathBuf::from(path),
                limit: MOST_CONTENT as u64,
                found: content.len() as u64,
            });
        }
        inode.require_plain()?;
        let map = Map::read(inode, &self.blocks, &self.superblock)?;
        let mut blocks = map.dense(inode)?;
        let pieces = content.chunks(self.superblock.block_size);
        let needed = pieces.len();
        if needed < blocks.len() {
            self.give_blocks(&blocks.split_off(needed))?;
        } else {
            let goal = match blocks.last() {
                Some(last) => last + 1,
                None => self.goal(inode),
            };
            blocks.extend(self.take_blocks(needed - blocks.len(), goal)?);
        }
        for (&block, piece) in blocks.iter().zip(pieces) {
            self.blocks.write(block, piece.to_vec())?;
        }
        inode.set_size(content.len() as u64);
        self.set_map(inode, &map, &blocks)
    }

    /// Makes these the blocks of the inode. `old` is the inode's current map; the blocks
    /// of its tree are freed.
    fn set_map(&mut self, inode: &mut Inode, old: &Map, blocks: &[u64]) -> Result<()> {
        self.give_blocks(&old.tree)?;
        let joined = extents::joined(blocks);
        let mut count = blocks.len() as u64;
        if extents::fit_in_inode(&joined) {
            extents::put_in_inode(inode, &joined);
        } else if joined.len() <= extents::leaf_capacity(&self.superblock) {
            let goal = blocks.last().map_or(0, |last| last + 1);
            let leaf = self.take_blocks(1, goal)?[0];
            let content = extents::put_in_leaf(inode, leaf, &joined, &self.superblock);
            self.blocks.write(leaf, content)?;
            count += 1;
        } else {
            return Err(unsupported(inode.name(), "its blocks are too far apart"));
        }
        count += u64::from(inode.attribute_block() != 0);
        inode.set_blocks(count, &self.superblock);
        Ok(())
    }

    /// The block from which to search for the blocks of a new inode: the first block of
    /// the inode's group.
    fn goal(&self, inode: &Inode) -> u64 {
        let group = (inode.number - 1) / self.superblock.inodes_per_group;
        let start = u64::from(group) * u64::from(self.superblock.blocks_per_group);
        self.superblock.first_block + start
    }

    /// Gives the new inode the label of its parent, as the kernel does if the policy
    /// has no rule for the new file.
    fn inherit_label(&mut self, parent: &Inode, inode: &mut Inode) -> Result<()> {
        let found = attributes::label(parent, &self.blocks, &self.superblock)?;
        let Some(label) = found else {
            return Ok(());
        };
        if attributes::put_in_inode(inode, &label) {
            return Ok(());
        }
        let goal = self.goal(inode);
        let number = self.take_blocks(1, goal)?[0];
        let block = attributes::block_with(&label, number, &self.superblock);
        let fault = || unsupported(parent.name(), "its SELinux label is very long");
        self.blocks.write(number, block.ok_or_else(fault)?)?;
        inode.set_attribute_block(number);
        Ok(())
    }

    fn put_inode(&mut self, mut inode: Inode) -> Result<()> {
        debug_assert!(inode.number == ROOT || inode.number >= self.superblock.first_inode);
        if self.superblock.protection == Protection::Metadata {
            inode.seal(&self.superblock);
        }
        let (block, at) = self.inode_place(inode.number)?;
        self.blocks.patch(block, at, &inode.raw)
    }
}
