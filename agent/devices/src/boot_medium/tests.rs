//! Tests with disks in an artificial /sys. Files with the first bytes of media take the
//! place of the nodes in /dev.

use landfall_sys::sys_tree::{PlantedTree, plant};

use super::*;

const STICK: &str = "devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/block";
const SATA: &str = "devices/pci0000:00/0000:00:1f.2/ata1/host0/block";
const UUID: &str = "2023-11-14-22-13-20-00";

/// A disk of 8 GiB at this place in /sys.
fn disk(place: &str, name: &str) -> String {
    format!(
        "sys/{place}/{name}/size = 16777216\\n\n\
         sys/{place}/{name}/removable = 0\\n\n\
         sys/block/{name} -> ../{place}/{name}\n"
    )
}

/// An ISO with a partition table in front of it, as a stick has it.
fn iso(label: &str, date: &str) -> Vec<u8> {
    let mut bytes = vec![0; 40 << 10];
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes[32768..32774].copy_from_slice(b"\x01CD001");
    bytes[32768 + 40..][..32].copy_from_slice(format!("{label:32}").as_bytes());
    bytes[32768 + 830..][..date.len()].copy_from_slice(date.as_bytes());
    bytes
}

fn own_iso() -> Vec<u8> {
    iso("LANDFALL", "2023111422132000")
}

/// A FAT file system with this label, made by mkfs.vfat.
fn fat(label: &str) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4 << 20).unwrap();
    let made = std::process::Command::new("/sbin/mkfs.vfat")
        .args(["-n", label])
        .arg(file.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    std::fs::read(file.path()).unwrap()
}

fn machine(tree: &str, cmdline: &str, contents: &[(&str, &[u8])]) -> PlantedTree {
    let root = plant(&format!("{tree}proc/cmdline = quiet {cmdline}\\n\ndev/"));
    for (name, bytes) in contents {
        std::fs::write(root.directory().join("dev").join(name), bytes).unwrap();
    }
    root
}

/// Why this disk is a boot medium, in words.
fn why(root: &PlantedTree, name: &str) -> Option<String> {
    let block = root.path().join("sys/block").join(name);
    let found = BootMedia::look(root.path()).why(&block);
    found.map(|found| found.to_string())
}

#[test]
fn a_partition_that_cannot_be_read_hides_no_label() {
    let root = machine(
        &[
            disk(STICK, "sda"),
            format!("sys/{STICK}/sda/sda1/partition = ?\\n\n"),
            format!("sys/{STICK}/sda/sda2/partition = 2\\n\n"),
            disk(STICK, "sdb"),
            format!("sys/{STICK}/sdb/sdb1/partition = ?\\n\n"),
            disk(SATA, "sdc"),
            format!("sys/{SATA}/sdc/sdc1/partition = ?\\n\n"),
        ]
        .concat(),
        "",
        &[("sda2", &fat("VTOYEFI"))],
    );
    let why = |name: &str| why(&root, name);
    assert!(why("sda").is_some_and(|why| why.contains("VTOYEFI")));
    assert!(why("sdb").is_some_and(|why| why.contains("cannot be listed")));
    assert_eq!(why("sdc"), None, "not removable");
}

#[test]
fn labels_count_on_removable_media_alone() {
    let labelled = |label: &str| Some(format!("a boot medium (removable, label {label})"));
    for (content, on_usb) in [
        (own_iso(), labelled("LANDFALL")),
        (iso("config-2", ""), labelled("config-2")),
        (iso("VMEDIA_BOOT_ISO", ""), labelled("VMEDIA_BOOT_ISO")),
        (fat("CONFIG-2"), labelled("CONFIG-2")),
        (iso("ubuntu", ""), None),
        (vec![0; 1 << 16], None),
        (Vec::new(), None),
    ] {
        let tree = disk(STICK, "sda") + &disk(SATA, "sdb");
        let root = machine(&tree, "", &[("sda", &content), ("sdb", &content)]);
        assert_eq!(why(&root, "sda"), on_usb);
        assert_eq!(why(&root, "sdb"), None, "{on_usb:?} on SATA");
    }
}

#[test]
fn removable_disks() {
    for (place, lines, expected) in [
        (STICK, "", true),
        (SATA, "", false),
        (SATA, "removable = 1\\n", true),
        (
            "devices/pci0/mmc0/mmc0:1/block",
            "device/type = SD\\n",
            true,
        ),
        (
            "devices/pci0/mmc0/mmc0:1/block",
            "device/type = MMC\\n",
            false,
        ),
        // A CD drive, which is removable and no disk.
        (SATA, "device/type = 5\\nsys", false),
    ] {
        let lines = match lines {
            "" => String::new(),
            "device/type = 5\\nsys" => {
                format!("sys/{place}/sda/device/type = 5\\n\nsys/{place}/sda/removable = 1\\n\n")
            }
            lines => format!("sys/{place}/sda/{lines}\n"),
        };
        let root = machine(&(disk(place, "sda") + &lines), "", &[("sda", &own_iso())]);
        assert_eq!(why(&root, "sda").is_some(), expected, "{place} {lines}");
    }
}

