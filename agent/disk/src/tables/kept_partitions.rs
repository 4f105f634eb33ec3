//! Partitions that stay on the disk when an image is written to it. The agent finds
//! them before it writes anything, puts them into a temporary table while it writes
//! the image, and adds them to the image's table at the end. No I/O.

use std::ops::Range;

use landfall_report::failure::{Failure, Result};
use uuid::Uuid;

use crate::tables::gpt::HEAD_LEN;
use crate::tables::gpt::{self, EFI_SYSTEM, Entry, Partition, Table};
use crate::tables::mbr;
use crate::tables::saved_partitions::PartitionFilter;
use crate::tables::table_error::TableError;

/// The type of a kept EFI system partition until the commit. With its real type, firmware
/// would boot the old system from a disk that is half overwritten. Only Landfall uses
/// this type: if the installation is interrupted, the next installation recognises it and
/// restores the real type.
pub const HIDDEN_EFI_SYSTEM: Uuid = Uuid::from_u128(0x6c61_6e64_6661_4c6c_a5ef_1e5b_0071_6865);

/// The first and the last bytes of a disk.
#[derive(Debug)]
pub struct DiskEnds<'a> {
    pub head: &'a [u8],
    pub tail: &'a [u8],
    /// In bytes.
    pub size: u64,
    /// In bytes.
    pub sector: u32,
}

/// The kept partitions, sorted by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPartitions {
    partitions: Vec<(Partition, Entry)>,
    /// The temporary table, which is on the disk until the commit. It has only the kept
    /// partitions.
    bare: Table,
    /// Whether the partitions were read from the backup GPT, because the primary GPT is
    /// damaged or missing.
    from_backup: bool,
}

/// A partition to keep (`--save-partindex`, `--save-partlabel`) does not fit into the
/// image's table. The disk was not written. Keep fewer partitions, or move this one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partition {number} of the disk cannot be kept together with the image: {reason}")]
pub struct MergeError {
    /// The number of the partition on the disk.
    pub number: u32,
    pub reason: TableError,
}

impl KeptPartitions {
    /// Finds the partitions of the disk that match a filter. `None` if no partition
    /// does, or if the disk has no GPT.
    ///
    /// # Errors
    /// If the GPT and its backup are damaged, if the GPT is for another sector size, if
    /// the disk has only an MBR and a filter selects by number, or if the temporary table
    /// cannot hold the partitions.
    pub fn find(disk: &DiskEnds<'_>, filters: &[PartitionFilter]) -> Result<Option<Self>> {
        if filters.is_empty() {
            return Ok(None);
        }
        let Some((table, from_backup)) = read_table(disk, filters)? else {
            return Ok(None);
        };
        let matching = |partition: &&Partition| filters.iter().any(|f| f.matches(partition));
        let partitions: Vec<(Partition, Entry)> = table
            .partitions()
            .iter()
            .filter(matching)
            .filter_map(|partition| {
                let entry = table.entry(partition.number)?;
                Some(unhidden(partition.clone(), entry))
            })
            .collect();
        if partitions.is_empty() {
            return Ok(None);
        }
        let refused =
            |reason: TableError| unfit(format!("the disk's partitions cannot be kept: {reason}"));
        let mut bare = Table::empty(disk.sector, disk.size, Uuid::new_v4(), table.capacity())
            .map_err(refused)?;
        for (partition, entry) in &partitions {
            let (partition, entry) = hidden(partition.clone(), entry.clone());
            bare.put(partition, &entry).map_err(refused)?;
        }
        Ok(Some(Self {
            partitions,
            bare,
            from_backup,
        }))
    }

