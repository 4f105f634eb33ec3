//! Reads the backup of a table, for disks whose primary table is damaged.

use super::{
    ENTRY_LEN, HEADER_LEN, SIGNATURE, Table, crc32, field, get_u32, get_u64, put_u64, seal_header,
};
use crate::tables::table_error::{MOST_ENTRIES, TableError};

impl Table {
    /// Reads the backup table from the last bytes of a disk of this size.
    ///
    /// # Errors
    /// If the backup is missing or not valid; see [`Table::parse`].
    pub fn parse_backup(tail: &[u8], disk_size: u64, sector: u32) -> Result<Self, TableError> {
        let unit = u64::from(sector);
        let header_at = tail
            .len()
            .checked_sub(sector as usize)
            .ok_or(TableError::NoLastSector)?;
        let mut header = tail[header_at..].to_vec();
        if !header.starts_with(SIGNATURE) {
            return Err(TableError::NoBackup);
        }
        if get_u32(&header, 12) as usize != HEADER_LEN {
            return Err(TableError::BackupLength);
        }
        // The checksum is checked here, because `parse` gets a header with a new
        // checksum.
        let claimed = get_u32(&header, field::CRC);
        seal_header(&mut header);
        if get_u32(&header, field::CRC) != claimed {
            return Err(TableError::BackupChecksum);
        }
        let last = (disk_size / unit).saturating_sub(1);
        let (my_lba, entries_lba, count) = (
            get_u64(&header, field::MY_LBA),
            get_u64(&header, field::ENTRIES_LBA),
            u64::from(get_u32(&header, 80)),
        );
        if my_lba != last || count > MOST_ENTRIES {
            return Err(TableError::BackupPlace {
                expected_sector: last,
                sector: my_lba,
                count,
            });
        }
        let tail_start = disk_size - tail.len() as u64;
        let entries = entries_lba
            .checked_mul(unit)
            .and_then(|at| at.checked_sub(tail_start))
            // The cast is lossless in a valid table: `at` is at most the length of the
            // tail.
            .and_then(|at| tail.get(at as usize..)?.get(..(count * ENTRY_LEN) as usize))
            .ok_or(TableError::BackupEntriesPlace(entries_lba))?;
        if crc32(entries) != get_u32(&header, field::ENTRIES_CRC) {
            return Err(TableError::BackupEntriesChecksum);
        }
        // Turns the header into that of the primary table, which otherwise has the
        // same content (UEFI 2.10, 5.3.2).
        put_u64(&mut header, field::MY_LBA, 1);
        put_u64(&mut header, super::field::ALTERNATE_LBA, last);
        put_u64(&mut header, field::ENTRIES_LBA, 2);
        seal_header(&mut header);
        let mut head = vec![0; sector as usize];
        head.extend_from_slice(&header);
        head.extend_from_slice(entries);
        Self::parse(&head, sector)
    }
}
