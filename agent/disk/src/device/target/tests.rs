use landfall_devices::identity::ChosenDisk;
use landfall_devices::permission::WritePermission;
use landfall_download::fetch::medium_url;
use landfall_report::failure::Class;
use landfall_sys::sys_tree::plant;

use super::open::share_a_disk;
use super::*;
use crate::fixtures::{empty_file, exchange, loop_device};

fn permission() -> WritePermission {
    WritePermission::by_operator()
}

#[test]
fn a_path_that_is_no_disk_is_rejected_by_name() {
    for path in ["/dev/null", "/dev/landfall-no-such-disk", "/etc/passwd"] {
        let failure = Target::open(Path::new(path), &permission()).unwrap_err();
        assert_eq!(failure.class, Class::DeviceNotFound);
        assert!(failure.details.starts_with(path), "{failure}");
    }
    assert!(Target::open_file(Path::new("/tmp"), 512, &permission()).is_err());
}

/// `sda` is removable, holds the Landfall ISO and has a partition.
#[test]
fn a_boot_medium_is_rejected_by_any_device_that_leads_to_it() {
    let tree = plant(
        "sys/block/sda/size = 16777216\\n\n\
         sys/block/sda/removable = 1\\n\n\
         sys/block/sda/sda1/partition = 1\\n\n\
         sys/block/dm-0/slaves/sda1 -> /sys/block/sda/sda1\n\
         sys/block/sdb/size = 16777216\\n\n\
         dev/",
    );
    let mut iso = vec![0; 40 << 10];
    iso[32768..32774].copy_from_slice(b"\x01CD001");
    iso[32808..32840].copy_from_slice(format!("{:32}", "LANDFALL").as_bytes());
    for disk in ["sda", "sdb"] {
        std::fs::write(tree.directory().join("dev").join(disk), &iso).unwrap();
    }
    let device = |path: &str| refuse_boot_medium(&tree.path().join("sys/block").join(path));
    for path in ["sda", "sda/sda1", "dm-0"] {
        let failure = device(path).unwrap_err();
        assert_eq!(failure.class, Class::BlockDeviceError, "{path}");
        assert_eq!(
            failure.details,
            "/dev/sda: nothing was written: it is a boot medium (removable, label LANDFALL)"
        );
        assert!(failure.hint.unwrap().contains("wipefs --all"));
    }
    assert!(device("sdb").is_ok());
}

#[test]
fn the_medium_of_the_image_is_refused_by_every_name() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let (stick, link) = (place("sda"), place("by-id"));
    std::fs::write(&stick, "").unwrap();
    std::os::unix::fs::symlink(&stick, &link).unwrap();
    let server = "http://h/i".to_owned();
    for medium in [&stick, &link] {
        let urls = [server.clone(), medium_url(medium, "i")];
        for disk in [&stick, &link] {
            let failure = refuse_medium_of_image(disk, &urls).unwrap_err();
            assert_eq!(failure.class, Class::BlockDeviceError);
            assert_eq!(
                failure.details,
                format!(
                    "{}: nothing was written: it is the medium that the image is on",
                    disk.display()
                )
            );
            // The hint must not suggest wiping the medium, because the operator needs
            // the image on it.
            let hint = failure.hint.unwrap();
            assert!(hint.contains("take the image from a server"), "{hint}");
        }
        refuse_medium_of_image(&place("sdb"), &urls).unwrap();
    }
    refuse_medium_of_image(&stick, &[server]).unwrap();
}

#[test]
fn a_partition_shares_its_disk_with_everything_on_it() {
    let tree = plant(
        "sys/block/sda/sda1/partition = 1\\n\n\
         sys/block/sda/sda2/partition = 2\\n\n\
         sys/block/dm-0/slaves/sda1 -> /sys/block/sda/sda1\n\
         sys/block/sdb/sdb1/partition = 1\\n",
    );
    let device = |path: &str| Some(tree.path().join("sys/block").join(path));
    for (one, other, expected) in [
        ("sda", "sda/sda1", true),
        ("sda/sda2", "sda/sda1", true),
        ("dm-0", "sda", true),
        ("sda", "sdb", false),
        ("sda", "sdb/sdb1", false),
        ("sda", "sdc", false),
        ("sdc", "sdc", false),
    ] {
        let (one, other) = (device(one), device(other));
        assert_eq!(share_a_disk(&one, &other), expected, "{one:?} {other:?}");
        assert_eq!(share_a_disk(&other, &one), expected, "{one:?} {other:?}");
    }
    assert!(!share_a_disk(&None, &None));
}

