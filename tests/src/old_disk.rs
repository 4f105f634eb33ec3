//! Fills a host's disk before the agent starts.
//!
//! The agent's first write is zeros. On a disk of zeros a test cannot see this write,
//! and such a disk never boots, even if the agent fails to erase something.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Result, ensure};

use crate::artifacts::{self, Packing};
use crate::program;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldDisk {
    /// Zeros, like a new disk.
    Blank,
    /// The same byte everywhere, so that [`ensure_untouched`] detects every write. The
    /// disk takes its full size on the build machine, so use this for small disks only.
    Pattern,
    /// A system that boots under both firmwares. Its backup partition table is in
    /// the last sectors, where OVMF would find and restore it.
    Bootable,
}

const PATTERN: u8 = 0xa5;

const MIB: usize = 1 << 20;

impl OldDisk {
    /// Creates a disk of `mib` MiB.
    pub async fn make(self, disk: &Path, mib: u64) -> Result<()> {
        let mut file = File::create(disk)?;
        match self {
            Self::Blank => file.set_len(mib << 20)?,
            Self::Pattern => {
                for _ in 0..mib {
                    file.write_all(&[PATTERN; MIB])?;
                }
            }
            Self::Bootable => {
                let mut image = File::open(artifacts::coreos_image(Packing::Raw)?)?;
                std::io::copy(&mut image, &mut file)?;
                file.set_len(mib << 20)?;
                let disk = disk.display().to_string();
                program::run("sgdisk", &["--move-second-header", &disk]).await?;
            }
        }
        Ok(())
    }
}

/// Fails if any byte of an [`OldDisk::Pattern`] disk has changed.
pub fn ensure_untouched(disk: &Path) -> Result<()> {
    let mut file = File::open(disk)?;
    let mut piece = vec![0; MIB];
    let mut place = 0;
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        let written = piece[..count].iter().position(|byte| *byte != PATTERN);
        ensure!(
            written.is_none(),
            "the disk was written to, at byte {}",
            place + written.unwrap_or_default()
        );
        place += count;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[tokio::test]
    async fn one_byte_anywhere_is_seen() {
        let disk = tempfile::NamedTempFile::new().unwrap();
        for place in [0, 1_500_000, 3 * MIB as u64 - 1] {
            OldDisk::Pattern.make(disk.path(), 3).await.unwrap();
            ensure_untouched(disk.path()).unwrap();
            disk.as_file().write_all_at(&[0], place).unwrap();
            let error = ensure_untouched(disk.path()).unwrap_err();
            assert!(error.to_string().ends_with(&format!(" {place}")), "{error}");
        }
    }
}
