mod limits;

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
        .args(["-as", "mkisofs", "-quiet", "-R", "-V", "LABEL"])
        .args(["--modification-date=2023111422132042", "-no-pad", "-o"])
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
    // The 60 long names take more than one sector, so a record must not cross the
    // boundary.
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

/// An image with a config drive's files, made by genisoimage.
fn config_drive(options: &[&str], files: &[(&str, &[u8])]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    for (path, content) in files {
        let path = tree.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let image = directory.path().join("image");
    let made = Command::new("genisoimage")
        .args(["-quiet", "-V", "config-2", "-o"])
        .arg(&image)
        .args(options)
        .arg(&tree)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    std::fs::read(image).unwrap()
}

const DRIVE: [(&str, &[u8]); 4] = [
    ("ec2/latest/meta-data.json", b"{}"),
    ("openstack/content/0000", &[7; 5000]),
    ("openstack/latest/meta_data.json", b"{\"uuid\": \"1\"}"),
    ("openstack/latest/user_data", b""),
];

#[test]
fn files_by_every_kind_of_long_name() {
    for options in [&["-J", "-r"][..], &["-J"], &["-r"], &["-r", "-J", "-l"]] {
        let image = config_drive(options, &DRIVE);
        let mut iso = Iso::open(Cursor::new(&image)).unwrap();
        let files = iso.all_files().unwrap();
        let found: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(path, extent)| (path.as_str(), extent.content(&image).unwrap()))
            .collect();
        assert_eq!(found, DRIVE, "{options:?}");
        let found = iso.read("openstack/latest/meta_data.json", 100).unwrap();
        assert_eq!(found, DRIVE[2].1, "{options:?}");
        let found = iso.files("openstack/latest").unwrap();
        assert_eq!(found, ["meta_data.json", "user_data"], "{options:?}");
    }
}

#[test]
fn without_long_names_they_are_as_linux_shows_them() {
    let image = config_drive(&[], &[("LATEST/USERDATA", b"x"), ("LATEST/A.B", b"y")]);
    let files = Iso::open(Cursor::new(&image)).unwrap().all_files().unwrap();
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["latest/a.b", "latest/userdata"]);
}

/// One bad name in Rock Ridge, and one in Joliet.
#[test]
fn a_name_that_leads_out_of_its_directory_is_an_error() {
    let mut image = config_drive(&["-r", "-J"], &[("aaaa", b"x")]);
    let place = |image: &[u8], name: &[u8]| {
        let at = image.windows(name.len()).position(|part| part == name);
        at.unwrap()
    };
    let at = place(&image, b"aaaa");
    image[at..at + 4].copy_from_slice(b"../a");
    let found = Iso::open(Cursor::new(&image)).unwrap().all_files();
    let text = found.unwrap_err().to_string();
    assert_eq!(
        text,
        "ISO: expected a name that cannot lead out of its directory, found \"../a\""
    );

    let mut image = config_drive(&["-J"], &[("aaaa", b"x")]);
    let at = place(&image, b"\0a\0a\0a\0a");
    image[at + 5] = b'/';
    let found = Iso::open(Cursor::new(&image)).unwrap().all_files();
    let text = found.unwrap_err().to_string();
    assert_eq!(
        text,
        "ISO: expected a name that cannot lead out of its directory, found \"aa/a\""
    );
}

/// A directory that contains itself many times.
#[test]
fn a_tree_without_an_end_is_an_error() {
    let mut image = config_drive(&["-r"], &[("a/b", b"x")]);
    let iso = Iso::open(Cursor::new(&image)).unwrap();
    let root = iso.root.offset as usize;
    let length = usize::from(image[root]);
    let parent = root + length;
    let directory = parent + usize::from(image[parent]);
    let own = image[root + 2..root + 18].to_vec();
    image[directory + 2..directory + 18].copy_from_slice(&own);
    let record = image[directory..directory + usize::from(image[directory])].to_vec();
    for number in 1..10 {
        let at = directory + number * record.len();
        image[at..at + record.len()].copy_from_slice(&record);
    }
    let found = Iso::open(Cursor::new(&image)).unwrap().all_files();
    assert!(matches!(found, Err(IsoError::BrokenRecord(_))), "{found:?}");
}

#[test]
fn faults() {
    let bytes = image();
    let mut iso = Iso::open(Cursor::new(&bytes)).unwrap();
    for (result, expected) in [
        (iso.read("boot/none", 100), "ISO: no regular file boot/none"),
        (
            iso.read("boot/grub/grub.cfg/x", 100),
            "ISO: no regular file boot/grub/grub.cfg/x",
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
    let mut bytes = bytes;
    bytes[32768 + 128..32768 + 130].copy_from_slice(&512_u16.to_le_bytes());
    let mut iso = Iso::open(Cursor::new(&bytes)).unwrap();
    assert_eq!(iso.label, "LABEL");
    assert!(matches!(iso.all_files(), Err(IsoError::BlockSize(512))));
}

#[test]
fn media_that_ironic_builds() {
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
        let files = [1, 2, 3].map(|byte| [byte; SECTOR as usize]);
        let [first, second, third] = files.each_ref();
        let mut bytes = config_drive(&[], &[("AA", first), ("AB", second), ("AC", third)]);
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
        // Both records keep their places; the second record gets the extent of another
        // file.
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
    fn a_damaged_image_is_an_error_or_files(
        places in prop::collection::vec((0_usize..16384, any::<u8>()), 1..10),
        keep in any::<prop::sample::Index>(),
        joliet: bool,
    ) {
        static IMAGES: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let images = IMAGES.get_or_init(|| [config_drive(&["-r"], &DRIVE), config_drive(&["-J"], &DRIVE)]);
        let mut image = images[usize::from(joliet)].clone();
        for (place, byte) in places {
            image[32768 + place] = byte;
        }
        for image in [&image[..], &image[..keep.index(image.len())]] {
            let files = Iso::open(Cursor::new(image)).and_then(|mut iso| iso.all_files());
            for (_, extent) in files.unwrap_or_default() {
                let _ = extent.content(image);
            }
        }
    }
}
