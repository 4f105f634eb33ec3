//! The archive with one host's files, which the kernel unpacks after the ramdisk.

use std::collections::BTreeMap;

use bytes::Bytes;
use landfall_initramfs::compress::{UnpackError, unpack_segments};
use landfall_initramfs::file_tree::{Content, FileTree, Place, TreeError};
use landfall_initramfs::newc::{self, WriteError};

/// The maximum size in bytes of all unpacked archives of one area or one addition.
const MAX_UNPACKED_BYTES: usize = 256 << 20;
/// Owner only: a network description may hold passwords of an 802.1X network.
const PERMISSIONS: u32 = 0o600;

/// A file for the ramdisk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFile {
    /// The path in the ramdisk, without the leading slash.
    pub path: String,
    pub bytes: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Newc(#[from] newc::NewcError),
}

/// The archive with these files and their directories. The file `last` becomes the last
/// member. `epoch` is the modification time of all members, in seconds since 1970.
pub(crate) fn write(
    files: &[HostFile],
    last: Option<&HostFile>,
    epoch: u32,
) -> Result<Vec<u8>, ArchiveError> {
    let mut tree = FileTree::default();
    let places = files.iter().map(|file| (file, Place::Sorted));
    for (file, place) in places.chain(last.map(|file| (file, Place::Last))) {
        let content = Content::Bytes(file.bytes.to_vec());
        tree.file(&file.path, content, PERMISSIONS, place)?;
    }
    let mut archive = newc::Writer::new(Vec::new());
    archive.tree(&tree, epoch)?;
    Ok(archive.finish()?.0)
}

/// The files in the archives of an area or of an addition. A later file replaces an
/// earlier one of the same path.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<HostFile>, ArchiveError> {
    files_in(bytes, MAX_UNPACKED_BYTES, |_| true)
}

/// The files in a ramdisk's archives that have a wanted path, sorted by path. A later
/// file replaces an earlier file of the same path. The unpacked archives may have at most
/// `limit` bytes.
///
/// # Errors
/// If an archive cannot be unpacked, is damaged or is too large.
pub fn files_in(
    ramdisk: &[u8],
    limit: usize,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<HostFile>, ArchiveError> {
    let mut files = BTreeMap::new();
    for segment in unpack_segments(ramdisk, limit)? {
        for entry in newc::Reader::new(&segment.archive) {
            let entry = entry?;
            if entry.is_file() && is_wanted(entry.name) {
                files.insert(entry.name.to_owned(), Bytes::copy_from_slice(entry.data));
            }
        }
    }
    let file = |(path, bytes)| HostFile { path, bytes };
    Ok(files.into_iter().map(file).collect())
}

/// Adds a file to a list that is sorted by path, or replaces the file of its path.
pub fn put(files: &mut Vec<HostFile>, file: HostFile) {
    match files.binary_search_by(|other| other.path.cmp(&file.path)) {
        Ok(at) => files[at] = file,
        Err(at) => files.insert(at, file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &'static str) -> HostFile {
        HostFile {
            path: path.to_owned(),
            bytes: Bytes::from_static(text.as_bytes()),
        }
    }

    #[test]
    fn files_come_back_sorted_and_later_ones_win() {
        let first = write(&[file("b/c", "old"), file("a", "1")], None, 0).unwrap();
        let second = write(&[file("b/c", "new")], Some(&file("a/last", "x")), 0);
        let second = second.unwrap();
        let joined = [first.as_slice(), &[0; 8], &second].concat();
        let found = read(&joined).unwrap();
        let expected = [file("a", "1"), file("a/last", "x"), file("b/c", "new")];
        assert_eq!(found, expected);
        assert_eq!(read(&[0; 100]).unwrap(), []);
        assert_eq!(write(&found[..1], None, 0).unwrap().len() % 4, 0);
    }

    #[test]
    fn bad_paths_and_foreign_archives_are_errors() {
        for path in ["/etc/x", "../x", "", "a//b"] {
            assert!(write(&[file(path, "")], None, 0).is_err(), "{path}");
        }
        let error = read(b"\x1f\x8b\x08\0").unwrap_err().to_string();
        assert!(error.contains("cannot unpack gzip"), "{error}");
    }
}
