//! Writes a file that the operator specified into the installed system. It never writes
//! outside the mounted file system. The links in the image are made for another root, so
//! openat2(2) resolves them relative to the mount point.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFile {
    /// Path from the root of its file system.
    pub path: PathBuf,
    /// The new content; `None` deletes the file.
    pub content: Option<Vec<u8>>,
    /// Permission bits. With `None` a new file gets 0644. An existing file keeps its
    /// bits, but a change of its owner clears set-uid and set-gid.
    pub mode: Option<u32>,
    /// Permission bits of the file's directory, if it must be created.
    pub directory_mode: Option<u32>,
    /// User id; `None` leaves it unchanged.
    pub owner: Option<u32>,
    /// Group id; `None` leaves it unchanged.
    pub group: Option<u32>,
}

impl InjectedFile {
    /// Makes the change below this mount point.
    pub fn apply(&self, mount_point: &Path) -> io::Result<()> {
        let root = File::open(mount_point)?;
        let (parent, name) = split(&self.path)?;
        let Some(content) = &self.content else {
            return remove(&root, &parent, name);
        };
        make_directories(&root, &parent, self.directory_mode)?;
        let path = parent.join(name);
        // O_NONBLOCK, because opening a FIFO would wait for its other end.
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NONBLOCK;
        let file = File::from(open(&root, &path, flags)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("expected a regular file"));
        }
        file.set_len(0)?;
        (&file).write_all(content)?;
        // Set the owner before the mode, because Linux clears set-uid and set-gid when
        // the owner changes (chown(2)).
        if self.owner.is_some() || self.group.is_some() {
            let (owner, group) = (self.owner.map(Uid::from_raw), self.group.map(Gid::from_raw));
            fchown(&file, owner, group)?;
        }
        if let Some(mode) = self.mode {
            fchmod(&file, Mode::from_bits_truncate(mode))?;
        }
        file.sync_all()
    }
}

/// Whether the root of the mounted file system has this directory.
pub fn has_directory(mount_point: &Path, name: &Path) -> bool {
    File::open(mount_point)
        .and_then(|root| open(&root, name, OFlag::O_DIRECTORY | OFlag::O_RDONLY))
        .is_ok()
}

/// Splits a path into directory and file name, and drops `/` and `.` components.
/// Rejects `..`.
fn split(path: &Path) -> io::Result<(PathBuf, &std::ffi::OsStr)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut parent = PathBuf::new();
    for component in path.parent().unwrap_or(Path::new("")).components() {
        match component {
            Component::Normal(part) => parent.push(part),
            Component::ParentDir => return Err(io::Error::other("the path has .. in it")),
            _ => {}
        }
    }
    Ok((parent, name))
}

fn open(root: &File, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    let mode = if flags.contains(OFlag::O_CREAT) {
        Mode::from_bits_truncate(0o644)
    } else {
        Mode::empty()
    };
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .mode(mode)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(openat2(root, path, how)?)
}

fn make_directories(root: &File, path: &Path, last_mode: Option<u32>) -> io::Result<()> {
    let count = path.components().count();
    let mut made = PathBuf::new();
    for (index, component) in path.components().enumerate() {
        let parent = open(root, &made, OFlag::O_DIRECTORY)?;
        made.push(component);
        let part: &Path = component.as_ref();
        match mkdirat(parent.as_fd(), part, Mode::from_bits_truncate(0o755)) {
            Ok(()) => {
                if let Some(mode) = last_mode.filter(|_| index + 1 == count) {
                    let directory = open(root, &made, OFlag::O_DIRECTORY)?;
                    fchmod(directory.as_fd(), Mode::from_bits_truncate(mode))?;
                }
            }
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn remove(root: &File, parent: &Path, name: &std::ffi::OsStr) -> io::Result<()> {
    let directory = match open(root, parent, OFlag::O_DIRECTORY) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    match unlinkat(directory.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn file(path: &str, content: &str) -> InjectedFile {
        InjectedFile {
            path: path.into(),
            content: Some(content.into()),
            mode: None,
            directory_mode: None,
            owner: None,
            group: None,
        }
    }

    #[test]
    fn a_file_in_new_directories_with_its_modes() {
        let root = tempfile::tempdir().unwrap();
        let wanted = InjectedFile {
            mode: Some(0o600),
            directory_mode: Some(0o700),
            ..file("/etc/a/b/c.conf", "text")
        };
        wanted.apply(root.path()).unwrap();
        let mode = |path: &str| {
            let metadata = fs::metadata(root.path().join(path)).unwrap();
            metadata.permissions().mode() & 0o7777
        };
        assert_eq!(mode("etc/a/b/c.conf"), 0o600);
        assert_eq!(mode("etc/a/b"), 0o700, "the last directory");
        assert_eq!(mode("etc/a"), 0o755);
        assert!(has_directory(root.path(), Path::new("etc")));
        assert!(!has_directory(root.path(), Path::new("etc/a/b/c.conf")));
        file("etc/a/b/c.conf", "x").apply(root.path()).unwrap();
        assert_eq!(mode("etc/a/b/c.conf"), 0o600, "as it was");
        let content = fs::read_to_string(root.path().join("etc/a/b/c.conf")).unwrap();
        assert_eq!(content, "x");
        let gone = InjectedFile {
            content: None,
            ..wanted
        };
        gone.apply(root.path()).unwrap();
        gone.apply(root.path()).unwrap();
        assert!(!root.path().join("etc/a/b/c.conf").exists());
    }

    /// Linux clears set-uid and set-gid on every chown(2), even if the owner stays the
    /// same.
    #[test]
    fn the_mode_is_kept_when_the_owner_changes() {
        let root = tempfile::tempdir().unwrap();
        let wanted = InjectedFile {
            mode: Some(0o6755),
            owner: Some(nix::unistd::getuid().as_raw()),
            group: Some(nix::unistd::getgid().as_raw()),
            ..file("tool", "text")
        };
        wanted.apply(root.path()).unwrap();
        let metadata = fs::metadata(root.path().join("tool")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o6755);
    }

    #[test]
    fn nothing_leads_out() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("real")).unwrap();
        symlink("/real", root.path().join("absolute")).unwrap();
        symlink("../../../../real", root.path().join("upwards")).unwrap();
        symlink(outside.path(), root.path().join("out")).unwrap();
        file("absolute/a", "1").apply(root.path()).unwrap();
        file("upwards/b", "2").apply(root.path()).unwrap();
        assert!(root.path().join("real/a").exists());
        assert!(root.path().join("real/b").exists());
        assert!(file("out/c", "3").apply(root.path()).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        for path in ["../x", "a/../../x", "/", ""] {
            assert!(file(path, "").apply(root.path()).is_err(), "{path}");
        }
    }
}
