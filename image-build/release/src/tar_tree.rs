//! A directory tree that exists only as a list, and its tar archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use landfall_initramfs::path_error::PathError;
use tar::{EntryType, Header};

/// A tree, sorted by path. Each path is there once, with its parents.
#[derive(Debug, Clone, Default)]
pub struct TarTree(BTreeMap<String, Node>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Directory {
        mode: u32,
    },
    File {
        content: Content,
        mode: u32,
    },
    /// A symbolic link.
    Link {
        target: String,
    },
}

/// Where the bytes of a file come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Bytes(Vec<u8>),
    /// A file on this machine. It is read when the archive is written, so that a
    /// ramdisk of 100 MB is never in memory.
    OnDisk {
        path: PathBuf,
        /// The size in bytes when the file was added. If the file has another size
        /// when the archive is written, writing fails.
        size: u64,
    },
}

/// How the names in the archive begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// `usr/bin/program`, as in layers of container images.
    Plain,
    /// `./usr/bin/program`, with an entry for the top directory, as in Debian
    /// packages.
    DotSlash,
}

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("path `{0}`: expected a relative path without `.` and `..`, found another one")]
    Path(String),
    #[error("path `{0}` is there twice, with different content")]
    Twice(String),
    #[error("path `{0}`: its parent is not a directory")]
    Parent(String),
    #[error(transparent)]
    Read(#[from] PathError),
    #[error("path `{path}`: expected at most {limit} bytes, found more")]
    LongName {
        path: String,
        /// The size of the name field in bytes.
        limit: usize,
    },
    #[error("cannot write the archive")]
    Write(#[source] io::Error),
}

impl Content {
    /// A file on this machine with the size that it has now.
    pub fn on_disk(path: &Path) -> Result<Self, PathError> {
        let metadata = path
            .metadata()
            .map_err(PathError::new("cannot look at", path))?;
        Ok(Self::OnDisk {
            path: path.to_owned(),
            size: metadata.len(),
        })
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::OnDisk { size, .. } => *size,
        }
    }

    /// Opens the content for reading from its beginning.
    pub fn open(&self) -> Result<Box<dyn Read + '_>, PathError> {
        match self {
            Self::Bytes(bytes) => Ok(Box::new(&bytes[..])),
            Self::OnDisk { path, size } => {
                let opening = || PathError::new("cannot open", path);
                let mut file = File::open(path).map_err(opening())?;
                let found = file.seek(SeekFrom::End(0)).map_err(opening())?;
                file.rewind().map_err(opening())?;
                if found != *size {
                    let fault = format!("expected {size} bytes, found {found}");
                    return Err(PathError::new("cannot read", path)(io::Error::other(fault)));
                }
                Ok(Box::new(file))
            }
        }
    }
}

impl TarTree {
    /// Adds a file and its parents.
    pub fn file(&mut self, path: &str, content: Content, mode: u32) -> Result<(), TreeError> {
        self.add(path, Node::File { content, mode })
    }

    /// Adds a file with these bytes, readable by all.
    pub fn text(&mut self, path: &str, text: impl Into<Vec<u8>>) -> Result<(), TreeError> {
        self.file(path, Content::Bytes(text.into()), 0o644)
    }

    /// Adds a directory and its parents. A directory that is already there gets
    /// this mode.
    pub fn directory(&mut self, path: &str, mode: u32) -> Result<(), TreeError> {
        if let Some(node @ Node::Directory { .. }) = self.0.get_mut(path) {
            *node = Node::Directory { mode };
            return Ok(());
        }
        self.add(path, Node::Directory { mode })
    }

    pub fn link(&mut self, path: &str, target: &str) -> Result<(), TreeError> {
        let target = target.to_owned();
        self.add(path, Node::Link { target })
    }

    /// Adds a node and its parents. It is not an error if the same node is already there.
    pub fn add(&mut self, path: &str, node: Node) -> Result<(), TreeError> {
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(TreeError::Path(path.to_owned()));
        }
        for (slash, _) in path.match_indices('/') {
            let parent = self.0.entry(path[..slash].to_owned());
            let parent = parent.or_insert(Node::Directory { mode: 0o755 });
            if !matches!(parent, Node::Directory { .. }) {
                return Err(TreeError::Parent(path.to_owned()));
            }
        }
        match self.0.get(path) {
            None => {
                self.0.insert(path.to_owned(), node);
                Ok(())
            }
            Some(there) if *there == node => Ok(()),
            Some(_) => Err(TreeError::Twice(path.to_owned())),
        }
    }

    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.0.get(path)
    }

    /// All nodes, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// The files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Content)> {
        self.iter().filter_map(|(path, node)| match node {
            Node::File { content, .. } => Some((path, content)),
            _ => None,
        })
    }

    /// Writes the archive. Every entry belongs to root and has the modification time
    /// `epoch`, in seconds since 1970.
    pub fn write(&self, out: impl Write, naming: Naming, epoch: u32) -> Result<(), TreeError> {
        let mut builder = tar::Builder::new(out);
        if naming == Naming::DotSlash {
            let mut header = header(EntryType::Directory, 0o755, 0, epoch);
            append(&mut builder, &mut header, "", naming, io::empty())?;
        }
        for (path, node) in &self.0 {
            match node {
                Node::Directory { mode } => {
                    let mut header = header(EntryType::Directory, *mode, 0, epoch);
                    let path = format!("{path}/");
                    append(&mut builder, &mut header, &path, naming, io::empty())?;
                }
                Node::File { content, mode } => {
                    let mut header = header(EntryType::Regular, *mode, content.size(), epoch);
                    append(&mut builder, &mut header, path, naming, content.open()?)?;
                }
                Node::Link { target } => {
                    let mut header = header(EntryType::Symlink, 0o777, 0, epoch);
                    if naming == Naming::Plain {
                        let written = builder.append_link(&mut header, path, target);
                        written.map_err(TreeError::Write)?;
                        continue;
                    }
                    let set = header.set_link_name_literal(target);
                    set.map_err(TreeError::Write)?;
                    append(&mut builder, &mut header, path, naming, io::empty())?;
                }
            }
        }
        builder.finish().map_err(TreeError::Write)
    }
}

