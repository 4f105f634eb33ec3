//! Small bases for tests: an ISO with the layout of a real one, and ramdisks.

use std::path::Path;
use std::process::Command;

use landfall_initramfs::compress::{self, Compression};
use landfall_media_formats::areas::{Areas, DESCRIPTION, EMBED, IGNITION, KARGS};
use landfall_media_formats::layout::{KERNEL, RAMDISK};

use crate::archive::{self, HostFile};
use crate::kernel_args::MAX_BYTES;

/// The arguments that the ISO is built with.
pub const KERNEL_ARGS: &str = "console=tty0 quiet a=1";

/// The same small ramdisk in each packing that is checked: the output of cpio, and that
/// output packed by `zstd`, `gzip`, `xz` and `lz4 -l`.
pub const RAMDISKS: [(&str, &[u8]); 5] = [
    ("cpio", include_bytes!("../test_data/ramdisks/cpio")),
    ("zstd", include_bytes!("../test_data/ramdisks/zstd")),
    ("gzip", include_bytes!("../test_data/ramdisks/gzip")),
    ("xz", include_bytes!("../test_data/ramdisks/xz")),
    ("lz4", include_bytes!("../test_data/ramdisks/lz4")),
];

/// What differs between base ISOs.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub embed_size: usize,
    /// The size of the kernel in bytes. A larger kernel makes the ISO larger.
    pub kernel_size: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            embed_size: 16 << 10,
            kernel_size: 100_000,
        }
    }
}

/// Builds the ISO with xorriso, whose layout the builder uses.
#[must_use]
pub fn base_iso(layout: Layout) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    let description = Areas::new(KERNEL_ARGS, MAX_BYTES, layout.embed_size as u64);
    let kernel: Vec<u8> = (0..layout.kernel_size).map(pattern).collect();
    for (path, bytes) in [
        (KERNEL, kernel),
        (RAMDISK, ramdisk()),
        (EMBED, vec![0; layout.embed_size]),
        (IGNITION, vec![0; layout.embed_size]),
        (KARGS, description.kargs.file(KERNEL_ARGS).unwrap()),
        (DESCRIPTION, serde_json::to_vec(&description).unwrap()),
    ] {
        write(&tree.join(path), &bytes);
    }
    pack(&tree)
}

/// A byte that differs from its neighbours, so that a wrong offset is noticed.
fn pattern(at: usize) -> u8 {
    ((at / 251) ^ (at % 251)) as u8
}

/// A ramdisk of one archive in zstd.
#[must_use]
pub fn ramdisk() -> Vec<u8> {
    let file = HostFile {
        path: "init".to_owned(),
        bytes: (0..50_000).map(pattern).collect::<Vec<u8>>().into(),
    };
    let archive = archive::write(&[file], None, 0).unwrap();
    compress::pack(Compression::Zstd { level: 1 }, &archive).unwrap()
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Makes an ISO of a directory.
#[must_use]
pub fn pack(tree: &Path) -> Vec<u8> {
    let iso = tree.with_extension("iso");
    let output = Command::new("xorriso")
        .args(["-as", "mkisofs", "-quiet", "-R", "-r", "-o"])
        .arg(&iso)
        .arg(tree)
        .output()
        .expect("xorriso (Debian's package xorriso)");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    std::fs::read(iso).unwrap()
}
