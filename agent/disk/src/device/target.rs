//! The disk that the agent writes to: opened once, exclusively, and known to be
//! unused.

mod open;

pub use open::{refuse_boot_medium, refuse_medium_of_image};

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_devices::identity::Identity;
use landfall_report::failure::{Failure, Result};
use landfall_sys::while_busy::repeat_while_busy;
use landfall_sys::{block_ioctl, zero_range};
use nix::libc;

use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::busy::{Device, KernelView};
use crate::device::paths::OpenPaths;
use crate::device::slow_answer::{Request, SlowAnswer};
use crate::device::written_extents::WrittenExtents;
use crate::tables::gpt::Partition;

/// BLKRRPART fails while any program has a partition open (blkid, or the handler of
/// a late uevent). coreos-installer waits for 2 s, but a disk under load takes
/// longer.
const REREAD_LIMIT: Duration = Duration::from_secs(10);
const REREAD_PAUSE: Duration = Duration::from_millis(100);

/// In bytes: the boot sector of a FAT and its copy are in this range.
const LOADER_START: u64 = 1 << 20;

/// A disk that the agent has opened exclusively, on all its paths, and for writing
/// (read-only after [`Target::open_chosen_to_check`]). If a path fails, requests continue
/// on the next path.
#[derive(Debug)]
pub struct Target {
    paths: OpenPaths,
    size: u64,
    sector: u32,
    is_device: bool,
    slow_answer: SlowAnswer,
    /// The byte ranges in which nothing may be written.
    spared: Vec<Range<u64>>,
    /// Partitions on other disks from which firmware starts the system on this disk.
    loaders: Vec<Target>,
    /// The checksums of everything that was written. `None` if the agent does not read
    /// the writes back.
    extents: Option<Mutex<WrittenExtents>>,
    #[cfg(test)]
    journal: Option<crate::fixtures::Journal>,
    #[cfg(test)]
    refuses_reread: bool,
}

impl Target {
    fn new(paths: OpenPaths, size: u64, sector: u32, is_device: bool) -> Result<Self> {
        if sector != 512 && sector != 4096 {
            return Err(block_device_error(
                &paths.used().path,
                &format!("expected a sector size of 512 or 4096 bytes, found {sector}"),
            ));
        }
        Ok(Self {
            slow_answer: SlowAnswer::watch(&paths.used().path),
            paths,
            // Writes cannot address a partial sector at the end of a file.
            size: size - size % u64::from(sector),
            sector,
            is_device,
            spared: Vec::new(),
            loaders: Vec::new(),
            extents: None,
            #[cfg(test)]
            journal: None,
            #[cfg(test)]
            refuses_reread: false,
        })
    }

    /// For steps that erase disks: from now on the agent uses another path only after
    /// that path has proven that it leads to the same disk, even for a read. An
    /// installation may continue on a path that only shows the same content, because it
    /// reads little before its first write.
    pub fn only_proven_paths(mut self) -> Self {
        self.paths.require_proof();
        self
    }

    /// From now on rejects every write to these byte ranges.
    pub fn spare(&mut self, ranges: Vec<Range<u64>>) {
        self.spared = ranges;
    }

    /// From now on [`Target::clear_loaders`] clears the partitions `loaders`.
    pub fn set_loaders(&mut self, loaders: Vec<Target>) {
        self.loaders = loaders;
    }

    /// The partitions of [`Target::set_loaders`]: if this disk is an array, the copies of
    /// its EFI system partition on the disks of the array.
    pub fn loaders(&self) -> &[Target] {
        &self.loaders
    }

    /// Removes and returns the partitions of [`Target::set_loaders`], so that the caller
    /// can set them again after it has reopened the disk.
    pub fn take_loaders(&mut self) -> Vec<Target> {
        std::mem::take(&mut self.loaders)
    }

    /// Zeroes the start of the partitions from which firmware starts the system on this
    /// disk.
    ///
    /// # Errors
    /// As for [`Target::write_at`].
    pub fn clear_loaders(&self) -> Result<()> {
        for loader in &self.loaders {
            let zeros = AlignedBuffer::zeroed(loader.size().min(LOADER_START) as usize);
            loader.write_at(&zeros, 0)?;
            loader.sync()?;
        }
        Ok(())
    }

