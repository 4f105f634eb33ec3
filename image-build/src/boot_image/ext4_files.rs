//! The files of the boot partition in an image.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;

use landfall_ext4::{Error, FileSystem, Kind, Storage};
use landfall_handover::boot_files::BootFiles;
use landfall_report::failure::{Failure, Result};

/// The maximum size in bytes of a file to which content is appended.
const MOST_APPENDED: u64 = 1 << 20;

/// `BootFiles` changes files through a shared reference, so the file system is in a
/// `RefCell`.
pub(super) struct Ext4Files<S>(RefCell<FileSystem<S>>);

impl<S: Storage> Ext4Files<S> {
    /// Opens the file system of a partition of `len` bytes.
    pub(super) fn open(storage: S, len: u64) -> std::result::Result<Self, Error> {
        Ok(Self(RefCell::new(FileSystem::open(storage, len)?)))
    }

    /// The changes: an offset in the partition in bytes, and what to write there.
    pub(super) fn into_changes(self) -> Vec<(u64, Vec<u8>)> {
        let files = self.0.into_inner();
        let changes = files.changes();
        changes.map(|(at, block)| (at, block.to_vec())).collect()
    }

    fn kind(&self, path: &Path) -> Result<Option<Kind>> {
        self.0.borrow().kind(path).map_err(failure)
    }
}

/// The errors of the file system name the path or the inode.
fn failure(error: Error) -> Failure {
    Failure::deployment(format!("boot partition: {error}"))
}

impl<S: Storage> BootFiles for Ext4Files<S> {
    fn problem(&self, path: &Path, reason: &dyn Display) -> Failure {
        Failure::deployment(format!("boot partition: {}: {reason}", path.display()))
    }

    fn read_if_there(&self, path: &Path, limit: u64) -> Result<Option<String>> {
        if !self.exists(path)? {
            return Ok(None);
        }
        let bytes = self.0.borrow().read(path, limit).map_err(failure)?;
        let text = String::from_utf8(bytes).map_err(|e| self.problem(path, &e))?;
        Ok(Some(text))
    }

    fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        self.0.borrow().names(directory).map_err(failure)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.kind(path)?.is_some())
    }

    fn require_file(&self, path: &Path) -> Result<()> {
        match self.kind(path)? {
            Some(Kind::File) => Ok(()),
            Some(other) => {
                let reason = format!("expected a regular file, found {}", other.name());
                Err(self.problem(path, &reason))
            }
            None => Err(self.problem(path, &"expected a regular file, found none")),
        }
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<()> {
        let mut files = self.0.borrow_mut();
        files.replace(path, content).map_err(failure)
    }

    fn append(&self, path: &Path, content: &[u8]) -> Result<()> {
        self.require_file(path)?;
        let mut files = self.0.borrow_mut();
        let mut all = files.read(path, MOST_APPENDED).map_err(failure)?;
        all.extend_from_slice(content);
        files.replace(path, &all).map_err(failure)
    }

    fn check_directory(&self, path: &Path) -> Result<()> {
        match self.kind(path)? {
            None | Some(Kind::Directory) => Ok(()),
            Some(other) => {
                let reason = format!("expected a directory, found {}", other.name());
                Err(self.problem(path, &reason))
            }
        }
    }

    fn make_directory(&self, path: &Path, mode: u32) -> Result<()> {
        self.check_directory(path)?;
        if self.exists(path)? {
            return Ok(());
        }
        // Only permission bits.
        let mode = u16::try_from(mode & 0o7777).unwrap_or_default();
        let mut files = self.0.borrow_mut();
        files.make_directory(path, mode).map_err(failure)
    }

    fn create(&self, path: &Path, content: &[u8]) -> Result<()> {
        let mut files = self.0.borrow_mut();
        files.create(path, 0o600, content).map_err(failure)
    }
}
