//! The disk in an image file, and its partitions.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use landfall_ext4::Storage;

use super::qcow2_disk::Qcow2Disk;

pub(super) enum Disk {
    /// The file, and its size in bytes.
    Raw(File, u64),
    Qcow2(Box<Qcow2Disk>),
}

impl Disk {
    /// In bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Raw(_, size) => *size,
            Self::Qcow2(disk) => disk.size(),
        }
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Raw(file, _) => file.read_exact_at(buffer, offset),
            Self::Qcow2(disk) => disk.read_at(offset, buffer).map_err(io::Error::other),
        }
    }

    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Raw(file, _) => file.write_all_at(bytes, offset),
            Self::Qcow2(disk) => disk.write_at(offset, bytes).map_err(io::Error::other),
        }
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        match self {
            Self::Raw(file, _) => file.sync_all(),
            Self::Qcow2(disk) => disk.finish(),
        }
    }
}

pub(super) struct Partition<'a> {
    pub(super) disk: &'a Disk,
    /// In bytes.
    pub(super) offset: u64,
    /// In bytes.
    pub(super) len: u64,
}

impl Storage for Partition<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.disk.read_at(self.offset + offset, buffer)
    }
}
