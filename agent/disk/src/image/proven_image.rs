//! An image that is on the disk and has passed all checks, but that no firmware can see
//! yet.
//!
//! The first MiB of the image, with boot code and partition table, is still in memory.
//! The agent first adds the other data that the installed system needs (a config drive,
//! an Ignition config). Then [`ProvenImage::commit`] makes everything visible at once.
//! If the power fails before the commit, the disk does not boot.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use landfall_devices::identity::Identity;
use landfall_devices::permission::WritePermission;
use landfall_download::digest::Computed;
use landfall_report::failure::{Failure, Result};
use landfall_report::mib;
use landfall_sys::block_partition;
use landfall_sys::while_busy::repeat_while_busy;
use nix::libc;

use crate::config_drive::{Content, write_config_drive};
use crate::critical_section::{self, CriticalSection};
use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::device_lock::DeviceLock;
use crate::device::target::Target;
use crate::image::decode::Packing;
use crate::image::ends::Ends;
use crate::image::format_policy::Format;
use crate::image::sparse_write::Written;
use crate::software_raid::system_partitions;
use crate::tables::gpt::{BIOS_BOOT, Partition, Table};
use crate::tables::kept_partitions::KeptPartitions;
use crate::tables::mbr;

/// How long the agent retries the removal of a partition from the kernel while another
/// program has the partition open.
const HIDE_LIMIT: Duration = Duration::from_secs(10);
const HIDE_PAUSE: Duration = Duration::from_millis(100);

/// The result of writing an image.
#[derive(Debug, Clone)]
pub struct WrittenImage {
    /// The path through which the agent wrote last. If the disk has several paths
    /// (multipath), this may not be the chosen path.
    pub disk: PathBuf,
    /// The URL that delivered the image, without secrets.
    pub url: String,
    pub packing: Packing,
    /// The format of the image, inside of any compression.
    pub format: Format,
    /// The digest and the length of the download.
    pub digest: Computed,
    /// Whether a digest or a signature was given. If it was, the image matches it.
    pub verified: bool,
    /// The length of the unpacked image in bytes.
    pub image_bytes: u64,
    pub written: Written,
    /// The numbers of the kept partitions in the new table.
    pub kept: Vec<u32>,
    pub seconds: f64,
}

impl WrittenImage {
    /// The result in one line, for the console.
    pub(super) fn line(&self, target: &Target) -> String {
        format!(
            "{} is on {}: {} downloaded ({}), {} unpacked, {} written, {} {} {}, {:.1} s",
            self.url,
            target.path().display(),
            mib(self.digest.bytes),
            match (self.format, self.packing) {
                (Format::Raw, packing) => packing.to_string(),
                (format, Packing::Raw) => format.to_string(),
                (format, packing) => format!("{format} in {packing}"),
            },
            mib(self.image_bytes),
            mib(self.written.data),
            self.digest.digest.algorithm(),
            self.digest.digest.hex(),
            if self.verified {
                "verified"
            } else {
                "not verified"
            },
            self.seconds
        )
    }
}

/// An image on a disk, except for its first MiB, which is still in memory.
#[derive(Debug)]
#[must_use = "the disk does not boot before the image is committed"]
pub struct ProvenImage {
    target: Target,
    ends: Ends,
    head: AlignedBuffer,
    table: Option<Table>,
    written: WrittenImage,
}

impl ProvenImage {
    pub(super) fn new(
        target: Target,
        ends: Ends,
        head: AlignedBuffer,
        table: Option<Table>,
        written: WrittenImage,
    ) -> Self {
        Self {
            target,
            ends,
            head,
            table,
            written,
        }
    }

    /// Writes a config drive to the disk, and adds its partition to the table that
    /// the commit writes.
    ///
    /// # Errors
    /// If the table is invalid or has no free entry, if there is no room for the drive,
    /// if several partitions are config drives, if the config drive begins in the first
    /// MiB, or if the disk reports an error. The disk does not boot then.
    pub fn write_config_drive(&mut self, drive: &Content) -> Result<()> {
        if let Some(table) = &mut self.table {
            return write_config_drive(&self.target, table, drive).map(drop);
        }
        let (sector, size) = (self.target.sector_size(), self.target.size());
        let mut table = mbr::Table::parse(&self.head, sector, size).map_err(|reason| {
            let path = self.target.path().display();
            Failure::deployment(format!("config drive: {path}: {reason}"))
        })?;
        write_config_drive(&self.target, &mut table, drive)?;
        table.write(&mut self.head);
        Ok(())
    }

