//! An I/O error that says what the program cannot do, and with which file.

use std::io;
use std::path::{Path, PathBuf};

/// `io::Error` names neither the file nor the action; a user needs both.
#[derive(Debug, thiserror::Error)]
#[error("{cannot} {}", path.display())]
pub struct PathError {
    /// The action that failed, before the path: "cannot open".
    pub cannot: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl PathError {
    /// Makes the error of an action on this path, for `map_err`.
    pub fn new(cannot: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self {
            cannot,
            path,
            source,
        }
    }
}

/// Reads a whole file. A file of more than `limit` bytes is an error.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, PathError> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(PathError::new("cannot open", path))?;
    // Allocate the buffer for the whole file at once: a small file then takes two read
    // calls instead of seven.
    let expected = file.metadata().map_or(0, |metadata| metadata.len());
    // The cast is lossless: this is a program for 64-bit systems.
    let mut bytes = Vec::with_capacity(expected.min(limit) as usize + 1);
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(PathError::new("cannot read", path))?;
    if bytes.len() as u64 > limit {
        let fault = io::Error::other(format!("expected at most {limit} bytes, found more"));
        return Err(PathError::new("cannot read", path)(fault));
    }
    Ok(bytes)
}
