//! The master boot record of a disk: reads its signature and its partitions, and
//! adds a partition. Works on the bytes of the first MiB, which the caller reads
//! and writes; only [`signature`] reads the disk itself.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use landfall_media_formats::little_endian::u32_at;
use landfall_report::failure::{Failure, Result};
use uuid::Uuid;

use crate::tables::gpt::Partition;
use crate::tables::table_error::TableError;

/// The byte where the disk signature begins (UEFI 2.10, 5.2.1). The signature is a
/// little-endian number of four bytes.
const SIGNATURE_OFFSET: u64 = 440;

/// The bytes of the table: four entries of `ENTRY_LEN` bytes (UEFI 2.10, table
/// 5.1).
const ENTRIES: std::ops::Range<usize> = 446..510;
const ENTRY_LEN: usize = 16;
/// The type of an entry that covers the whole disk, for programs that do not know
/// GPT.
pub(crate) const PROTECTIVE: u8 = 0xee;
/// The type of FAT32 with LBA. parted uses it for `fat32`, and ironic-python-agent passes
/// `fat32` to parted.
const FAT32: u8 = 0x0c;
/// An EFI system partition (UEFI 2.10, 5.2.2).
pub const EFI_SYSTEM: u8 = 0xef;
const MIB: u64 = 1 << 20;
/// In bytes: the limit of the table's addresses with sectors of 512 bytes, because
/// sector numbers have 32 bits.
const REACH: u64 = 2_097_152 * MIB;

/// One entry of the table. Sectors are logical sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// 0x80 if a BIOS boots this partition, else 0.
    pub status: u8,
    /// The type of the partition; 0 if the entry is unused.
    pub kind: u8,
    /// The first sector.
    pub first: u64,
    /// The number of sectors.
    pub count: u64,
}

/// The four entries; `None` if the sector does not end with the bytes 55 AA, with which
/// every MBR ends.
pub fn entries(sector: &[u8]) -> Option<[Entry; 4]> {
    if sector.get(510..512)? != [0x55, 0xaa] {
        return None;
    }
    let entry = |index: usize| {
        let at = ENTRIES.start + index * ENTRY_LEN;
        // The bytes 55 AA are after the entries, so the entries have their full length.
        let number = |at: usize| u64::from(u32_at(sector, at).unwrap_or_default());
        Entry {
            status: sector[at],
            kind: sector[at + 4],
            first: number(at + 8),
            count: number(at + 12),
        }
    };
    Some(std::array::from_fn(entry))
}

/// Whether this is an MBR with at least one partition. FAT and NTFS boot sectors
/// end with the same two bytes, but have text in place of the table.
pub fn has_partitions(head: &[u8]) -> bool {
    entries(head).is_some_and(|entries| {
        entries.iter().all(|entry| matches!(entry.status, 0 | 0x80))
            && entries.iter().any(|entry| entry.kind != 0)
    })
}

/// The partition table of an MBR.
#[derive(Debug, Clone)]
pub struct Table {
    entries: [u8; 4 * ENTRY_LEN],
    sector: u64,
    disk_size: u64,
    partitions: Vec<Partition>,
}

impl Table {
    /// Reads the table from the first bytes of a disk of `disk_size` bytes. Ignores
    /// logical partitions, because they are inside the extended partition.
    ///
    /// # Errors
    /// If there is no MBR, if it belongs to a GPT, or if a partition is empty or
    /// ends beyond the disk.
    pub fn parse(
        head: &[u8],
        sector: u32,
        disk_size: u64,
    ) -> std::result::Result<Self, TableError> {
        let found = entries(head).ok_or(TableError::NoMbr)?;
        let mut bytes = [0; 4 * ENTRY_LEN];
        bytes.copy_from_slice(&head[ENTRIES]);
        let sector = u64::from(sector);
        let mut partitions = Vec::new();
        for (number, entry) in (1..).zip(found) {
            let (offset, len) = (entry.first * sector, entry.count * sector);
            match entry.kind {
                0 => continue,
                PROTECTIVE => return Err(TableError::OnlyProtective),
                _ if len == 0 => return Err(TableError::EmptyPartition(number)),
                _ if offset + len > disk_size => {
                    return Err(TableError::BeyondDisk {
                        number,
                        offset,
                        end: offset + len,
                        disk_size,
                    });
                }
                _ => partitions.push(Partition {
                    number,
                    kind: Uuid::nil(),
                    guid: Uuid::nil(),
                    offset,
                    len,
                    name: String::new(),
                }),
            }
        }
        Ok(Self {
            entries: bytes,
            sector,
            disk_size,
            partitions,
        })
    }

