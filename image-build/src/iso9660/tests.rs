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
        }
    }
}
