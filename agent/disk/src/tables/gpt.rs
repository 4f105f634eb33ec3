//! The GUID partition table (UEFI specification 2.10, section 5.3): reads it, moves
//! its backup to the end of the disk, adds partitions. Works on the bytes of the
//! first MiB, which the caller reads and writes.
//!
//! The `gpt` crate reads and checks the table, but this module writes it: the crate's
//! writer packs the entries (partition 4 becomes 3 if 2 is free), re-encodes names
//! from lossy UTF-16 and keeps the `last_usable` of a smaller disk. This module
//! changes only the fields that must change; every other byte stays as it is in the
//! image.

mod backup;
mod checks;
mod entries;

use flate2::Crc;
use landfall_media_formats::little_endian;
use uuid::Uuid;

use super::table_error::{InHead, MOST_ENTRIES, TableError};
use checks::{partition, read_with_crate, refuse_overlaps};
pub use entries::Entry;

/// In bytes: this much of the image is checked, kept in memory and written last. It
/// contains the MBR, the GPT and the BIOS boot code.
///
/// Firmware needs this part to start anything. A BIOS runs the first sector, UEFI
/// accepts no partitions if the first sector has no MBR (UEFI 2.10, 5.2), and the
/// volume descriptors of ISO 9660 and UDF are at byte 32768. Only the backup of a GPT
/// is elsewhere: see `image/image_head.rs`, `stale_backup`.
pub const HEAD_LEN: usize = 1 << 20;

/// The first bytes of a header.
pub const SIGNATURE: &[u8; 8] = b"EFI PART";
/// The length of a header in bytes: the smallest permitted length, which every known tool
/// uses.
const HEADER_LEN: usize = 92;
const ENTRY_LEN: u64 = 128;
/// Partitions start at multiples of this many bytes, as all tools place them.
const ALIGNMENT: u64 = 1 << 20;

/// "Linux filesystem data".
const LINUX_DATA: Uuid = Uuid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4);
/// The type of a partition with the second part of GRUB, on a disk that a BIOS
/// boots. It holds no file system.
pub const BIOS_BOOT: Uuid = Uuid::from_u128(0x2168_6148_6449_6e6f_744e_6565_6445_4649);
pub const EFI_SYSTEM: Uuid = Uuid::from_u128(0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b);

/// Fields of the header (UEFI 2.10, table 5.5).
mod field {
    pub(super) const CRC: usize = 16;
    pub(super) const MY_LBA: usize = 24;
    pub(super) const ALTERNATE_LBA: usize = 32;
    pub(super) const FIRST_USABLE_LBA: usize = 40;
    pub(super) const LAST_USABLE_LBA: usize = 48;
    pub(super) const ENTRIES_LBA: usize = 72;
    pub(super) const ENTRIES_CRC: usize = 88;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Counted from 1.
    pub number: u32,
    /// The GUID of its type.
    pub kind: Uuid,
    /// The unique GUID of this partition.
    pub guid: Uuid,
    /// In bytes from the start of the disk.
    pub offset: u64,
    /// In bytes.
    pub len: u64,
    pub name: String,
}

impl Partition {
    /// Fails if the partition begins in the first MiB. The agent writes that MiB
    /// last, and would overwrite what it wrote into the partition earlier.
    ///
    /// # Errors
    /// If the partition begins there. The error has its number and its offset.
    pub fn refuse_in_head(&self) -> Result<(), InHead> {
        if self.offset >= HEAD_LEN as u64 {
            return Ok(());
        }
        Err(InHead {
            number: self.number,
            offset: self.offset,
        })
    }
}

/// A primary table whose checksums are correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    sector: u64,
    header: Vec<u8>,
    entries: Vec<u8>,
    partitions: Vec<Partition>,
}

/// Whether `head`, the first bytes of a disk, has a GPT header for this sector
/// size, valid or not.
pub fn has_signature(head: &[u8], sector: u32) -> bool {
    head.get(sector as usize..)
        .is_some_and(|rest| rest.starts_with(SIGNATURE))
}

/// Whether `tail`, the last bytes of a disk, ends with a backup header for this
/// sector size, valid or not.
pub fn has_backup_signature(tail: &[u8], sector: u32) -> bool {
    let at = tail.len().checked_sub(sector as usize);
    at.is_some_and(|at| tail[at..].starts_with(SIGNATURE))
}

