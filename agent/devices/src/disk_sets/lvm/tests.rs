use std::process::Command;

use landfall_sys::loop_device::loop_device;
use landfall_sys::skip::skip;

use super::*;

const MIB: u64 = 1 << 20;
const CONFIG: &str = "devices { use_devicesfile=0 filter=[\"a|.*|\"] scan=[\"/dev\"] } \
    global { locking_type=0 } activation { udev_sync=0 udev_rules=0 } backup { backup=0 archive=0 }";

/// Runs a program of LVM. `None` if it is not installed.
fn lvm(program: &str, arguments: &[&str]) -> Option<()> {
    let made = Command::new(program)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["--config", CONFIG, "-q", "-y"])
        .args(arguments)
        .output();
    match made {
        Ok(made) => {
            assert!(made.status.success(), "{program} {arguments:?}: {made:?}");
            Some(())
        }
        Err(error) => {
            skip(format_args!("{program}: {error}"));
            None
        }
    }
}

#[test]
fn volume_groups_as_lvm_makes_them() {
    let disks: Vec<_> = (0..3)
        .map(|_| {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(32 * MIB).unwrap();
            file
        })
        .collect();
    let devices: Option<Vec<_>> = disks
        .iter()
        .map(|file| loop_device(file.path(), 512))
        .collect();
    let Some(devices) = devices else {
        return;
    };
    let path = |index: usize| devices[index].path().to_str().unwrap();
    let found = |index: usize| {
        let device = File::open(path(index)).unwrap();
        find(&device, 32 * MIB).unwrap()
    };
    assert_eq!(found(0), None);
    if lvm("pvcreate", &[path(0), path(1)]).is_none() {
        return;
    }
    assert_eq!(found(0), None, "in no volume group yet");
    // The name must differ from that of any other test run on this machine.
    let name = format!("landfall-test-{}", std::process::id());
    let name = name.as_str();
    let group = |devices| {
        Some(VolumeGroup {
            name: Some(name.into()),
            devices: Some(devices),
        })
    };
    // The group has no logical volume, so LVM activates nothing.
    lvm("vgcreate", &[name, path(0)]).unwrap();
    assert_eq!((found(0), found(1)), (group(1), None));
    lvm("vgextend", &[name, path(1)]).unwrap();
    assert_eq!((found(0), found(1)), (group(2), group(2)));
    // Each tag writes the metadata again. After this many writes the ring has wrapped
    // around.
    for number in 0..40 {
        let tag = format!("@{}{number}", "t".repeat(900));
        lvm("vgchange", &["--addtag", &tag, name]).unwrap();
        assert_eq!(found(1), group(2), "after {number} changes");
    }
    // Physical volumes without a metadata area, and with one that LVM is to ignore: other
    // devices hold the metadata.
    let unknown = Some(VolumeGroup {
        name: None,
        devices: None,
    });
    for option in [["--metadatacopies", "0"], ["--metadataignore", "y"]] {
        lvm("pvcreate", &[&option[..], &["-ff", path(2)]].concat()).unwrap();
        assert_eq!(found(2), None, "{option:?}: in no volume group yet");
        lvm("vgextend", &[name, path(2)]).unwrap();
        assert_eq!(found(2), unknown, "{option:?}");
        assert_eq!(found(1), group(3));
        lvm("vgreduce", &[name, path(2)]).unwrap();
        assert_eq!(found(2), None, "{option:?}: no longer in the volume group");
    }
    // LVM keeps the metadata on one device. The area of the other one is ignored from now
    // on, and may keep its text.
    lvm("vgchange", &["--vgmetadatacopies", "1", name]).unwrap();
    let ignored = usize::from(found(0) == group(2));
    assert_eq!(found(1 - ignored), group(2));
    let VolumeGroup {
        name: found_name,
        devices,
    } = found(ignored).unwrap();
    assert_eq!(devices, None);
    assert!(found_name.is_none_or(|found| found == name));
    lvm("vgchange", &["--vgmetadatacopies", "unmanaged", name]).unwrap();
    lvm("pvchange", &["--metadataignore", "n", path(ignored)]).unwrap();
    assert_eq!((found(0), found(1)), (group(2), group(2)));
    // Metadata that cannot be parsed: all text of the area, which ends at 1 MiB, then the
    // area's magic number.
    let damage = |offset: u64, length: usize| {
        let file = disks[1].as_file();
        file.write_all_at(&vec![b'x'; length], offset).unwrap();
        find(file, 32 * MIB).unwrap()
    };
    assert_eq!(damage(4096 + 512, MIB as usize - 4096 - 512), unknown);
    assert_eq!(damage(4096, 512), unknown);
    // The lists of the label: no entry of zeros ends them.
    assert_eq!(damage(512 + 32 + 40, 440), unknown);
    assert_eq!(damage(512, 8), None, "no label");
}

#[test]
fn metadata_are_text() {
    let read = |text: &str| parse_metadata(text.as_bytes());
    let group = read(
        "vg-0 {\nid = \"a\"\ndescription = \"pv9 {\"\nphysical_volumes {\n\npv0 {\nid = \"x\"\n}\n\npv1 {\n}\n}\n\nlogical_volumes {\npv2 {\n}\n}\n}\n",
    )
    .unwrap();
    assert_eq!(group.name.as_deref(), Some("vg-0"));
    assert_eq!(group.devices, Some(2));
    let tagged = "vg {\ntags = [\"physical_volumes\"]\nphysical_volumes {\npv0 {\ntags = [\"logical_volumes {\"]\n}\npv1 {\n}\n}\n}\n";
    assert_eq!(read(tagged).unwrap().devices, Some(2));
    for nothing in ["", "vg", "a b {", "{ physical_volumes {", "vg { pv0 {"] {
        assert_eq!(read(nothing), None, "{nothing}");
    }
}
