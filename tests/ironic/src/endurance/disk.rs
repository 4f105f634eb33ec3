//! The disk of an agent: a loop device over a sparse file.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use landfall_tests::program;
use nix::sys::stat::{major, minor};

/// In bytes: above the 4 GiB that a root disk needs without root device hints.
pub const SIZE: u64 = 5 << 30;

/// A loop device. The kernel removes it when the last program closes it, even after
/// SIGKILL.
pub struct Disk {
    /// The kernel's name: `loop7`.
    pub name: String,
    /// `major:minor`
    pub number: (u64, u64),
    pub file: PathBuf,
    _open: File,
}

impl Disk {
    /// Makes a sparse file of `size` bytes at `file` and a loop device over it.
    pub async fn make(file: &Path, size: u64) -> Result<Self> {
        File::create(file)
            .and_then(|made| made.set_len(size))
            .with_context(|| format!("making {}", file.display()))?;
        let path = file.display().to_string();
        let made = program::run("losetup", &["--find", "--show", "--partscan", &path]).await?;
        let node = String::from_utf8(made.stdout)?.trim().to_owned();
        let open = File::open(&node).with_context(|| format!("opening {node}"));
        // While the device is open, this only marks it for removal after the last
        // close.
        program::run("losetup", &["--detach", &node]).await?;
        let open = open?;
        let id = open.metadata()?.rdev();
        Ok(Self {
            name: node.trim_start_matches("/dev/").to_owned(),
            number: (major(id), minor(id)),
            file: file.to_owned(),
            _open: open,
        })
    }
}
