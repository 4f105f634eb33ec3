//! What goes into the ramdisk: paths, each once, with their parents.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A directory tree that exists only as a list, sorted by path.
#[derive(Debug, Clone, Default)]
pub struct FileTree {
    entries: BTreeMap<String, Entry>,
}

/// One path of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is there.
    pub node: Node,
    /// Permission bits.
    pub permissions: u32,
    /// Where in the archive it stands.
    pub place: Place,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A regular file.
    File(Content),
    /// A symbolic link to this target.
    Symlink(String),
    /// A character device.
    CharDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

/// Where the bytes of a file come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// They are here.
    Bytes(Vec<u8>),
    /// They are copied when the archive is written, so that a hundred megabytes of
    /// modules are never held in memory.
    OnDisk {
        /// The file.
        path: PathBuf,
        /// Its size when it was added; another size later is an error.
        size: u64,
    },
}

/// The order of the archive is the order in which the kernel unpacks it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Right after the directories: what must be there even if memory runs out.
    First,
    /// By path.
    #[default]
    Sorted,
    /// At the end: its presence proves that everything before was unpacked.
    Last,
}

/// Why a path cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Not a plain relative path.
    #[error("ramdisk path `{0}`: expected a relative path without empty, `.` or `..` parts")]
    BadPath(String),
    /// Two files claim one path.
    #[error("ramdisk path `{0}` is added twice")]
    Duplicate(String),
    /// A parent is a file.
    #[error("ramdisk path `{path}`: its parent `{parent}` is not a directory")]
    ParentIsNoDirectory {
        /// The path that was added.
        path: String,
        /// The parent in the way.
        parent: String,
    },
}

impl FileTree {
    /// Adds a directory; adding one that is there already is no fault.
    ///
    /// # Errors
    /// [`TreeError`] for a bad path or if a file is in the way.
    pub fn directory(&mut self, path: &str) -> Result<(), TreeError> {
        match self.entries.get(path) {
            Some(Entry {
                node: Node::Directory,
                ..
            }) => Ok(()),
            _ => self.insert(path, Node::Directory, 0o755, Place::Sorted),
        }
    }

    /// Adds a regular file.
    ///
    /// # Errors
    /// [`TreeError`] for a bad path or one that is taken.
    pub fn file(
        &mut self,
        path: &str,
        content: Content,
        permissions: u32,
        place: Place,
    ) -> Result<(), TreeError> {
        self.insert(path, Node::File(content), permissions, place)
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// [`TreeError`] for a bad path or one that is taken.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<(), TreeError> {
        self.insert(path, Node::Symlink(target.to_owned()), 0o777, Place::Sorted)
    }

    /// Adds a character device.
    ///
    /// # Errors
    /// [`TreeError`] for a bad path or one that is taken.
    pub fn char_device(
        &mut self,
        path: &str,
        major: u32,
        minor: u32,
        permissions: u32,
    ) -> Result<(), TreeError> {
        // Before the files: they are empty, and init wants its console even if memory runs out.
        self.insert(
            path,
            Node::CharDevice { major, minor },
            permissions,
            Place::First,
        )
    }

    /// How many entries there are, parents included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a path is taken.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// Every entry in the order of the archive: directories, then by [`Place`], then by path.
    #[must_use]
    pub fn in_archive_order(&self) -> Vec<(&str, &Entry)> {
        let mut all: Vec<_> = self
            .entries
            .iter()
            .map(|(path, entry)| (path.as_str(), entry))
            .collect();
        // Stable, so paths stay sorted within each group.
        all.sort_by_key(|(_, entry)| (entry.node != Node::Directory, entry.place));
        all
    }

    fn insert(
        &mut self,
        path: &str,
        node: Node,
        permissions: u32,
        place: Place,
    ) -> Result<(), TreeError> {
        if path.contains('\0') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(TreeError::BadPath(path.to_owned()));
        }
        if self.contains(path) {
            return Err(TreeError::Duplicate(path.to_owned()));
        }
        for (end, _) in path.match_indices('/') {
            let parent = &path[..end];
            match self.entries.get(parent) {
                None => {
                    let directory = Entry {
                        node: Node::Directory,
                        permissions: 0o755,
                        place: Place::Sorted,
                    };
                    self.entries.insert(parent.to_owned(), directory);
                }
                Some(Entry {
                    node: Node::Directory,
                    ..
                }) => {}
                Some(_) => {
                    return Err(TreeError::ParentIsNoDirectory {
                        path: path.to_owned(),
                        parent: parent.to_owned(),
                    });
                }
            }
        }
        self.entries.insert(
            path.to_owned(),
            Entry {
                node,
                permissions,
                place,
            },
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Content {
        Content::Bytes(text.into())
    }

    #[test]
    fn parents_come_first_and_places_are_kept() {
        let mut tree = FileTree::default();
        tree.file("etc/landfall/complete", bytes(""), 0o644, Place::Last)
            .unwrap();
        tree.file("lib/modules/1/a.ko", bytes(""), 0o644, Place::Sorted)
            .unwrap();
        tree.file("init", bytes(""), 0o755, Place::First).unwrap();
        tree.char_device("dev/console", 5, 1, 0o600).unwrap();
        tree.symlink("bin", "usr/bin").unwrap();
        tree.directory("etc/landfall").unwrap();
        let order: Vec<&str> = tree
            .in_archive_order()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        let expected = [
            "dev",
            "etc",
            "etc/landfall",
            "lib",
            "lib/modules",
            "lib/modules/1",
            "dev/console",
            "init",
            "bin",
            "lib/modules/1/a.ko",
            "etc/landfall/complete",
        ];
        assert_eq!(order, expected);
        assert_eq!(tree.len(), expected.len());
    }

    #[test]
    fn bad_paths_are_refused() {
        let mut tree = FileTree::default();
        for path in ["", "/init", "a//b", "a/", "a/../b", "./a", "a\0b"] {
            assert_eq!(
                tree.directory(path),
                Err(TreeError::BadPath(path.to_owned()))
            );
        }
        assert!(tree.is_empty());
    }

    #[test]
    fn one_path_one_entry() {
        let mut tree = FileTree::default();
        tree.file("a", bytes(""), 0o644, Place::Sorted).unwrap();
        assert_eq!(
            tree.file("a", bytes("x"), 0o644, Place::Sorted),
            Err(TreeError::Duplicate("a".into()))
        );
        assert_eq!(tree.directory("a"), Err(TreeError::Duplicate("a".into())));
        let under_file = tree.file("a/b", bytes(""), 0o644, Place::Sorted);
        assert_eq!(
            under_file,
            Err(TreeError::ParentIsNoDirectory {
                path: "a/b".into(),
                parent: "a".into()
            })
        );
    }
}