impl Table {
    /// Reads the primary table from the first bytes of a disk.
    ///
    /// # Errors
    /// If there is no table, if a checksum, a length, a place or a count in the table is
    /// wrong, or if partitions overlap each other or the table.
    pub fn parse(head: &[u8], sector: u32) -> Result<Self, TableError> {
        let start = sector as usize;
        let sector = u64::from(sector);
        let header = head
            .get(start..start + start)
            .ok_or(TableError::NoHeader)?
            .to_vec();
        let header_len = get_u32(&header, 12);
        let entries_lba = get_u64(&header, field::ENTRIES_LBA);
        let (count, entry_len) = (get_u32(&header, 80), get_u32(&header, 84));
        // These values are checked before the crate reads the table, because with wrong
        // values the crate panics or allocates too much memory.
        if header_len as usize != HEADER_LEN || u64::from(entry_len) != ENTRY_LEN {
            return Err(TableError::Lengths {
                header: header_len,
                entry: entry_len,
            });
        }
        let entries_len = u64::from(count) * ENTRY_LEN;
        let entries_start = entries_lba.saturating_mul(sector);
        if count == 0 || u64::from(count) > MOST_ENTRIES || entries_lba < 2 {
            return Err(TableError::EntryCount {
                count,
                sector: entries_lba,
            });
        }
        let entries_end = entries_start.saturating_add(entries_len);
        if entries_end > head.len() as u64 {
            return Err(TableError::EntriesEnd(entries_end));
        }
        let entries = head[entries_start as usize..entries_end as usize].to_vec();
        if get_u64(&header, field::MY_LBA) != 1 {
            return Err(TableError::NotPrimary);
        }
        let checked = read_with_crate(&head[..entries_end as usize], sector)?;
        let partitions = checked
            .iter()
            .filter(|(_, entry)| entry.is_used())
            .map(|(&number, entry)| partition(number, entry, sector))
            .collect::<Result<Vec<_>, _>>()?;
        refuse_overlaps(&partitions, entries_end)?;
        Ok(Self {
            sector,
            header,
            entries,
            partitions,
        })
    }

    /// The sector size that the table counts in, in bytes.
    pub fn sector_size(&self) -> u64 {
        self.sector
    }

    /// The partitions in use, sorted by number.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The size in bytes of the disk or image that the table was made for. The
    /// backup header is its last sector.
    pub fn image_size(&self) -> u64 {
        get_u64(&self.header, field::ALTERNATE_LBA)
            .saturating_add(1)
            .saturating_mul(self.sector)
    }

    /// The first byte after the last partition; 0 if there is none.
    pub fn partitions_end(&self) -> u64 {
        self.partitions
            .iter()
            .map(|p| p.offset + p.len)
            .max()
            .unwrap_or(0)
    }

    /// Adapts the table to a disk of `disk_size` bytes: the backup is at the end, and
    /// all space before it is usable. GUIDs and partitions stay as they are.
    ///
    /// # Errors
    /// If a partition would overlap the backup table, or the disk is too small for
    /// it.
    pub fn move_backup_to_end(&mut self, disk_size: u64) -> Result<(), TableError> {
        let last = (disk_size / self.sector)
            .checked_sub(1)
            .ok_or(TableError::NoSectors)?;
        let backup_entries = last
            .checked_sub(self.entries_sectors())
            .filter(|&lba| lba > get_u64(&self.header, field::ENTRIES_LBA))
            .ok_or(TableError::NoRoomForBackup)?;
        if self.partitions_end() > backup_entries * self.sector {
            return Err(TableError::PartitionsInBackup {
                partitions_end: self.partitions_end(),
                backup: backup_entries * self.sector,
            });
        }
        put_u64(&mut self.header, field::ALTERNATE_LBA, last);
        put_u64(&mut self.header, field::LAST_USABLE_LBA, backup_entries - 1);
        self.seal();
        Ok(())
    }

