//! Keeps two runs from writing the same base or image at the same time.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// Opens a file with a shared lock: other runs can read it, but not change it.
pub(crate) fn to_read(path: &Path) -> Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    judge(file.try_lock_shared(), path)?;
    still_there(&file, path)?;
    Ok(file)
}

/// Opens a file with an exclusive lock: other runs can neither read nor change it.
pub(crate) fn to_write(path: &Path) -> Result<File> {
    let file = File::options().read(true).write(true).open(path);
    let file = file.with_context(|| format!("cannot open {} for writing", path.display()))?;
    judge(file.try_lock(), path)?;
    still_there(&file, path)?;
    Ok(file)
}

fn judge(result: Result<(), TryLockError>, path: &Path) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => bail!(
            "{} is in use by another landfall-image -- try again when it has ended",
            path.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Fails if `path` no longer leads to the open `file`, because another run has replaced
/// it. Otherwise the changes of the other run would be lost.
pub(crate) fn still_there(file: &File, path: &Path) -> Result<()> {
    let opened = file.metadata().context("cannot get the metadata")?;
    let now = path
        .metadata()
        .with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        (opened.dev(), opened.ino()) == (now.dev(), now.ino()),
        "{} was replaced at the same time -- try again",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_or_several_readers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("base");
        std::fs::write(&path, "x").unwrap();
        let refused = |result: Result<File>| {
            let error = result.unwrap_err().to_string();
            assert!(
                error.contains("in use by another landfall-image"),
                "{error}"
            );
        };
        let readers = [to_read(&path).unwrap(), to_read(&path).unwrap()];
        refused(to_write(&path));
        drop(readers);
        let writer = to_write(&path).unwrap();
        refused(to_write(&path));
        refused(to_read(&path));
        drop(writer);
        let old = to_write(&path).unwrap();
        let new = directory.path().join("new");
        std::fs::write(&new, "y").unwrap();
        std::fs::rename(&new, &path).unwrap();
        assert!(still_there(&old, &path).is_err());
        to_write(&path).unwrap();
    }
}
