//! The first and the last MiB of the disk until the commit: zeros, or a partition table
//! with only the kept partitions. In both cases firmware finds nothing to boot.
//!
//! If partitions are kept, the disk has at every moment a complete table that lists
//! them: the agent keeps the good copy until the other copy is written and flushed.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use landfall_report::failure::{Failure, Result};
use landfall_report::mib;
use landfall_report::status::DiskChange;
use uuid::Uuid;

use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;
use crate::tables::gpt::HEAD_LEN;
use crate::tables::kept_partitions::{DiskEnds, HIDDEN_EFI_SYSTEM, KeptPartitions};
use crate::tables::saved_partitions::PartitionFilter;

/// In bytes: the agent wipes this much at each end. That covers every partition table,
/// and the superblocks of old RAID members at the end.
const END_LEN: u64 = 1 << 20;
/// After this many failed writes the agent stops wiping. It takes 12 failed writes to
/// locate one bad sector, and each write may last until the kernel's time limit of 30 s
/// or more.
const MOST_REFUSALS: u32 = 36;

/// Both ends of a disk that an image is written to.
#[derive(Debug)]
pub struct Ends {
    kept: Option<KeptPartitions>,
    /// True if the agent leaves the disk as it is after a failure.
    preserve_on_error: bool,
    /// A file with the table of the kept partitions, which exists only if
    /// `preserve_on_error` is set. After a failure the operator can restore the
    /// partitions from this file.
    file: Option<PathBuf>,
    /// Set from [`Ends::clear`] on, until the disk is complete or the attempt has failed.
    change: Option<DiskChange>,
}

impl Ends {
    /// Finds the partitions to keep, and makes the target reject writes to them.
    /// Writes nothing to the disk.
    pub fn find(
        target: &mut Target,
        filters: &[PartitionFilter],
        preserve_on_error: bool,
    ) -> Result<Self> {
        let kept = if filters.is_empty() {
            None
        } else {
            find_kept(target, filters)?
        };
        let ends = Self {
            kept,
            preserve_on_error,
            file: None,
            change: None,
        };
        ends.spare(target);
        Ok(ends)
    }

    /// Makes a target reject writes to the kept partitions. Call this again after
    /// the disk has been reopened.
    pub fn spare(&self, target: &mut Target) {
        let ranges = self.kept.as_ref().map(KeptPartitions::ranges);
        target.spare(ranges.unwrap_or_default());
    }

    pub fn kept(&self) -> Option<&KeptPartitions> {
        self.kept.as_ref()
    }

    /// Fails if an image of `image_end` bytes or more would overlap a kept
    /// partition.
    pub fn refuse_collision(&self, image_end: u64) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.refuse_collision(image_end),
            None => Ok(()),
        }
    }

    /// Wipes both ends of the disk and, if the disk is an array, the copies of its EFI
    /// system partition. If partitions are kept, a table with only the kept partitions
    /// replaces the old table.
    ///
    /// # Errors
    /// If a write fails, or if the file for `preserve_on_error` cannot be created.
    pub fn clear(&mut self, target: &Target) -> Result<()> {
        if let Some(kept) = self.kept.as_ref().filter(|_| self.preserve_on_error) {
            self.file = Some(save(kept, target.path())?);
        }
        self.change = Some(DiskChange::begin());
        target.clear_loaders()?;
        clear(target, self.kept.as_ref())
    }

    /// Logs the failure and cleans up, unless `preserve_on_error` is set: wipes both ends
    /// of the disk or, if partitions are kept, writes both copies of their table again.
    pub fn after(&self, failure: &Failure, target: &Target) {
        // Logs the failure before the cleanup, because the cleanup may fail or hang on
        // a dying disk. The level is only a warning, because the caller reports the
        // failure as an error.
        tracing::warn!("{failure}");
        if self.preserve_on_error {
            tracing::warn!(
                "{} is not cleaned after the failure, because --preserve-on-error is set: it may hold a part of the image",
                target.path().display()
            );
        } else {
            if let Err(failure) = target.clear_loaders() {
                tracing::error!("{failure}");
            }
            reset(target, self.kept.as_ref());
        }
    }

    /// Deletes the file with the kept partitions' table, and reports the disk as
    /// complete. Call this after the commit.
    pub fn release(self) {
        if let Some(file) = &self.file
            && let Err(error) = fs::remove_file(file)
        {
            tracing::warn!("cannot remove {}: {error}", file.display());
        }
        if let Some(change) = self.change {
            change.complete();
        }
    }
}

