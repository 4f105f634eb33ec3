//! Identifies disks more reliably than their paths do.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use landfall_report::failure::Result;
use landfall_sys::block_ioctl;
use nix::sys::stat::{major, minor};

use super::block_device_error;

/// What identifies a disk. A path is not enough: if a disk disappears and another
/// one appears, the new disk may get the same name and device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    number: u64,
    size: u64,
    /// See [`block_ioctl::disk_sequence`].
    sequence: Option<u64>,
}

impl Identity {
    /// Reads the identity of an open disk. A regular file has no disk sequence.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let is_device = metadata.file_type().is_block_device();
        Ok(Self {
            number: metadata.rdev(),
            size: if is_device {
                block_ioctl::size_bytes(file)?
            } else {
                metadata.len()
            },
            sequence: if is_device {
                block_ioctl::disk_sequence(file)?
            } else {
                None
            },
        })
    }

    /// Fails if `file` is not the disk with this identity. `path` is for the error
    /// text.
    ///
    /// # Errors
    /// If `file` is another disk, or if the kernel does not return its identity.
    pub fn refuse_other(self, path: &Path, file: &File) -> Result<()> {
        match Self::of(file) {
            Ok(found) if found == self => Ok(()),
            Ok(found) => Err(block_device_error(
                path,
                &format!(
                    "expected the disk that was written ({self}), found another one ({found})"
                ),
            )
            .hint("the disk went away while it was written: check its cables and the controller")),
            Err(e) => Err(block_device_error(
                path,
                &format!("cannot check that this is still the same disk: {e}"),
            )),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (major(self.number), minor(self.number));
        write!(f, "{major}:{minor}, {} bytes", self.size)?;
        match self.sequence {
            Some(sequence) => write!(f, ", disk sequence {sequence}"),
            None => Ok(()),
        }
    }
}
