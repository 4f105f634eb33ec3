use std::fs;
use std::path::Path;

use landfall_devices::disk_sets::md_superblock::{Version, superblock};
use landfall_disk::fixtures::{Answer, FaultyDisk, loop_device};
use landfall_sys::sys_tree::plant;
use nix::errno::Errno;

use super::*;

/// A disk with this device node. All its other properties come from a small test tree.
fn device(name: &Path) -> BlockDevice {
    let root = plant("sys/block/sda/dev = 8:0\\n\nsys/block/sda/size = 8192\\n\n");
    let mut device = block_devices::collect(root.path()).remove(0);
    device.disk.name = name.display().to_string();
    device
}

#[test]
fn a_disk_that_is_locked_does_not_keep_the_others_from_being_erased() {
    let blank = tempfile::NamedTempFile::new().unwrap();
    blank.as_file().set_len(1 << 20).unwrap();
    // A disk that is locked with a password fails every read.
    let locked = match FaultyDisk::start(vec![0; 1 << 20], |_| Answer::Fail(Errno::EIO)) {
        Ok(disk) => disk,
        Err(error) => return landfall_sys::skip::skip(error),
    };
    let (Some(blank), Some(locked)) = (
        loop_device(blank.path(), 512),
        loop_device(locked.path(), 512),
    ) else {
        return;
    };
    let paths = [blank.path(), locked.path(), Path::new("/dev/landfall-gone")];
    let devices = paths.map(device).to_vec();
    let chosen = choose(devices, &SkipList::default(), &|_| DiskSets::default()).unwrap();
    let found = chosen.disks;
    assert_eq!(found.len(), 3);
    for mut disk in found {
        refuse_shared(&mut disk).unwrap();
        match &disk.obstacle {
            None => assert_eq!(disk.disk, blank.path()),
            Some(Obstacle::Unreadable(reason)) if disk.disk == locked.path() => {
                assert!(reason.contains("Input/output error"), "{reason}");
            }
            Some(Obstacle::Unreadable(reason)) => {
                assert_eq!(disk.disk, paths[2]);
                assert!(reason.contains("No such file"), "{reason}");
            }
            Some(other) => panic!("{}: {other}", disk.name()),
        }
    }
}

#[test]
fn namespaces_that_may_not_be_erased_are_not_counted() {
    let mut disks = [
        "/dev/nvme0n1",
        "/dev/nvme0n2",
        "/dev/nvme0n3",
        "/dev/nvme10n1",
        "/dev/sdn",
    ]
    .map(Erasable::for_test);
    disks[1].obstacle = Some(Obstacle::InUse("it is mounted on /".into()));
    count_namespaces(&mut disks);
    let counts = disks.map(|disk| disk.erasable_namespaces);
    assert_eq!(counts, [2, 2, 2, 1, 0]);
}

#[test]
fn an_array_on_a_spared_disk_is_spared() {
    let root = plant(
        r"sys/block/dm-0/dev = 252:0\n
sys/block/dm-0/size = 4096\n
sys/block/dm-0/dm/uuid = mpath-1\n
sys/block/dm-0/slaves/md0p1/
sys/block/md0/dev = 9:0\n
sys/block/md0/size = 4096\n
sys/block/md0/md/level = raid1\n
sys/block/md0/md0p1/partition = 1\n
sys/block/md0/md0p1/size = 64\n
sys/block/md0/slaves/sda1/
sys/block/md0/slaves/sdb1/
sys/block/md1/dev = 9:1\n
sys/block/md1/size = 4096\n
sys/block/md1/md/level = raid1\n
sys/block/md1/slaves/sdb2/
sys/block/sda/dev = 8:0\n
sys/block/sda/size = 8192\n
sys/block/sda/sda1/partition = 1\n
sys/block/sda/sda1/size = 64\n
sys/block/sdb/dev = 8:16\n
sys/block/sdb/size = 8192\n",
    );
    let (skipped, left) = block_devices::collect(root.path())
        .into_iter()
        .partition::<Vec<_>, _>(|device| device.disk.name == "/dev/sda");
    assert_eq!((skipped.len(), left.len()), (1, 4));
    let mut spared = skipped.iter().flat_map(names).collect();
    let left = without_those_made_of(left, &mut spared);
    let left: Vec<&str> = left.iter().map(|device| &*device.disk.name).collect();
    assert_eq!(left, ["/dev/sdb", "/dev/md1"]);
    assert!(spared.contains("/dev/md0p1"), "{spared:?}");
}

