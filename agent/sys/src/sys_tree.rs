//! Converts text files with captured /sys and /proc trees to directories for a
//! test.
//!
//! Each line is `path = content` for a file (escapes: `\n`, `\\`, `\xNN`), `path ->
//! target` for a link, or `path/` for a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::system_path::SystemPath;

/// A captured tree in a temporary directory, which is deleted on drop.
pub struct PlantedTree {
    directory: TempDir,
    root: SystemPath,
}

impl Default for PlantedTree {
    /// An empty tree.
    fn default() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = SystemPath::captured(directory.path()).unwrap();
        Self { directory, root }
    }
}

impl PlantedTree {
    /// The root, in the form that the inventory code takes.
    pub fn path(&self) -> &SystemPath {
        &self.root
    }

    /// The real directory of the root, where a test can add files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

pub fn plant(text: &str) -> PlantedTree {
    let root = PlantedTree::default();
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
