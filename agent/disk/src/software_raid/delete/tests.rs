use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use landfall_devices::disk_sets::md_superblock::{Version, superblock};
use landfall_devices::identity::ChosenDisk;
use landfall_sys::system_path::SystemPath;
use nix::errno::Errno;
use uuid::Uuid;

use super::super::layout;
use super::super::member::Level;
use super::kept::ArraysOn;
use super::*;
use crate::fixtures::{Answer, DiskRequest, FaultyDisk, LoopDevice, exchange, loop_device};
use crate::tables::gpt::{Entry, HEAD_LEN, Table};

const SIZE: u64 = 16 << 20;

fn any_identity() -> Identity {
    Identity::of(&tempfile::tempfile().unwrap()).unwrap()
}

fn superblocks(path: &Path) -> io::Result<Vec<MdSuperblock>> {
    let (device, size) = open(path)?;
    md_superblock::find(&device, size)
}

fn candidate(device: &LoopDevice) -> Candidate {
    let ChosenDisk { path, identity } = ChosenDisk::by_path(device.path()).unwrap();
    Candidate {
        disk: path,
        identity,
        partitions: Vec::new(),
    }
}

fn member(disk: &str, array: u128, name: &str) -> Member {
    Member {
        path: format!("{disk}{array}").into(),
        disk: disk.into(),
        identity: Some(any_identity()),
        superblock: MdSuperblock {
            version: Version::V1_2,
            offset: 4096,
            array: Uuid::from_u128(array),
            name: Some(format!("host:{name}")),
            disks: 2,
        },
        arrays: Vec::new(),
    }
}

fn array(name: &str, members: &[&str]) -> Array {
    let path = Path::new("/dev").join(name);
    Array {
        directory: SystemPath::live().join("/sys/block").join(name),
        devices: vec![path.clone()],
        above: Vec::new(),
        path,
        members: members.iter().map(PathBuf::from).collect(),
        by_other_paths: Vec::new(),
    }
}

fn paths_of(arrays: &[Array]) -> Vec<&Path> {
    arrays.iter().map(|array| &*array.path).collect()
}

#[test]
fn kept_volumes_keep_their_neighbours() {
    let members = || {
        vec![
            member("a", 1, "root"),
            member("b", 1, "root"),
            member("b", 2, "data"),
            member("c", 2, "data"),
            member("d", 3, "old"),
        ]
    };
    let left = |keep: &[&str]| -> Vec<String> {
        let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
        let keep = Kept {
            volumes: &keep,
            ..Kept::default()
        };
        doomed(members(), &keep)
            .iter()
            .map(|member| member.path.display().to_string())
            .collect()
    };
    assert_eq!(left(&[]), ["a1", "b1", "b2", "c2", "d3"]);
    assert_eq!(left(&["root"]), ["d3"]);
    assert_eq!(left(&["old"]), ["a1", "b1", "b2", "c2"]);
    assert_eq!(left(&["nosuch", "host:old"]).len(), 5);
}

#[test]
fn an_array_on_another_disk_too_is_kept() {
    let candidates = ["/dev/sdb", "/dev/sdc"].map(|disk| Candidate {
        disk: disk.into(),
        identity: any_identity(),
        partitions: vec![format!("{disk}1").into()],
    });
    let arrays = vec![
        // sda is in skip_block_devices.
        array("md0", &["/dev/sda1", "/dev/sdb1"]),
        array("md1", &["/dev/sdc", "/dev/sdc1"]),
    ];
    let Assembled { ours, entangled } = Assembled::of(&candidates, arrays);
    assert_eq!(paths_of(&ours), [Path::new("/dev/md1")]);
    assert_eq!(paths_of(&entangled), [Path::new("/dev/md0")]);
    let members = vec![
        member("/dev/sdb", 1, "mirror"),
        member("/dev/sdb", 2, "beside it"),
        member("/dev/sdc", 3, "old"),
    ];
    let keep = Keep::default();
    let keep = Kept::of(&candidates, Assembled { ours, entangled }, &keep);
    let left = doomed(members, &keep);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].disk, Path::new("/dev/sdc"));
}

