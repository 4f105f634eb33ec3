use std::io::Cursor;
use std::process::Command;

use super::*;
use proptest::prelude::*;

/// An image made by xorriso, small enough to mutate.
fn image() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("boot/grub")).unwrap();
    for number in 0..60 {
        std::fs::write(
            tree.join(format!("boot/a-rather-long-name-{number}.txt")),
            number.to_string(),
        )
        .unwrap();
    }
    std::fs::write(tree.join("boot/grub/grub.cfg"), "menu").unwrap();
    let out = dir.path().join("out.iso");
    let output = Command::new("xorriso")
        .args([
            "-as",
            "mkisofs",
            "-quiet",
            "-R",
            "-V",
            "LABEL",
            "--modification-date=2023111422132042",
            "-no-pad",
            "-o",
        ])
        .args([&out, &tree])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::read(out).unwrap()
}

#[test]
fn files_are_found_in_an_image_by_xorriso() {
    let bytes = image();
    let mut iso = Iso::open(Cursor::new(&bytes)).unwrap();
    assert_eq!(
        (iso.label.as_str(), iso.uuid.as_str()),
        ("LABEL", "2023-11-14-22-13-20-42")
    );
    assert_eq!(iso.read("boot/grub/grub.cfg", 100).unwrap(), b"menu");
    assert_eq!(iso.read("BOOT/GRUB/GRUB.CFG", 100).unwrap(), b"menu");
    // The 60 long names take more than one sector.
    assert_eq!(
        iso.read("boot/a-rather-long-name-59.txt", 100).unwrap(),
        b"59"
    );
    assert_eq!(iso.read_start("boot/grub/grub.cfg", 2).unwrap(), b"me");
    let extent = iso.find("boot/grub/grub.cfg").unwrap();
    assert_eq!(
        &bytes[extent.offset as usize..][..extent.size as usize],
        b"menu"
    );
}

#[test]
fn faults() {
    let bytes = image();
    let mut iso = Iso::open(Cursor::new(&bytes)).unwrap();
    for (result, expected) in [
        (iso.read("boot/none", 100), "ISO: boot/none is not on it"),
        (
            iso.read("boot/grub/grub.cfg/x", 100),
            "ISO: boot/grub/grub.cfg/x is not on it",
        ),
        (
            iso.read("boot/grub/grub.cfg", 3),
            "ISO: boot/grub/grub.cfg is 4 bytes, expected at most 3",
        ),
    ] {
        let error = result.unwrap_err();
        assert!(
            matches!(error, IsoError::BrokenRecord(_)) || error.to_string() == expected,
            "{error}"
        );
    }
    assert!(matches!(
        Iso::open(Cursor::new(b"short")),
        Err(IsoError::Io { offset: 32768, .. })
    ));
    assert!(matches!(
        Iso::open(Cursor::new(vec![0; 65536])),
        Err(IsoError::NoVolume)
    ));
}

#[test]
fn what_ironic_builds() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let agent = tree.join("etc/ironic-python-agent.d");
    std::fs::create_dir_all(agent.join("sub.conf")).unwrap();
    std::fs::create_dir_all(tree.join("openstack/latest")).unwrap();
    // This name is too long for one directory record, so a continuation area has
    // the rest.
    let long = format!("{}.conf", "x".repeat(200));
    for name in ["ironic-tls.conf", &long] {
        std::fs::write(agent.join(name), name).unwrap();
    }
    std::fs::write(tree.join("openstack/latest/network_data.json"), "{}").unwrap();
    std::os::unix::fs::symlink("/etc/shadow", agent.join("link.conf")).unwrap();
    std::os::unix::fs::symlink("etc", tree.join("elsewhere")).unwrap();
    // The options that Ironic uses for its two kinds of ISO.
    for options in [&["-r", "-l"][..], &["-r", "-J", "-l"]] {
        let out = dir.path().join("out.iso");
        let output = Command::new("genisoimage")
            .args(options)
            .args(["-V", "config-2", "-publisher", "53705fb9-517f-40c7", "-o"])
            .args([&out, &tree])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let bytes = std::fs::read(&out).unwrap();
        let mut iso = Iso::open(Cursor::new(&bytes)).unwrap();
        assert_eq!(iso.label, "config-2");
        assert_eq!(iso.publisher, "53705fb9-517f-40c7");
        let read = iso.read("openstack/latest/network_data.json", 10).unwrap();
        assert_eq!(read, b"{}");
        let mut files = iso.files("etc/ironic-python-agent.d").unwrap();
        files.sort();
        assert_eq!(files, ["ironic-tls.conf", &long]);
        assert_eq!(iso.files("etc/none").unwrap(), [""; 0]);
        assert_eq!(
            iso.files("elsewhere/ironic-python-agent.d").unwrap(),
            [""; 0]
        );
        for path in ["etc/ironic-python-agent.d/link.conf", "etc"] {
            assert!(
                matches!(iso.read(path, 100), Err(IsoError::NotFound(_))),
                "{path}"
            );
        }
    }
}

/// Builds two records with the same name, as a file of 4 GiB and more has them.
/// Their extents are those of two files that are contiguous, or that have a third
/// file between them.
#[test]
fn a_file_in_several_records_is_one_piece() {
    for (names, is_whole) in [(["AA", "AB", "AC"], true), (["AA", "AC", "AB"], false)] {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for (name, byte) in ["AA", "AB", "AC"].into_iter().zip(1_u8..) {
            std::fs::write(tree.join(name), [byte; SECTOR as usize]).unwrap();
        }
        let out = dir.path().join("out.iso");
        let made = Command::new("genisoimage")
            .args(["-quiet", "-o"])
            .args([&out, &tree])
            .status();
        assert!(made.unwrap().success());
        let mut bytes = std::fs::read(out).unwrap();
        let record = |bytes: &[u8], name: &str| {
            let name = format!("{name}.;1");
            let at = bytes
                .windows(name.len())
                .position(|part| part == name.as_bytes());
            // ECMA-119, 9.1: the name is at byte 33 of the record.
            at.unwrap() - 33
        };
        let places = names.map(|name| record(&bytes, name));
        let extents = places.map(|at| bytes[at + 2..at + 10].to_vec());
        // The records keep their order; the second record gets another extent.
        let second = record(&bytes, "AB");
        bytes[second + 2..second + 10].copy_from_slice(&extents[1]);
        let first = record(&bytes, "AA");
        bytes[first + 25] |= MULTI_EXTENT;
        bytes[second + 34] = b'A';
        let mut iso = Iso::open(Cursor::new(&bytes)).unwrap();
        match iso.read("AA", 1 << 16) {
            Ok(content) => {
                assert!(is_whole, "{names:?}");
                assert_eq!(
                    content,
                    [[1; SECTOR as usize], [2; SECTOR as usize]].concat()
                );
            }
            Err(error) => assert!(
                !is_whole && matches!(error, IsoError::NotFound(_)),
                "{error}"
            ),
        }
        assert_eq!(iso.read("AC", 1 << 16).unwrap(), [3; SECTOR as usize]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn mutated_images_never_panic(seed in any::<u64>()) {
        static IMAGE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut bytes = IMAGE.get_or_init(image).clone();
        let mut state = seed | 1;
        for _ in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = 32768 + (state >> 33) as usize % (bytes.len() - 32768);
            bytes[at] = state as u8;
        }
        if let Ok(mut iso) = Iso::open(Cursor::new(&bytes)) {
            let _ = iso.read("boot/grub/grub.cfg", 1 << 16);
            let _ = iso.files("boot");
        }
    }
}
