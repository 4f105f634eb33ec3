//! Gives access to the files of a boot partition. The agent mounts the partition; the
//! builder changes it in an image file.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use landfall_report::failure::{Failure, Result};

use crate::file_in_boot::{self, inside};

/// Access to the files of a boot partition. All paths are relative to its root. An
/// operation never reaches a file outside the partition, even if symbolic links in the
/// image point there.
pub trait BootFiles {
    /// The failure of an operation on this path.
    fn problem(&self, path: &Path, reason: &dyn Display) -> Failure;

    /// The text of a file; `None` if there is no such file. Follows symbolic links.
    ///
    /// # Errors
    /// If the path is not a regular file, or the file is not UTF-8 or longer than `limit`
    /// bytes.
    fn read_if_there(&self, path: &Path, limit: u64) -> Result<Option<String>>;

    /// The names in a directory, in any order. Follows symbolic links.
    ///
    /// # Errors
    /// If there is no such directory, or if it cannot be read.
    fn names(&self, directory: &Path) -> Result<Vec<OsString>>;

    /// Whether the path exists. A dangling symbolic link counts too.
    ///
    /// # Errors
    /// If the partition cannot be read.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Fails if the path is not a regular file. Does not follow a symbolic link in the
    /// last component.
    ///
    /// # Errors
    /// If the path does not exist or is not a regular file.
    fn require_file(&self, path: &Path) -> Result<()>;

    /// Replaces the content of a file and keeps its mode, owner and SELinux label.
    /// Follows symbolic links.
    ///
    /// # Errors
    /// If the file system rejects a change. The file then has either its old or its
    /// new content.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<()>;

    /// Appends to a regular file. Does not follow a symbolic link in the last component.
    ///
    /// # Errors
    /// If there is no such file, or the file system rejects the change.
    fn append(&self, path: &Path, content: &[u8]) -> Result<()>;

    /// Fails if the path exists and is not a directory. Does not follow a symbolic link
    /// in the last component.
    ///
    /// # Errors
    /// If the path exists and is not a directory, or if the partition cannot be read.
    fn check_directory(&self, path: &Path) -> Result<()>;

    /// Creates a directory with this mode, or accepts an existing directory as it is.
    ///
    /// # Errors
    /// If the file system rejects the directory, or the path exists and is not a
    /// directory.
    fn make_directory(&self, path: &Path, mode: u32) -> Result<()>;

    /// Creates a file that only root can read.
    ///
    /// # Errors
    /// If the path already exists, or the file system rejects the file.
    fn create(&self, path: &Path, content: &[u8]) -> Result<()>;
}

/// The mount point of a boot partition.
impl BootFiles for Path {
    fn problem(&self, path: &Path, reason: &dyn Display) -> Failure {
        if path.as_os_str().is_empty() {
            return file_in_boot::problem(self, reason);
        }
        file_in_boot::problem(&self.join(path), reason)
    }

    fn read_if_there(&self, path: &Path, limit: u64) -> Result<Option<String>> {
        let found = file_in_boot::read_if_there(self, path, limit)?;
        Ok(found.map(|(_, text)| text))
    }

    fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        let entries = fs::read_dir(inside(self, directory)?);
        entries
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
            .map_err(|e: io::Error| self.problem(directory, &e))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match fs::symlink_metadata(self.join(path)) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.problem(path, &e)),
        }
    }

    fn require_file(&self, path: &Path) -> Result<()> {
        self.append(path, b"")
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<()> {
        file_in_boot::replace(&inside(self, path)?, content)
    }

    fn append(&self, path: &Path, content: &[u8]) -> Result<()> {
        file_in_boot::open(&self.join(path), OpenOptions::new().append(true))
            .and_then(|mut file| {
                file.write_all(content)?;
                if content.is_empty() {
                    Ok(())
                } else {
                    file.sync_all()
                }
            })
            .map_err(|e| self.problem(path, &e))
    }

    fn check_directory(&self, path: &Path) -> Result<()> {
        file_in_boot::check_directory(&self.join(path))
    }

    fn make_directory(&self, path: &Path, mode: u32) -> Result<()> {
        file_in_boot::make_directory(&self.join(path), mode)
    }

    fn create(&self, path: &Path, content: &[u8]) -> Result<()> {
        file_in_boot::create(&self.join(path), content)
    }
}
