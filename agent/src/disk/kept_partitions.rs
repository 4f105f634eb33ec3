//! Partitions of the disk that stay while an image takes the rest of it: found
//! before anything is touched, in a table of their own while the image is
//! written, and beside the image's partitions at the end. Pure.

use std::ops::Range;

use uuid::Uuid;

use crate::disk::gpt::{self, EFI_SYSTEM, Entry, Partition, Table};
use crate::disk::image_head::HEAD_LEN;
use crate::disk::mbr;
use crate::disk::saved_partitions::PartitionFilter;
use crate::failure::{Class, Failure, Result};

/// The type of a kept EFI system partition as long as the image is not proven:
/// firmware would boot what it holds, from a disk that is half another system.
/// A type of ours, so that an installation that comes after an interrupted one
/// knows it and gives the true one back.
pub const HIDDEN_EFI_SYSTEM: Uuid = Uuid::from_u128(0x6c61_6e64_6661_4c6c_a5ef_1e5b_0071_6865);

/// The first and the last bytes of a disk.
#[derive(Debug)]
pub struct DiskEnds<'a> {
    /// From its start.
    pub head: &'a [u8],
    /// To its end.
    pub tail: &'a [u8],
    /// The disk's size in bytes.
    pub size: u64,
    /// The disk's sector size in bytes.
    pub sector: u32,
}

/// What stays, in the order of the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPartitions {
    partitions: Vec<(Partition, Entry)>,
    /// Only these partitions, as it stands on the disk until the commit.
    bare: Table,
    /// The table that they come from was the backup; the primary is broken.
    from_backup: bool,
}

impl KeptPartitions {
    /// Looks for them. `None` if nothing matches.
    ///
    /// # Errors
    /// If the disk's table cannot be read or is of another kind, or cannot hold
    /// them until the image is there.
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
            |reason: String| unfit(format!("the disk's partitions cannot be kept: {reason}"));
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

    /// The partitions, as the disk's table had them.
    pub fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().map(|(partition, _)| partition)
    }

    /// Where they are.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.partitions()
            .map(|partition| partition.offset..partition.offset + partition.len)
            .collect()
    }

    /// The table that holds only them; nothing boots by it.
    pub fn bare(&self) -> &Table {
        &self.bare
    }

    /// Whether the disk's only readable table is its backup.
    pub fn is_of_backup(&self) -> bool {
        self.from_backup
    }

    /// Those that firmware would boot from, if it saw what they are.
    pub fn hidden(&self) -> impl Iterator<Item = &Partition> {
        self.partitions().filter(|p| p.kind == EFI_SYSTEM)
    }

    /// Fails if an image that ends at this byte, or later, reaches one of them.
    ///
    /// # Errors
    /// In the words of coreos-installer, because people search for them.
    pub fn refuse_collision(&self, image_end: u64) -> Result<()> {
        let end = image_end.max(HEAD_LEN as u64);
        match self.partitions().min_by_key(|partition| partition.offset) {
            Some(first) if first.offset < end => Err(Failure::new(
                Class::ImageWriteError,
                format!(
                    "collision with partition {} ({:?}) at offset {}",
                    first.number, first.name, first.offset
                ),
            )
            .hint("the image needs the place of a partition that is to be kept: keep fewer, or take a smaller image")),
            _ => Ok(()),
        }
    }

    /// Enters them into the image's table: under their own numbers where these
    /// are larger than all of the image's, else under the next free ones. Gives
    /// the old and the new numbers.
    ///
    /// # Errors
    /// If it has no entry for one of them, or its GUID already.
    pub fn merge_into(&self, table: &mut Table) -> std::result::Result<Vec<(u32, u32)>, String> {
        let mut next = 1 + table.partitions().last().map_or(0, |last| last.number);
        let mut numbers = Vec::new();
        for (partition, entry) in &self.partitions {
            next = next.max(partition.number);
            let number = partition.number;
            let partition = Partition {
                number: next,
                ..partition.clone()
            };
            table.put(partition, entry).map_err(|reason| {
                format!("partition {number} of the disk cannot be kept beside the image: {reason}")
            })?;
            numbers.push((number, next));
            next += 1;
        }
        Ok(numbers)
    }

    /// The table that holds only them, under their true types: what a file
    /// holds from which they are restored by hand.
    ///
    /// # Errors
    /// Not if `bare` could be made.
    pub fn plain(&self) -> std::result::Result<Table, String> {
        let sector = u32::try_from(self.bare.sector_size()).map_err(|e| e.to_string())?;
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

/// The disk's GPT and whether it is the backup, `None` if it has none.
fn read_table(disk: &DiskEnds<'_>, filters: &[PartitionFilter]) -> Result<Option<(Table, bool)>> {
    let primary = match Table::parse(disk.head, disk.sector) {
        Ok(table) => return Ok(Some((table, false))),
        Err(reason) => reason,
    };
    if let Ok(table) = Table::parse_backup(disk.tail, disk.size, disk.sector) {
        tracing::warn!("the disk's GPT is damaged ({primary}), its backup is used");
        return Ok(Some((table, true)));
    }
    let is_announced = |sector| {
        gpt::has_signature(disk.head, sector) || gpt::has_backup_signature(disk.tail, sector)
    };
    if is_announced(disk.sector) {
        return Err(unfit(format!(
            "the disk's GPT and its backup are damaged: {primary}"
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
        // coreos-installer's words.
        return Err(unfit(
            "saving partitions from an MBR disk is not yet supported: the disk has no GPT"
                .to_owned(),
        ));
    }
    Ok(None)
}

/// Nothing of the disk was touched.
fn unfit(reason: String) -> Failure {
    Failure::new(
        Class::DeploymentError,
        format!("{reason}; the disk was not touched"),
    )
}

#[cfg(test)]
mod tests;