    /// Whether the image's GPT, with the kept partitions, has a partition of this name.
    pub fn has_partition(&self, name: &str) -> bool {
        let tables = self.table.iter();
        tables
            .flat_map(|table| table.partitions())
            .any(|partition| partition.name == name)
    }

    fn gpt(&self) -> Result<&Table> {
        self.table.as_ref().ok_or_else(|| {
            let path = self.target.path().display();
            Failure::invalid_image(format!("{path}: expected an image with a GPT"))
        })
    }

    /// Calls `work` while the image's partitions have device nodes. The agent adds these
    /// partitions to the kernel directly, because the image's table is not on the disk
    /// yet.
    ///
    /// # Errors
    /// If the image has no GPT or has a partition in its first MiB that is not a BIOS
    /// boot partition, if the kernel does not forget the former partitions or rejects a
    /// partition, if the disk cannot be locked or opened again, if another disk has taken
    /// its place, or if `work` fails.
    pub fn with_partitions(
        mut self,
        permission: &WritePermission,
        work: impl FnOnce(&Path, &Table) -> Result<()>,
    ) -> Result<Self> {
        let table = self.gpt()?.clone();
        let mut of_image = table.partitions().to_vec();
        of_image.retain(|partition| !self.target.spares(partition));
        for partition in &of_image {
            // A BIOS boot partition may begin in the first MiB, because `work` does not
            // use it.
            if partition.kind != BIOS_BOOT {
                let path = self.target.path().display();
                partition
                    .refuse_in_head()
                    .map_err(|reason| Failure::invalid_image(format!("{path}: {reason}")))?;
            }
        }
        let identity = self.target.identity()?;
        // Makes the kernel forget the partitions of the disk's former table.
        self.target.reread_partitions()?;
        // The disk is closed below, because a partition cannot be mounted while the
        // agent has the whole disk open exclusively.
        let path = self.target.path().to_owned();
        let _lock = DeviceLock::take(&path).map_err(|error| {
            let details = format!("{}: cannot lock it against udev: {error}", path.display());
            Failure::block_device(details)
        })?;
        let loaders = self.target.take_loaders();
        drop(self.target);
        let kept: Vec<u32> = self
            .ends
            .kept()
            .into_iter()
            .flat_map(KeptPartitions::partitions)
            .map(|partition| partition.number)
            .collect();
        let shown = ShownPartitions::show(&path, identity, &of_image, &kept)?;
        let outcome = work(&path, &table);
        drop(shown);
        outcome?;
        self.target = Target::open(&path, permission)?;
        self.target.refuse_other(identity)?;
        self.ends.spare(&mut self.target);
        self.target.set_loaders(loaders);
        Ok(self)
    }

    /// Behaves as if a program kept a partition open.
    #[cfg(test)]
    pub(super) fn refuse_reread(&mut self) {
        self.target.refuse_reread();
    }

    /// Writes the first MiB, the backup GPT and, if the disk is an array, the copies of
    /// its EFI system partition. From here on the disk boots. It is not a failure if the
    /// kernel cannot read the new table, because the data on the disk is complete.
    ///
    /// # Errors
    /// If a write fails, or if the disk returns other bytes than were written. The agent
    /// then wipes both ends of the disk, unless `preserve_on_error` is set (see
    /// [`Ends::after`]).
    pub fn commit(self) -> Result<WrittenImage> {
        self.commit_within(&critical_section::enter())
    }

