//! Compares with e2fsprogs: mke2fs makes the file systems, e2fsck checks the changed
//! ones, and debugfs reads them.

#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use landfall_ext4::{Error, FileSystem, Kind};
use proptest::prelude::*;

/// The feature sets of images from RHEL 8 to Fedora, of Debian 12 and 13, and of older
/// systems: a name, the size in KiB, and the options of mke2fs.
const GEOMETRIES: &[(&str, &str, &[&str])] = &[
    (
        "CoreOS",
        "81920",
        &["-b", "1024", "-O", "^metadata_csum_seed,^orphan_file"],
    ),
    (
        "newer CoreOS",
        "393216",
        &["-b", "1024", "-O", "metadata_csum_seed"],
    ),
    ("blocks of 2 KiB", "20480", &["-b", "2048"]),
    ("blocks of 4 KiB", "102400", &["-b", "4096"]),
    ("32 bits", "40960", &["-b", "1024", "-O", "^64bit"]),
    (
        "32 bits, no checksums",
        "40960",
        &["-b", "4096", "-O", "^64bit,^metadata_csum"],
    ),
    (
        "CRC-16",
        "40960",
        &["-b", "1024", "-O", "^metadata_csum,uninit_bg"],
    ),
    (
        "CRC-16, 32 bits",
        "40960",
        &["-b", "1024", "-O", "^metadata_csum,^64bit,uninit_bg"],
    ),
    ("small inodes", "40960", &["-b", "1024", "-I", "128"]),
    ("large inodes", "40960", &["-b", "4096", "-I", "1024"]),
    ("no journal", "2048", &["-b", "1024", "-O", "^has_journal"]),
    ("an odd end", "20481", &["-b", "1024", "-g", "4096"]),
];

struct Image {
    directory: tempfile::TempDir,
}