fn header(kind: EntryType, mode: u32, size: u64, epoch: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(epoch.into());
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn append(
    builder: &mut tar::Builder<impl Write>,
    header: &mut Header,
    path: &str,
    naming: Naming,
    data: impl Read,
) -> Result<(), TreeError> {
    match naming {
        Naming::Plain => builder.append_data(header, path, data),
        // `set_path` would drop the leading `./`, so write the name itself. The
        // longest name in a package of ours is far below the limit.
        Naming::DotSlash => {
            for owner in [Header::set_username, Header::set_groupname] {
                owner(header, "root").map_err(TreeError::Write)?;
            }
            let name = format!("./{path}");
            let field = &mut header.as_old_mut().name;
            let limit = field.len();
            let place = field.get_mut(..name.len());
            let place = place.ok_or_else(|| TreeError::LongName {
                path: name.clone(),
                limit,
            })?;
            place.copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(header, data)
        }
    }
    .map_err(TreeError::Write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn archive(tree: &TarTree, naming: Naming) -> Vec<u8> {
        let mut bytes = Vec::new();
        tree.write(&mut bytes, naming, 7).unwrap();
        bytes
    }

    /// Path, mode and size of each entry, as a reader finds them.
    fn listed(bytes: &[u8]) -> Vec<(String, u32, u64)> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 7));
            (
                String::from_utf8(entry.path_bytes().into_owned()).unwrap(),
                header.mode().unwrap(),
                header.size().unwrap(),
            )
        });
        entries.collect()
    }

    #[test]
    fn parents_come_first_and_names_begin_as_they_should() {
        let mut tree = TarTree::default();
        tree.text("usr/share/b", "bb").unwrap();
        tree.file("usr/bin/a", Content::Bytes(b"a".to_vec()), 0o755)
            .unwrap();
        tree.link("bin", "usr/bin").unwrap();
        tree.directory("tmp", 0o1777).unwrap();
        let plain = listed(&archive(&tree, Naming::Plain));
        let expected = [
            ("bin", 0o777, 0),
            ("tmp/", 0o1777, 0),
            ("usr/", 0o755, 0),
            ("usr/bin/", 0o755, 0),
            ("usr/bin/a", 0o755, 1),
            ("usr/share/", 0o755, 0),
            ("usr/share/b", 0o644, 2),
        ];
        let expected = expected.map(|(path, mode, size)| (path.to_owned(), mode, size));
        assert_eq!(plain, expected);
        let dotted = listed(&archive(&tree, Naming::DotSlash));
        assert_eq!(dotted[0].0, "./");
        let names: Vec<String> = dotted[1..].iter().map(|entry| entry.0.clone()).collect();
        assert_eq!(names, expected.map(|(path, ..)| format!("./{path}")));
    }

    #[test]
    fn invalid_paths_of_a_tree() {
        let mut tree = TarTree::default();
        tree.text("a", "x").unwrap();
        tree.text("a", "x").unwrap();
        tree.directory("d", 0o755).unwrap();
        for (path, expected) in [
            (
                "../a",
                "path `../a`: expected a relative path without `.` and `..`, found another one",
            ),
            (
                "/a",
                "path `/a`: expected a relative path without `.` and `..`, found another one",
            ),
            (
                "",
                "path ``: expected a relative path without `.` and `..`, found another one",
            ),
            ("a", "path `a` is there twice, with different content"),
            ("d", "path `d` is there twice, with different content"),
            ("a/b", "path `a/b`: its parent is not a directory"),
        ] {
            assert_eq!(tree.text(path, "y").unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_file_that_changed_its_size_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "four").unwrap();
        let mut tree = TarTree::default();
        let content = Content::on_disk(&path).unwrap();
        tree.file("file", content, 0o644).unwrap();
        assert_eq!(listed(&archive(&tree, Naming::Plain))[0].2, 4);
        std::fs::write(&path, "three").unwrap();
        let error = tree.write(io::sink(), Naming::Plain, 0).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "expected 4 bytes, found 5");
    }

    proptest! {
        /// Names of any length arrive, whatever the order in which they were added.
        #[test]
        fn names_arrive(names in proptest::collection::btree_set("[a-zA-Z0-9+.~_-]{1,120}(/[a-z]{1,60}){0,3}", 1..8)) {
            let mut one = TarTree::default();
            let mut other = TarTree::default();
            let mut there = Vec::new();
            for name in &names {
                if one.text(name, name.as_bytes()).is_ok() {
                    there.push(name.clone());
                }
            }
            for name in there.iter().rev() {
                other.text(name, name.as_bytes()).unwrap();
            }
            let bytes = archive(&one, Naming::Plain);
            prop_assert_eq!(&bytes, &archive(&other, Naming::Plain));
            let files = listed(&bytes).into_iter().filter(|entry| !entry.0.ends_with('/'));
            let mut expected = there.clone();
            expected.sort();
            prop_assert_eq!(files.map(|entry| entry.0).collect::<Vec<_>>(), expected);
        }
    }
}
