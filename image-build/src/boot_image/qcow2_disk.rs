//! Reads and changes the disk in a qcow2 file in any order (QEMU,
//! docs/interop/qcow2.txt). A cluster that has a place of its own is changed there; any
//! other cluster gets a place at the end of the file.
//!
//! The agent's reader for qcow2 cannot be used: it takes the file as a stream.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use landfall_disk::image::qcow2::header::{Header, READ_LEN};
use landfall_disk::image::qcow2::tables::{self, COPIED, Cluster, OFFSET};
use landfall_disk::image::qcow2::unpack::Unpacker;

use super::qcow2_access::{Qcow2Error, Result, read_u64};
use super::refcounts::Refcounts;

pub(super) struct Qcow2Disk {
    file: File,
    header: Header,
    refcounts: Refcounts,
    /// The compressed cluster that was read last: its number, and its content.
    unpacked: RefCell<Option<(u64, Vec<u8>)>>,
}

impl Qcow2Disk {
    pub(super) fn open(file: File) -> Result<Self> {
        let mut start = [0; READ_LEN];
        let len = file.metadata()?.len().min(READ_LEN as u64) as usize;
        file.read_exact_at(&mut start[..len], 0)?;
        let header = Header::parse(&start[..len]).map_err(Qcow2Error::Header)?;
        if let Some(suspicion) = header.suspicion {
            return Err(Qcow2Error::Suspicious(suspicion));
        }
        if header.snapshots != 0 {
            return Err(Qcow2Error::Unsupported("snapshots"));
        }
        if header.subclusters {
            return Err(Qcow2Error::Unsupported("subclusters"));
        }
        if header.autoclear_features != 0 {
            return Err(Qcow2Error::Unsupported("bitmaps"));
        }
        if header.refcounts.order != 4 {
            return Err(Qcow2Error::Unsupported("refcounts of other than 16 bits"));
        }
        let refcounts = Refcounts::read(&file, &header)?;
        Ok(Self {
            file,
            header,
            refcounts,
            unpacked: RefCell::new(None),
        })
    }

