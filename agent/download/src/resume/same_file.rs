//! Compares the file of another server with the one that a download began with.

use super::Resource;

/// Why the file of another server is not, or cannot be proven to be, the file with
/// which the download began.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSameFile {
    /// In bytes.
    #[error("length was {then} bytes, is {now} bytes")]
    Length { then: u64, now: u64 },
    #[error("no checksum was given, and the entity tag was {then}, is {now}")]
    Unproven { then: String, now: String },
}

/// Checks that the file of another server (`now`) is the `file` that the download
/// began with.
///
/// If `checked` is true, the caller compares a digest of the whole file at the end,
/// which would detect a mixture of two files. In this case an equal length is enough.
/// Otherwise the strong entity tags must be equal, too.
///
/// # Errors
/// If the files differ, or if they cannot be proven to be equal.
pub fn same_file(file: &Resource, now: &Resource, checked: bool) -> Result<(), NotSameFile> {
    if let (Some(then), Some(now)) = (file.total, now.total)
        && then != now
    {
        return Err(NotSameFile::Length { then, now });
    }
    match (file.strong_tag(), now.strong_tag()) {
        _ if checked => Ok(()),
        (Some(then), Some(now)) if then == now => Ok(()),
        (then, now) => Err(NotSameFile::Unproven {
            then: then.unwrap_or("none").to_owned(),
            now: now.unwrap_or("none").to_owned(),
        }),
    }
}
