//! Changes files of the mounted boot partition. It never writes outside the
//! partition, and after a crash a file has either its old or its new content.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use landfall_report::failure::{Failure, Result};
use landfall_sys::xattr;
use nix::libc;

/// Resolves all symbolic links of a path inside the partition.
///
/// The symbolic links of the image are made for a system with another root: an absolute
/// link would lead into the ramdisk.
///
/// # Errors
/// If the path does not exist or leads out of the partition.
pub fn inside(boot: &Path, relative: &Path) -> Result<PathBuf> {
    let path = boot.join(relative);
    let root = fs::canonicalize(boot).map_err(|e| problem(boot, &e))?;
    let real = fs::canonicalize(&path).map_err(|e| problem(&path, &e))?;
    if real.starts_with(&root) {
        Ok(real)
    } else {
        Err(problem(
            &path,
            &format!("points outside the boot partition, to {}", real.display()),
        ))
    }
}

/// Opens a regular file of the image. Does not follow a symbolic link, because it may
/// lead out of the partition. Does not block on other kinds of files: opening a FIFO
/// would wait for a process at its other end.
///
/// # Errors
/// If the path is not a regular file or cannot be opened.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("expected a regular file"))
    }
}

/// The text of a file of the image, with its resolved path; `None` if the image has
/// no such file.
///
/// # Errors
/// If the file is outside the partition, not a regular file, not UTF-8, or longer
/// than `limit` bytes.
pub fn read_if_there(
    boot: &Path,
    relative: &Path,
    limit: u64,
) -> Result<Option<(PathBuf, String)>> {
    match fs::symlink_metadata(boot.join(relative)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(problem(&boot.join(relative), &e)),
        Ok(_) => {
            let path = inside(boot, relative)?;
            let text = read(&path, limit)?;
            Ok(Some((path, text)))
        }
    }
}

/// The text of a file of the image.
///
/// # Errors
/// If the path is not a regular file, or the file is not UTF-8 or longer than `limit`
/// bytes.
pub fn read(path: &Path, limit: u64) -> Result<String> {
    let mut text = String::new();
    open(path, OpenOptions::new().read(true))
        .and_then(|file| file.take(limit + 1).read_to_string(&mut text))
        .map_err(|e| problem(path, &e))?;
    if text.len() as u64 > limit {
        return Err(problem(path, &format!("expected at most {limit} bytes")));
    }
    Ok(text)
}

/// Replaces the content of a file and keeps its mode, owner and SELinux label. The
/// new content is complete on the disk before it gets the name of the old file.
///
/// # Errors
/// If the file system rejects a change. The file then has either its old or its new
/// content.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    // The scratch file is in the same directory as the file, because the directory above
    // may be outside the partition. Boot loaders ignore the scratch file: in `entries`
    // they read only *.conf (Boot Loader Specification, "Type #1").
    let directory = path.parent().unwrap_or(path);
    let scratch = directory.join(".landfall-new");
    // A crash may have left the scratch file there.
    let _ = fs::remove_file(&scratch);
    if let Err(e) = write_like(path, &scratch, content).and_then(|()| fs::rename(&scratch, path)) {
        // The partition may be full, and CoreOS needs the space for its next kernel.
        let _ = fs::remove_file(&scratch);
        return Err(problem(path, &e));
    }
    sync_directory(directory)
}

/// Writes a new file with this content, and with the mode, owner and SELinux label of
/// the file `model`.
fn write_like(model: &Path, new: &Path, content: &[u8]) -> io::Result<()> {
    let metadata = fs::metadata(model)?;
    let label = xattr::get(model, xattr::SELINUX)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(new)?;
    file.write_all(content)?;
    std::os::unix::fs::fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
    file.set_permissions(metadata.permissions())?;
    if let Some(label) = label {
        xattr::set(new, xattr::SELINUX, &label)?;
    }
    file.sync_all()
}

/// Creates a directory with this mode, or accepts an existing directory as it is.
///
/// # Errors
/// If the file system rejects the directory, or the path exists and is not a directory.
pub fn make_directory(path: &Path, mode: u32) -> Result<()> {
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {
            // mkdir(2) applies the umask, so the mode is set again.
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
                .map_err(|e| problem(path, &e))
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => check_directory(path),
        Err(e) => Err(problem(path, &e)),
    }
}

/// Fails if the path exists and is not a directory. A symbolic link is not a directory,
/// even if it points to one.
///
/// # Errors
/// If the path exists and is not a directory, or if the file system cannot be read.
pub fn check_directory(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(problem(path, &"expected a directory")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(problem(path, &e)),
    }
}

/// Creates a file with mode 0600. It is complete on the disk when this returns.
///
/// # Errors
/// If the file exists already, or the file system rejects it. A partly written file
/// is removed.
pub fn create(path: &Path, content: &[u8]) -> Result<()> {
    let failed = |e: std::io::Error| problem(path, &e);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let written = file
        .set_permissions(fs::Permissions::from_mode(0o600))
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all());
    if let Err(e) = written {
        // The first boot would read a partial file, which is worse than no file.
        let _ = fs::remove_file(path);
        return Err(failed(e));
    }
    sync_directory(path.parent().unwrap_or(path))
}

fn sync_directory(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|e| problem(path, &e))
}

pub fn problem(path: &Path, reason: &dyn Display) -> Failure {
    Failure::deployment(format!("{}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_keeps_the_mode_and_leaves_no_other_file() {
        let boot = tempfile::tempdir().unwrap();
        let entries = boot.path().join("loader.1/entries");
        fs::create_dir_all(&entries).unwrap();
        let path = entries.join("a.conf");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(entries.join(".landfall-new"), "left").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(&entries).unwrap().count(), 1);
        assert_eq!(
            fs::read_dir(boot.path().join("loader.1")).unwrap().count(),
            1
        );
        assert!(replace(&entries.join("none.conf"), b"x").is_err());
        // The new content cannot get the name of a directory.
        assert!(replace(&entries, b"x").is_err());
        assert_eq!(
            fs::read_dir(boot.path().join("loader.1")).unwrap().count(),
            1
        );
    }

    #[test]
    fn links_may_not_lead_out() {
        let boot = tempfile::tempdir().unwrap();
        fs::create_dir(boot.path().join("loader.1")).unwrap();
        std::os::unix::fs::symlink("loader.1", boot.path().join("loader")).unwrap();
        std::os::unix::fs::symlink("/etc", boot.path().join("grub2")).unwrap();
        assert!(inside(boot.path(), Path::new("loader")).is_ok());
        let failure = inside(boot.path(), Path::new("grub2")).unwrap_err();
        assert!(failure.details.contains("points outside"), "{failure}");
        assert!(inside(boot.path(), Path::new("missing")).is_err());
    }

    #[test]
    fn created_files_are_private_and_new() {
        let boot = tempfile::tempdir().unwrap();
        let directory = boot.path().join("ignition");
        make_directory(&directory, 0o700).unwrap();
        make_directory(&directory, 0o700).unwrap();
        let path = directory.join("config.ign");
        create(&path, b"{}").unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert!(create(&path, b"other").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"{}");
        assert!(make_directory(&path, 0o700).is_err(), "a file has the name");
    }
}