#[test]
fn an_image_behind_a_loop_device_protects_the_disk_below() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let Some(disk) = loop_device(file.path(), 512) else {
        return;
    };
    let Some(above) = loop_device(disk.path(), 512) else {
        return;
    };
    let urls = [medium_url(above.path(), "i")];
    let failure = refuse_medium_of_image(disk.path(), &urls).unwrap_err();
    assert_eq!(failure.class, Class::BlockDeviceError);
}

#[test]
fn device_mapper_has_no_partitions() {
    for (range, name, expected) in [
        ("256\n", None, None),
        (
            "1\n",
            Some("mpatha\n"),
            Some("the device-mapper device mpatha"),
        ),
        ("1\n", None, Some("a device on which the kernel shows none")),
    ] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ext_range"), range).unwrap();
        if let Some(name) = name {
            std::fs::create_dir(directory.path().join("dm")).unwrap();
            std::fs::write(directory.path().join("dm/name"), name).unwrap();
        }
        assert_eq!(without_partitions(directory.path()).as_deref(), expected);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    if let Some(device) = crate::fixtures::loop_device(file.path(), 512) {
        let target = Target::open(device.path(), &permission()).unwrap();
        target.refuse_without_partitions().unwrap();
    }
}

#[test]
fn a_file_is_a_disk_of_whole_sectors() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4096 * 3 + 100).unwrap();
    let target = Target::open_file(file.path(), 4096, &permission()).unwrap();
    assert_eq!((target.size(), target.sector_size()), (4096 * 3, 4096));
    target
        .write_at(&AlignedBuffer::padded(b"x", 4096), 8192)
        .unwrap();
    assert_eq!(target.read_at(8192, 4096).unwrap()[0], b'x');
    let beyond = target.write_at(&AlignedBuffer::zeroed(8192), 8192);
    assert_eq!(beyond.unwrap_err().class, Class::ImageWriteError);
    assert!(Target::open_file(file.path(), 520, &permission()).is_err());
}

#[test]
fn another_disk_of_the_same_name_is_recognised() {
    let (first, second) = (empty_file(1 << 20), empty_file(1 << 20));
    let Some(device) = loop_device(first.path(), 512) else {
        return;
    };
    let chosen = ChosenDisk::by_path(device.path()).unwrap();
    let target = Target::open_chosen(&chosen, &permission()).unwrap();
    assert_eq!(target.identity().unwrap(), chosen.identity);
    target.refuse_other(chosen.identity).unwrap();
    drop(target);
    Target::open_chosen_to_check(&chosen).unwrap();
    if !exchange(device.path(), second.path()) {
        return;
    }
    let other = Target::open(device.path(), &permission()).unwrap();
    let failure = other.refuse_other(chosen.identity).unwrap_err();
    assert_eq!(failure.class, Class::BlockDeviceError);
    assert!(failure.details.contains("found another one"), "{failure}");
    // The disk at this path is in use now, but the error must say that it is another
    // disk.
    for opened in [
        Target::open_chosen(&chosen, &permission()),
        Target::open_chosen_to_check(&chosen),
    ] {
        let failure = opened.unwrap_err();
        assert_eq!(failure.class, Class::DeviceNotFound);
        assert!(failure.details.contains("found another one"), "{failure}");
        assert!(failure.details.ends_with("; nothing was written"));
    }
    drop(other);
    assert!(Target::open_chosen(&chosen, &permission()).is_err());
}

/// A partition has its own device node, but the identity of the disk that it is on.
#[test]
fn a_partition_has_the_identity_of_its_disk() {
    let (first, second) = (empty_file(4 << 20), empty_file(4 << 20));
    let Some(device) = loop_device(first.path(), 512) else {
        return;
    };
    let identity = ChosenDisk::by_path(device.path()).unwrap().identity;
    let show = || device.show_partition(1, 1 << 20, 1 << 20);
    let node = show();
    if !node.exists() {
        return landfall_sys::skip::skip("nobody makes device nodes here");
    }
    let open = || Target::open_disk_or_partition(&node, &permission()).unwrap();
    let found = open().identity().unwrap();
    device.hide_partitions();
    assert_eq!(found, identity);
    if !exchange(device.path(), second.path()) {
        return;
    }
    show();
    let judged = open().refuse_other(identity);
    assert!(judged.unwrap_err().details.contains("found another one"));
}