/// A volume group is on md0 and on a disk to keep. md1 has no superblock, or an
/// unreadable one. The only member of md1 is on the same disk as a member of the array
/// "old".
#[test]
fn an_array_that_must_not_be_changed_is_kept() {
    let candidates = ["/dev/sda", "/dev/sdb", "/dev/sdc"].map(|disk| Candidate {
        disk: disk.into(),
        identity: any_identity(),
        partitions: [1, 2, 3]
            .map(|number| format!("{disk}{number}").into())
            .to_vec(),
    });
    let left = |to_keep: &[&str]| -> Vec<String> {
        let mut md0 = array("md0", &["/dev/sda1", "/dev/sdb1"]);
        md0.devices.push("/dev/md0p1".into());
        md0.above = ["/dev/dm-0", "/dev/dm-1"].map(PathBuf::from).to_vec();
        let md1 = array("md1", &["/dev/sdc3"]);
        let members = vec![
            member("/dev/sda", 1, "root"),
            member("/dev/sdb", 1, "root"),
            member("/dev/sdc", 2, "old"),
        ];
        let keep = Keep {
            devices: to_keep.iter().map(PathBuf::from).collect(),
            ..Keep::default()
        };
        let assembled = Assembled::of(&candidates, vec![md0, md1]);
        assert_eq!(assembled.ours.len(), 2);
        let keep = Kept::of(&candidates, assembled, &keep);
        let left = doomed(members, &keep).into_iter();
        left.map(|member| member.path.display().to_string())
            .collect()
    };
    assert_eq!(left(&[]).len(), 3);
    for kept in ["/dev/md0", "/dev/md0p1", "/dev/dm-1"] {
        assert_eq!(left(&[kept]), ["/dev/sdc2"], "{kept}");
    }
    assert_eq!(left(&["/dev/md1"]), ["/dev/sda1", "/dev/sdb1"]);
    assert_eq!(left(&["/dev/sdz"]).len(), 3);
}

#[test]
fn arrays_are_stopped_from_the_top() {
    let candidate = Candidate {
        disk: "/dev/sda".into(),
        identity: any_identity(),
        partitions: ["/dev/sda1", "/dev/sda2"].map(PathBuf::from).to_vec(),
    };
    let arrays = vec![
        array("md0", &["/dev/sda1"]),
        array("md1", &["/dev/md2", "/dev/md0"]),
        array("md2", &["/dev/sda2"]),
        array("md3", &["/dev/md4"]),
        array("md4", &["/dev/md0", "/dev/sdz"]),
    ];
    let Assembled { ours, entangled } = Assembled::of(&[candidate], arrays);
    assert_eq!(
        paths_of(&ours),
        ["/dev/md1", "/dev/md2", "/dev/md0"].map(Path::new)
    );
    assert_eq!(
        paths_of(&entangled),
        ["/dev/md3", "/dev/md4"].map(Path::new)
    );
}

/// md0 is assembled. The array "top" is built on md0 and is not assembled: another
/// member of "top" is missing or on a disk to keep.
#[test]
fn a_kept_array_keeps_the_arrays_that_it_is_on() {
    let left = |keep: &[&str]| -> Vec<String> {
        let mut members = vec![
            member("/dev/sda", 1, "bottom"),
            member("/dev/sdb", 1, "bottom"),
            member("/dev/md0", 2, "top"),
            member("/dev/sdc", 3, "old"),
        ];
        let md0 = array("md0", &["/dev/sda1", "/dev/sdb1"]);
        name_arrays(&mut members, [&md0].into_iter());
        let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
        let keep = Kept {
            volumes: &keep,
            ..Kept::default()
        };
        let left = doomed(members, &keep).into_iter();
        left.map(|member| member.path.display().to_string())
            .collect()
    };
    assert_eq!(left(&[]).len(), 4);
    assert_eq!(left(&["top"]), ["/dev/sdc3"]);
    assert_eq!(left(&["bottom"]), ["/dev/sdc3"]);
    assert_eq!(left(&["old"]), ["/dev/sda1", "/dev/sdb1", "/dev/md02"]);
}

/// The first pass has stopped the array, and the kernel has removed its device.
#[test]
fn an_array_that_disappeared_is_not_searched() {
    let gone = array("landfall-gone", &["/dev/sda1"]);
    assert!(members_on_arrays(&[gone]).is_empty());
    let Some([raid, _]) = disks(Version::V1_2) else {
        return;
    };
    let mut running = array("md0", &["/dev/sda1"]);
    running.devices = vec![raid.1.path().to_owned()];
    let members = members_on_arrays(&[running]);
    assert_eq!(members.len(), 1);
    assert_eq!(
        (&*members[0].disk, members[0].identity),
        (Path::new("/dev/md0"), None)
    );
    // The agent does not write to a member that is on an array, because that array is
    // deleted.
    let permission = WritePermission::by_operator();
    delete_members(&[], &members, &mut BTreeMap::new(), &permission);
    assert_eq!(superblocks(raid.1.path()).unwrap().len(), 1);
}

