//! State that must survive a crash of the agent, but not a reboot: small private
//! files below /run/landfall. A write replaces a whole file.
//!
//! Ironic issues a token only once, pins the agent's certificate, and treats an empty
//! command list as a fresh boot. So after a restart the agent needs its token,
//! certificate and command list to continue.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::private_file;

/// The directory of the ramdisk's state, on a tmpfs.
pub const STATE_DIRECTORY: &str = "/run/landfall";

/// The largest size of a state file that the agent reads back, in bytes. The largest
/// real file is a command list that includes a config drive.
const SIZE_LIMIT: u64 = 256 << 20;

#[derive(Debug, Clone)]
pub struct StateFile(Option<PathBuf>);

impl StateFile {
    pub fn new(directory: &Path, name: &str) -> Self {
        Self(Some(directory.join(name)))
    }

    /// A state that is never stored, for a sub-command that runs once and must
    /// leave nothing on the machine.
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// The content that was stored last, or `None` if there is none.
    ///
    /// # Errors
    /// If the file exists but cannot be read, or is larger than 256 MiB.
    pub fn load(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = &self.0 else {
            return Ok(None);
        };
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Reject a file that is too large. Do not truncate it, because a part would
        // look like a complete state.
        let len = file.metadata()?.len();
        if len > SIZE_LIMIT {
            return Err(io::Error::other(format!(
                "expected at most {SIZE_LIMIT} bytes, found {len}"
            )));
        }
        let mut bytes = Vec::new();
        file.take(SIZE_LIMIT).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Replaces the content. Only root can read the file. A crash during the write
    /// leaves the old content.
    pub fn store(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = &self.0 else {
            return Ok(());
        };
        let temporary = path.with_extension("new");
        let stored =
            private_file::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if stored.is_err() {
            // Remove a partial file: /run may already be full.
            let _ = fs::remove_file(&temporary);
        }
        stored
    }

    /// Like [`StateFile::store`], but only logs a failure. Without the file the
    /// agent cannot continue after a crash, but the current work is not affected.
    pub fn store_or_warn(&self, bytes: &[u8]) {
        if let Err(error) = self.store(bytes) {
            let path = self.0.as_deref().unwrap_or(Path::new(""));
            tracing::warn!(
                "cannot write {}: {error}; this state is lost if the agent restarts",
                path.display()
            );
        }
    }

    pub fn remove(&self) {
        let Some(path) = &self.0 else {
            return;
        };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", path.display());
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
    fn a_too_long_state_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path(), "list.json");
        let stored = fs::File::create(dir.path().join("list.json")).unwrap();
        stored.set_len(SIZE_LIMIT + 1).unwrap();
        let found = file.load().map(|bytes| bytes.map(|bytes| bytes.len()));
        let error = found.unwrap_err().to_string();
        let expected = "expected at most 268435456 bytes, found 268435457";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn nowhere_keeps_nothing() {
        let file = StateFile::nowhere();
        file.store(b"one").unwrap();
        assert_eq!(file.load().unwrap(), None);
        file.remove();
    }

    #[test]
    fn a_failed_store_leaves_the_old_state_and_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path(), "list.json");
        file.store(b"old").unwrap();
        std::fs::create_dir(dir.path().join("list.new")).unwrap();
        assert!(file.store(b"new").is_err());
        assert_eq!(file.load().unwrap().as_deref(), Some(&b"old"[..]));
    }
}
