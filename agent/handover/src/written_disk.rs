//! Gives the handover access to the written disk: its partition table as it is on the
//! disk (not in the kernel's cache), the device nodes of its partitions, and their
//! mounts.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use landfall_disk::device::busy::KernelView;
use landfall_disk::device::target::refuse_boot_medium;
use landfall_disk::tables::gpt::{self, Table};
use landfall_disk::tables::table_error::TableError;
use landfall_report::failure::{Failure, Result};
use landfall_sys::block_ioctl;
use landfall_sys::mount::Mounted;
use landfall_sys::system_path::SystemPath;
use nix::mount::{MntFlags, MsFlags, umount2};

/// The boot partition is mounted here while it is changed or read.
pub const BOOT_MOUNT_POINT: &str = "/run/landfall/boot";
/// The EFI system partition is mounted here while the agent looks for a loader.
pub const ESP_MOUNT_POINT: &str = "/run/landfall/esp";

/// A partition is mounted here while the agent writes one of the operator's files to it.
pub const INJECTED_MOUNT_POINT: &str = "/run/landfall/injected";

const HEAD_LEN: u64 = 1 << 20;

pub struct Head {
    /// The first bytes of the disk, at most 1 MiB.
    pub bytes: Vec<u8>,
    /// The possible logical sector sizes: one for a disk, two for an image file.
    sectors: Vec<u32>,
}

impl Head {
    /// The GPT.
    ///
    /// # Errors
    /// If there is no valid GPT.
    pub fn table(&self) -> std::result::Result<Table, TableError> {
        let mut reason = TableError::Missing;
        for sector in &self.sectors {
            match Table::parse(&self.bytes, *sector) {
                Ok(table) => return Ok(table),
                Err(e) if gpt::has_signature(&self.bytes, *sector) => reason = e,
                Err(_) => {}
            }
        }
        Err(reason)
    }
}

/// Reads the first bytes of a disk or image file, not from the kernel's cache.
pub fn read_head(disk: &Path) -> Result<Head> {
    File::open(disk)
        .and_then(|file| read(&file))
        .map_err(|e| Failure::deployment(format!("{}: {e}", disk.display())))
}

/// Reads the partition table of a disk or image file, not from the kernel's cache.
///
/// # Errors
/// If the disk cannot be read or has no valid GPT.
pub fn read_table(disk: &Path) -> Result<Table> {
    { read_head(disk)?.table() }
        .map_err(|e| Failure::deployment(format!("{}: {e}", disk.display())))
}

fn read(file: &File) -> io::Result<Head> {
    let is_device = file.metadata()?.file_type().is_block_device();
    let (size, sectors) = if is_device {
        // Data that the kernel cached before the image was written is stale, because
        // writes that bypass the cache do not always drop it.
        block_ioctl::flush_buffers(file)?;
        let sector = block_ioctl::logical_sector_size(file)?;
        (block_ioctl::size_bytes(file)?, vec![sector])
    } else {
        (file.metadata()?.len(), vec![512, 4096])
    };
    let mut bytes = vec![0; HEAD_LEN.min(size) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Head { bytes, sectors })
}

/// The device node of a partition.
///
/// The node exists already, because the kernel waits for devtmpfs to create it
/// (`devtmpfs_submit_req` in drivers/base/devtmpfs.c) before BLKPG or BLKRRPART
/// returns. BLKPG announces the partitions for `install_coreos`, BLKRRPART announces
/// the ESP for the boot entry.
///
/// # Errors
/// If the kernel has no such partition, or the partition has no node.
pub fn node(disk: &Path, number: u32) -> Result<PathBuf> {
    let kernel = KernelView::default();
    { kernel.device_at(disk) }
        .and_then(|device| kernel.partitions(&device))
        .map_err(|e: io::Error| {
            Failure::deployment(format!("partitions of {}: {e}", disk.display()))
        })?
        .iter()
        .find(|part| part.partition == Some(number))
        .map(|part| Path::new("/dev").join(&part.name))
        .filter(|path| path.exists())
        .ok_or_else(|| {
            Failure::deployment(format!(
                "the kernel shows no partition {number} of {}",
                disk.display()
            ))
        })
}

/// Mounts a partition of the disk until the returned value is dropped.
///
/// # Errors
/// If mount(2) fails; the error names the partition and the type. Also if the mount would
/// be writable and the partition is on the medium that this host booted from.
pub fn mount<'a>(
    node: &Path,
    mount_point: &'a Path,
    kind: &str,
    more_flags: MsFlags,
) -> Result<Mounted<'a>> {
    if !more_flags.contains(MsFlags::MS_RDONLY)
        && let Some(name) = node.file_name()
    {
        refuse_boot_medium(&SystemPath::live().join("/sys/class/block").join(name))?;
    }
    let flags = more_flags | MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    fs::create_dir_all(mount_point)
        .and_then(|()| Mounted::new(node, mount_point, kind, flags))
        .map_err(|e| {
            Failure::deployment(format!(
                "{}: cannot mount it as {kind}: {e}",
                node.display()
            ))
        })
}

/// Unmounts partitions that are still mounted because an earlier agent was killed
/// during the handover. Otherwise the next deployment would fail because the disk is
/// busy. The agent calls this function when it starts.
pub fn release_left_mounts() {
    for mount_point in [BOOT_MOUNT_POINT, ESP_MOUNT_POINT, INJECTED_MOUNT_POINT] {
        // EINVAL means that nothing is mounted there. Mounts can be stacked, so one call
        // may not be enough.
        while umount2(mount_point, MntFlags::MNT_DETACH).is_ok() {
            tracing::warn!("{mount_point} was left mounted by an earlier run, unmounted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpt_that_is_missing_is_not_one_that_is_damaged() {
        for (signature, expected) in [
            (&b""[..], TableError::Missing),
            (
                b"EFI PART",
                TableError::Lengths {
                    header: 0,
                    entry: 0,
                },
            ),
        ] {
            let mut bytes = vec![0; HEAD_LEN as usize];
            bytes[512..][..signature.len()].copy_from_slice(signature);
            let head = Head {
                bytes,
                sectors: vec![512, 4096],
            };
            assert_eq!(head.table().unwrap_err(), expected);
        }
    }

    /// A mount that is left keeps the disk busy for the next attempt.
    #[test]
    fn no_mount_of_an_earlier_life_stays() {
        use nix::mount::mount;
        use nix::sched::{CloneFlags, unshare};

        let places = [BOOT_MOUNT_POINT, ESP_MOUNT_POINT, INJECTED_MOUNT_POINT];
        let alone = std::thread::spawn(move || {
            if unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).is_err() {
                return landfall_sys::skip::skip("no right to a mount namespace");
            }
            let none = None::<&str>;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(none, "/", none, private, none).unwrap();
            let tmpfs = |place: &str| {
                mount(none, place, Some("tmpfs"), MsFlags::empty(), none).unwrap();
            };
            tmpfs("/run");
            for place in places {
                fs::create_dir_all(place).unwrap();
                tmpfs(place);
                tmpfs(place);
            }
            release_left_mounts();
            let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
            assert!(!mounts.contains("/run/landfall"), "{mounts}");
        });
        alone.join().unwrap();
    }
}
