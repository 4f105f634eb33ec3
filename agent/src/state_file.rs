//! What must survive a crash of the agent, but not the boot: small private
//! files below /run/landfall, replaced as a whole.
//!
//! Ironic issues a token once, pins the agent's certificate and takes an empty
//! command list for a fresh boot; an agent that forgot any of the three could
//! not go on after a restart.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::private_file;

/// The directory of the ramdisk's state, a tmpfs.
pub const STATE_DIRECTORY: &str = "/run/landfall";

/// The largest state file that is read back: a command list with a config
/// drive inside.
const SIZE_LIMIT: u64 = 256 << 20;

/// One file of state.
#[derive(Debug, Clone)]
pub struct StateFile(Option<PathBuf>);

impl StateFile {
    /// The file of this name in this directory.
    pub fn new(directory: &Path, name: &str) -> Self {
        Self(Some(directory.join(name)))
    }

    /// No file at all: for a tool, which has no second life and leaves nothing
    /// on the machine.
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// What was stored last; `None` if nothing was.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn load(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = &self.0 else {
            return Ok(None);
        };
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(SIZE_LIMIT).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Replaces the content; readable by root only. A crash in the middle
    /// leaves the old content.
    ///
    /// # Errors
    /// What the file system says.
    pub fn store(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = &self.0 else {
            return Ok(());
        };
        let temporary = path.with_extension("new");
        let stored =
            private_file::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if stored.is_err() {
            // What is left of it would fill a /run that is full already.
            let _ = fs::remove_file(&temporary);
        }
        stored
    }

    /// As [`StateFile::store`], where a failure costs only the ability to go on
    /// after a crash: it is reported and the work goes on.
    pub fn store_or_warn(&self, bytes: &[u8]) {
        if let Err(error) = self.store(bytes) {
            let path = self.0.as_deref().unwrap_or(Path::new(""));
            tracing::warn!(
                "{}: {error}; a restarted agent would not remember this",
                path.display()
            );
        }
    }

    /// Forgets the content.
    pub fn remove(&self) {
        let Some(path) = &self.0 else {
            return;
        };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{}: {error}", path.display());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn comes_back_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(&dir.path().join("landfall"), "token");
        assert_eq!(file.load().unwrap(), None);
        file.store(b"one").unwrap();
        file.store(b"two").unwrap();
        assert_eq!(file.load().unwrap().as_deref(), Some(&b"two"[..]));
        let mode = fs::metadata(dir.path().join("landfall/token"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        file.remove();
        file.remove();
        assert_eq!(file.load().unwrap(), None);
    }

    #[test]
    fn nowhere_keeps_nothing() {
        let file = StateFile::nowhere();
        file.store(b"one").unwrap();
        assert_eq!(file.load().unwrap(), None);
        file.remove();
    }

    #[test]
    fn what_cannot_be_stored_leaves_the_old_and_no_rest() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path(), "list.json");
        file.store(b"old").unwrap();
        std::fs::create_dir(dir.path().join("list.new")).unwrap();
        assert!(file.store(b"new").is_err());
        assert_eq!(file.load().unwrap().as_deref(), Some(&b"old"[..]));
    }
}
