//! Compares with qemu-img.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;

use super::*;

const SIZE: usize = 6 << 20;

fn qemu_img(arguments: &[&str]) -> String {
    let output = Command::new("qemu-img").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Data in a third of the disk, and zeros in the rest.
fn content() -> Vec<u8> {
    let mut disk = vec![0; SIZE];
    for start in (0..SIZE).step_by(3 << 18) {
        let end = (start + (1 << 18)).min(SIZE);
        for (n, byte) in disk[start..end].iter_mut().enumerate() {
            *byte = (n / 3 % 251) as u8;
        }
    }
    disk
}

struct Image {
    directory: tempfile::TempDir,
}

impl Image {
    fn new(options: &[&str]) -> Self {
        let image = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let raw = image.path("raw");
        fs::write(&raw, content()).unwrap();
        let (raw, file) = (raw.to_str().unwrap(), image.path("qcow2"));
        let fixed = ["convert", "-f", "raw", "-O", "qcow2"];
        qemu_img(&[&fixed, options, &[raw, file.to_str().unwrap()]].concat());
        image
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self) -> Result<Qcow2Disk> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(self.path("qcow2"));
        Qcow2Disk::open(file.unwrap())
    }

    /// The content that qemu-img reads. Fails if `qemu-img check` finds a fault.
    fn content(&self) -> Vec<u8> {
        let file = self.path("qcow2");
        qemu_img(&["check", "-q", file.to_str().unwrap()]);
        let out = self.path("out");
        qemu_img(&[
            "convert",
            "-O",
            "raw",
            file.to_str().unwrap(),
            out.to_str().unwrap(),
        ]);
        fs::read(out).unwrap()
    }
}

const OPTIONS: &[&[&str]] = &[
    &[],
    &["-c"],
    &["-o", "compat=0.10"],
    &["-c", "-o", "compat=0.10,cluster_size=4096"],
    &["-c", "-o", "compression_type=zstd"],
    &["-o", "cluster_size=512"],
    &["-o", "cluster_size=2M"],
    &["-o", "preallocation=metadata"],
    &["-o", "lazy_refcounts=on"],
    &["-S", "0"],
];

#[test]
fn qemu_reads_the_written_content() {
    for options in OPTIONS {
        let image = Image::new(options);
        let mut disk = image.open().unwrap();
        let mut expected = content();
        assert_eq!(disk.size(), SIZE as u64);
        let mut read = vec![1; SIZE];
        disk.read_at(0, &mut read).unwrap();
        assert!(read == expected, "{options:?}");
        for (at, len) in [
            (0, 512),
            (1000, 1024),
            (65536 - 100, 200),
            ((1 << 18) + 4096, 1024),
            (SIZE - 1024, 1024),
            (3 << 20, 300_000),
        ] {
            let bytes = vec![0xa5; len];
            disk.write_at(at as u64, &bytes).unwrap();
            expected[at..at + len].copy_from_slice(&bytes);
        }
        disk.finish().unwrap();
        assert!(image.content() == expected, "{options:?}");
        let mut read = vec![1; SIZE];
        disk.read_at(0, &mut read).unwrap();
        assert!(read == expected, "{options:?}");
    }
}

/// The refcounts of the added clusters need blocks of their own.
#[test]
fn a_file_grows_beyond_its_refcount_blocks() {
    let image = Image::new(&["-o", "cluster_size=512"]);
    let mut disk = image.open().unwrap();
    let whole = vec![7; SIZE];
    disk.write_at(0, &whole).unwrap();
    assert!(image.content() == whole);
}

#[test]
fn images_with_unsupported_metadata_are_rejected() {
    type Change = fn(&Path);
    let changes: [(&[&str], Change, &str); 5] = [
        (
            &[],
            |file| drop(qemu_img(&["snapshot", "-c", "s", file.to_str().unwrap()])),
            "snapshots",
        ),
        (
            &[],
            |file| drop(qemu_img(&["bitmap", "--add", file.to_str().unwrap(), "b"])),
            "bitmaps",
        ),
        (&["-o", "extended_l2=on"], |_| {}, "subclusters"),
        (&["-o", "refcount_bits=1"], |_| {}, "16 bits"),
        (
            &[],
            |file| fs::write(file, &fs::read(file).unwrap()[..90]).unwrap(),
            "ends inside",
        ),
    ];
    for (options, change, expected) in changes {
        let image = Image::new(options);
        change(&image.path("qcow2"));
        let error = image.open().err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let image = Image::new(&[]);
    let mut disk = image.open().unwrap();
    for (at, len) in [(SIZE as u64, 1), (u64::MAX, 2), (SIZE as u64 - 1, 2)] {
        let error = disk.write_at(at, &vec![0; len]).unwrap_err().to_string();
        assert!(error.contains("beyond the end of the disk"), "{error}");
        assert!(disk.read_at(at, &mut vec![0; len]).is_err());
    }
}

#[test]
fn no_cluster_is_written_behind_the_end_of_the_file() {
    for zeros in [0, 1] {
        let image = Image::new(&["-S", "0"]);
        let mut disk = image.open().unwrap();
        let size = disk.file.metadata().unwrap().len();
        let (_, table) = disk.l1_entry(0).unwrap();
        let entry = (COPIED | 1 << 50 | zeros).to_be_bytes();
        disk.file.write_all_at(&entry, table & OFFSET).unwrap();
        let error = disk.write_at(0, b"x").unwrap_err().to_string();
        assert!(error.contains("behind the end of the file"), "{error}");
        assert_eq!(disk.file.metadata().unwrap().len(), size);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn qemu_reads_the_content_of_any_writes(
        options in 0..OPTIONS.len(),
        writes in prop::collection::vec((0..SIZE - 200_000, 1..200_000usize, any::<u8>()), 1..8),
    ) {
        let image = Image::new(OPTIONS[options]);
        let mut disk = image.open().unwrap();
        let mut expected = content();
        for (at, len, byte) in writes {
            disk.write_at(at as u64, &vec![byte; len]).unwrap();
            expected[at..at + len].fill(byte);
        }
        prop_assert!(image.content() == expected);
    }

    /// Damaged tables are an error or other content, and never a panic.
    #[test]
    fn damage_does_no_harm(places in prop::collection::vec((0..0x50000usize, any::<u8>()), 1..9)) {
        let image = Image::new(&["-c"]);
        let mut bytes = fs::read(image.path("qcow2")).unwrap();
        for (at, byte) in places {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        fs::write(image.path("qcow2"), bytes).unwrap();
        if let Ok(mut disk) = image.open() {
            let mut buffer = vec![0; 1 << 16];
            for at in (0..disk.size().min(SIZE as u64)).step_by(1 << 18) {
                let _ = disk.read_at(at, &mut buffer);
                let _ = disk.write_at(at, &buffer[..1024]);
            }
        }
    }
}
