//! Lists the devices that cleaning may erase: the disks, their partitions, and the
//! devices that are built on them.

use landfall_devices::block_graph;

use super::disks;
use super::report_types::Disk;
use super::system_path::SystemPath;

/// A disk with its partitions and the devices that are built on it, for the cleaning
/// steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// The disk. If a skip list names the disk, all its partitions are kept too. The
    /// same applies if
    /// [`why_untouchable`](super::report_types::DiskTraits::why_untouchable) gives a
    /// reason for the disk.
    pub disk: Disk,
    /// In the order of their numbers.
    pub partitions: Vec<Partition>,
    /// Kernel names of the devices that are built on the whole disk: `md127`,
    /// `dm-0`.
    pub holders: Vec<String>,
    /// Device nodes of the devices that form this disk: the members of an array, or the
    /// paths of a multipath disk.
    pub made_of: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The device node: `/dev/sda1`.
    pub name: String,
    /// The number in the partition table.
    pub number: u32,
    /// In bytes.
    pub size: u64,
    /// Kernel names of the devices that are built on the partition.
    pub holders: Vec<String>,
}

impl BlockDevice {
    /// Whether the disk or one of its partitions is a member of a running software RAID
    /// array. Does not detect a member of an array that is not assembled: the only sign
    /// of such a member is its RAID superblock.
    pub fn is_raid_member(&self) -> bool {
        let of_partitions = self.partitions.iter().flat_map(|part| &part.holders);
        self.holders
            .iter()
            .chain(of_partitions)
            .any(|holder| is_array(holder))
    }
}

/// Matches `md127`, and the old form `md_d0`.
fn is_array(name: &str) -> bool {
    name.starts_with("md")
}

/// All disks, in lsblk's order.
pub fn collect(root: &SystemPath) -> Vec<BlockDevice> {
    disks::collect(root)
        .into_iter()
        .map(|disk| {
            let block = root
                .join("sys/block")
                .join(disk.name.trim_start_matches("/dev/"));
            BlockDevice {
                partitions: partitions(&block),
                holders: block_graph::holders(&block).unwrap_or_default(),
                made_of: block_graph::parts(&block)
                    .unwrap_or_default()
                    .into_iter()
                    .map(|name| format!("/dev/{name}"))
                    .collect(),
                disk,
            }
        })
        .collect()
}

fn partitions(block: &SystemPath) -> Vec<Partition> {
    let holders = |name: &str| {
        let name = name.trim_start_matches("/dev/");
        block_graph::holders(&block.join(name)).unwrap_or_default()
    };
    disks::partitions(block)
        .into_iter()
        .map(|partition| Partition {
            number: partition.number,
            size: partition.size,
            holders: holders(&partition.name),
            name: partition.name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    #[test]
    fn partitions_and_holders_are_found() {
        let root = plant(
            r"sys/block/sda/dev = 8:0\n
sys/block/sda/size = 2048\n
sys/block/sda/holders/
sys/block/sda/sda10/partition = 10\n
sys/block/sda/sda10/size = 64\n
sys/block/sda/sda10/holders/md127/
sys/block/sda/sda9/partition = 9\n
sys/block/sda/sda9/size = 8\n
sys/block/sda/queue/rotational = 1\n
sys/block/sdb/dev = 8:16\n
sys/block/sdb/size = 4096\n
sys/block/sdb/holders/dm-0/
sys/block/sdc/dev = 8:32\n
sys/block/sdc/size = 4096\n
sys/block/sdc/holders/md0/",
        );
        let found = collect(root.path());
        let names: Vec<&str> = found.iter().map(|device| &*device.disk.name).collect();
        assert_eq!(names, ["/dev/sda", "/dev/sdb", "/dev/sdc"]);
        let [nine, ten] = &found[0].partitions[..] else {
            panic!("{found:?}");
        };
        assert_eq!((nine.name.as_str(), nine.number), ("/dev/sda9", 9));
        assert_eq!((ten.name.as_str(), ten.size), ("/dev/sda10", 64 * 512));
        assert_eq!(
            (&ten.holders[..], nine.holders.len()),
            (&["md127".to_owned()][..], 0)
        );
        assert!(found[0].is_raid_member(), "one of its partitions is");
        assert_eq!(found[1].holders, ["dm-0"]);
        assert!(!found[1].is_raid_member());
        assert!(found[2].is_raid_member());
    }
}
