//! Tests with disks in an artificial /sys. Files with superblocks take the place of the
//! nodes in /dev.

use landfall_sys::sys_tree::{PlantedTree, plant};

use super::md_superblock::{Version, superblock};
use super::*;

const SIZE: usize = 1 << 20;

/// The content of a disk that is a member of this array.
fn member(name: &str) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    let superblock = superblock(Version::V1_2, SIZE as u64, name);
    bytes[4096..][..superblock.len()].copy_from_slice(&superblock);
    bytes
}

/// The content of a physical volume of a group with this many devices, as LVM lays
/// it out.
fn physical_volume(group: &str, devices: usize) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    let mut put = |at: usize, value: &[u8]| bytes[at..][..value.len()].copy_from_slice(value);
    put(512, b"LABELONE");
    put(532, &32u32.to_le_bytes());
    put(536, b"LVM2 001");
    // One data area of any size, the end of its list, and one metadata area.
    put(512 + 72, &(256u64 << 10).to_le_bytes());
    put(512 + 72 + 32, &4096u64.to_le_bytes());
    put(512 + 72 + 40, &(64u64 << 10).to_le_bytes());
    put(4100, b" LVM2 x[5A%r0N*>");
    let devices: String = (0..devices).map(|n| format!("pv{n} {{\n}}\n")).collect();
    let text = format!("{group} {{\nid = \"x\"\nphysical_volumes {{\n{devices}}}\n}}\n");
    put(4136, &512u64.to_le_bytes());
    put(4144, &(text.len() as u64).to_le_bytes());
    put(4608, text.as_bytes());
    bytes
}

fn machine(tree: &str, contents: &[(&str, Vec<u8>)]) -> PlantedTree {
    let root = plant(&format!("{tree}\ndev/"));
    for (name, bytes) in contents {
        std::fs::write(root.directory().join("dev").join(name), bytes).unwrap();
    }
    root
}

fn sets(root: &PlantedTree, name: &str) -> DiskSets {
    DiskSets::of(&root.path().join("sys/block").join(name))
}

fn texts(root: &PlantedTree, name: &str) -> Vec<String> {
    let sets = sets(root, name);
    sets.member_of.iter().map(ToString::to_string).collect()
}

#[test]
fn a_partition_that_cannot_be_read_hides_no_member() {
    let root = machine(
        "sys/block/sda/sda1/partition = ?\\n\nsys/block/sda/sda2/partition = 2\\n\n\
         sys/block/sdb/holders = a file",
        &[
            ("sda", vec![0; SIZE]),
            ("sda2", member("host:data")),
            ("sdb", vec![0; SIZE]),
        ],
    );
    assert_eq!(
        texts(&root, "sda"),
        ["a member of the software RAID host:data"]
    );
    assert!(sets(&root, "sda").unread);
    assert!(sets(&root, "sdb").unread);
}

#[test]
fn signatures_count_where_nothing_is_assembled() {
    let root = machine(
        "sys/block/sda/\nsys/block/sdb/\nsys/block/sdc/sdc2/partition = 2\\n\n\
         sys/block/sdd/\nsys/block/sde/",
        &[
            ("sda", member("host:root")),
            ("sdb", vec![0; SIZE]),
            ("sdc", vec![0; SIZE]),
            ("sdc2", member("host:data")),
            ("sdd", physical_volume("vg0", 2)),
            ("sde", physical_volume("rhel", 1)),
        ],
    );
    assert_eq!(
        texts(&root, "sda"),
        ["a member of the software RAID host:root"]
    );
    assert_eq!(texts(&root, "sdb"), [""; 0]);
    assert_eq!(
        texts(&root, "sdc"),
        ["a member of the software RAID host:data"]
    );
    assert_eq!(
        texts(&root, "sdd"),
        ["a member of the LVM volume group vg0"]
    );
    assert_eq!(
        texts(&root, "sde"),
        [""; 0],
        "an old system that is on this disk alone"
    );
    let kept = ["data".to_owned(), "root".to_owned()];
    assert_eq!(sets(&root, "sda").kept_volume(&kept), Some("root"));
    assert_eq!(sets(&root, "sdc").kept_volume(&kept), Some("data"));
    assert_eq!(sets(&root, "sdc").kept_volume(&kept[1..]), None);
    assert_eq!(sets(&root, "sdd").kept_volume(&kept), None);
}

#[test]
fn members_of_a_firmware_raid() {
    let with = |before_end: usize, magic: &[u8]| {
        let mut bytes = vec![0; SIZE];
        bytes[SIZE - before_end..][..magic.len()].copy_from_slice(magic);
        bytes
    };
    let root = machine(
        "sys/block/sda/\nsys/block/sdb/\nsys/block/sdc/\nsys/block/sdd/\nsys/block/sde/",
        &[
            ("sda", with(1024, b"Intel Raid ISM Cfg Sig. 1.3.00")),
            ("sdb", with(512, b"\xde\x11\xde\x11")),
            ("sdc", with(2048, b"Intel Raid ISM Cfg Sig. 1.3.00")),
            ("sdd", with(8192, b"Intel Raid ISM Cfg Sig. 1.3.00")),
            ("sde", vec![0; 100]),
        ],
    );
    let intel = "a member of a firmware RAID (Intel, IMSM)";
    assert_eq!(texts(&root, "sda"), [intel]);
    assert_eq!(texts(&root, "sdb"), ["a member of a firmware RAID (DDF)"]);
    assert_eq!(texts(&root, "sdc"), [""; 0]);
    assert_eq!(texts(&root, "sdd"), [intel]);
    assert_eq!(texts(&root, "sde"), [""; 0]);
}

#[test]
fn arrays_that_the_kernel_runs() {
    let root = machine(
        "sys/block/sda/sda1/partition = 1\\n\n\
         sys/block/sda/sda1/holders/md127 -> /sys/block/md127\n\
         sys/block/md127/md/level = raid1\\n\n\
         sys/block/md127/slaves/sda1 -> /sys/block/sda/sda1\n\
         sys/block/sdb/holders/dm-0 -> /sys/block/dm-0\n\
         sys/block/dm-0/dm/uuid = LVM-abc\\n\n\
         sys/block/dm-0/dm/name = my--vg-root\\n\n\
         sys/block/sdc/holders/dm-1 -> /sys/block/dm-1\n\
         sys/block/dm-1/dm/uuid = mpath-36001\\n\n\
         sys/block/dm-1/dm/name = mpatha\\n\n\
         sys/block/sdd/holders/dm-2 -> /sys/block/dm-2\n\
         sys/block/dm-2/dm/uuid = CRYPT-LUKS2-x\\n",
        &[
            ("sda1", member("host:root")),
            // A volume group on a single disk counts if it is active, because an
            // operator of a live system may be using it.
            ("sdb", physical_volume("my-vg", 1)),
        ],
    );
    for (name, expected) in [
        ("sda", "a member of the software RAID host:root"),
        ("sdb", "a member of the LVM volume group my-vg"),
        ("sdc", "a path of the multipath disk mpatha"),
    ] {
        assert_eq!(texts(&root, name), [expected], "{name}");
    }
    assert_eq!(texts(&root, "sdd"), [""; 0]);
    let array = sets(&root, "md127");
    assert_eq!(array.volume.as_deref(), Some("root"));
    assert_eq!(array.kept_volume(&["root".into()]), Some("root"));
    assert!(array.member_of.is_empty());
}