    /// The partitions in use, sorted by number. They have no names and no GUIDs.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Adds a partition of `len` bytes, a multiple of 1 MiB, at the end of the disk
    /// or of the part that the table can address.
    ///
    /// # Errors
    /// If there is no free entry, or no free space.
    pub fn add_at_end(&mut self, len: u64) -> std::result::Result<Partition, TableError> {
        let mut entries = self.entries.chunks_exact(ENTRY_LEN);
        let Some(index) = entries.position(|entry| entry[4] == 0) else {
            return Err(TableError::MbrFull);
        };
        // ironic-python-agent chooses the same place, even on a disk that is too large
        // for an MBR.
        let end = if self.disk_size > REACH {
            REACH - MIB
        } else {
            self.disk_size
        };
        let offset = end.saturating_sub(len) / MIB * MIB;
        let last = self.partitions.iter().map(|p| p.offset + p.len).max();
        if offset < last.unwrap_or(0).max(MIB) {
            return Err(TableError::NoSpaceInMbr {
                len,
                partitions_end: last.unwrap_or(0),
                end,
            });
        }
        let number = |bytes: u64| {
            u32::try_from(bytes / self.sector).map_err(|_| TableError::BeyondMbr(bytes))
        };
        let (first, count) = (number(offset)?, number(len)?);
        let entry = &mut self.entries[index * ENTRY_LEN..][..ENTRY_LEN];
        // These values for cylinder, head and sector mean that only the sector numbers
        // (LBA) in the last two fields are valid.
        entry.copy_from_slice(&[
            0, 0xfe, 0xff, 0xff, FAT32, 0xfe, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
        ]);
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..16].copy_from_slice(&count.to_le_bytes());
        let added = Partition {
            // The cast is lossless: at most 4.
            number: index as u32 + 1,
            kind: Uuid::nil(),
            guid: Uuid::nil(),
            offset,
            len,
            name: String::new(),
        };
        self.partitions.push(added.clone());
        self.partitions.sort_by_key(|partition| partition.number);
        Ok(added)
    }

    /// Writes the table into `head`, the first bytes of the disk.
    pub fn write(&self, head: &mut [u8]) {
        head[ENTRIES].copy_from_slice(&self.entries);
    }
}

/// Reads the disk signature, a number that identifies the disk, from the first bytes
/// of a disk.
pub fn signature_in(head: &[u8]) -> Option<u32> {
    u32_at(head, SIGNATURE_OFFSET as usize)
}

/// Reads the disk signature from a disk. Returns it as `0x` and eight hexadecimal
/// digits.
///
/// # Errors
/// If the disk cannot be read.
pub fn signature(disk: &Path) -> Result<String> {
    let mut bytes = [0; 4];
    File::open(disk)
        .and_then(|file| file.read_exact_at(&mut bytes, SIGNATURE_OFFSET))
        .map_err(|error| {
            Failure::block_device(format!(
                "cannot read the MBR of {}: {error}",
                disk.display()
            ))
        })?;
    Ok(format!("0x{:08x}", u32::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn head(entries: &[(u8, u32, u32)]) -> Vec<u8> {
        let mut head = vec![0; 1 << 20];
        for (entry, (kind, first, count)) in head[ENTRIES].chunks_exact_mut(16).zip(entries) {
            entry[4] = *kind;
            entry[8..12].copy_from_slice(&first.to_le_bytes());
            entry[12..16].copy_from_slice(&count.to_le_bytes());
        }
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        head
    }

    #[test]
    fn a_partition_at_the_end_of_the_addressable_disk() {
        for (size, sector, offset) in [
            (GIB, 512, GIB - 64 * MIB),
            (GIB + 5 * 512, 512, GIB - 64 * MIB),
            (2048 * GIB, 512, 2048 * GIB - 64 * MIB),
            (3000 * GIB, 512, (2_097_152 - 65) * MIB),
            (GIB, 4096, GIB - 64 * MIB),
        ] {
            let mut head = head(&[(0x83, 2048, 2048), (0, 0, 0), (0x83, 8192, 100)]);
            let mut table = Table::parse(&head, sector, size).unwrap();
            let added = table.add_at_end(64 * MIB).unwrap();
            assert_eq!((added.number, added.offset), (2, offset));
            table.write(&mut head);
            let again = Table::parse(&head, sector, size).unwrap();
            assert_eq!(again.partitions(), table.partitions());
            assert_eq!(again.partitions().len(), 3);
        }
    }

    #[test]
    fn tables_without_room_for_a_partition() {
        let full = [
            (0x83, 2048, 8),
            (0x83, 4096, 8),
            (5, 8192, 8),
            (0x83, 9000, 8),
        ];
        for (entries, word) in [
            (&full[..], "four partitions"),
            (&[(0x83, 2048, (GIB / 512 - 2048) as u32)], "no free space"),
            (&[(0xee, 1, 100)], "GPT"),
            (&[(0x83, 2048, u32::MAX)], "goes from byte"),
            (&[(0x83, 2048, 0)], "partition 1 of the MBR has no sectors"),
        ] {
            let outcome = Table::parse(&head(entries), 512, GIB)
                .and_then(|mut table| table.add_at_end(64 * MIB));
            let reason = outcome.unwrap_err().to_string();
            assert!(reason.contains(word), "{reason}");
        }
        assert!(Table::parse(&[0; 512], 512, GIB).is_err());
        assert!(Table::parse(&[], 512, GIB).is_err());
    }

    #[test]
    fn the_signature_has_all_its_digits() {
        let disk = tempfile::NamedTempFile::new().unwrap();
        let mut sector = vec![0; 512];
        sector[440..444].copy_from_slice(&[0x0d, 0xf0, 0xad, 0x0b]);
        std::fs::write(disk.path(), &sector).unwrap();
        assert_eq!(signature(disk.path()).unwrap(), "0x0badf00d");
        std::fs::write(disk.path(), &sector[..442]).unwrap();
        assert!(signature(disk.path()).is_err());
    }
}
