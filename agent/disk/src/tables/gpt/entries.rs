//! Copies entries from one table to another, byte for byte, and makes new tables.

use uuid::Uuid;

use super::{
    ALIGNMENT, ENTRY_LEN, HEADER_LEN, Partition, SIGNATURE, Table, field, get_u64, put_u32,
    put_u64, refuse_overlaps,
};
use crate::tables::table_error::TableError;

/// Number of entries that every known tool reserves.
const USUAL_ENTRIES: u32 = 128;

/// The raw bytes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry(Vec<u8>);

impl Entry {
    /// An entry without attributes.
    pub fn new(partition: &Partition, sector: u64) -> Self {
        let mut bytes = vec![0; ENTRY_LEN as usize];
        bytes[..16].copy_from_slice(&partition.kind.to_bytes_le());
        bytes[16..32].copy_from_slice(&partition.guid.to_bytes_le());
        put_u64(&mut bytes, 32, partition.offset / sector);
        put_u64(
            &mut bytes,
            40,
            (partition.offset + partition.len) / sector - 1,
        );
        for (place, unit) in bytes[56..]
            .chunks_exact_mut(2)
            .zip(partition.name.encode_utf16())
        {
            place.copy_from_slice(&unit.to_le_bytes());
        }
        Self(bytes)
    }

    /// An entry with the legacy-boot attribute, by which a test recognises it.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn of(partition: &Partition, sector: u64) -> Self {
        let mut entry = Self::new(partition, sector);
        entry.0[48] = 4;
        entry
    }

    /// The same partition under another type.
    #[must_use]
    pub fn with_kind(mut self, kind: Uuid) -> Self {
        self.0[..16].copy_from_slice(&kind.to_bytes_le());
        self
    }
}

impl Table {
    /// Creates an empty table for a disk of this size. Its backup is at the end of the
    /// disk, and it has room for `entries` partitions, at least 128.
    ///
    /// # Errors
    /// If the disk is too small for the table.
    pub fn empty(
        sector: u32,
        disk_size: u64,
        guid: Uuid,
        entries: u32,
    ) -> Result<Self, TableError> {
        let entries = entries.max(USUAL_ENTRIES);
        let mut header = vec![0; sector as usize];
        header[..8].copy_from_slice(SIGNATURE);
        // Revision 1.0 (UEFI 2.10, table 5.5).
        put_u32(&mut header, 8, 0x0001_0000);
        // 92, so the cast is lossless.
        put_u32(&mut header, 12, HEADER_LEN as u32);
        put_u64(&mut header, field::MY_LBA, 1);
        put_u64(&mut header, field::ENTRIES_LBA, 2);
        header[56..72].copy_from_slice(&guid.to_bytes_le());
        put_u32(&mut header, 80, entries);
        // 128, so the cast is lossless.
        put_u32(&mut header, 84, ENTRY_LEN as u32);
        let mut table = Self {
            sector: u64::from(sector),
            header,
            entries: vec![0; (u64::from(entries) * ENTRY_LEN) as usize],
            partitions: Vec::new(),
        };
        let first_usable = 2 + table.entries_sectors();
        put_u64(&mut table.header, field::FIRST_USABLE_LBA, first_usable);
        table.move_backup_to_end(disk_size)?;
        Ok(table)
    }

    /// Number of partitions that the table can hold.
    pub fn capacity(&self) -> u32 {
        // At most 512 entries, see `parse`.
        (self.entries.len() as u64 / ENTRY_LEN) as u32
    }

    pub fn entry(&self, number: u32) -> Option<Entry> {
        self.span(number)
            .map(|span| Entry(self.entries[span].to_vec()))
    }

    /// Puts an entry into the slot with the partition's number, which must be free.
    /// `partition` is the parsed form of `entry`.
    ///
    /// # Errors
    /// If the table has no such slot, the slot is taken, the partition begins inside the
    /// table, extends beyond the usable space or overlaps another partition, or its GUID
    /// is already in use.
    pub fn put(&mut self, partition: Partition, entry: &Entry) -> Result<(), TableError> {
        let Partition { number, guid, .. } = partition;
        let span = self.span(number).ok_or_else(|| TableError::NoEntryFor {
            number,
            capacity: self.capacity(),
        })?;
        if self.entries[span.clone()][..16] != [0; 16] {
            return Err(TableError::Taken(number));
        }
        if let Some(twin) = self.partitions.iter().find(|other| other.guid == guid) {
            return Err(TableError::SameGuid {
                first: twin.number,
                second: number,
                guid,
            });
        }
        let usable_end = self.usable_end();
        if partition.offset + partition.len > usable_end {
            return Err(TableError::PartitionInBackup {
                number,
                end: partition.offset + partition.len,
                backup: usable_end,
            });
        }
        let mut all = self.partitions.clone();
        all.push(partition);
        let entries_lba = get_u64(&self.header, field::ENTRIES_LBA);
        let table_end = (entries_lba + self.entries_sectors()) * self.sector;
        refuse_overlaps(&all, table_end)?;
        all.sort_by_key(|partition| partition.number);
        self.partitions = all;
        self.entries[span].copy_from_slice(&entry.0);
        self.seal();
        Ok(())
    }

    /// Writes the primary table into the first bytes of a disk, with a protective
    /// MBR (UEFI 2.10, 5.2.3) and no boot code. Fills the rest of `head` with zeros.
    pub fn write_primary_alone(&self, head: &mut [u8]) {
        head.fill(0);
        // The entry starts at sector 1 and has type EE. Its end in cylinders, heads
        // and sectors has the value for disks that are too large for this form.
        // `write_primary` sets its length.
        head[446..458].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        self.write_primary(head);
    }

    /// The offset in bytes, a multiple of a MiB, of the last free space of `len` bytes.
    /// `None` if there is no such space.
    pub(super) fn last_gap(&self, len: u64) -> Option<u64> {
        let first_usable =
            get_u64(&self.header, field::FIRST_USABLE_LBA).saturating_mul(self.sector);
        let mut by_place: Vec<&Partition> = self.partitions.iter().collect();
        by_place.sort_by_key(|partition| std::cmp::Reverse(partition.offset));
        let taken = by_place.iter().map(|p| (p.offset, p.offset + p.len));
        let mut gap_end = self.usable_end();
        for (offset, end) in taken.chain([(0, first_usable)]) {
            let place = gap_end.saturating_sub(len) / ALIGNMENT * ALIGNMENT;
            if place >= end.max(ALIGNMENT) {
                return Some(place);
            }
            gap_end = offset;
        }
        None
    }

    /// The first byte after the usable space, where the backup table begins.
    pub(super) fn usable_end(&self) -> u64 {
        get_u64(&self.header, field::LAST_USABLE_LBA)
            .saturating_add(1)
            .saturating_mul(self.sector)
    }

    fn span(&self, number: u32) -> Option<std::ops::Range<usize>> {
        let index = u64::from(number).checked_sub(1)?;
        let start = (index * ENTRY_LEN) as usize;
        let end = start + ENTRY_LEN as usize;
        (end <= self.entries.len()).then_some(start..end)
    }
}
