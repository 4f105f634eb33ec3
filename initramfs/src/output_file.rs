//! A file that appears under its name only when it is whole.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::path_error::PathError;

/// A temporary file beside its final place. Dropped without [`OutputFile::finish`] it is removed.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    temporary: NamedTempFile,
    replace: bool,
}

impl OutputFile {
    /// Begins a file. Unless `replace`, one that exists is refused here, before any
    /// work is done, and again at the end.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn create(path: &Path, replace: bool) -> Result<Self, PathError> {
        if !replace && path.exists() {
            return Err(PathError::new("writing", path)(exists()));
        }
        if path.is_dir() {
            return Err(PathError::new("writing", path)(
                io::ErrorKind::IsADirectory.into(),
            ));
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let prefix = format!(
            ".{}.",
            path.file_name().unwrap_or_default().to_string_lossy()
        );
        let temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .tempfile_in(directory)
            .map_err(PathError::new("making a file in", directory))?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            replace,
        })
    }

    /// Where the file will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file is while it is written, for programs that write it.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        self.temporary.path()
    }

    /// The open file.
    pub fn file(&mut self) -> &mut File {
        self.temporary.as_file_mut()
    }

    /// Puts the file in its place, on disk.
    ///
    /// # Errors
    /// [`PathError`]; the temporary file is removed.
    pub fn finish(self) -> Result<(), PathError> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = &self.path;
        // Temporary files are private; an image is to be served to others.
        fs::set_permissions(self.temporary.path(), fs::Permissions::from_mode(0o644))
            .map_err(PathError::new("setting permissions of", path))?;
        self.temporary
            .as_file()
            .sync_all()
            .map_err(PathError::new("writing", path))?;
        let result = if self.replace {
            self.temporary.persist(path)
        } else {
            self.temporary.persist_noclobber(path)
        };
        let fault = |error: io::Error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                exists()
            } else {
                error
            }
        };
        result
            .map(drop)
            .map_err(|error| PathError::new("writing", path)(fault(error.error)))
    }
}

fn exists() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "it exists; --force replaces it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn nothing_is_there_until_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.img");
        let mut output = OutputFile::create(&path, false).unwrap();
        output.file().write_all(b"new").unwrap();
        assert!(!path.exists());
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn dropped_it_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(OutputFile::create(&dir.path().join("out.img"), false).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_exists_is_replaced_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.img");
        let late = OutputFile::create(&path, false).unwrap();
        fs::write(&path, "old").unwrap();
        for error in [
            late.finish().unwrap_err(),
            OutputFile::create(&path, false).unwrap_err(),
        ] {
            assert_eq!(error.source.to_string(), "it exists; --force replaces it");
        }
        OutputFile::create(&path, true).unwrap().finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let error = OutputFile::create(dir.path(), true).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::IsADirectory);
    }
}