impl Image {
    /// A file system with a tree like that of a boot partition.
    fn new(kib: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(tree.join("loader.1/entries")).unwrap();
        fs::create_dir(tree.join("grub2")).unwrap();
        fs::write(tree.join("loader.1/entries/a.conf"), "options a\n").unwrap();
        fs::write(tree.join("grub2/grub.cfg"), vec![b'#'; 5000]).unwrap();
        fs::write(tree.join("ignition.firstboot"), "").unwrap();
        for (target, name) in [
            ("loader.1", "loader"),
            (".", "boot"),
            ("..", "up"),
            ("/etc", "absolute"),
            ("self", "self"),
        ] {
            std::os::unix::fs::symlink(target, tree.join(name)).unwrap();
        }
        let image = Self { directory };
        let file = image.file();
        let tree = tree.to_str().unwrap();
        let fixed = [
            "-q",
            "-t",
            "ext4",
            "-L",
            "boot",
            "-E",
            "root_owner=0:0",
            "-d",
            tree,
        ];
        let last = [file.to_str().unwrap(), kib];
        run("mke2fs", &[&fixed, options, &last].concat());
        image
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.file()).unwrap()
    }

    /// Makes changes, and writes them.
    fn change(
        &self,
        f: impl FnOnce(&mut FileSystem<File>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(self.file()).unwrap();
        let len = file.metadata().unwrap().len();
        let mut file_system = FileSystem::open(file.try_clone().unwrap(), len)?;
        f(&mut file_system)?;
        for (offset, block) in file_system.changes() {
            file.write_all_at(block, offset).unwrap();
        }
        Ok(())
    }

    fn open(&self) -> FileSystem<File> {
        let file = File::open(self.file()).unwrap();
        let len = file.metadata().unwrap().len();
        FileSystem::open(file, len).unwrap()
    }

    fn check(&self, what: &str) {
        let output = Command::new("e2fsck")
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .arg("-fn")
            .arg(self.file())
            .output()
            .unwrap();
        assert!(output.status.success(), "{what}: {output:?}");
    }

    fn debugfs(&self, request: &str) -> String {
        let file = self.file();
        run("debugfs", &["-w", "-R", request, file.to_str().unwrap()])
    }

    /// The content of a file, as debugfs reads it.
    fn dumped(&self, path: &str) -> Vec<u8> {
        let out = self.directory.path().join("dumped");
        self.debugfs(&format!("dump {path} {}", out.display()));
        fs::read(out).unwrap()
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

#[test]
fn every_kind_of_change_in_every_geometry() {
    for (what, kib, options) in GEOMETRIES {
        let image = Image::new(kib, options);
        image.debugfs("ea_set / security.selinux system_u:object_r:boot_t:s0");
        image.check(what);
        image
            .change(|files| {
                files.replace(Path::new("loader/entries/a.conf"), &content(9000))?;
                files.replace(Path::new("grub2/grub.cfg"), b"short\n")?;
                files.replace(Path::new("boot/ignition.firstboot"), b"set x=1\n")?;
                files.make_directory(Path::new("coreos-firstboot-network"), 0o755)?;
                for n in 0..70 {
                    let name = format!("coreos-firstboot-network/{n}-{}.x", "l".repeat(200));
                    files.create(Path::new(&name), 0o600, format!("{n}").as_bytes())?;
                }
                files.create(Path::new("empty"), 0o644, b"")
            })
            .unwrap();
        image.check(what);
        assert!(
            image.dumped("/loader.1/entries/a.conf") == content(9000),
            "{what}"
        );
        assert_eq!(image.dumped("/grub2/grub.cfg"), b"short\n", "{what}");
        assert_eq!(image.dumped("/ignition.firstboot"), b"set x=1\n", "{what}");
        let last = format!("/coreos-firstboot-network/69-{}.x", "l".repeat(200));
        assert_eq!(image.dumped(&last), b"69", "{what}");
        for (path, expected) in [
            ("/coreos-firstboot-network", "Mode:  0755"),
            (&last, "Mode:  0600"),
            ("/empty", "Mode:  0644"),
            (&last, "User:     0   Group:     0"),
            ("/coreos-firstboot-network", "User:     0   Group:     0"),
        ] {
            let output = image.debugfs(&format!("stat {path}"));
            assert!(output.contains(expected), "{what}: {path}: {output}");
        }
        for path in ["/coreos-firstboot-network", "/empty"] {
            let output = image.debugfs(&format!("ea_get {path} security.selinux"));
            assert!(
                output.contains("system_u:object_r:boot_t:s0"),
                "{what}: {output}"
            );
        }
        // A new directory passes on its label.
        let output = image.debugfs(&format!("ea_list {last}"));
        assert!(output.contains("boot_t"), "{what}: {output}");
    }
}

#[test]
fn the_same_changes_give_the_same_bytes() {
    let image = Image::new("40960", &["-b", "1024"]);
    let before = image.bytes();
    let make = |files: &mut FileSystem<File>| {
        files.make_directory(Path::new("d"), 0o700)?;
        files.create(Path::new("d/f"), 0o600, &content(3000))
    };
    image.change(make).unwrap();
    let first = image.bytes();
    fs::write(image.file(), &before).unwrap();
    image.change(make).unwrap();
    assert!(first == image.bytes());
    let changed = before.chunks(1024).zip(first.chunks(1024));
    let changed = changed.filter(|(old, new)| old != new).count();
    assert!(changed < 16, "{changed} blocks changed");
}

#[test]
fn paths_stay_in_the_file_system() {
    let image = Image::new("20480", &["-b", "1024"]);
    let files = image.open();
    let read = |path: &str| files.read(Path::new(path), 100);
    assert_eq!(read("loader/entries/a.conf").unwrap(), b"options a\n");
    assert_eq!(
        read("boot/boot/loader.1/../loader/entries/a.conf").unwrap(),
        b"options a\n"
    );
    for (path, expected) in [
        ("up/x", "stays in the file system"),
        ("../x", "stays in the file system"),
        ("absolute/passwd", "stays in the file system"),
        ("/ignition.firstboot", "stays in the file system"),
        ("self", "fewer symbolic links"),
        ("none", "none: no such file"),
        ("loader", "expected a regular file, found a directory"),
        (
            "ignition.firstboot/x",
            "expected a directory, found a regular file",
        ),
        ("grub2/grub.cfg", "expected at most 100 bytes, found 5000"),
    ] {
        let error = read(path).unwrap_err().to_string();
        assert!(error.contains(expected), "{path}: {error}");
    }
    let kind = |path: &str| files.kind(Path::new(path)).unwrap();
    assert_eq!(kind("loader"), Some(Kind::Link));
    assert_eq!(kind("loader/entries"), Some(Kind::Directory));
    assert_eq!(kind("ignition.firstboot"), Some(Kind::File));
    assert_eq!(kind("none/x"), None);
    let names = files.names(Path::new("loader/entries")).unwrap();
    assert_eq!(names, ["a.conf"]);
}

#[test]
fn unclean_or_unsupported_file_systems_are_rejected() {
    for (request, expected) in [
        ("set_super_value state 0", "was not unmounted"),
        ("set_super_value state 3", "marked as having errors"),
        ("set_super_value last_orphan 12", "still open"),
        ("feature needs_recovery", "journal has changes"),
        ("feature inline_data", "incompatible features"),
        ("feature bigalloc", "read-only compatible features"),
        ("feature quota", "read-only compatible features"),
        ("feature encrypt", "incompatible features"),
    ] {
        let image = Image::new("20480", &["-b", "1024"]);
        image.debugfs(request);
        let error = image.change(|_| Ok(())).unwrap_err().to_string();
        assert!(error.contains(expected), "{request}: {error}");
    }
    // Plain ext2 and ext3, whose files have block maps.
    let image = Image::new("20480", &["-b", "1024", "-O", "^extents,^64bit"]);
    let result = image.change(|files| files.replace(Path::new("grub2/grub.cfg"), b""));
    let error = result.unwrap_err().to_string();
    assert!(error.contains("block map"), "{error}");
}

#[test]
fn files_that_are_special_are_refused() {
    for (request, expected) in [
        ("set_inode_field grub2/grub.cfg flags 0x80010", "immutable"),
        ("set_inode_field grub2/grub.cfg links_count 0", "deleted"),
        ("punch grub2/grub.cfg 1 2", "holes"),
    ] {
        let image = Image::new("20480", &["-b", "1024"]);
        image.debugfs(request);
        let result = image.change(|files| files.replace(Path::new("grub2/grub.cfg"), b"x"));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{request}: {error}");
    }
}

/// The free blocks are scattered, so the extents of a file do not fit into its inode.
#[test]
fn a_file_in_many_pieces_gets_an_extent_tree() {
    for features in ["^has_journal", "^has_journal,^metadata_csum"] {
        let image = Image::new("600", &["-b", "1024", "-N", "512", "-O", features]);
        let name = |n: usize| format!("loader/entries/{n}");
        let mut count = 0;
        image
            .change(|files| {
                loop {
                    match files.create(Path::new(&name(count)), 0o600, &content(1000)) {
                        Ok(()) => count += 1,
                        Err(Error::NoSpace(_)) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
            })
            .unwrap();
        // The last creation was not complete: e2fsck finds an inode without a name.
        let image_file = image.file();
        let _ = Command::new("/sbin/e2fsck")
            .arg("-fy")
            .arg(image_file)
            .output()
            .unwrap();
        image.check("full");
        assert!(count > 200, "{count}");
        let requests: String = (0..count)
            .step_by(2)
            .map(|n| format!("rm loader.1/entries/{n}\n"))
            .collect();
        let script = image.directory.path().join("script");
        fs::write(&script, requests).unwrap();
        let (script, file) = (script.to_str().unwrap(), image.file());
        run("debugfs", &["-w", "-f", script, file.to_str().unwrap()]);
        image.check("pieces");
        let len = 70 * 1024;
        image
            .change(|files| files.replace(Path::new("ignition.firstboot"), &content(len)))
            .unwrap();
        image.check("a tree");
        assert!(image.dumped("/ignition.firstboot") == content(len));
        let output = image.debugfs("stat ignition.firstboot");
        assert!(output.contains("(ETB0)"), "{output}");
        // Other content reuses or frees the block of the tree.
        for len in [len + 3000, 500, 0] {
            image
                .change(|files| files.replace(Path::new("ignition.firstboot"), &content(len)))
                .unwrap();
            image.check("changed again");
            assert!(image.dumped("/ignition.firstboot") == content(len));
        }
        let result = image
            .change(|files| files.replace(Path::new("ignition.firstboot"), &content(90 * 1024)));
        let error = result.unwrap_err().to_string();
        assert!(error.contains("too far apart"), "{error}");
        let result =
            image.change(|files| files.replace(Path::new("ignition.firstboot"), &content(1 << 20)));
        let error = result.unwrap_err().to_string();
        assert!(error.contains("no free blocks"), "{error}");
    }
}

#[test]
fn an_indexed_directory_is_read_and_not_changed() {
    let image = Image::new("20480", &["-b", "1024"]);
    let names: Vec<String> = (0..200)
        .map(|n| format!("grub2/{n}-{}", "n".repeat(40)))
        .collect();
    image
        .change(|files| {
            names
                .iter()
                .try_for_each(|name| files.create(Path::new(name), 0o644, name.as_bytes()))
        })
        .unwrap();
    image.check("linear");
    // e2fsck -D makes the index.
    let output = Command::new("/sbin/e2fsck")
        .arg("-fyD")
        .arg(image.file())
        .output()
        .unwrap();
    assert!(
        output.status.code().is_some_and(|code| code < 4),
        "{output:?}"
    );
    image.check("indexed");
    image
        .change(|files| {
            for name in &names {
                assert_eq!(files.read(Path::new(name), 100)?, name.as_bytes());
            }
            files.replace(Path::new(&names[7]), b"other")
        })
        .unwrap();
    image.check("changed");
    assert_eq!(image.dumped(&format!("/{}", names[7])), b"other");
    let result = image.change(|files| files.create(Path::new("grub2/new"), 0o644, b""));
    let error = result.unwrap_err().to_string();
    assert!(error.contains("a directory with an index"), "{error}");
}

#[test]
fn an_existing_file_is_not_created_again() {
    let image = Image::new("20480", &["-b", "1024"]);
    for (path, expected) in [
        ("grub2", "exists already"),
        ("loader", "exists already"),
        ("none/x", "no such file"),
        ("ignition.firstboot/x", "expected a directory"),
        ("", "ends in a name"),
        ("x/..", "ends in a name"),
        (&"x".repeat(256), "at most 255 bytes"),
    ] {
        let result = image.change(|files| files.create(Path::new(path), 0o600, b"x"));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{path}: {error}");
        let result = image.change(|files| files.make_directory(Path::new(path), 0o700));
        assert!(result.unwrap_err().to_string().contains(expected), "{path}");
    }
}

#[derive(Debug, Clone)]
enum Change {
    Replace(usize, usize),
    Create(usize, u8, usize),
    Directory(usize, u8),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let len = prop_oneof![0..3000usize, Just(4096), 0..100_000usize];
    let change = prop_oneof![
        (any::<usize>(), len.clone()).prop_map(|(file, len)| Change::Replace(file, len)),
        (any::<usize>(), 1..=180u8, len)
            .prop_map(|(place, name, len)| Change::Create(place, name, len)),
        (any::<usize>(), 1..=180u8).prop_map(|(place, name)| Change::Directory(place, name)),
    ];
    prop::collection::vec(change, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Compares with a model of paths and contents, with e2fsck, and with debugfs as
    /// another reader.
    #[test]
    fn any_changes_leave_a_sound_file_system(
        geometry in 0..GEOMETRIES.len(), changes in changes(),
    ) {
        let (what, kib, options) = GEOMETRIES[geometry];
        let image = Image::new(kib, options);
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        files.insert("grub2/grub.cfg".to_owned(), vec![b'#'; 5000]);
        let mut directories = vec!["loader.1/entries".to_owned()];
        image.change(|file_system| {
            for (n, change) in changes.iter().enumerate() {
                let named = |place: usize, len: u8, directories: &[String]| {
                    let directory = &directories[place % directories.len()];
                    let name = format!("{n:0>width$}", width = usize::from(len));
                    format!("{directory}/{name}")
                };
                match *change {
                    Change::Replace(file, len) => {
                        let path = files.keys().nth(file % files.len()).unwrap().clone();
                        file_system.replace(Path::new(&path), &content(len))?;
                        files.insert(path, content(len));
                    }
                    Change::Create(place, name, len) => {
                        let path = named(place, name, &directories);
                        file_system.create(Path::new(&path), 0o600, &content(len))?;
                        files.insert(path, content(len));
                    }
                    Change::Directory(place, name) => {
                        let path = named(place, name, &directories);
                        file_system.make_directory(Path::new(&path), 0o755)?;
                        directories.push(path);
                    }
                }
            }
            Ok(())
        }).unwrap();
        image.check(what);
        let read = image.open();
        for (path, expected) in &files {
            prop_assert!(read.read(Path::new(path), 1 << 20).unwrap() == *expected, "{}", path);
            prop_assert!(image.dumped(&format!("/{path}")) == *expected, "{}", path);
        }
    }

    /// Damaged bytes are an error or go unnoticed, but never a panic or a hang.
    #[test]
    fn damage_does_no_harm(
        geometry in 0..3usize, places in prop::collection::vec((0..60_000usize, any::<u8>()), 1..6),
    ) {
        let (block, features) = [
            ("1024", "^has_journal,^metadata_csum"),
            ("1024", "^has_journal"),
            ("4096", "^has_journal,^metadata_csum,uninit_bg"),
        ][geometry];
        let image = Image::new("2048", &["-b", block, "-O", features]);
        let mut bytes = image.bytes();
        for (at, byte) in places {
            bytes[1024 + at] = byte;
        }
        let Ok(mut files) = FileSystem::open(&bytes[..], bytes.len() as u64) else {
            return Ok(());
        };
        let _ = files.read(Path::new("grub2/grub.cfg"), 1 << 20);
        let _ = files.replace(Path::new("loader/entries/a.conf"), &content(3000));
        let _ = files.make_directory(Path::new("new"), 0o755);
        let _ = files.create(Path::new("new/file"), 0o600, &content(3000));
        for (offset, block) in files.changes() {
            prop_assert!(offset as usize + block.len() <= bytes.len());
        }
    }
}

#[test]
fn a_truncated_image_is_an_error() {
    let image = Image::new("2048", &["-b", "1024", "-O", "^has_journal"]);
    let bytes = image.bytes();
    for len in [0, 1024, 1500, 2047, 2048, 3000, bytes.len() - 1] {
        assert!(
            FileSystem::open(&bytes[..len], len as u64).is_err(),
            "{len}"
        );
        // The partition has the right length, and the image ends earlier.
        if let Ok(files) = FileSystem::open(&bytes[..len], bytes.len() as u64) {
            let _ = files.read(Path::new("grub2/grub.cfg"), 1 << 20);
        }
    }
}
