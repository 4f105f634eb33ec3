//! Checks that a file system has enough free space before the work begins.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

/// The file system has too little free space. The builder has written nothing yet. Free
/// some space, or write to another directory.
#[derive(Debug, thiserror::Error)]
#[error(
    "{directory}: expected {} MB free for {what}, found {} MB{advice}",
    needed.div_ceil(1_000_000),
    found / 1_000_000
)]
pub struct NoSpace {
    directory: PathBuf,
    what: String,
    needed: u64,
    found: u64,
    advice: &'static str,
}

/// Fails if the file system of `directory` has less than `needed` bytes free.
pub fn require(directory: &Path, needed: u64, what: &str) -> Result<(), NoSpace> {
    // If the system does not report the free space, a write fails later instead.
    let Some(found) = free(directory) else {
        return Ok(());
    };
    if found >= needed {
        return Ok(());
    }
    let is_temporary = directory == std::env::temp_dir();
    Err(NoSpace {
        directory: directory.to_owned(),
        what: what.to_owned(),
        needed,
        found,
        advice: if is_temporary {
            " -- free some space, or set TMPDIR to a larger file system"
        } else {
            ""
        },
    })
}

fn free(directory: &Path) -> Option<u64> {
    let info = statvfs(directory).ok()?;
    info.blocks_available().checked_mul(info.fragment_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_does_not_fit_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        require(directory.path(), 1, "a byte").unwrap();
        let error_of = |directory: &Path| {
            let error = require(directory, u64::MAX, "everything").unwrap_err();
            error.to_string()
        };
        let text = error_of(directory.path());
        assert!(
            text.contains(": expected 18446744073710 MB free for everything, found "),
            "{text}"
        );
        assert!(text.ends_with(" MB"), "{text}");
        let text = error_of(&std::env::temp_dir());
        assert!(
            text.ends_with("set TMPDIR to a larger file system"),
            "{text}"
        );
        require(Path::new("/no/such/directory"), u64::MAX, "x").unwrap();
    }
}
