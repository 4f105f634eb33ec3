//! Detects changes of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// Identifies a state of a file without reading it. The change time is part of it,
/// because programs that copy files set the modification time to any value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    #[must_use]
    pub fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}
