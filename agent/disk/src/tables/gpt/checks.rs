//! Reads the entries of a table, and checks that the partitions are possible.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Cursor;

use super::Partition;
use crate::tables::table_error::TableError;

/// Reads the entries of the primary table and checks both checksums. Does not use
/// `GptConfig::open`, because it falls back to anything that looks like a backup
/// header, and this module has not checked the fields of that header.
pub(super) fn read_with_crate(
    head: &[u8],
    sector: u64,
) -> Result<BTreeMap<u32, gpt::partition::Partition>, TableError> {
    let invalid = |error: &dyn fmt::Display| TableError::Invalid(error.to_string());
    let size = gpt::disk::LogicalBlockSize::try_from(sector).map_err(|e| invalid(&e))?;
    let mut device = Cursor::new(head);
    let header = gpt::header::read_header_from_arbitrary_device(&mut device, size)
        .map_err(|e| invalid(&e))?;
    gpt::partition::file_read_partitions(&mut device, &header, size).map_err(|e| invalid(&e))
}

pub(super) fn partition(
    number: u32,
    entry: &gpt::partition::Partition,
    sector: u64,
) -> Result<Partition, TableError> {
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
        _ => Err(TableError::InvalidRange {
            number,
            first_sector: entry.first_lba,
            last_sector: entry.last_lba,
        }),
    }
}

/// Fails if two partitions share a sector, or if a partition begins inside the
/// table (UEFI 2.10, 5.3.1 and 5.3.3).
pub(super) fn refuse_overlaps(partitions: &[Partition], table_end: u64) -> Result<(), TableError> {
    let mut by_place: Vec<&Partition> = partitions.iter().collect();
    by_place.sort_by_key(|partition| partition.offset);
    if let Some(first) = by_place.first()
        && first.offset < table_end
    {
        return Err(TableError::InsideTable {
            number: first.number,
            offset: first.offset,
            table_end,
        });
    }
    for pair in by_place.windows(2) {
        // The sum does not overflow, see `partition`.
        if pair[0].offset + pair[0].len > pair[1].offset {
            return Err(TableError::Overlap {
                first: pair[0].number,
                second: pair[1].number,
                offset: pair[1].offset,
            });
        }
    }
    Ok(())
}
