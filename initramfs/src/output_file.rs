//! Output files that appear under their names only when they are complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::path_error::PathError;
use crate::temporary::{NewDirectories, TemporaryPath, locked};

/// A temporary file next to its final path. If the value is dropped without
/// [`OutputFile::finish`], the file is removed.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: File,
    temporary: TemporaryPath,
    replace: bool,
    /// Permission bits of the finished file.
    mode: u32,
    directories: NewDirectories,
}

impl OutputFile {
    /// Creates the temporary file. Without `replace`, an existing file at `path` is an
    /// error. This is checked here, before any work is done, and again at the end.
    pub fn create(path: &Path, replace: bool) -> Result<Self, PathError> {
        Self::begin(path, replace, NewDirectories::default())
    }

    /// Like [`OutputFile::create`], but also makes the missing directories. If the file
    /// is not finished, these directories are removed.
    pub fn create_with_directories(path: &Path, replace: bool) -> Result<Self, PathError> {
        let mut directories = NewDirectories::default();
        let directory = directory_of(path);
        directories
            .make(directory)
            .map_err(PathError::new("cannot make", directory))?;
        Self::begin(path, replace, directories)
    }

    fn begin(path: &Path, replace: bool, directories: NewDirectories) -> Result<Self, PathError> {
        if !replace && path.exists() {
            return Err(PathError::new("cannot write", path)(exists()));
        }
        if path.is_dir() {
            return Err(PathError::new("cannot write", path)(
                io::ErrorKind::IsADirectory.into(),
            ));
        }
        let directory = directory_of(path);
        let prefix = format!(
            ".{}.",
            path.file_name().unwrap_or_default().to_string_lossy()
        );
        let (file, temporary) = TemporaryPath::file(directory, &prefix)
            .map_err(PathError::new("cannot make a file in", directory))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            temporary,
            replace,
            // Temporary files are private, but an image server must be able to read the
            // finished file.
            mode: 0o644,
            directories,
        })
    }

    /// The final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path while the file is being written, for other programs that write it.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        self.temporary.path()
    }

    /// Sets the permission bits of the finished file, 0644 by default.
    pub fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives this file the content of `other`, which must be complete: as a hard link, or
    /// as a copy if a link is not possible.
    pub fn same_as(&mut self, other: &Self) -> Result<(), PathError> {
        let (from, to) = (other.temporary_path(), self.temporary_path());
        let linked = fs::remove_file(to).and_then(|()| fs::hard_link(from, to));
        let same = linked.or_else(|_| fs::copy(from, to).map(drop));
        self.file = same
            .and_then(|()| File::open(to))
            .map_err(PathError::new("cannot write", &self.path))?;
        Ok(())
    }

    /// Flushes the file to disk and moves it to its final path. After an error the
    /// temporary file is removed.
    pub fn finish(self) -> Result<(), PathError> {
        Self::finish_all(vec![self])
    }

    /// Moves several files to their final paths, as [`CompleteFile::finish_all`].
    pub fn finish_all(files: Vec<Self>) -> Result<(), PathError> {
        let complete = files.into_iter().map(Self::complete);
        CompleteFile::finish_all(complete.collect::<Result<_, _>>()?)
    }

    /// Flushes the file to disk and closes it.
    pub fn complete(self) -> Result<CompleteFile, PathError> {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(self.temporary.path(), fs::Permissions::from_mode(self.mode))
            .map_err(PathError::new("cannot set the permissions of", &self.path))?;
        self.file
            .sync_all()
            .map_err(PathError::new("cannot write", &self.path))?;
        Ok(CompleteFile {
            path: self.path,
            temporary: self.temporary,
            replace: self.replace,
            directories: self.directories,
        })
    }
}

/// A complete and closed output file. If the value is dropped without
/// [`CompleteFile::finish_all`], the file is removed.
#[derive(Debug)]
pub struct CompleteFile {
    path: PathBuf,
    temporary: TemporaryPath,
    replace: bool,
    directories: NewDirectories,
}

