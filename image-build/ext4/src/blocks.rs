//! The blocks of the file system: those of the image, and the changed ones, which
//! stay in memory until the caller writes all of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::error::{Error, Result, damaged};

/// The partition of the file system.
pub trait Storage {
    /// Fills the buffer from this byte of the partition on.
    ///
    /// # Errors
    /// If the partition cannot be read there.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Storage for [u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        match rest.and_then(|rest| rest.get(..buffer.len())) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
}

impl Storage for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl<S: Storage + ?Sized> Storage for &S {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buffer)
    }
}

#[derive(Debug)]
pub(crate) struct Blocks<S> {
    storage: S,
    /// The size of a block in bytes.
    size: usize,
    count: u64,
    changed: BTreeMap<u64, Vec<u8>>,
}

impl<S: Storage> Blocks<S> {
    pub(crate) fn new(storage: S, size: usize, count: u64) -> Self {
        Self {
            storage,
            size,
            count,
            changed: BTreeMap::new(),
        }
    }

    pub(crate) fn read(&self, block: u64) -> Result<Vec<u8>> {
        if block >= self.count {
            return Err(damaged(format!("block {block}"), "it is beyond the end"));
        }
        if let Some(bytes) = self.changed.get(&block) {
            return Ok(bytes.clone());
        }
        let offset = block * self.size as u64;
        let mut bytes = vec![0; self.size];
        self.storage
            .read_at(offset, &mut bytes)
            .map_err(|source| Error::Read { offset, source })?;
        Ok(bytes)
    }

    /// Replaces a block. If there are fewer bytes than a block has, zeros follow them.
    pub(crate) fn write(&mut self, block: u64, mut bytes: Vec<u8>) -> Result<()> {
        if block >= self.count || bytes.len() > self.size {
            return Err(damaged(format!("block {block}"), "it is beyond the end"));
        }
        bytes.resize(self.size, 0);
        self.changed.insert(block, bytes);
        Ok(())
    }

    /// Replaces a part of a block.
    pub(crate) fn patch(&mut self, block: u64, at: usize, part: &[u8]) -> Result<()> {
        let mut bytes = self.read(block)?;
        bytes[at..at + part.len()].copy_from_slice(part);
        self.write(block, bytes)
    }

    /// The changed blocks, each with its offset in the partition in bytes.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let size = self.size as u64;
        self.changed
            .iter()
            .map(move |(block, bytes)| (block * size, bytes.as_slice()))
    }
}
