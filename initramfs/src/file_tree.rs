//! The list of paths that go into the ramdisk: each path once, with its parents.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The directory tree of the ramdisk as a list sorted by path. It exists only in memory.
#[derive(Debug, Clone, Default)]
pub struct FileTree {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub node: Node,
    pub permissions: u32,
    pub place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Directory,
    File(Content),
    CharDevice {
        /// The major device number.
        major: u32,
        /// The minor device number.
        minor: u32,
    },
}

/// Where the bytes of a file come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Bytes(Vec<u8>),
    /// A file on the build machine. It is copied when the archive is written, so that the
    /// builder never has a hundred megabytes of modules in memory.
    OnDisk {
        path: PathBuf,
        /// The size in bytes when the file was added. If the file has another size
        /// when the archive is written, the build fails.
        size: u64,
    },
}

/// The position of an entry in the archive. The kernel unpacks the entries in the order
/// of the archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// After the directories and before all other files. For files that must exist even
    /// if memory runs out while the kernel unpacks the archive.
    First,
    /// Sorted by path, after the first files and before the last ones.
    #[default]
    Sorted,
    /// At the end. If such a file exists in the booted system, the kernel has unpacked
    /// all files before it.
    Last,
}

/// Why a path cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    #[error("ramdisk path `{0}`: expected a relative path without empty, `.` or `..` parts")]
    BadPath(String),
    #[error("ramdisk path `{0}` is added twice")]
    Duplicate(String),
    #[error("ramdisk path `{path}`: its parent `{parent}` is not a directory")]
    ParentIsNoDirectory {
        path: String,
        /// The part of `path` that is not a directory.
        parent: String,
    },
}

impl FileTree {
    /// Adds a directory, unless it is there already.
    pub fn directory(&mut self, path: &str) -> Result<(), TreeError> {
        match self.entries.get(path) {
            Some(Entry {
                node: Node::Directory,
                ..
            }) => Ok(()),
            _ => self.insert(path, Node::Directory, 0o755, Place::Sorted),
        }
    }

    pub fn file(
        &mut self,
        path: &str,
        content: Content,
        permissions: u32,
        place: Place,
    ) -> Result<(), TreeError> {
        self.insert(path, Node::File(content), permissions, place)
    }

    pub fn char_device(
        &mut self,
        path: &str,
        major: u32,
        minor: u32,
        permissions: u32,
    ) -> Result<(), TreeError> {
        // Place the node before the files: a device node needs no memory for content, and
        // init needs its console even if memory runs out.
        self.insert(
            path,
            Node::CharDevice { major, minor },
            permissions,
            Place::First,
        )
    }

    /// The number of entries, parent directories included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// All entries in the order of the archive: directories first, then by
    /// [`Place`], then by path.
    #[must_use]
    pub fn in_archive_order(&self) -> Vec<(&str, &Entry)> {
        let mut all: Vec<_> = self
            .entries
            .iter()
            .map(|(path, entry)| (path.as_str(), entry))
            .collect();
        // The sort is stable, so paths stay sorted within each group.
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
