use std::path::PathBuf;

use super::*;
use crate::compress::{Packing, check_whole, unpack_segments};

/// A tree with everything that a ramdisk has. The modules are on disk.
fn tree(directory: &Path) -> FileTree {
    let mut tree = FileTree::default();
    tree.directory("proc").unwrap();
    tree.char_device("dev/null", 1, 3, 0o666).unwrap();
    let bytes = |text: &str| Content::Bytes(text.into());
    for (path, place) in [
        ("init", Place::First),
        ("etc/landfall/site.conf", Place::Sorted),
        ("etc/landfall/complete", Place::Last),
    ] {
        tree.file(path, bytes(path), 0o600, place).unwrap();
    }
    for (path, size) in [
        ("lib/modules/6/a.ko", SEGMENT_BYTES),
        ("lib/modules/6/b.ko.xz", 5),
        ("lib/modules/6/c.ko", 7),
        ("lib/modules/6/d.ko", SEGMENT_BYTES),
        ("lib/modules/6/e.ko", 1),
    ] {
        let source: PathBuf = directory.join(path.rsplit('/').next().unwrap());
        std::fs::write(&source, vec![b'm'; size as usize]).unwrap();
        let content = Content::OnDisk { path: source, size };
        tree.file(path, content, 0o644, Place::Sorted).unwrap();
    }
    tree
}

fn whole(tree: &FileTree, cache: Option<&Path>) -> Vec<u8> {
    let segments = pack_tree(tree, 7, FAST_LEVEL + 1, cache).unwrap();
    segments
        .into_iter()
        .flat_map(|segment| segment.bytes)
        .collect()
}

fn names(archive: &[u8]) -> Vec<String> {
    newc::Reader::new(archive)
        .map(|entry| entry.unwrap().name.to_owned())
        .collect()
}

#[test]
fn a_ramdisk_is_divided_by_parts_that_change_together() {
    let directory = tempfile::tempdir().unwrap();
    let file = whole(&tree(directory.path()), None);
    let segments = unpack_segments(&file, 64 << 20).unwrap();
    let found: Vec<(&str, Vec<String>)> = segments
        .iter()
        .map(|segment| (segment.packing, names(&segment.archive)))
        .collect();
    let expected: [(&str, &[&str]); 8] = [
        ("none", &["dev", "etc", "lib", "proc", "dev/null"]),
        ("zstd", &["init"]),
        (
            "zstd",
            &[
                "etc/landfall",
                "lib/modules",
                "lib/modules/6",
                "etc/landfall/site.conf",
            ],
        ),
        ("zstd", &["lib/modules/6/a.ko"]),
        ("zstd", &["lib/modules/6/c.ko", "lib/modules/6/d.ko"]),
        ("zstd", &["lib/modules/6/e.ko"]),
        ("zstd", &["lib/modules/6/b.ko.xz"]),
        ("none", &["etc/landfall/complete"]),
    ];
    let expected: Vec<(&str, Vec<String>)> = expected
        .into_iter()
        .map(|(packing, names)| (packing, names.iter().map(ToString::to_string).collect()))
        .collect();
    assert_eq!(found, expected);
}

/// The layout that Ironic, coreos-installer and loaders that append an archive need: see
/// the head of segments.rs.
#[test]
fn other_programs_can_read_it() {
    let directory = tempfile::tempdir().unwrap();
    let segments = pack_tree(&tree(directory.path()), 7, 3, None).unwrap();
    for segment in &segments {
        assert!(segment.bytes.len().is_multiple_of(4));
        if Packing::of(&segment.bytes) == Some(Packing::Zstd) {
            assert_eq!(segment.bytes.last(), Some(&0));
        }
    }
    let file: Vec<u8> = segments
        .into_iter()
        .flat_map(|segment| segment.bytes)
        .collect();
    assert!(file.starts_with(b"070701"));
    let size = file.len() as u64;
    let packings = check_whole(std::io::Cursor::new(file), 0..size).unwrap();
    assert_eq!(packings.len(), 8);
}

#[test]
fn the_cache_changes_no_byte() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let tree = tree(directory.path());
    let without = whole(&tree, None);
    for _ in 0..2 {
        assert_eq!(whole(&tree, Some(&cache)), without);
    }
    // The cache has init and three archives of modules. It has neither the configuration
    // nor files that are already compressed.
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 4);
    let fast = directory.path().join("fast");
    pack_tree(&tree, 7, FAST_LEVEL, Some(&fast)).unwrap();
    assert_eq!(std::fs::read_dir(&fast).unwrap().count(), 0);
}