#[test]
fn the_medium_that_the_command_line_names_on_any_bus() {
    let other = iso("LANDFALL", "2024010100000000");
    let tree = disk(SATA, "sda") + &disk(SATA, "sdb");
    let contents = [("sda", &own_iso()[..]), ("sdb", &other)];
    let root = machine(&tree, &format!("landfall.medium={UUID}"), &contents);
    assert_eq!(
        why(&root, "sda").unwrap(),
        "the medium that this host booted from (label LANDFALL, named by landfall.medium=)"
    );
    assert_eq!(why(&root, "sdb"), None, "an ISO of another build");

    let live = iso("fedora-coreos-40.20240101.3.0", "");
    let root = machine(
        &disk(SATA, "sda"),
        "coreos.liveiso=fedora-coreos-40.20240101.3.0",
        &[("sda", &live)],
    );
    assert!(
        why(&root, "sda")
            .unwrap()
            .contains("named by coreos.liveiso=")
    );
}

#[test]
fn a_copy_of_the_medium_in_the_drive_is_a_disk() {
    let tree = disk(STICK, "sda") + &disk(SATA, "sdb");
    let contents = [("sda", &own_iso()[..]), ("sdb", &own_iso())];
    let root = machine(&tree, &format!("landfall.medium={UUID}"), &contents);
    assert!(why(&root, "sda").unwrap().contains("booted from"));
    assert_eq!(why(&root, "sdb"), None);
    let cd = format!(
        "{}sys/{SATA}/sr0/device/type = 5\\n\n",
        disk(SATA, "sr0") + &disk(SATA, "sdb")
    );
    let contents = [("sr0", &own_iso()[..]), ("sdb", &own_iso())];
    let root = machine(&cd, &format!("landfall.medium={UUID}"), &contents);
    assert_eq!(why(&root, "sdb"), None);
}

#[test]
fn partitions_of_a_stick() {
    let part = |place: &str| format!("sys/{place}/sda/sda2/partition = 2\\n\n");
    for (place, label, expected) in [
        (STICK, "LANDFALL", true),
        (STICK, "VTOYEFI", true),
        (STICK, "CONFIG-2", false),
        (SATA, "LANDFALL", false),
    ] {
        let tree = disk(place, "sda") + &part(place);
        let root = machine(&tree, "", &[("sda", &[0; 1 << 16]), ("sda2", &fat(label))]);
        assert_eq!(why(&root, "sda").is_some(), expected, "{place} {label}");
    }
}

#[test]
fn the_parameters_are_on_something_small() {
    let floppy = fat("IR-VFD-DEV");
    let small = disk(SATA, "sda").replace("16777216", "2880");
    let root = machine(&small, "", &[("sda", &floppy)]);
    assert_eq!(
        why(&root, "sda").unwrap(),
        "the medium with Ironic's parameters (ir-vfd-dev)"
    );
    for place in [SATA, STICK] {
        let root = machine(&disk(place, "sda"), "", &[("sda", &floppy)]);
        assert_eq!(why(&root, "sda"), None, "8 GiB are somebody's disk");
    }
}

#[test]
fn devices_built_on_the_medium_lead_to_it() {
    let tree = disk(STICK, "sda")
        + &disk(SATA, "sdb")
        + &format!("sys/{STICK}/sda/sda1/partition = 1\\n\n")
        + &disk("devices/virtual/block", "dm-0")
        + &disk("devices/virtual/block", "dm-1")
        + &disk("devices/virtual/block", "md0")
        + &format!(
            "sys/devices/virtual/block/dm-0/slaves/sda1 -> ../../../../../{}/sda/sda1\n",
            STICK
        )
        + "sys/devices/virtual/block/md0/slaves/dm-0 -> ../../dm-0\n"
        + &format!(
            "sys/devices/virtual/block/dm-1/slaves/sdb -> ../../../../../{}/sdb\n",
            SATA
        );
    let root = machine(&tree, "", &[("sda", &own_iso()), ("sdb", &[0; 1 << 16])]);
    let media = BootMedia::look(root.path());
    for (path, expected) in [
        ("sys/block/sda", Some("sda")),
        ("sys/block/sda/sda1", Some("sda")),
        ("sys/block/dm-0", Some("sda")),
        ("sys/block/md0", Some("sda")),
        ("sys/block/sdb", None),
        ("sys/block/dm-1", None),
    ] {
        let found = media.below(&root.path().join(path));
        assert_eq!(found.map(|(name, _)| name).as_deref(), expected, "{path}");
    }
}