fn find_kept(target: &Target, filters: &[PartitionFilter]) -> Result<Option<KeptPartitions>> {
    let tail = tail(target);
    // Both casts are lossless: at most 1 MiB.
    let disk = DiskEnds {
        head: &target.read_at(0, END_LEN.min(target.size()) as usize)?,
        tail: &target.read_at(tail.start, (tail.end - tail.start) as usize)?,
        size: target.size(),
        sector: target.sector_size(),
    };
    let path = target.path().display();
    let found = KeptPartitions::find(&disk, filters).map_err(|failure| Failure {
        details: format!("{path}: {}", failure.details),
        ..failure
    })?;
    let Some(kept) = &found else {
        let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
        tracing::warn!(
            "{path}: no partition is kept: found none with {}",
            filters.join(", ")
        );
        return Ok(None);
    };
    for partition in kept.partitions() {
        tracing::info!(
            "{path}: partition {} ({:?}) is kept: {} at byte {}",
            partition.number,
            partition.name,
            mib(partition.len),
            partition.offset
        );
    }
    for partition in kept.hidden() {
        tracing::info!(
            "{path}: partition {} is an EFI system partition: until the image is complete its type is {HIDDEN_EFI_SYSTEM}, so that the firmware does not boot from it",
            partition.number
        );
    }
    Ok(found)
}

/// Writes the table of the kept partitions to a new file in the temporary
/// directory, and logs how to restore the disk from it.
fn save(kept: &KeptPartitions, disk: &Path) -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("landfall-partitions-{}", Uuid::new_v4()));
    let failed =
        |reason: &dyn fmt::Display| Failure::deployment(format!("{}: {reason}", path.display()));
    let mut head = vec![0; HEAD_LEN];
    let table = kept.plain().map_err(|error| failed(&error))?;
    table.write_primary_alone(&mut head);
    fs::write(&path, &head).map_err(|error| failed(&error))?;
    tracing::info!(
        "the partition table of the kept partitions of {disk} is saved in {file}; to restore it: dd if={file} of={disk} conv=notrunc, then sgdisk --move-second-header {disk}",
        disk = disk.display(),
        file = path.display()
    );
    Ok(path)
}

fn clear(target: &Target, kept: Option<&KeptPartitions>) -> Result<()> {
    let Some(kept) = kept else {
        target.write_at(&AlignedBuffer::zeroed(HEAD_LEN), 0)?;
        wipe_tail(target, &[])?;
        return target.sync();
    };
    for (bytes, offset) in copies(target, kept) {
        target.write_at(&bytes, offset)?;
        target.sync()?;
    }
    wipe_tail(target, &[kept.ranges(), vec![backup_place(kept)]].concat())?;
    target.sync()
}

/// Wipes both ends of the disk after a failure or, if partitions are kept, writes both
/// copies of their table again. Logs errors instead of returning them, because the disk
/// may be failing. If a sector cannot be written, the other sectors are still written, up
/// to a limit of failed writes.
fn reset(target: &Target, kept: Option<&KeptPartitions>) {
    let mut refusals = Refusals::default();
    let flushed = match kept {
        None => {
            let zeros = AlignedBuffer::zeroed(END_LEN as usize);
            for offset in [0, tail(target).start] {
                refusals.write_around(target, &zeros, offset);
            }
            target.sync()
        }
        Some(kept) => {
            let mut flushed = Ok(());
            for (bytes, offset) in copies(target, kept) {
                refusals.write_around(target, &bytes, offset);
                flushed = flushed.and(target.sync());
            }
            flushed
        }
    };
    let path = target.path().display();
    match (refusals.first, flushed.err()) {
        (None, None) => match kept {
            None => tracing::info!("{path} was left without a partition table, it does not boot"),
            Some(_) => {
                tracing::info!("{path} was left with only the kept partitions, it does not boot");
            }
        },
        (Some(failure), None) if refusals.count < MOST_REFUSALS => match kept {
            None => tracing::error!(
                "{failure}; the first and last MiB of {path} were wiped, except the sectors that cannot be written"
            ),
            Some(_) => tracing::error!(
                "{failure}; {path} was left with only the kept partitions, except in the sectors that cannot be written"
            ),
        },
        (Some(failure), _) | (None, Some(failure)) => {
            tracing::error!("{failure}; {path} could not be wiped: do not boot from it");
        }
    }
    if let Err(failure) = target.reread_partitions() {
        tracing::warn!("{failure}");
    }
}

