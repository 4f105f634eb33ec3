//! The disk that was just written, as handing over needs it: its table from the
//! medium, its partitions' device nodes, and mounting them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sys::stat::{major, minor};

use crate::disk::busy::KernelView;
use crate::disk::gpt::Table;
use crate::disk::target::refuse_boot_medium;
use crate::failure::{Class, Failure, Result};
use crate::sys::block_ioctl;
use crate::sys::mount::Mounted;
use crate::system_path::SystemPath;

/// Where the boot partition is mounted while it is changed.
pub const BOOT_MOUNT_POINT: &str = "/run/landfall/boot";
/// Where the EFI system partition is mounted while it is looked at.
pub const ESP_MOUNT_POINT: &str = "/run/landfall/esp";

/// Where a partition is mounted that takes a file of the operator's.
pub const INJECTED_MOUNT_POINT: &str = "/run/landfall/injected";

const HEAD_LEN: u64 = 1 << 20;

/// The first bytes of a disk.
pub struct Head {
    /// At most 1 MiB.
    pub bytes: Vec<u8>,
    /// Its logical sector size; both that there are if it is an image file.
    sectors: Vec<u32>,
}

impl Head {
    /// The GPT.
    ///
    /// # Errors
    /// If it is not valid, or there is none.
    pub fn table(&self) -> std::result::Result<Table, String> {
        let mut reason = "no partition table".to_owned();
        for sector in &self.sectors {
            match Table::parse(&self.bytes, *sector) {
                Ok(table) => return Ok(table),
                Err(e) => reason = e,
            }
        }
        Err(reason)
    }
}

/// The first bytes of a disk (or image file), fresh from the medium.
///
/// # Errors
/// If the disk cannot be read.
pub fn read_head(disk: &Path) -> Result<Head> {
    File::open(disk)
        .and_then(|file| read(&file))
        .map_err(|e| failure(format!("{}: {e}", disk.display())))
}

/// The partition table of a disk (or image file), fresh from the medium.
///
/// # Errors
/// If the disk cannot be read or has no valid GPT.
pub fn read_table(disk: &Path) -> Result<Table> {
    { read_head(disk)?.table() }.map_err(|e| failure(format!("{}: {e}", disk.display())))
}

fn read(file: &File) -> io::Result<Head> {
    let is_device = file.metadata()?.file_type().is_block_device();
    let (size, sectors) = if is_device {
        // What the kernel cached before the image was written is stale; writes
        // that went around the cache do not always drop it.
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
/// There is nothing to wait for: the kernel waits for devtmpfs to have made the
/// node (`devtmpfs_submit_req` in drivers/base/devtmpfs.c) before BLKPG returns,
/// by which `install_coreos` is shown its partitions, and before BLKRRPART
/// returns, by which the boot entry finds the ESP of a disk with its table.
///
/// # Errors
/// If the kernel knows of no such partition, or nobody has made its node.
pub fn node(disk: &Path, number: u32) -> Result<PathBuf> {
    let kernel = KernelView::default();
    let partitions = || {
        let id = fs::metadata(disk)?.rdev();
        kernel.partitions(&kernel.device(major(id), minor(id))?)
    };
    partitions()
        .map_err(|e: io::Error| failure(format!("partitions of {}: {e}", disk.display())))?
        .iter()
        .find(|part| part.partition == Some(number))
        .map(|part| Path::new("/dev").join(&part.name))
        .filter(|path| path.exists())
        .ok_or_else(|| {
            failure(format!(
                "the kernel shows no partition {number} of {}",
                disk.display()
            ))
        })
}

/// Mounts a partition of the disk for as long as the value lives.
///
/// # Errors
/// What mount(2) says, with partition and type. If the mount would be writable and
/// the partition is on a boot medium.
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
        .map_err(|e| failure(format!("{}: mounting as {kind}: {e}", node.display())))
}

/// Unmounts what an agent that was killed while handing over left mounted: the
/// disk would be busy for the next deployment. For the agent's start.
pub fn release_left_mounts() {
    for mount_point in [BOOT_MOUNT_POINT, ESP_MOUNT_POINT, INJECTED_MOUNT_POINT] {
        // EINVAL: not mounted; a mount can be stacked on another.
        while umount2(mount_point, MntFlags::MNT_DETACH).is_ok() {
            tracing::warn!("{mount_point} was left mounted by an earlier run, unmounted");
        }
    }
}

fn failure(details: String) -> Failure {
    Failure::new(Class::DeploymentError, details)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left mounted keeps the disk busy for the next attempt.
    #[test]
    fn no_mount_of_an_earlier_life_stays() {
        use nix::mount::mount;
        use nix::sched::{CloneFlags, unshare};

        let places = [BOOT_MOUNT_POINT, ESP_MOUNT_POINT, INJECTED_MOUNT_POINT];
        let alone = std::thread::spawn(move || {
            if unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).is_err() {
                return crate::skip::skip("no right to a mount namespace");
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
