//! The GUID partition table: read, move its backup to the disk's end, add
//! partitions. Works on bytes of the first MiB; reading and writing them is
//! someone else's task.
//!
//! The `gpt` crate reads and checks the table. It does not write it: its writer
//! packs the entries (partition 4 becomes 3 when 2 is free), re-encodes names
//! from lossy UTF-16 and keeps `last_usable` of a smaller disk; here only the
//! fields that must change do change, every other byte stays as the image has
//! it (UEFI specification 2.10, section 5.3).

use std::collections::BTreeMap;
use std::io::Cursor;

use flate2::Crc;
use uuid::Uuid;

use crate::disk::image_head::HEAD_LEN;

pub use entries::Entry;

/// How a header begins.
pub const SIGNATURE: &[u8; 8] = b"EFI PART";
/// The smallest header, and what every known tool writes.
const HEADER_LEN: usize = 92;
const ENTRY_LEN: u64 = 128;
/// 128 is what every known tool writes; four times that still lies in the
/// first MiB with both sector sizes.
const MOST_ENTRIES: u64 = 512;
/// Partitions start at multiples of this many bytes, as all tools place them.
const ALIGNMENT: u64 = 1 << 20;

/// "Linux filesystem data".
const LINUX_DATA: Uuid = Uuid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4);
/// GRUB's second half on a disk that BIOS boots; no file system.
pub const BIOS_BOOT: Uuid = Uuid::from_u128(0x2168_6148_6449_6e6f_744e_6565_6445_4649);
/// The EFI system partition.
pub const EFI_SYSTEM: Uuid = Uuid::from_u128(0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b);

/// Fields of the header (UEFI 2.10, table 5.5).
mod field {
    pub const CRC: usize = 16;
    pub const MY_LBA: usize = 24;
    pub const ALTERNATE_LBA: usize = 32;
    pub const FIRST_USABLE_LBA: usize = 40;
    pub const LAST_USABLE_LBA: usize = 48;
    pub const ENTRIES_LBA: usize = 72;
    pub const ENTRIES_CRC: usize = 88;
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1.
    pub number: u32,
    /// Its type.
    pub kind: Uuid,
    /// Its own GUID.
    pub guid: Uuid,
    /// Its first byte on the disk.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its name.
    pub name: String,
}

impl Partition {
    /// Fails if it begins in the first MiB: that is held back and written last,
    /// over everything that was put there before.
    ///
    /// # Errors
    /// With its number and place.
    pub fn refuse_in_head(&self) -> Result<(), String> {
        if self.offset >= HEAD_LEN as u64 {
            return Ok(());
        }
        Err(format!(
            "partition {} begins at byte {}, in the first MiB, and would be lost",
            self.number, self.offset
        ))
    }
}

/// A primary table that passed its checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    sector: u64,
    header: Vec<u8>,
    entries: Vec<u8>,
    partitions: Vec<Partition>,
}

/// Whether a GPT header for this sector size is there, valid or not.
pub fn has_signature(head: &[u8], sector: u32) -> bool {
    head.get(sector as usize..)
        .is_some_and(|rest| rest.starts_with(SIGNATURE))
}

/// Whether a backup header for this sector size is at the end of a disk, valid
/// or not.
pub fn has_backup_signature(tail: &[u8], sector: u32) -> bool {
    let at = tail.len().checked_sub(sector as usize);
    at.is_some_and(|at| tail[at..].starts_with(SIGNATURE))
}

