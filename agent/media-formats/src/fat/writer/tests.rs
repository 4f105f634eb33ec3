use std::collections::BTreeMap;
use std::io::Cursor;
use std::process::Command;

use proptest::prelude::*;

use super::super::{Fat, FatError};
use super::*;

/// The layout of the EFI system partition on a boot medium.
const SMALLEST: Layout<'_> = Layout {
    label: "LANDFALL",
    serial: 0x1234_5678,
    sector: 512,
    cluster: 2048,
    root_entries: 64,
    names: Names::Short,
    size: Size::Smallest,
};

/// The layout of a config drive.
fn of_length(sector: usize, len: u64) -> Layout<'static> {
    Layout {
        label: "CONFIG-2",
        serial: 1,
        sector,
        cluster: 4096,
        root_entries: 512,
        names: Names::Long,
        size: Size::Bytes(len),
    }
}

type File<'a> = (&'a str, &'a [u8]);

/// The whole file system, with the zeros at its end.
fn whole(files: &[File<'_>], layout: &Layout<'_>) -> Vec<u8> {
    let mut image = build(files.iter().copied(), layout).unwrap();
    if let Size::Bytes(len) = layout.size {
        image.resize(len as usize, 0);
    }
    image
}

fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .env("MTOOLS_SKIP_CHECK", "1")
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    output.stdout
}

/// Checks that fsck.fat finds no fault, and mtools finds the files and the label.
fn check_with_other_tools(image: &[u8], files: &[File<'_>], label: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), image).unwrap();
    let path = file.path().to_str().unwrap();
    run("fsck.fat", &["-n", path]);
    for (name, expected) in files {
        let found = run("mtype", &["-i", path, &format!("::/{name}")]);
        assert!(found == *expected, "{name}");
    }
    let found = run("mlabel", &["-s", "-i", path, "::"]);
    assert!(String::from_utf8_lossy(&found).contains(label));
}

#[test]
fn other_tools_read_the_smallest_file_system() {
    // Sizes around the limit of FAT12 (4085 clusters are 8.4 MB) and on both sides
    // of 65536 sectors.
    for big in [
        0, 1, 10_000, 4_900_000, 8_355_000, 8_400_000, 9_000_000, 40_000_000,
    ] {
        let content: Vec<u8> = (0..big).map(|n: u32| (n >> 8) as u8).collect();
        let files = vec![
            ("EFI/BOOT/BOOTX64.EFI", &content[..]),
            ("EFI/BOOT/grubx64.efi", b"second"),
            ("boot/grub/grub.cfg", b"search\n"),
        ];
        let image = whole(&files, &SMALLEST);
        assert!(
            image.len() < content.len() + 120_000 + content.len() / 400,
            "{} for {big}",
            image.len()
        );
        assert!(image == whole(&files, &SMALLEST), "same input, same bytes");
        check_with_other_tools(&image, &files, "LANDFALL");
    }
}

#[test]
fn other_tools_read_a_file_system_of_a_given_length() {
    let mut files: Vec<File<'_>> = vec![
        ("ec2/latest/meta-data.json", b"{}"),
        ("openstack/content/0000", &[7; 5000]),
        ("openstack/latest/user_data", b""),
    ];
    // So many names that the directory is longer than a cluster.
    let names: Vec<String> = (0..100)
        .map(|n| format!("many/a file of 26 letters.{n:03}"))
        .collect();
    files.extend(names.iter().map(|name| (name.as_str(), &b"x"[..])));
    for sector in [512, 4096] {
        let layout = of_length(sector, 64 << 20);
        let first_part = build(files.iter().copied(), &layout).unwrap();
        assert!(first_part.len() < 2 << 20, "only what is not zeros");
        check_with_other_tools(&whole(&files, &layout), &files, "CONFIG-2");
    }
}