    /// Adds a partition of `len` bytes, rounded up to whole sectors, at the last multiple
    /// of a MiB that has enough free space after it.
    ///
    /// # Errors
    /// If there is no free entry, or no free space.
    pub fn add_at_end(
        &mut self,
        name: &str,
        len: u64,
        guid: Uuid,
    ) -> Result<Partition, TableError> {
        let index = self
            .entries
            .chunks_exact(ENTRY_LEN as usize)
            .position(|entry| entry[..16] == [0; 16])
            .ok_or(TableError::NoEntry)?;
        let len = len.next_multiple_of(self.sector);
        let offset = self.last_gap(len).ok_or_else(|| TableError::NoSpace {
            len,
            partitions_end: self.partitions_end(),
            usable_end: self.usable_end(),
        })?;
        let entry = &mut self.entries[index * ENTRY_LEN as usize..][..ENTRY_LEN as usize];
        // A deleted partition may have left its name and attributes (UEFI 2.10, 5.3.3).
        entry.fill(0);
        entry[..16].copy_from_slice(&LINUX_DATA.to_bytes_le());
        entry[16..32].copy_from_slice(&guid.to_bytes_le());
        put_u64(entry, 32, offset / self.sector);
        put_u64(entry, 40, (offset + len) / self.sector - 1);
        for (place, unit) in entry[56..].chunks_exact_mut(2).zip(name.encode_utf16()) {
            place.copy_from_slice(&unit.to_le_bytes());
        }
        self.seal();
        let added = Partition {
            // At most 512 entries, see `parse`.
            number: u32::try_from(index).unwrap_or(u32::MAX) + 1,
            kind: LINUX_DATA,
            guid,
            offset,
            len,
            name: name.to_owned(),
        };
        self.partitions.push(added.clone());
        self.partitions.sort_by_key(|p| p.number);
        Ok(added)
    }

    /// Writes the primary table into `head`, the first bytes of the disk, and extends
    /// the protective MBR in `head` to cover the whole disk.
    pub fn write_primary(&self, head: &mut [u8]) {
        let sector = self.sector as usize;
        head[sector..2 * sector].copy_from_slice(&self.header);
        let start = (get_u64(&self.header, field::ENTRIES_LBA) * self.sector) as usize;
        head[start..start + self.entries.len()].copy_from_slice(&self.entries);
        let last = get_u64(&self.header, field::ALTERNATE_LBA);
        protect(&mut head[446..510], last);
    }

    /// The offset of the backup table on the disk in bytes, and the content of the backup
    /// table: entries, then header.
    pub fn backup(&self) -> (u64, Vec<u8>) {
        let last = get_u64(&self.header, field::ALTERNATE_LBA);
        let entries_lba = last - self.entries_sectors();
        let mut header = self.header.clone();
        put_u64(&mut header, field::MY_LBA, last);
        put_u64(&mut header, field::ALTERNATE_LBA, 1);
        put_u64(&mut header, field::ENTRIES_LBA, entries_lba);
        seal_header(&mut header);
        let mut bytes = self.entries.clone();
        bytes.resize((self.entries_sectors() * self.sector) as usize, 0);
        bytes.extend_from_slice(&header);
        (entries_lba * self.sector, bytes)
    }

    fn entries_sectors(&self) -> u64 {
        (self.entries.len() as u64).div_ceil(self.sector)
    }

    fn seal(&mut self) {
        put_u32(&mut self.header, field::ENTRIES_CRC, crc32(&self.entries));
        seal_header(&mut self.header);
    }
}

/// Extends the entry of type EE to the end of the disk, as far as 32 bits allow (UEFI
/// 2.10, 5.2.3). Cylinder, head and sector of the end depend on an unknown geometry, so
/// these fields get the value for addresses that do not fit into this form. A hybrid
/// MBR, which has other entries as well, stays unchanged.
fn protect(entries: &mut [u8], last_lba: u64) {
    let used = entries.chunks_exact(16).filter(|e| e[4] != 0).count();
    if let Some(entry) = entries.chunks_exact_mut(16).find(|e| e[4] == 0xee)
        && used == 1
        && entry[8..12] == [1, 0, 0, 0]
    {
        let size = u32::try_from(last_lba).unwrap_or(u32::MAX);
        if get_u32(entry, 12) != size {
            put_u32(entry, 12, size);
            entry[5..8].fill(0xff);
        }
    }
}

fn seal_header(header: &mut [u8]) {
    put_u32(header, field::CRC, 0);
    let crc = crc32(&header[..HEADER_LEN]);
    put_u32(header, field::CRC, crc);
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Reads a field. `bytes` is a whole header or entry, so the field is always there.
fn get_u32(bytes: &[u8], at: usize) -> u32 {
    little_endian::u32_at(bytes, at).unwrap_or_default()
}

/// Reads a field. `bytes` is a whole header or entry, so the field is always there.
fn get_u64(bytes: &[u8], at: usize) -> u64 {
    little_endian::u64_at(bytes, at).unwrap_or_default()
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests;