    /// In bytes.
    pub(super) fn size(&self) -> u64 {
        self.header.size
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len())?;
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let (number, within) = self.split(at);
            let len = rest
                .len()
                .min((self.header.cluster_size() - within) as usize);
            let (part, after) = rest.split_at_mut(len);
            match self.cluster(number)?.1 {
                Cluster::Zeros => part.fill(0),
                Cluster::Plain { host, .. } => self.file.read_exact_at(part, host + within)?,
                Cluster::Compressed { host, len } => {
                    self.unpack(number, host, len)?;
                    if let Some((_, content)) = &*self.unpacked.borrow() {
                        part.copy_from_slice(&content[within as usize..][..part.len()]);
                    }
                }
            }
            at += len as u64;
            rest = after;
        }
        Ok(())
    }

    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes.len())?;
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (number, within) = self.split(at);
            let len = rest
                .len()
                .min((self.header.cluster_size() - within) as usize);
            let (part, after) = rest.split_at(len);
            self.write_within(number, within, part)?;
            at += len as u64;
            rest = after;
        }
        Ok(())
    }

    fn check(&self, offset: u64, len: usize) -> Result<()> {
        let size = self.size();
        if offset
            .checked_add(len as u64)
            .is_some_and(|end| end <= size)
        {
            return Ok(());
        }
        Err(Qcow2Error::BeyondDisk { offset, size })
    }

    /// The number of the cluster that contains this byte of the disk, and the offset of
    /// the byte in the cluster.
    fn split(&self, offset: u64) -> (u64, u64) {
        let size = self.header.cluster_size();
        (offset / size, offset % size)
    }

    /// The L1 entry for the cluster `number`: its offset in the file, and its value.
    fn l1_entry(&self, number: u64) -> Result<(u64, u64)> {
        let index = number * self.header.cluster_size() / self.header.l2_coverage();
        let place = self.header.l1_offset + index * 8;
        Ok((place, read_u64(&self.file, place)?))
    }

    /// The L2 entry of a cluster: its value, and its meaning.
    fn cluster(&self, number: u64) -> Result<(u64, Cluster)> {
        let (_, l1_entry) = self.l1_entry(number)?;
        let table = tables::l1_entry(&self.header, l1_entry).map_err(Qcow2Error::Entry)?;
        let Some(table) = table else {
            return Ok((0, Cluster::Zeros));
        };
        let entry = read_u64(&self.file, table + self.place_in_l2(number))?;
        let cluster = tables::l2_entry(&self.header, entry, 0).map_err(Qcow2Error::Entry)?;
        Ok((entry, cluster))
    }

    /// The offset of the entry of a cluster in its L2 table, in bytes.
    fn place_in_l2(&self, number: u64) -> u64 {
        number % (self.header.cluster_size() / 8) * 8
    }

    fn unpack(&self, number: u64, host: u64, len: u64) -> Result<()> {
        let mut unpacked = self.unpacked.borrow_mut();
        if unpacked.as_ref().is_some_and(|(last, _)| *last == number) {
            return Ok(());
        }
        // The compressed data at the end of the file may be shorter than the entry says.
        let available = self.file.metadata()?.len().saturating_sub(host);
        let mut packed = vec![0; len.min(available) as usize];
        self.file.read_exact_at(&mut packed, host)?;
        let mut content = vec![0; self.header.cluster_size() as usize];
        Unpacker::new(self.header.compression)
            .unpack(&packed, &mut content)
            .map_err(Qcow2Error::Cluster)?;
        *unpacked = Some((number, content));
        Ok(())
    }

    fn write_within(&mut self, number: u64, within: u64, part: &[u8]) -> Result<()> {
        let (entry, cluster) = self.cluster(number)?;
        if let Cluster::Plain { host, .. } = cluster {
            require_copied(entry)?;
            self.refcounts.require_in_file(host)?;
            return Ok(self.file.write_all_at(part, host + within)?);
        }
        let size = self.header.cluster_size();
        let mut content = vec![0; size as usize];
        let mut released = None;
        if let Cluster::Compressed { host, len } = cluster {
            self.unpack(number, host, len)?;
            if let Some((_, unpacked)) = self.unpacked.take() {
                content = unpacked;
            }
            released = Some((host, len));
        }
        content[within as usize..][..part.len()].copy_from_slice(part);
        let kept = entry & OFFSET;
        let host = if released.is_none() && kept != 0 {
            // The cluster reads as zeros, but already has a place in the file.
            require_copied(entry)?;
            self.refcounts.require_in_file(kept)?;
            kept
        } else {
            self.refcounts.allocate(&self.file)?
        };
        self.file.write_all_at(&content, host)?;
        let table = self.own_l2_table(number)?;
        let place = table + self.place_in_l2(number);
        self.file
            .write_all_at(&(host | COPIED).to_be_bytes(), place)?;
        if let Some((host, len)) = released {
            self.refcounts.release(&self.file, host, len)?;
        }
        Ok(())
    }

    /// The place of the L2 table for this cluster. Makes one if there is none.
    fn own_l2_table(&mut self, number: u64) -> Result<u64> {
        let (place, entry) = self.l1_entry(number)?;
        if entry & OFFSET != 0 {
            require_copied(entry)?;
            return Ok(entry & OFFSET);
        }
        let table = self.refcounts.allocate(&self.file)?;
        let empty = vec![0; self.header.cluster_size() as usize];
        self.file.write_all_at(&empty, table)?;
        self.file
            .write_all_at(&(table | COPIED).to_be_bytes(), place)?;
        Ok(table)
    }
}

fn require_copied(entry: u64) -> Result<()> {
    if entry & COPIED != 0 {
        return Ok(());
    }
    Err(Qcow2Error::Damaged("a cluster has more than one use"))
}

#[cfg(test)]
mod tests;