impl CompleteFile {
    /// The final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves several files to their final paths in this order: all files, or no file. If
    /// a file needs another file, the other file must come first.
    ///
    /// After an error, every path has its previous content, unless the file system cannot
    /// exchange two files: then a replaced file is lost.
    pub fn finish_all(mut files: Vec<Self>) -> Result<(), PathError> {
        let mut list = locked();
        let mut done: Vec<Placed> = Vec::new();
        for output in &files {
            match output.put() {
                Ok(placed) => done.push(placed),
                Err(error) => {
                    done.iter().rev().for_each(Placed::take_back);
                    return Err(PathError::new("cannot write", &output.path)(error));
                }
            }
        }
        for output in &mut files {
            std::mem::take(&mut output.directories).keep(&mut list);
        }
        Ok(())
    }

    fn put(&self) -> io::Result<Placed> {
        let placed = |how| Placed {
            temporary: self.temporary.path().to_owned(),
            path: self.path.clone(),
            how,
        };
        let (temporary, path) = (self.temporary.path(), self.path.as_path());
        if !self.replace {
            return match rename(temporary, path, RenameFlags::RENAME_NOREPLACE) {
                Ok(()) => Ok(placed(How::New)),
                Err(Errno::EEXIST) => Err(exists()),
                // Some file systems, for example NFS, do not support this flag. Use a
                // hard link, because it does not replace an existing file either.
                Err(Errno::EINVAL | Errno::ENOSYS) => {
                    let linked = fs::hard_link(temporary, path);
                    linked
                        .map(|()| placed(How::New))
                        .map_err(|error| match error.kind() {
                            io::ErrorKind::AlreadyExists => exists(),
                            _ => error,
                        })
                }
                Err(error) => Err(error.into()),
            };
        }
        match rename(temporary, path, RenameFlags::RENAME_EXCHANGE) {
            Ok(()) => Ok(placed(How::Exchanged)),
            Err(Errno::ENOENT) => fs::rename(temporary, path).map(|()| placed(How::New)),
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                fs::rename(temporary, path).map(|()| placed(How::Replaced))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A file at its final path, and the way in which it was moved there.
struct Placed {
    temporary: PathBuf,
    path: PathBuf,
    how: How,
}

enum How {
    /// The path was free, and the file is new.
    New,
    /// The old file is now at the temporary path.
    Exchanged,
    /// The old file is gone, because the file system cannot exchange two files.
    Replaced,
}

impl Placed {
    /// Restores the previous state. Ignores an error, because the caller already reports
    /// the first error.
    fn take_back(&self) {
        let _ = match self.how {
            How::New => fs::rename(&self.path, &self.temporary).map_err(drop),
            How::Exchanged => {
                rename(&self.temporary, &self.path, RenameFlags::RENAME_EXCHANGE).map_err(drop)
            }
            How::Replaced => Ok(()),
        };
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> nix::Result<()> {
    renameat2(AT_FDCWD, from, AT_FDCWD, to, flags)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
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
    fn a_second_name_takes_no_second_space() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "b/c"].map(|name| dir.path().join(name));
        for content in ["old", "new"] {
            let mut outputs = paths
                .each_ref()
                .map(|path| OutputFile::create_with_directories(path, true).unwrap());
            let [first, second] = &mut outputs;
            first.file().write_all(content.as_bytes()).unwrap();
            second.same_as(first).unwrap();
            OutputFile::finish_all(outputs.into()).unwrap();
            let inodes = paths.each_ref().map(|path| {
                assert_eq!(fs::read_to_string(path).unwrap(), content);
                fs::metadata(path).unwrap().ino()
            });
            assert_eq!(inodes[0], inodes[1]);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(fs::read_dir(dir.path().join("b")).unwrap().count(), 1);
    }

    #[test]
    fn modes() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        OutputFile::create(&path, true).unwrap().finish().unwrap();
        assert_eq!(mode(), 0o644);
        let mut output = OutputFile::create(&path, true).unwrap();
        output.set_mode(0o755);
        output.finish().unwrap();
        assert_eq!(mode(), 0o755);
    }

    #[test]
    fn dropped_it_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(OutputFile::create(&dir.path().join("out.img"), false).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_existing_file_is_replaced_only_by_force() {
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