    /// The partitions with their original numbers and real types.
    pub fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().map(|(partition, _)| partition)
    }

    /// The byte ranges of the partitions.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.partitions()
            .map(|partition| partition.offset..partition.offset + partition.len)
            .collect()
    }

    /// The temporary table, with only the kept partitions. Firmware finds nothing to boot
    /// in it.
    pub fn bare(&self) -> &Table {
        &self.bare
    }

    /// Whether the disk's only readable table is its backup.
    pub fn is_of_backup(&self) -> bool {
        self.from_backup
    }

    /// The kept EFI system partitions. On the disk they have the type
    /// [`HIDDEN_EFI_SYSTEM`] until the commit.
    pub fn hidden(&self) -> impl Iterator<Item = &Partition> {
        self.partitions().filter(|p| p.kind == EFI_SYSTEM)
    }

    /// Fails if one of the partitions would be overwritten by an image of `image_end`
    /// bytes or more, or by the first MiB of an image, which the agent always writes.
    ///
    /// # Errors
    /// The message has the words of coreos-installer, because people search for them.
    pub fn refuse_collision(&self, image_end: u64) -> Result<()> {
        let end = image_end.max(HEAD_LEN as u64);
        match self.partitions().min_by_key(|partition| partition.offset) {
            Some(first) if first.offset < end => Err(Failure::image_write(format!(
                    "collision with partition {} ({:?}) at offset {}",
                    first.number, first.name, first.offset
                ),
            )
            .hint("the image would overwrite a partition that is to be kept: keep fewer partitions, or use a smaller image")),
            _ => Ok(()),
        }
    }

    /// Adds the partitions to the image's table. A partition keeps its number if the
    /// number is larger than all numbers in the table; otherwise it gets the next free
    /// number. Returns pairs of the old and the new number.
    ///
    /// # Errors
    /// If the table has no free entry or no room for one of the partitions, or already
    /// has a partition with the same GUID.
    pub fn merge_into(
        &self,
        table: &mut Table,
    ) -> std::result::Result<Vec<(u32, u32)>, MergeError> {
        let mut next = 1 + table.partitions().last().map_or(0, |last| last.number);
        let mut numbers = Vec::new();
        for (partition, entry) in &self.partitions {
            next = next.max(partition.number);
            let number = partition.number;
            let partition = Partition {
                number: next,
                ..partition.clone()
            };
            { table.put(partition, entry) }.map_err(|reason| MergeError { number, reason })?;
            numbers.push((number, next));
            next += 1;
        }
        Ok(numbers)
    }

    /// A table with only the kept partitions and their real types, for the file from
    /// which the operator can restore them.
    ///
    /// # Errors
    /// Never in practice, because `bare` was made in the same way.
    pub fn plain(&self) -> std::result::Result<Table, TableError> {
        // The cast is lossless: `bare` was made with a sector size of the type u32.
        let sector = self.bare.sector_size() as u32;
        let capacity = self.bare.capacity();
        let mut table = Table::empty(sector, self.bare.image_size(), Uuid::new_v4(), capacity)?;
        for (partition, entry) in &self.partitions {
            table.put(partition.clone(), entry)?;
        }
        Ok(table)
    }
}

fn with_kind(partition: Partition, entry: Entry, kind: Uuid) -> (Partition, Entry) {
    (Partition { kind, ..partition }, entry.with_kind(kind))
}

fn hidden(partition: Partition, entry: Entry) -> (Partition, Entry) {
    match partition.kind {
        EFI_SYSTEM => with_kind(partition, entry, HIDDEN_EFI_SYSTEM),
        _ => (partition, entry),
    }
}

fn unhidden(partition: Partition, entry: Entry) -> (Partition, Entry) {
    match partition.kind {
        HIDDEN_EFI_SYSTEM => with_kind(partition, entry, EFI_SYSTEM),
        _ => (partition, entry),
    }
}

/// The disk's GPT, and whether it is the backup. `None` if the disk has none.
fn read_table(disk: &DiskEnds<'_>, filters: &[PartitionFilter]) -> Result<Option<(Table, bool)>> {
    let primary = match Table::parse(disk.head, disk.sector) {
        Ok(table) => return Ok(Some((table, false))),
        Err(reason) if gpt::has_signature(disk.head, disk.sector) => reason,
        Err(_) => TableError::Missing,
    };
    if let Ok(table) = Table::parse_backup(disk.tail, disk.size, disk.sector) {
        tracing::warn!("the disk's GPT is damaged or missing ({primary}), using its backup");
        return Ok(Some((table, true)));
    }
    let is_announced = |sector| {
        gpt::has_signature(disk.head, sector) || gpt::has_backup_signature(disk.tail, sector)
    };
    if is_announced(disk.sector) {
        return Err(unfit(format!(
            "the disk's GPT and its backup are damaged or missing: {primary}"
        ))
        .hint("repair it, or install without keeping partitions"));
    }
    let other = if disk.sector == 512 { 4096 } else { 512 };
    if is_announced(other) {
        return Err(unfit(format!(
            "the disk's GPT has sectors of {other} bytes, the disk has sectors of {}",
            disk.sector
        )));
    }
    let has_mbr = mbr::entries(disk.head).is_some();
    let by_index = filters
        .iter()
        .any(|filter| matches!(filter, PartitionFilter::Index(..)));
    if has_mbr && by_index {
        // The words of coreos-installer, because people search for them.
        return Err(unfit(
            "saving partitions from an MBR disk is not yet supported: the disk has no GPT"
                .to_owned(),
        ));
    }
    Ok(None)
}

/// A failure before anything was written to the disk.
fn unfit(reason: String) -> Failure {
    Failure::deployment(format!("{reason}; the disk was not touched"))
}

#[cfg(test)]
mod tests;