/// Two disks. One is a member of an array, with a superblock of this version;
/// the other has an unrelated file system.
fn disks(version: Version) -> Option<[(tempfile::NamedTempFile, LoopDevice); 2]> {
    let disk = |fill: &dyn Fn(&File)| {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SIZE).unwrap();
        fill(file.as_file());
        let device = loop_device(file.path(), 512)?;
        Some((file, device))
    };
    let raid = disk(&|file| {
        let bytes = superblock(version, SIZE, "host:root");
        let offset = version.offset(SIZE).unwrap();
        file.write_all_at(&bytes, offset).unwrap();
    })?;
    let other = disk(&|file| file.write_all_at(b"XFSB", 0).unwrap())?;
    Some([raid, other])
}

#[test]
fn members_that_are_not_assembled() {
    for version in [Version::V0_90, Version::V1_0, Version::V1_1, Version::V1_2] {
        let Some([raid, other]) = disks(version) else {
            return;
        };
        let candidates = [&raid, &other].map(|(_, device)| candidate(device));
        let permission = WritePermission::by_operator();
        let is_left = |keep: &Keep| {
            delete(&candidates, keep, &permission).unwrap();
            superblocks(raid.1.path()).unwrap().len() == 1
        };
        let named = Keep {
            volumes: vec!["root".into()],
            ..Keep::default()
        };
        assert!(version == Version::V0_90 || is_left(&named));
        let emptied = emptied(&candidates, &Keep::default()).unwrap();
        assert_eq!(emptied, BTreeSet::from([raid.1.path().to_owned()]));
        // The other half of the array is on a disk that must not be changed.
        let Some([half, _]) = disks(version) else {
            return;
        };
        let halved = Keep {
            devices: BTreeSet::from([half.1.path().to_owned()]),
            ..Keep::default()
        };
        assert!(is_left(&halved), "{version:?}");
        assert!(!is_left(&Keep::default()), "{version:?}");
        assert_eq!(superblocks(raid.1.path()).unwrap(), []);
        let mut untouched = [0; 4];
        other.0.as_file().read_exact_at(&mut untouched, 0).unwrap();
        assert_eq!(&untouched, b"XFSB", "no member, not touched");
        let Ok(examined) = Command::new("/sbin/mdadm")
            .arg("--examine")
            .arg(raid.1.path())
            .output()
        else {
            return landfall_sys::skip::skip("mdadm is not installed");
        };
        let text = String::from_utf8_lossy(&examined.stderr);
        assert!(text.contains("No md superblock"), "{examined:?}");
    }
}

#[test]
fn a_partition_table_that_is_left_is_an_error() {
    let mut content = vec![0; SIZE as usize];
    let bytes = superblock(Version::V1_2, SIZE, "host:root");
    content[4096..][..bytes.len()].copy_from_slice(&bytes);
    // The superblock can be zeroed, but not the backup table at the end.
    let script = |request: &DiskRequest| match request {
        DiskRequest::Write(range) if range.start >= SIZE / 2 => Answer::Fail(Errno::EIO),
        _ => Answer::Do,
    };
    let disk = match FaultyDisk::start(content, script) {
        Ok(disk) => disk,
        Err(error) => return landfall_sys::skip::skip(error),
    };
    let Some(device) = loop_device(disk.path(), 512) else {
        return;
    };
    let permission = WritePermission::by_operator();
    let candidates = [candidate(&device)];
    let failure = delete(&candidates, &Keep::default(), &permission).unwrap_err();
    assert_eq!(superblocks(device.path()).unwrap(), []);
    assert_eq!(failure.class, Class::SoftwareRaidError);
    let text = "but not every partition table of its disks: ";
    assert!(failure.details.contains(text), "{failure}");
}