impl Table {
    /// Reads the primary table from the first bytes of a disk.
    ///
    /// # Errors
    /// If it is not valid: checksums, places and counts.
    pub fn parse(head: &[u8], sector: u32) -> Result<Self, String> {
        let start = sector as usize;
        let sector = u64::from(sector);
        let header = head
            .get(start..start + start)
            .ok_or("the disk ends before the header")?
            .to_vec();
        let header_len = get_u32(&header, 12);
        let entries_lba = get_u64(&header, field::ENTRIES_LBA);
        let (count, entry_len) = (get_u32(&header, 80), get_u32(&header, 84));
        // Checked here because the crate asserts or allocates by them.
        if header_len as usize != HEADER_LEN || u64::from(entry_len) != ENTRY_LEN {
            return Err(format!(
                "expected a header of 92 bytes and entries of 128, found {header_len} and {entry_len}"
            ));
        }
        let entries_len = u64::from(count) * ENTRY_LEN;
        let entries_start = entries_lba.saturating_mul(sector);
        if count == 0 || u64::from(count) > MOST_ENTRIES || entries_lba < 2 {
            return Err(format!(
                "expected 1 to {MOST_ENTRIES} entries after the header, found {count} at sector {entries_lba}"
            ));
        }
        let entries_end = entries_start.saturating_add(entries_len);
        if entries_end > head.len() as u64 {
            return Err(format!(
                "entries end at byte {entries_end}, not in the first MiB"
            ));
        }
        let entries = head[entries_start as usize..entries_end as usize].to_vec();
        if get_u64(&header, field::MY_LBA) != 1 {
            return Err("the header says that it is not the primary one".to_owned());
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

    /// The partitions in use, by number.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The size of the disk or image that the table was made for, in bytes: its
    /// backup header is the last sector.
    pub fn image_size(&self) -> u64 {
        get_u64(&self.header, field::ALTERNATE_LBA)
            .saturating_add(1)
            .saturating_mul(self.sector)
    }

    /// The first byte after the last partition.
    pub fn partitions_end(&self) -> u64 {
        self.partitions
            .iter()
            .map(|p| p.offset + p.len)
            .max()
            .unwrap_or(0)
    }

    /// Makes this the table of a disk of that size: backup at its end, all the
    /// space usable. GUIDs and partitions stay as they are.
    ///
    /// # Errors
    /// If a partition would reach into the backup table.
    pub fn move_backup_to_end(&mut self, disk_size: u64) -> Result<(), String> {
        let last = (disk_size / self.sector)
            .checked_sub(1)
            .ok_or("the disk has no sectors")?;
        let backup_entries = last
            .checked_sub(self.entries_sectors())
            .filter(|&lba| lba > get_u64(&self.header, field::ENTRIES_LBA))
            .ok_or("the disk has no room for a backup table")?;
        if self.partitions_end() > backup_entries * self.sector {
            return Err(format!(
                "partitions end at byte {}, the backup table needs the disk from byte {} on",
                self.partitions_end(),
                backup_entries * self.sector
            ));
        }
        put_u64(&mut self.header, field::ALTERNATE_LBA, last);
        put_u64(&mut self.header, field::LAST_USABLE_LBA, backup_entries - 1);
        self.seal();
        Ok(())
    }

    /// Adds a partition of this length, as near to the end of the disk as there
    /// is room.
    ///
    /// # Errors
    /// If there is no free entry or no free space.
    pub fn add_at_end(&mut self, name: &str, len: u64, guid: Uuid) -> Result<Partition, String> {
        let index = self
            .entries
            .chunks_exact(ENTRY_LEN as usize)
            .position(|entry| entry[..16] == [0; 16])
            .ok_or("no free entry in the partition table")?;
        let len = len.next_multiple_of(self.sector);
        let offset = self.last_gap(len).ok_or_else(|| {
            format!(
                "no free space for {len} bytes: the last partition ends at byte {}, usable space at {}",
                self.partitions_end(),
                self.usable_end()
            )
        })?;
        let entry = &mut self.entries[index * ENTRY_LEN as usize..][..ENTRY_LEN as usize];
        // A deleted partition may have left its name and attributes (5.3.3).
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

    /// Puts the primary table into the first bytes of the disk, and corrects
    /// the protective MBR there to span the disk.
    pub fn write_primary(&self, head: &mut [u8]) {
        let sector = self.sector as usize;
        head[sector..2 * sector].copy_from_slice(&self.header);
        let start = (get_u64(&self.header, field::ENTRIES_LBA) * self.sector) as usize;
        head[start..start + self.entries.len()].copy_from_slice(&self.entries);
        let last = get_u64(&self.header, field::ALTERNATE_LBA);
        protect(&mut head[446..510], last);
    }

    /// The backup table, entries and header, and the byte where it belongs.
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

/// The entries of the primary table, after both checksums were found right.
/// Not `GptConfig::open`: that would fall back to whatever looks like a backup
/// header, whose fields nobody has checked.
fn read_with_crate(
    head: &[u8],
    sector: u64,
) -> Result<BTreeMap<u32, gpt::partition::Partition>, String> {
    let size = gpt::disk::LogicalBlockSize::try_from(sector).map_err(|e| e.to_string())?;
    let mut device = Cursor::new(head);
    let header = gpt::header::read_header_from_arbitrary_device(&mut device, size)
        .map_err(|e| e.to_string())?;
    gpt::partition::file_read_partitions(&mut device, &header, size).map_err(|e| e.to_string())
}

fn partition(
    number: u32,
    entry: &gpt::partition::Partition,
    sector: u64,
) -> Result<Partition, String> {
    let sectors = entry
        .last_lba
        .checked_sub(entry.first_lba)
        .and_then(|n| n.checked_add(1));
    let offset = entry.first_lba.checked_mul(sector);
    let len = sectors.and_then(|n| n.checked_mul(sector));
    match (offset, len) {
        (Some(offset), Some(len)) if offset.checked_add(len).is_some() => Ok(Partition {
            number,
            kind: entry.part_type_guid.guid,
            guid: entry.part_guid,
            offset,
            len,
            name: entry.name.clone(),
        }),
        _ => Err(format!(
            "partition {number} goes from sector {} to {}",
            entry.first_lba, entry.last_lba
        )),
    }
}

/// UEFI 2.10, 5.3.1 and 5.3.3: no sector belongs to two partitions, or to one and
/// to the table.
fn refuse_overlaps(partitions: &[Partition], table_end: u64) -> Result<(), String> {
    let mut by_place: Vec<&Partition> = partitions.iter().collect();
    by_place.sort_by_key(|partition| partition.offset);
    if let Some(first) = by_place.first()
        && first.offset < table_end
    {
        return Err(format!(
            "partition {} begins at byte {}, inside of the table, which ends at byte {table_end}",
            first.number, first.offset
        ));
    }
    for pair in by_place.windows(2) {
        // The sum was found to fit, see `partition`.
        if pair[0].offset + pair[0].len > pair[1].offset {
            return Err(format!(
                "partitions {} and {} overlap at byte {}",
                pair[0].number, pair[1].number, pair[1].offset
            ));
        }
    }
    Ok(())
}

/// UEFI 2.10, 5.2.3: the entry of type EE covers the disk, as far as 32 bits
/// reach. Its end in cylinders, heads and sectors goes by a geometry that nobody
/// knows, and is the value for what those cannot say. A hybrid MBR, with other
/// entries beside it, is left alone.
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

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

mod backup;
mod entries;
#[cfg(test)]
mod tests;