    /// Like [`Self::commit`], in a critical section that the caller has entered.
    ///
    /// # Errors
    /// As for [`Self::commit`].
    pub fn commit_within(mut self, _section: &CriticalSection) -> Result<WrittenImage> {
        let written = self.write_table();
        match written.and_then(|()| self.copy_system_partition()) {
            Ok(()) => {
                tracing::info!(
                    "{} has its partition table, the image can boot",
                    self.target.path().display()
                );
                // The image is complete, even if the kernel cannot read the table.
                if let Err(failure) = self.target.reread_partitions() {
                    tracing::warn!(
                        "{failure}; the image is complete and stays, but until the reboot the kernel may not show its partitions"
                    );
                }
                self.target.refresh_other_paths();
                self.ends.release();
                self.written.disk = self.target.path().to_owned();
                Ok(self.written)
            }
            Err(failure) => {
                self.ends.after(&failure, &self.target);
                Err(failure)
            }
        }
    }

    /// Writes the first sector last, in a separate write. Without this sector firmware
    /// boots nothing: a BIOS needs its boot code, and UEFI requires its protective MBR
    /// before any GPT (UEFI 2.10, 5.2.3). A single sector is written completely or not
    /// at all. If the power failed during a write of several sectors, the disk could
    /// have boot code without a table.
    fn write_table(&mut self) -> Result<()> {
        if let Some(table) = &self.table {
            table.write_primary(&mut self.head);
        }
        let sector = self.target.sector_size() as usize;
        let (first, rest) = self.head.split_at(sector);
        self.target.write_and_compare(sector as u64, rest)?;
        if let Some(table) = &self.table {
            let (offset, backup) = table.backup();
            self.target
                .write_and_compare(offset, &AlignedBuffer::padded(&backup, sector))?;
        }
        self.target.write_and_compare(0, first)
    }

    /// If the disk is an array with partitions for copies, copies the EFI system
    /// partition to these partitions. The array is complete before the copy, so a loader
    /// in a copy finds its system.
    fn copy_system_partition(&self) -> Result<()> {
        let copies = self.target.loaders();
        if copies.is_empty() {
            return Ok(());
        }
        let sector = self.target.sector_size();
        let of_image = system_partitions::of_image(
            self.table.as_ref(),
            &self.head,
            sector,
            &self.written.kept,
        )?;
        system_partitions::copy(&self.target, &of_image, copies)
    }
}

/// Partitions that the agent has added to the kernel. Dropping this removes them.
struct ShownPartitions {
    disk: File,
    numbers: Vec<u32>,
}

impl ShownPartitions {
    /// Adds the partitions to the kernel. `known` contains the numbers of the
    /// partitions that the kernel has read from the disk's own table. The function
    /// first removes the known partitions, because the image may use the same numbers.
    fn show(
        path: &Path,
        identity: Identity,
        partitions: &[Partition],
        known: &[u32],
    ) -> Result<Self> {
        let failed = |what: String| Failure::block_device(format!("{}: {what}", path.display()));
        let disk = OpenOptions::new()
            .read(true)
            .open(path)
            .map_err(|error| failed(format!("cannot open it again: {error}")))?;
        identity.refuse_other(path, &disk)?;
        let mut shown = Self {
            disk,
            numbers: Vec::new(),
        };
        for number in known {
            match hide(&shown.disk, *number) {
                Ok(()) => {}
                // The kernel does not scan a loop device for partitions by default, so it
                // has no such partition.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
                Err(error) => {
                    return Err(failed(format!(
                        "cannot remove partition {number} from the kernel: {error}"
                    )));
                }
            }
        }
        for partition in partitions {
            block_partition::add(
                &shown.disk,
                partition.number,
                partition.offset,
                partition.len,
            )
            .map_err(|error| {
                failed(format!(
                    "cannot add partition {} to the kernel: {error}",
                    partition.number
                ))
            })?;
            shown.numbers.push(partition.number);
        }
        Ok(shown)
    }
}

impl Drop for ShownPartitions {
    fn drop(&mut self) {
        for number in &self.numbers {
            // If a partition remains, the disk is busy. The next open of the disk then
            // fails and reports this.
            if let Err(error) = hide(&self.disk, *number) {
                tracing::warn!("cannot remove partition {number} from the kernel: {error}");
            }
        }
    }
}

/// Removes a partition from the kernel. Retries while another program (udev, a
/// probe) has it open.
fn hide(disk: &File, number: u32) -> io::Result<()> {
    repeat_while_busy(HIDE_LIMIT, HIDE_PAUSE, || {
        block_partition::delete(disk, number)
    })
}