#[test]
fn a_volume_on_a_disk_that_stays_keeps_the_other_disk() {
    let dir = tempfile::tempdir().unwrap();
    let block = dir.path().join("block");
    let put = |path: &str, text: &str| {
        let path = block.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let built_on = |above: &str, below: &str| {
        for (from, to) in [
            (format!("{above}/slaves"), below),
            (format!("{below}/holders"), above),
        ] {
            let name = to.rsplit('/').next().unwrap();
            fs::create_dir_all(block.join(&from)).unwrap();
            std::os::unix::fs::symlink(block.join(to), block.join(from).join(name)).unwrap();
        }
    };
    for (number, disk) in ["sda", "sdb", "sdc"].iter().enumerate() {
        put(&format!("{disk}/dev"), &format!("8:{}\n", number * 16));
        put(
            &format!("{disk}/{disk}1/dev"),
            &format!("8:{}\n", number * 16 + 1),
        );
        put(&format!("{disk}/{disk}1/partition"), "1\n");
    }
    for (name, number) in [("dm-0", "253:0"), ("dm-1", "253:1")] {
        put(&format!("{name}/dev"), number);
        put(&format!("{name}/dm/name"), "data-home\n");
    }
    put("bcache0/dev", "252:0");
    built_on("dm-0", "sda/sda1");
    built_on("dm-0", "sdb/sdb1");
    built_on("dm-1", "dm-0");
    built_on("bcache0", "sdc/sdc1");
    let kernel = KernelView {
        sys: dir.path().into(),
        proc: dir.path().into(),
    };
    let disks = kernel.disks().unwrap();
    let found = |name: &str, free: &[&str]| {
        let disk = disks.iter().find(|disk| disk.name == name).unwrap();
        let free = free.iter().map(|&name| name.to_owned()).collect();
        entanglement(&kernel, disk, &free).unwrap()
    };
    assert_eq!(found("sda", &["/dev/sda", "/dev/sdb"]), None);
    assert_eq!(
        found("sda", &["/dev/sda"]).unwrap(),
        "dm-0 (data-home) is on it and on /dev/sdb, which is not erased"
    );
    assert_eq!(
        found("sdc", &["/dev/sdc"]).unwrap(),
        "it is held by bcache0"
    );
}

/// A running array that `volume_name` selects, a second array that shares a disk
/// with it, and a third array on other disks.
#[test]
fn a_volume_that_is_kept_is_not_erased_and_neither_are_its_neighbours() {
    let root = plant(
        r"sys/block/md126/dev = 9:126\n
sys/block/md126/size = 2048\n
sys/block/md126/md/level = raid1\n
sys/block/md126/slaves/sda1 -> /sys/block/sda/sda1
sys/block/md126/slaves/sdb1 -> /sys/block/sdb/sdb1
sys/block/md127/dev = 9:127\n
sys/block/md127/size = 2048\n
sys/block/md127/md/level = raid1\n
sys/block/md127/slaves/sdb2 -> /sys/block/sdb/sdb2
sys/block/md125/dev = 9:125\n
sys/block/md125/size = 2048\n
sys/block/md125/md/level = raid1\n
sys/block/md125/slaves/sdc -> /sys/block/sdc
sys/block/sda/dev = 8:0\n
sys/block/sda/size = 8192\n
sys/block/sda/sda1/partition = 1\n
sys/block/sda/sda1/size = 2048\n
sys/block/sda/sda1/holders/md126 -> /sys/block/md126
sys/block/sdb/dev = 8:16\n
sys/block/sdb/size = 8192\n
sys/block/sdb/sdb1/partition = 1\n
sys/block/sdb/sdb1/size = 2048\n
sys/block/sdb/sdb1/holders/md126 -> /sys/block/md126
sys/block/sdb/sdb2/partition = 2\n
sys/block/sdb/sdb2/size = 2048\n
sys/block/sdb/sdb2/holders/md127 -> /sys/block/md127
sys/block/sdc/dev = 8:32\n
sys/block/sdc/size = 2048\n
sys/block/sdc/holders/md125 -> /sys/block/md125
sys/block/sdd/dev = 8:48\n
sys/block/sdd/size = 8192\n
dev/",
    );
    const SIZE: u64 = 1 << 20;
    for (device, name) in [
        ("sda1", "host:keep"),
        ("sdb1", "host:keep"),
        ("sdb2", "host:other"),
        ("sdc", "host:third"),
    ] {
        let superblock = superblock(Version::V1_2, SIZE, name);
        let mut bytes = vec![0; SIZE as usize];
        bytes[4096..][..superblock.len()].copy_from_slice(&superblock);
        std::fs::write(root.directory().join("dev").join(device), bytes).unwrap();
    }
    let left = |skip: serde_json::Value| -> Vec<String> {
        let node = Node(serde_json::json!({"properties": {"skip_block_devices": skip}}));
        let devices = block_devices::collect(root.path());
        let sets = sets_below(root.path());
        let found = choose(devices, &skip_list(&node).unwrap(), &sets).unwrap();
        found.disks.iter().map(Erasable::name).collect()
    };
    let all = [
        "/dev/sdd",
        "/dev/sdc",
        "/dev/sdb",
        "/dev/sda",
        "/dev/md127",
        "/dev/md126",
        "/dev/md125",
    ];
    assert_eq!(left(serde_json::json!([])), all);
    assert_eq!(left(serde_json::json!([{"volume_name": "nosuch"}])), all);
    assert_eq!(
        left(serde_json::json!([{"volume_name": "keep"}])),
        ["/dev/sdd", "/dev/sdc", "/dev/md125"]
    );
    assert_eq!(
        left(serde_json::json!([{"volume_name": "third"}])),
        [
            "/dev/sdd",
            "/dev/sdb",
            "/dev/sda",
            "/dev/md127",
            "/dev/md126"
        ]
    );
    // An array that is named by its device node is also kept together with its
    // members.
    assert_eq!(
        left(serde_json::json!([{"name": "/dev/md126"}])),
        ["/dev/sdd", "/dev/sdc", "/dev/md125"]
    );
    // A skipped partition spares the whole disk, because without the partition table of
    // the disk the partition is lost.
    assert_eq!(
        left(serde_json::json!([{"name": "/dev/sda1"}])),
        [
            "/dev/sdd",
            "/dev/sdc",
            "/dev/sdb",
            "/dev/md127",
            "/dev/md125"
        ]
    );
}
