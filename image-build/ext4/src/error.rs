//! Why a file system cannot be read or changed.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read at byte {offset} of the file system: {source}")]
    Read { offset: u64, source: io::Error },
    #[error("expected an ext4 file system, found no magic number of one")]
    NoMagic,
    #[error("superblock: {field} has the invalid value {value}")]
    Superblock { field: &'static str, value: u64 },
    #[error("the file system has {bytes} bytes, but its partition has only {available}")]
    TooShort { bytes: u64, available: u64 },
    #[error("the file system has {set} features that this program does not know (bits {bits:#x})")]
    Features { set: &'static str, bits: u32 },
    #[error("the file system is not clean: {0} -- repair it with e2fsck")]
    Unclean(&'static str),
    #[error("{what}: wrong checksum -- check the file system with e2fsck")]
    Checksum { what: String },
    #[error("{what}: {reason} -- check the file system with e2fsck")]
    Damaged { what: String, reason: &'static str },
    #[error("{what}: {reason}, which this program cannot change")]
    Unsupported { what: String, reason: &'static str },
    #[error("no free {0} in the file system")]
    NoSpace(&'static str),
    #[error("{0}: no such file or directory")]
    NotFound(PathBuf),
    #[error("{0}: exists already")]
    Exists(PathBuf),
    #[error("{path}: expected {expected}, found {found}")]
    Kind {
        path: PathBuf,
        expected: &'static str,
        found: &'static str,
    },
    #[error("{path}: expected at most {limit} bytes, found {found}")]
    TooLong {
        path: PathBuf,
        limit: u64,
        found: u64,
    },
    #[error("{path}: expected {expected}")]
    Path {
        path: PathBuf,
        expected: &'static str,
    },
}

pub type Result<T> = std::result::Result<T, Error>;

/// The error for damage that no checksum shows.
pub(crate) fn damaged(what: impl Into<String>, reason: &'static str) -> Error {
    Error::Damaged {
        what: what.into(),
        reason,
    }
}

pub(crate) fn unsupported(what: impl Into<String>, reason: &'static str) -> Error {
    Error::Unsupported {
        what: what.into(),
        reason,
    }
}
