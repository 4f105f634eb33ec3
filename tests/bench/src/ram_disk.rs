//! Makes a disk in memory: a loop device over a file on a tmpfs, so that the
//! speed of a real disk does not affect the measurement.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use landfall_tests::artifacts;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use super::image::{Form, Images, VIRTUAL_SIZE};

/// The disk is larger than the image, as real disks are.
const DISK_SIZE: u64 = VIRTUAL_SIZE + (1 << 30);
/// Bytes compared at a time.
const PIECE: usize = 1 << 20;

/// The disk. Dropping this value removes it.
pub(super) struct RamDisk {
    folder: PathBuf,
    file: PathBuf,
    device: PathBuf,
}

impl RamDisk {
    /// Creates the disk and a mount namespace for the calling thread. The thread that
    /// starts the programs must call this before it starts any of them.
    pub(super) fn new() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS).context("making a mount namespace (needs root)")?;
        let none = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).context("making the mounts private")?;
        // coreos-installer fails if udevd's socket is missing, and otherwise waits with
        // udevadm until all events are settled. In this /run the socket is an ordinary
        // file, so it waits for nothing.
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none)?;
        std::fs::create_dir("/run/udev")?;
        File::create("/run/udev/control")?;
        let folder = artifacts::out_dir().join("bench/memory");
        std::fs::create_dir_all(&folder)?;
        mount(
            Some("tmpfs"),
            &folder,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("size=5g"),
        )
        .context("mounting a tmpfs")?;
        let file = folder.join("disk");
        File::create(&file)?.set_len(DISK_SIZE)?;
        let output = Command::new("losetup")
            // Show partitions, because coreos-installer makes the kernel read the table.
            .args(["--find", "--show", "--partscan"])
            .arg(&file)
            .output()
            .context("starting losetup")?;
        ensure!(output.status.success(), "losetup: {output:?}");
        let device = PathBuf::from(String::from_utf8(output.stdout)?.trim());
        Ok(Self {
            folder,
            file,
            device,
        })
    }

    /// A folder in memory for staged files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn device(&self) -> &Path {
        &self.device
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Frees all written memory.
    pub(super) fn empty(&self) -> Result<()> {
        for program in [
            Command::new("fallocate")
                .args(["--punch-hole", "--offset=0"])
                .arg(format!("--length={DISK_SIZE}"))
                .arg(&self.file),
            Command::new("blockdev")
                .arg("--flushbufs")
                .arg(&self.device),
            // The streaming loop of ironic-python-agent truncates the file that it writes
            // to.
            Command::new("truncate")
                .arg(format!("--size={DISK_SIZE}"))
                .arg(&self.file),
        ] {
            let status = program.status()?;
            ensure!(status.success(), "{program:?}: {status}");
        }
        Ok(())
    }

    /// Fails if the disk does not contain the image. The first and last MiB may
    /// differ, because they may be adapted to the disk.
    pub(super) fn compare(&self, images: &Images) -> Result<()> {
        let (image, disk) = (File::open(images.path(Form::Raw))?, File::open(&self.file)?);
        let (mut expected, mut found) = (vec![0; PIECE], vec![0; PIECE]);
        disk.read_exact_at(&mut found, 0)?;
        ensure!(&found[512..520] == b"EFI PART", "the disk has no GPT");
        let piece = PIECE as u64;
        for at in (piece..VIRTUAL_SIZE - piece).step_by(PIECE) {
            image.read_exact_at(&mut expected, at)?;
            disk.read_exact_at(&mut found, at)?;
            ensure!(expected == found, "the disk is not the image at {at}");
        }
        Ok(())
    }
}

impl Drop for RamDisk {
    fn drop(&mut self) {
        // If this fails, the mount namespace still removes the rest when it ends.
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.device)
            .status();
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
    }
}