#[test]
fn files_that_do_not_fit_are_an_error() {
    const EMPTY: &[u8] = b"";
    let large = vec![0; 65 << 20];
    let long = "x".repeat(256);
    let mib = 1 << 20;
    for (files, len, expected) in [
        (
            &[("a", &large[..])][..],
            64 * mib,
            "the files do not fit into 67108864 bytes",
        ),
        (
            &[],
            mib,
            "expected a size that FAT16 can have, found 1048576 bytes",
        ),
        (
            &[],
            1 << 40,
            "expected a size that FAT16 can have, found 1099511627776 bytes",
        ),
        (
            &[("a", EMPTY), ("a/b", EMPTY)],
            64 * mib,
            "a is a file and a directory",
        ),
        (
            &[("d/a", EMPTY), ("d/a/b", EMPTY)],
            64 * mib,
            "d/a is a file and a directory",
        ),
        (
            &[("d/a", EMPTY), ("d/a", EMPTY)],
            64 * mib,
            "d/a is given twice",
        ),
        (
            &[("a:", EMPTY)],
            64 * mib,
            "\"a:\": expected a name that FAT permits",
        ),
        (
            &[("a/../b", EMPTY)],
            64 * mib,
            "\"a/..\": expected a name that FAT permits",
        ),
        (
            &[("a\nb", EMPTY)],
            64 * mib,
            "\"a\\nb\": expected a name that FAT permits",
        ),
    ] {
        let found = build(files.iter().copied(), &of_length(4096, len));
        assert_eq!(found.unwrap_err().to_string(), expected);
    }
    let found = build([(long.as_str(), EMPTY)], &of_length(512, 64 * mib));
    assert_eq!(found, Err(WriteError::LongName(long.clone())));
    for name in [
        "toolongname.efi",
        "a.html",
        "a b.efi",
        ".efi",
        "a.b.c",
        "dir-x/a.efi",
        "",
    ] {
        let found = build([(name, EMPTY)], &SMALLEST);
        assert!(
            matches!(found, Err(WriteError::ShortName(_))),
            "{name}: {found:?}"
        );
    }
    let many: Vec<String> = (0..SMALLEST.root_entries)
        .map(|n| format!("f{n}.txt"))
        .collect();
    let files: Vec<File<'_>> = many.iter().map(|name| (name.as_str(), EMPTY)).collect();
    let found = build(files.iter().copied(), &SMALLEST);
    assert_eq!(found, Err(WriteError::RootDirectory));
    assert!(build(files[1..].iter().copied(), &SMALLEST).is_ok());
}

/// Generates trees of files, as paths with their contents. Each part of a path matches
/// the regular expression `name`, with `D` as first character of a directory. So a
/// directory never has the name of a file, and no two names differ in letter case alone.
fn tree(name: &'static str) -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let path = prop::collection::vec(name, 1..4).prop_map(|names| {
        let (file, directories) = names.split_last().unwrap();
        let directories = directories.iter().map(|name| format!("D{}/", &name[1..]));
        directories.collect::<String>() + file
    });
    let content = prop::collection::vec(any::<u8>(), 0..10_000);
    prop::collection::btree_map(path, content, 0..12)
}

fn read_back(files: &BTreeMap<String, Vec<u8>>, layout: &Layout<'_>) {
    let files: Vec<File<'_>> = files
        .iter()
        .map(|(path, content)| (path.as_str(), &content[..]))
        .collect();
    let mut fat = Fat::open(Cursor::new(whole(&files, layout))).unwrap();
    assert_eq!(fat.label, layout.label);
    for (path, content) in &files {
        let found = fat.read(path, 1 << 20).unwrap();
        assert!(found.as_deref() == Some(*content), "{path}");
        if let Some((directory, name)) = path.rsplit_once('/') {
            let names = fat.files(directory).unwrap();
            assert!(names.iter().any(|found| found == name), "{path}");
        }
    }
}

proptest! {
    // Few cases, because a file system of a given length has at least 16 MiB.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn short_names_are_read_back(files in tree("F[A-Z0-9_]{0,7}(\\.[A-Z0-9]{1,3})?")) {
        read_back(&files, &SMALLEST);
    }

    #[test]
    fn long_names_are_read_back(
        files in tree("F[a-z0-9 ._äß漢\u{1f980}-]{0,60}[a-z]"),
        sector in prop::sample::select(vec![512_usize, 4096]),
        mib in 17_u64..24,
    ) {
        read_back(&files, &of_length(sector, mib << 20));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Damages a file system that the writer made: changes bytes in it, and cuts off its
    /// end.
    #[test]
    fn a_damaged_file_system_is_an_error_or_files(
        files in tree("F[a-z]{0,20}"),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..100),
        cut in any::<prop::sample::Index>(),
        smallest: bool,
    ) {
        let short: BTreeMap<String, Vec<u8>> = files
            .into_iter()
            .enumerate()
            .map(|(n, (_, content))| (format!("D/F{n}"), content))
            .collect();
        let layout = if smallest { SMALLEST } else { of_length(512, 17 << 20) };
        let files: Vec<File<'_>> = short
            .iter()
            .map(|(path, content)| (path.as_str(), &content[..]))
            .collect();
        let mut image = build(files.iter().copied(), &layout).unwrap();
        let len = image.len();
        for (at, byte) in damage {
            image[at.index(len)] = byte;
        }
        image.truncate(cut.index(len) + len / 2);
        match Fat::open(Cursor::new(&image)) {
            Ok(mut fat) => {
                for (path, _) in &files {
                    let _ = fat.read(path, 1 << 16);
                }
                let _ = fat.files("D");
            }
            Err(FatError::NotFat | FatError::Io { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
