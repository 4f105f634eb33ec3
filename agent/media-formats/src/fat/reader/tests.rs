use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use super::*;

/// A file system made by dosfstools and filled by mtools.
fn image(arguments: &[&str], kib: u32) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("image");
    run(Command::new("/usr/sbin/mkfs.vfat")
        .args(arguments)
        .args(["-C"])
        .arg(&file)
        .arg(kib.to_string()));
    let tree = directory.path().join("etc");
    std::fs::create_dir_all(tree.join("ironic-python-agent.d/sub")).unwrap();
    for number in 0..50 {
        let name = format!("ironic-python-agent.d/a rather long name {number}.conf");
        std::fs::write(tree.join(name), number.to_string()).unwrap();
    }
    std::fs::write(tree.join("SHORT.TXT"), "short").unwrap();
    std::fs::write(tree.join("empty"), "").unwrap();
    std::fs::write(tree.join("large"), large()).unwrap();
    let copy = |what: &Path| {
        run(Command::new("mcopy")
            .args(["-s", "-i"])
            .arg(&file)
            .arg(what)
            .arg("::"));
    };
    copy(&tree);
    let parameters = directory.path().join("parameters.txt");
    std::fs::write(&parameters, "a=b\n").unwrap();
    copy(&parameters);
    std::fs::read(file).unwrap()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn large() -> Vec<u8> {
    (0..100_000_u32).map(|n| (n % 251) as u8).collect()
}

#[test]
fn files_are_found_in_all_three_kinds() {
    for (arguments, kib, kind) in [
        (&["-n", "ir-vfd-dev"][..], 1440, Kind::Fat12),
        (&["-F", "16", "-n", "ir-vfd-dev"], 16 << 10, Kind::Fat16),
        (&["-F", "32", "-n", "ir-vfd-dev"], 64 << 10, Kind::Fat32),
        (&["-S", "4096", "-n", "ir-vfd-dev"], 32 << 10, Kind::Fat12),
    ] {
        let mut fat = Fat::open(Cursor::new(image(arguments, kib))).unwrap();
        assert_eq!(fat.kind, kind, "{arguments:?}");
        assert_eq!(fat.label, "ir-vfd-dev");
        for (path, expected) in [
            ("parameters.txt", Some(&b"a=b\n"[..])),
            ("ETC/short.txt", Some(b"short")),
            ("etc/empty", Some(b"")),
            ("etc/large", Some(&large())),
            (
                "etc/ironic-python-agent.d/A rather long name 49.conf",
                Some(b"49"),
            ),
            ("etc", None),
            ("etc/none", None),
            ("parameters.txt/x", None),
            ("ir-vfd-dev", None),
        ] {
            let found = fat.read(path, 1 << 20).unwrap();
            assert_eq!(found.as_deref(), expected, "{arguments:?} {path}");
        }
        assert_eq!(fat.files("etc/ironic-python-agent.d").unwrap().len(), 50);
        let mut files = fat.files("etc").unwrap();
        files.sort();
        assert_eq!(files, ["SHORT.TXT", "empty", "large"]);
        assert_eq!(fat.files("etc/none").unwrap(), [""; 0]);
        let error = fat.read("etc/large", 99_999).unwrap_err().to_string();
        assert_eq!(
            error,
            "FAT: etc/large is 100000 bytes, expected at most 99999"
        );
    }
}

#[test]
fn bytes_without_fat_are_rejected() {
    let mut table = vec![0; 65536];
    table[510..512].copy_from_slice(&[0x55, 0xaa]);
    for bytes in [vec![], vec![0; 100], vec![0; 65536], table] {
        assert!(matches!(
            Fat::open(Cursor::new(bytes)),
            Err(FatError::NotFat)
        ));
    }
}

#[test]
fn a_chain_that_goes_in_a_circle_is_an_error() {
    let mut bytes = image(&[], 1440);
    // Write the number 0x002 into all entries of twelve bits, so that cluster 2 follows
    // every cluster.
    for triple in bytes[512..512 + 9 * 512].chunks_exact_mut(3) {
        triple.copy_from_slice(&[0x02, 0x20, 0x00]);
    }
    let mut fat = Fat::open(Cursor::new(bytes)).unwrap();
    for found in [
        fat.read("etc/large", 1 << 20).map(drop),
        fat.files("etc/ironic-python-agent.d").map(drop),
    ] {
        assert!(matches!(found, Err(FatError::BrokenChain(_))), "{found:?}");
    }
    // The root directory of FAT12 is not a cluster chain, and this file has one cluster.
    let found = fat.read("parameters.txt", 100).unwrap();
    assert_eq!(found.as_deref(), Some(&b"a=b\n"[..]));
}

/// The chain of the file contains a loop. Without a check, its content would be repeated.
#[test]
fn a_file_whose_chain_goes_in_a_circle_is_an_error() {
    let mut bytes = image(&["-F", "16"], 16 << 10);
    let table = usize::from(u16::from_le_bytes([bytes[14], bytes[15]])) * 512;
    let mut fat = Fat::open(Cursor::new(&bytes)).unwrap();
    let Place::Cluster(first) = fat.entry("etc/large").unwrap().unwrap().place else {
        unreachable!("only the root directory has a fixed place");
    };
    let second = table + 2 * (first as usize + 1);
    bytes[second..second + 2].copy_from_slice(&(first as u16).to_le_bytes());
    let mut fat = Fat::open(Cursor::new(&bytes)).unwrap();
    let error = fat.read("etc/large", 1 << 20).unwrap_err().to_string();
    assert_eq!(error, "FAT: etc/large: broken chain of clusters");
}