    /// From now on keeps checksums of everything that is written, for
    /// `image/read_back.rs`.
    pub fn remember_writes(&mut self) {
        self.extents = Some(Mutex::new(WrittenExtents::default()));
    }

    /// What was written since [`Target::remember_writes`]; `None` without it.
    pub fn written_extents(&self) -> Option<MutexGuard<'_, WrittenExtents>> {
        let extents = self.extents.as_ref()?;
        Some(extents.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on also records writes, zeroings and flushes in this journal.
    #[cfg(test)]
    pub fn keep_journal(&mut self, journal: crate::fixtures::Journal) {
        self.journal = Some(journal);
    }

    /// From now on [`Self::reread_partitions`] fails as it does while a program has a
    /// partition open.
    #[cfg(test)]
    pub fn refuse_reread(&mut self) {
        self.refuses_reread = true;
    }

    /// The identity of the disk, to detect another disk under the same path.
    pub fn identity(&self) -> Result<Identity> {
        Identity::of(self.device()).map_err(|e| {
            block_device_error(
                self.path(),
                &format!("cannot read the identity of the disk: {e}"),
            )
        })
    }

    /// Fails if this is neither the expected disk nor a partition of it.
    pub fn refuse_other(&self, expected: Identity) -> Result<()> {
        expected.refuse_other(self.path(), self.device())
    }

    /// Fails if another disk has the same world-wide name as this disk. Steps that
    /// erase all disks call this, because the inventory lists both disks as one, and
    /// only one of them is open.
    ///
    /// # Errors
    /// If there is such a disk: the error names both.
    pub fn refuse_namesake(&self) -> Result<()> {
        let Some(other) = self.paths.namesake(self.size) else {
            return Ok(());
        };
        let (path, other) = (self.path().display(), other.display());
        Err(Failure::erasure(format!(
            "{path}: expected one disk, found two with the same WWID, serial number, model and size, but different content: {path} and {other}; {other} is not erased"
        ))
        .hint("give each disk a WWID or a serial number of its own in the storage system or the hypervisor, or correct the path that shows other content, then clean the node again"))
    }

    /// The open device, for commands that only some kinds of disk have.
    pub fn device(&self) -> &File {
        &self.paths.used().file
    }

    /// The path in use: the path by which the disk was opened, or another path if that
    /// one failed.
    pub fn path(&self) -> &Path {
        &self.paths.used().path
    }

    /// Whether more than one path to the disk is open.
    pub fn has_several_paths(&self) -> bool {
        self.paths.unused().next().is_some()
    }

    /// In bytes; a multiple of the sector size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The logical sector size in bytes: 512 or 4096.
    pub fn sector_size(&self) -> u32 {
        self.sector
    }

    /// Writes whole sectors. The slice must begin in an [`AlignedBuffer`] at a multiple
    /// of the sector size. `offset` must be a multiple of the sector size, too.
    ///
    /// # Errors
    /// If the range is beyond the end of the disk or is spared, or if the kernel
    /// reports an error. The message has the offset and the length.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        if offset.saturating_add(bytes.len() as u64) > self.size {
            return Err(self.write_error(&format!(
                "{} bytes at offset {offset} go beyond the end of the disk at {}",
                bytes.len(),
                self.size
            )));
        }
        self.refuse_spared(offset, bytes.len() as u64)?;
        #[cfg(test)]
        if let Some(journal) = &self.journal {
            journal.write(offset, bytes);
        }
        if let Some(mut extents) = self.written_extents() {
            extents.record(offset, bytes);
        }
        let written = self.watched("writing", offset, bytes.len() as u64, || {
            self.paths.write_all_at(bytes, offset)
        });
        written.map_err(|e| {
            let length = bytes.len();
            self.refused(
                &format!("cannot write {length} bytes at offset {offset}"),
                &e,
            )
        })
    }

    /// Whether the partition is kept, so that nothing may be written to it.
    pub fn spares(&self, partition: &Partition) -> bool {
        self.spared
            .iter()
            .any(|range| range.contains(&partition.offset))
    }

    /// A second check: no caller should attempt such a write.
    fn refuse_spared(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len);
        let hit = |range: &&Range<u64>| range.start < end && offset < range.end;
        match self.spared.iter().find(hit) {
            None => Ok(()),
            Some(range) => Err(self.write_error(&format!(
                "bytes {offset} to {end} are not written: {} to {} belong to a partition that is kept",
                range.start, range.end
            ))),
        }
    }

    /// Reads whole sectors.
    ///
    /// # Errors
    /// If the kernel reports an error. The message has the offset and the length.
    pub fn read_at(&self, offset: u64, len: usize) -> Result<AlignedBuffer> {
        let mut buffer = AlignedBuffer::zeroed(len);
        let read = self.watched("reading", offset, len as u64, || {
            self.paths
                .request(|file| file.read_exact_at(&mut buffer, offset))
        });
        read.map_err(|e| self.refused(&format!("cannot read {len} bytes at offset {offset}"), &e))?;
        Ok(buffer)
    }

    /// Writes whole sectors, flushes them, and reads them back. This is for small data
    /// that must be correct: partition tables, RAID superblocks, config drives.
    ///
    /// # Errors
    /// If the kernel reports an error, or other bytes come back.
    pub fn write_and_compare(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(bytes, offset)?;
        self.sync()?;
        if self.read_at(offset, bytes.len())?[..] == *bytes {
            return Ok(());
        }
        let length = bytes.len();
        Err(self
            .write_error(&format!(
                "{length} bytes at offset {offset} read back differently"
            ))
            .hint("replace the disk, its cable or its controller, or choose another root disk"))
    }

    /// Makes a range read as zeros without sending zeros. Returns `false` if the device
    /// does not support this.
    ///
    /// # Errors
    /// If the range is spared, or if the kernel reports any other error.
    pub fn punch_zeros(&self, offset: u64, len: u64) -> Result<bool> {
        self.refuse_spared(offset, len)?;
        #[cfg(test)]
        if let Some(journal) = &self.journal {
            journal.zero(offset, len);
        }
        if let Some(mut extents) = self.written_extents() {
            extents.record_zeros(offset..offset + len);
        }
        self.paths
            .begins_change(&(offset..offset.saturating_add(len)));
        let zeroed = self.watched("zeroing", offset, len, || {
            self.paths
                .request(|file| zero_range::punch_zeros(file, offset, len))
        });
        zeroed.map_err(|e| self.refused(&format!("cannot zero {len} bytes at offset {offset}"), &e))
    }

    /// Flushes: everything written so far is on the medium when this returns.
    ///
    /// # Errors
    /// If the kernel reports an error. The content of the disk is then unknown.
    pub fn sync(&self) -> Result<()> {
        #[cfg(test)]
        if let Some(journal) = &self.journal {
            journal.flush();
        }
        self.watched("flushing", 0, 0, || self.paths.request(File::sync_all))
            .map_err(|e| self.refused("cannot flush", &e))
    }

    /// Makes the kernel read the partition table again. Does nothing for a file, and only
    /// logs a warning for a device on which the kernel creates no partitions
    /// (device-mapper, a loop device without partition scanning).
    ///
    /// # Errors
    /// If the kernel reports busy for 10 s, or any other error.
    pub fn reread_partitions(&self) -> Result<()> {
        #[cfg(test)]
        if self.refuses_reread {
            return Err(block_device_error(
                self.path(),
                "the kernel cannot read the new partition table: it is busy",
            ));
        }
        if !self.is_device {
            return Ok(());
        }
        let reread = repeat_while_busy(REREAD_LIMIT, REREAD_PAUSE, || {
            block_ioctl::reread_partition_table(self.device())
        });
        match reread {
            Ok(()) => Ok(()),
            // The kernel creates no partitions on this device. That is no error here: a
            // caller that needs the node of a partition reports the missing node.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                tracing::warn!("{} has no partition scanning", self.path().display());
                Ok(())
            }
            Err(e) => Err(block_device_error(
                self.path(),
                &format!("the kernel cannot read the new partition table: {e}"),
            )),
        }
    }

    /// Fails if the kernel never creates partitions on this device. Called by code that
    /// needs device nodes of the image's partitions after the write.
    ///
    /// # Errors
    /// If the kernel creates no partitions on this device (device-mapper: a multipath
    /// disk of a live system), or if sysfs cannot be read.
    pub fn refuse_without_partitions(&self) -> Result<()> {
        if !self.is_device {
            return Ok(());
        }
        let metadata = self.device().metadata();
        let device = metadata.and_then(|metadata| KernelView::default().device(&metadata));
        let device = device.map_err(|e| {
            block_device_error(self.path(), &format!("cannot find it in /sys: {e}"))
        })?;
        match without_partitions(device.directory.as_path()) {
            None => Ok(()),
            Some(what) => Err(block_device_error(
                self.path(),
                &format!("expected a disk with partitions, found {what}; nothing was written"),
            )
            .hint(
                "boot this host from the Landfall ramdisk, which writes to a multipath disk by \
                 one of its paths, or remove the map in the live system (multipath -F)",
            )),
        }
    }

    /// Makes the kernel drop its caches of the other paths to the disk, and read the
    /// partition table on these paths again. Only logs errors, because the disk is
    /// already written.
    pub fn refresh_other_paths(&self) {
        if !self.is_device {
            return;
        }
        let path = self.path().display();
        let report = |other: &str, refreshed: io::Result<()>| match refreshed {
            Ok(()) => {
                tracing::info!(
                    "{other} is another path to {path}: its partition table was read again"
                );
            }
            Err(error) => {
                tracing::warn!(
                    "cannot reread the partition table of {other}, another path to {path}: {error}"
                );
            }
        };
        let refresh = |file: &File| {
            block_ioctl::flush_buffers(file)?;
            block_ioctl::reread_partition_table(file)
        };
        // The kernel rereads the table only through the file that is open exclusively
        // (`disk_scan_partitions` of block/genhd.c), so this loop uses the open files
        // of the other paths.
        for other in self.paths.unused() {
            report(&other.path.to_string_lossy(), refresh(&other.file));
        }
        let others = || -> io::Result<Vec<Device>> {
            let kernel = KernelView::default();
            kernel.other_paths(&kernel.device(&self.device().metadata()?)?)
        };
        match others() {
            Ok(others) => {
                for other in others {
                    let node = Path::new("/dev").join(&other.name);
                    if !self.paths.unused().any(|open| open.path == node) {
                        let file = File::open(&node);
                        report(
                            &node.to_string_lossy(),
                            file.and_then(|file| refresh(&file)),
                        );
                    }
                }
            }
            Err(error) => tracing::warn!("{path}: cannot look for its other paths: {error}"),
        }
    }

    fn watched<T>(&self, what: &'static str, offset: u64, len: u64, work: impl FnOnce() -> T) -> T {
        self.slow_answer.during(Request { what, offset, len }, work)
    }

    /// The error for a failed request. If a disk disappears, the kernel sets its size to
    /// 0 and reports that no space is left. So this function checks the size and reports
    /// the real cause.
    fn refused(&self, request: &str, error: &io::Error) -> Failure {
        let size = block_ioctl::size_bytes(self.device());
        if self.is_device && !size.is_ok_and(|size| size >= self.size) {
            return self
                .write_error(&format!("{request}: the disk went away ({error})"))
                .hint("check its cables, its power and the controller");
        }
        self.write_error(&format!("{request}: {error}"))
    }

    fn write_error(&self, text: &str) -> Failure {
        Failure::image_write(format!("{}: {text}", self.path().display()))
    }
}

/// Returns the kind of the device if the kernel never creates partitions on it. This is
/// the case if `ext_range` in sysfs, the number of minor numbers that the device may
/// have, is 1.
fn without_partitions(directory: &Path) -> Option<String> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    if text("ext_range")?.trim() != "1" {
        return None;
    }
    Some(match text("dm/name") {
        Some(name) => format!("the device-mapper device {}", name.trim()),
        None => "a device on which the kernel shows none".to_owned(),
    })
}

fn block_device_error(path: &Path, text: &str) -> Failure {
    Failure::block_device(format!("{}: {text}", path.display()))
}

#[cfg(test)]
mod tests;