/// The device that cannot be read may have the only good half of a mirror.
#[test]
fn a_device_to_keep_that_cannot_be_read_keeps_everything() {
    let Some([raid, other]) = disks(Version::V1_2) else {
        return;
    };
    let locked = match FaultyDisk::start(vec![0; SIZE as usize], |_| Answer::Fail(Errno::EIO)) {
        Ok(disk) => disk,
        Err(error) => return landfall_sys::skip::skip(error),
    };
    let Some(locked) = loop_device(locked.path(), 512) else {
        return;
    };
    let permission = WritePermission::by_operator();
    let keep = Keep {
        devices: BTreeSet::from([locked.path().to_owned()]),
        ..Keep::default()
    };
    let candidates = [candidate(&raid.1)];
    for failure in [
        delete(&candidates, &keep, &permission).unwrap_err(),
        emptied(&candidates, &keep).unwrap_err(),
    ] {
        assert_eq!(failure.class, Class::SoftwareRaidError);
        assert!(failure.details.contains("cannot be read"), "{failure}");
    }
    assert_eq!(superblocks(raid.1.path()).unwrap().len(), 1);
    // There is nothing to delete.
    delete(&[candidate(&other.1)], &keep, &permission).unwrap();
}

#[test]
fn a_device_is_read_by_any_of_its_paths() {
    let Some([raid, _]) = disks(Version::V1_2) else {
        return;
    };
    let standby = PathBuf::from("/dev/landfall-standby");
    let devices = BTreeSet::from([standby.clone(), raid.1.path().to_owned()]);
    let found = ArraysOn::look(&devices, |_| Vec::new());
    assert_eq!(found.unread.len(), 1);
    assert_eq!(found.unread[0].0, standby);
    let found = ArraysOn::look(&devices, |_| vec![raid.1.path().to_owned()]);
    assert!(found.unread.is_empty());
    assert_eq!(found.arrays.len(), 1);
}

/// The disk is in the state after a creation that wrote the table and failed before it
/// wrote the superblocks.
#[test]
fn a_table_that_a_creation_has_left() {
    let file = crate::fixtures::empty_file(2 << 30);
    let Some(device) = loop_device(file.path(), 512) else {
        return;
    };
    let volume = layout::Volume {
        name: "root".to_owned(),
        level: Level::Raid1,
        share: layout::Share::Rest,
        disks: vec![0],
    };
    let sizes = [("disk".to_owned(), 2 << 30)];
    let partitions = layout::partitions(&sizes, &[volume]).unwrap();
    let mut table = Table::empty(512, 2 << 30, Uuid::new_v4(), 0).unwrap();
    for partition in &partitions[0] {
        let entry = Entry::new(partition, 512);
        table.put(partition.clone(), &entry).unwrap();
    }
    let mut head = vec![0; HEAD_LEN];
    table.write_primary_alone(&mut head);
    file.as_file().write_all_at(&head, 0).unwrap();
    let has_table = || system_partitions::table(device.path()).unwrap().0.is_some();
    let permission = WritePermission::by_operator();
    let keep = Keep::default();
    // The kernel shows no partition of the table, so the agent has not searched them for
    // superblocks and must keep the table.
    let unsearched = candidate(&device);
    delete(std::slice::from_ref(&unsearched), &keep, &permission).unwrap();
    assert!(has_table());
    let searched = Candidate {
        // Two paths that can be searched, in place of the partitions.
        partitions: vec![device.path().to_owned(); 2],
        ..unsearched
    };
    let named = Keep {
        volumes: vec!["root".to_owned()],
        ..Keep::default()
    };
    delete(std::slice::from_ref(&searched), &named, &permission).unwrap();
    assert!(has_table());
    let disks = [searched];
    assert_eq!(emptied(&disks, &keep).unwrap().len(), 1);
    delete(&disks, &keep, &permission).unwrap();
    assert!(!has_table());
}

#[test]
fn an_array_on_a_disk_that_got_the_name_of_a_listed_disk_is_kept() {
    let (Some([listed, _]), Some([kept, _])) = (disks(Version::V1_2), disks(Version::V1_2)) else {
        return;
    };
    let candidates = [candidate(&listed.1)];
    let (file, device) = kept;
    drop(device);
    if !exchange(listed.1.path(), file.path()) {
        return;
    }
    let permission = WritePermission::by_operator();
    let failure = delete(&candidates, &Keep::default(), &permission).unwrap_err();
    assert!(failure.details.contains("found another one"), "{failure}");
    // The name may also change after the search.
    let member = Member {
        path: listed.1.path().to_owned(),
        disk: listed.1.path().to_owned(),
        identity: Some(candidates[0].identity),
        superblock: superblocks(listed.1.path()).unwrap().remove(0),
        arrays: Vec::new(),
    };
    let mut tables = BTreeMap::new();
    delete_members(&candidates, &[member], &mut tables, &permission);
    assert_eq!(tables.len(), 1);
    assert_eq!(superblocks(listed.1.path()).unwrap().len(), 1);
}
