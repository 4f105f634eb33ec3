//! The refcounts of a qcow2 file: how often each cluster is used. Supports only
//! refcounts of 16 bits, which qemu-img writes by default.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use landfall_disk::image::qcow2::header::Header;

use super::qcow2_access::{Qcow2Error, Result, read_u64};

/// The maximum size of the table in bytes: `QCOW_MAX_REFTABLE_SIZE` of QEMU.
const MOST_TABLE: u64 = 8 << 20;

pub(super) struct Refcounts {
    cluster: u64,
    /// The place of the table in the file, in bytes.
    table: u64,
    /// Number of entries in the table.
    entries: u64,
    /// Where the next cluster is added: the end of the file, in bytes.
    end: u64,
}

impl Refcounts {
    pub(super) fn read(file: &File, header: &Header) -> Result<Self> {
        let (cluster, table) = (header.cluster_size(), header.refcounts.offset);
        let len = u64::from(header.refcounts.clusters) * cluster;
        if len > MOST_TABLE || table == 0 || !table.is_multiple_of(cluster) {
            return Err(Qcow2Error::Damaged(
                "its refcount table has an invalid place",
            ));
        }
        Ok(Self {
            cluster,
            table,
            entries: len / 8,
            end: file.metadata()?.len().next_multiple_of(cluster),
        })
    }

    /// Fails if a cluster is beyond the end of the file: a write there would make a
    /// sparse file of up to 64 PiB.
    pub(super) fn require_in_file(&self, place: u64) -> Result<()> {
        match place.checked_add(self.cluster) {
            Some(end) if end <= self.end => Ok(()),
            _ => Err(Qcow2Error::Damaged(
                "a cluster is behind the end of the file",
            )),
        }
    }

    /// Returns the place of a new cluster at the end of the file. The caller writes the
    /// content of the cluster.
    pub(super) fn allocate(&mut self, file: &File) -> Result<u64> {
        loop {
            let place = self.end;
            self.end += self.cluster;
            // According to the refcounts, clusters beyond the end of the file may be in
            // use although they were never written.
            let number = place / self.cluster;
            if self.get(file, number)? == 0 {
                self.set(file, number, 1)?;
                return Ok(place);
            }
        }
    }

    /// Decrements the refcount of each cluster that has a byte in this range of the file.
    pub(super) fn release(&mut self, file: &File, place: u64, len: u64) -> Result<()> {
        let last = (place + len - 1) / self.cluster;
        for number in place / self.cluster..=last {
            let count = self.get(file, number)?.checked_sub(1);
            let count = count.ok_or(Qcow2Error::Damaged("a cluster in use has no refcount"))?;
            self.set(file, number, count)?;
        }
        Ok(())
    }

    /// How many refcounts a block holds.
    fn per_block(&self) -> u64 {
        self.cluster / 2
    }

    /// The place of the table's entry for a cluster, and the place of the block with
    /// the cluster's refcount; 0 if there is no such block.
    fn block(&self, file: &File, number: u64) -> Result<(u64, u64)> {
        let index = number / self.per_block();
        if index >= self.entries {
            return Err(Qcow2Error::Unsupported("a full refcount table"));
        }
        let entry = self.table + index * 8;
        let block = read_u64(file, entry)? & !511;
        if !block.is_multiple_of(self.cluster) {
            return Err(Qcow2Error::Damaged("a refcount block has an invalid place"));
        }
        Ok((entry, block))
    }

    fn get(&self, file: &File, number: u64) -> Result<u16> {
        let (_, block) = self.block(file, number)?;
        if block == 0 {
            return Ok(0);
        }
        let mut count = [0; 2];
        file.read_exact_at(&mut count, block + number % self.per_block() * 2)?;
        Ok(u16::from_be_bytes(count))
    }

    fn set(&mut self, file: &File, number: u64, count: u16) -> Result<()> {
        let (entry, mut block) = self.block(file, number)?;
        if block == 0 {
            block = self.end;
            self.end += self.cluster;
            file.write_all_at(&vec![0; self.cluster as usize], block)?;
            file.write_all_at(&block.to_be_bytes(), entry)?;
            // Often the new block holds its own refcount.
            self.set(file, block / self.cluster, 1)?;
        }
        let place = block + number % self.per_block() * 2;
        Ok(file.write_all_at(&count.to_be_bytes(), place)?)
    }
}
