//! Paths below the root of the inspected machine: `/`, or a captured tree.
//!
//! Every read of the inventory goes through this type. In a captured tree, a link
//! leads to the same file as on the captured machine, and no link leads out of the
//! tree.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The maximum number of links in a path (`MAXSYMLINKS` of linux/namei.h).
const LINK_LIMIT: usize = 40;

/// An absolute path as the inspected machine sees it, without the directory that holds a
/// captured tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPath {
    /// The directory that holds a captured tree, or `None` on the running machine.
    captured: Option<Arc<Path>>,
    path: PathBuf,
}

impl SystemPath {
    pub fn live() -> Self {
        Self {
            captured: None,
            path: PathBuf::from("/"),
        }
    }

    /// The root of a captured tree.
    ///
    /// # Errors
    /// If `directory` is not an existing directory.
    pub fn captured(directory: &Path) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        if !directory.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            captured: Some(directory.into()),
            path: PathBuf::from("/"),
        })
    }

    /// Whether this is the running machine, whose drivers can be queried.
    pub fn is_live(&self) -> bool {
        self.captured.is_none()
    }

    /// The path as the inspected machine sees it.
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    /// A path below this one. An absolute `path` starts at the inspected root.
    pub fn join(&self, path: impl AsRef<Path>) -> Self {
        self.with(self.path.join(path))
    }

    /// The parent path. Links are not followed.
    pub fn parent(&self) -> Option<Self> {
        Some(self.with(self.path.parent()?.to_owned()))
    }

    /// This path and all its parents. Links are not followed.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        self.path.ancestors().map(|path| self.with(path.to_owned()))
    }

    pub fn name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }

    /// Whether the path exists. Links are followed.
    pub fn exists(&self) -> bool {
        self.on_disk().is_some_and(|path| path.exists())
    }

    /// Whether the path is a directory. Links are followed.
    pub fn is_dir(&self) -> bool {
        self.on_disk().is_some_and(|path| path.is_dir())
    }

    /// The path with all links resolved, or `None` if it does not exist.
    pub fn resolved(&self) -> Option<Self> {
        let path = match &self.captured {
            None => fs::canonicalize(&self.path).ok()?,
            Some(root) => resolve(root, &self.path)?,
        };
        let resolved = self.with(path);
        resolved.exists().then_some(resolved)
    }

    /// The target of a link as it is stored in the link, or `None` if this is not a
    /// link.
    pub fn link_target(&self) -> Option<PathBuf> {
        let name = self.path.file_name()?;
        fs::read_link(self.parent()?.on_disk()?.join(name)).ok()
    }

    /// The path to open for this file. It contains no link that could lead out of a
    /// captured tree. The file need not exist. `None` if the path contains too many
    /// links.
    pub fn on_disk(&self) -> Option<PathBuf> {
        let Some(root) = &self.captured else {
            return Some(self.path.clone());
        };
        let path = resolve(root, &self.path)?;
        Some(below(root, &path))
    }

    fn with(&self, path: PathBuf) -> Self {
        Self {
            captured: self.captured.clone(),
            path,
        }
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Follows every link in `path`, and treats `root` as `/`. Returns `None` if there are
/// too many links.
fn resolve(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        resolved.push(name);
        let Ok(target) = fs::read_link(below(root, &resolved)) else {
            continue;
        };
        links += 1;
        if links > LINK_LIMIT {
            return None;
        }
        resolved.pop();
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        for (index, name) in names(&target).enumerate() {
            ahead.insert(index, name);
        }
    }
    Some(resolved)
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// `directory/root` is captured, `directory/secret` is next to it.
    fn tree() -> (tempfile::TempDir, SystemPath) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir_all(root.join("sys/devices/disk")).unwrap();
        fs::create_dir_all(root.join("sys/block")).unwrap();
        fs::write(root.join("sys/devices/disk/size"), "8").unwrap();
        fs::write(directory.path().join("secret"), "s").unwrap();
        let captured = SystemPath::captured(&root).unwrap();
        (directory, captured)
    }

    #[test]
    fn links_are_followed_within_the_tree() {
        let (directory, root) = tree();
        let block = directory.path().join("root/sys/block");
        for (name, target) in [
            ("relative", "../devices/disk"),
            ("absolute", "/sys/devices/disk"),
            ("above", "../../../../../../sys/devices/disk"),
            ("chain", "absolute"),
        ] {
            symlink(target, block.join(name)).unwrap();
            let link = root.join("sys/block").join(name);
            let resolved = link.resolved().unwrap();
            assert_eq!(resolved.as_path(), Path::new("/sys/devices/disk"), "{name}");
            assert!(link.join("size").exists(), "{name}");
            assert_eq!(link.link_target().unwrap(), Path::new(target));
        }
        assert_eq!(root.join("sys/devices").link_target(), None);
    }

    #[test]
    fn nothing_outside_is_reached() {
        let (directory, root) = tree();
        let secret = directory.path().join("secret");
        let inside = directory.path().join("root");
        symlink(&secret, inside.join("absolute")).unwrap();
        symlink("../secret", inside.join("relative")).unwrap();
        symlink(directory.path(), inside.join("outside")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        for path in [
            "absolute",
            "relative",
            "../secret",
            "outside/secret",
            "loop",
            "sys/../../secret",
        ] {
            assert!(!root.join(path).exists(), "{path}");
            assert_eq!(root.join(path).resolved(), None, "{path}");
            let opened = root.join(path).on_disk();
            assert!(
                opened.is_none_or(|path| path.starts_with(&inside)),
                "{path}"
            );
        }
    }

    #[test]
    fn the_running_machine_is_as_it_is() {
        let root = SystemPath::live();
        assert!(root.is_live() && root.join("proc").is_dir());
        let own = root.join("proc/self/exe");
        assert_eq!(
            own.resolved().unwrap().as_path(),
            std::env::current_exe().unwrap().canonicalize().unwrap()
        );
    }

    #[test]
    fn a_captured_tree_is_a_directory() {
        assert!(SystemPath::captured(Path::new("/does/not/exist")).is_err());
        assert!(SystemPath::captured(Path::new("/etc/passwd")).is_err());
    }
}