/// The writes that failed while the agent wiped an end of the disk.
#[derive(Default)]
struct Refusals {
    count: u32,
    first: Option<Failure>,
}

impl Refusals {
    /// If a write fails, retries it in halves, down to single sectors. Gives up after
    /// [`MOST_REFUSALS`] failed writes.
    fn write_around(&mut self, target: &Target, bytes: &[u8], offset: u64) {
        if self.count >= MOST_REFUSALS {
            return;
        }
        let Err(failure) = target.write_at(bytes, offset) else {
            return;
        };
        self.count += 1;
        self.first.get_or_insert(failure);
        let sector = target.sector_size() as usize;
        let sectors = bytes.len() / sector;
        if sectors > 1 {
            let (first, second) = bytes.split_at(sectors / 2 * sector);
            self.write_around(target, first, offset);
            self.write_around(target, second, offset + first.len() as u64);
        }
    }
}

/// Both copies of the kept partitions' table with their offsets, in the order of
/// writing. The copy from which the agent read the table comes last, because it may be
/// the only good one.
fn copies(target: &Target, kept: &KeptPartitions) -> [(AlignedBuffer, u64); 2] {
    let mut head = AlignedBuffer::zeroed(HEAD_LEN);
    kept.bare().write_primary_alone(&mut head);
    let (offset, backup) = kept.bare().backup();
    // Adds no padding: the backup consists of whole sectors.
    let backup = AlignedBuffer::padded(&backup, target.sector_size() as usize);
    let mut copies = [(backup, offset), (head, 0)];
    if kept.is_of_backup() {
        copies.reverse();
    }
    copies
}

fn backup_place(kept: &KeptPartitions) -> Range<u64> {
    let (offset, backup) = kept.bare().backup();
    offset..offset + backup.len() as u64
}

fn tail(target: &Target) -> Range<u64> {
    target.size().saturating_sub(END_LEN)..target.size()
}

/// Zeroes the last MiB, except for the `spared` ranges.
fn wipe_tail(target: &Target, spared: &[Range<u64>]) -> Result<()> {
    let zeros = AlignedBuffer::zeroed(END_LEN as usize);
    for gap in gaps(tail(target), spared) {
        // The cast is lossless: at most 1 MiB.
        target.write_at(&zeros[..(gap.end - gap.start) as usize], gap.start)?;
    }
    Ok(())
}

/// The parts of `range` that none of `others` covers.
fn gaps(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut others = others.to_vec();
    others.sort_by_key(|other| other.start);
    let mut gaps = Vec::new();
    let mut at = range.start;
    for other in others {
        if other.start > at {
            gaps.push(at..other.start.min(range.end));
        }
        at = at.max(other.end);
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    gaps.retain(|gap| gap.start < gap.end);
    gaps
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use landfall_devices::permission::WritePermission;

    use super::*;
    use crate::fixtures::empty_file;

    #[test]
    fn the_loaders_on_other_disks_are_cleared_with_the_ends() {
        let (file, loader) = (empty_file(4 << 20), empty_file((2 << 20) + 512));
        loader.as_file().write_all_at(&[0xeb; 4096], 0).unwrap();
        let open =
            |path: &Path| Target::open_file(path, 512, &WritePermission::by_operator()).unwrap();
        let mut target = open(file.path());
        target.set_loaders(vec![open(loader.path())]);
        let mut ends = Ends::find(&mut target, &[], false).unwrap();
        let boot_sector = || fs::read(loader.path()).unwrap()[0];
        assert_eq!(boot_sector(), 0xeb, "nothing is written before");
        ends.clear(&target).unwrap();
        assert_eq!(boot_sector(), 0);
    }

    #[test]
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "lists of ranges, one of them has one"
    )]
    fn gaps_are_the_ranges_between_others() {
        for (range, others, expected) in [
            (10..20, vec![], vec![10..20]),
            (10..20, vec![0..10, 20..30], vec![10..20]),
            (10..20, vec![0..12], vec![12..20]),
            (10..20, vec![18..40, 12..14], vec![10..12, 14..18]),
            (10..20, vec![0..40], vec![]),
            (10..20, vec![25..40], vec![10..20]),
        ] {
            assert_eq!(gaps(range, &others), expected, "{others:?}");
        }
    }
}
