//! Captured /sys and /proc trees as text, and back as directories for a test.
//!
//! A line is `path = content` for a file (with `\n`, `\\` and `\xNN`),
//! `path -> target` for a link, `path/` for a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::system_path::SystemPath;

/// A captured tree in a directory that goes with it.
pub struct PlantedTree {
    directory: TempDir,
    root: SystemPath,
}

impl PlantedTree {
    /// An empty tree.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = SystemPath::captured(directory.path()).unwrap();
        Self { directory, root }
    }

    /// The root as those who read it take it.
    pub fn path(&self) -> &SystemPath {
        &self.root
    }

    /// Where to make more files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Makes the tree of a text in a new directory.
pub fn plant(text: &str) -> PlantedTree {
    let root = PlantedTree::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        plant_line(root.directory(), line);
    }
    root
}

fn plant_line(root: &Path, line: &str) {
    if let Some(directory) = line.strip_suffix('/') {
        fs::create_dir_all(root.join(directory)).unwrap();
    } else if let Some((path, target)) = line.split_once(" -> ") {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        symlink(target, root.join(path)).unwrap();
    } else {
        let (path, content) = line.split_once(" = ").unwrap();
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), unescape(content)).unwrap();
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match (byte, byte == b'\\') {
            (_, false) => out.push(byte),
            _ => match rest.next().unwrap() {
                b'n' => out.push(b'\n'),
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    let digits = std::str::from_utf8(&digits).unwrap();
                    out.push(u8::from_str_radix(digits, 16).unwrap());
                }
                other => out.push(other),
            },
        }
    }
    out
}
