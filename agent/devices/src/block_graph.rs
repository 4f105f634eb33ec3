//! The graph of the kernel's block devices: disks, their partitions, and the devices
//! that are built on these (software RAID, LVM, other device-mapper devices).
//!
//! In sysfs, `holders` of a device lists the devices that are built on it, and `slaves`
//! lists the devices that it is made of. All code whose decisions depend on these lists
//! uses this module. The module keeps no copy of the graph but reads sysfs at every
//! call. Other threads and the kernel change the graph while the agent works, and a
//! server may have thousands of LUNs.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use landfall_sys::system_path::SystemPath;
use nix::libc::{self, dev_t};
use nix::sys::stat::{major, minor};

/// A disk, one of its partitions, or a device that is built on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockNode {
    /// The kernel's name: `vda`, `nvme0n1p3`.
    pub name: String,
    /// `major:minor`.
    pub number: String,
    /// The partition's number, `None` for a whole device.
    pub partition: Option<u32>,
    /// The device's directory in sysfs, with symlinks resolved.
    pub directory: SystemPath,
}

impl BlockNode {
    fn read(directory: SystemPath, number: String) -> io::Result<Self> {
        Ok(Self {
            name: directory.name().unwrap_or_default().to_owned(),
            number,
            partition: partition_number(&directory)?,
            directory,
        })
    }

    fn of_link(link: &SystemPath) -> io::Result<Self> {
        let directory = link.resolved().ok_or(io::ErrorKind::NotFound)?;
        let number = text(&directory.join("dev"))?;
        Self::read(directory, number)
    }

    /// The directory in sysfs of the disk: of this device itself, or of the disk that
    /// this partition is on.
    pub fn disk_directory(&self) -> Option<SystemPath> {
        match self.partition {
            None => Some(self.directory.clone()),
            Some(_) => self.directory.parent(),
        }
    }

    /// Whether this is a device-mapper device.
    pub fn is_mapped(&self) -> bool {
        self.directory.join("dm").is_dir()
    }

    /// Whether this is a software RAID array.
    pub fn is_array(&self) -> bool {
        self.directory.join("md").is_dir()
    }
}

/// The block devices of a machine.
#[derive(Debug, Clone)]
pub struct BlockGraph {
    sys: SystemPath,
}

impl BlockGraph {
    /// `sys` is where sysfs is mounted.
    pub fn new(sys: SystemPath) -> Self {
        Self { sys }
    }

    /// The graph of this machine.
    pub fn live() -> Self {
        Self::new(SystemPath::live().join("sys"))
    }

    /// The device with this number, as in `st_rdev`.
    ///
    /// # Errors
    /// If the kernel has no block device with this number, or if sysfs cannot be read.
    pub fn by_number(&self, number: dev_t) -> io::Result<BlockNode> {
        let directory = self.link(number).resolved();
        BlockNode::read(directory.ok_or(io::ErrorKind::NotFound)?, text_of(number))
    }

    /// The device that a device node refers to.
    ///
    /// # Errors
    /// If the node is not a block device, if the kernel has no device with its number, or
    /// if sysfs cannot be read.
    pub fn by_node(&self, node: &fs::Metadata) -> io::Result<BlockNode> {
        self.by_number(number_of(node).ok_or(io::ErrorKind::NotFound)?)
    }

    /// The path of the sysfs link to the directory of the device with this number. The
    /// device may not exist.
    pub fn link(&self, number: dev_t) -> SystemPath {
        self.sys.join("dev/block").join(text_of(number))
    }

    /// All whole block devices, sorted by name, including virtual ones (loop, md,
    /// device-mapper).
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn disks(&self) -> io::Result<Vec<BlockNode>> {
        let block = self.sys.join("block");
        let mut disks = Vec::new();
        for name in names(&block)? {
            disks.extend(unless_gone(BlockNode::of_link(&block.join(name)))?);
        }
        Ok(disks)
    }

    /// The partitions of a disk, sorted by number; empty if the disk has
    /// disappeared.
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn partitions(&self, disk: &BlockNode) -> io::Result<Vec<BlockNode>> {
        let mut partitions = Vec::new();
        for (_, directory) in self::partitions(&disk.directory).all()? {
            partitions.extend(unless_gone(BlockNode::of_link(&directory))?);
        }
        Ok(partitions)
    }

    /// Every device that is built on the disk and its partitions, directly or
    /// indirectly. A device comes before the devices that it is built on, so the
    /// caller can remove them in this order.
    ///
    /// The agent cleans several disks in parallel. If a device is built on two disks,
    /// the threads of both disks try to remove it, and one of them is first. So this
    /// function skips a device that disappears in the meantime.
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn above(&self, disk: &BlockNode) -> io::Result<Vec<BlockNode>> {
        let mut found = Vec::new();
        self.add_above(disk, &mut found)?;
        Ok(found)
    }

    fn add_above(&self, device: &BlockNode, found: &mut Vec<BlockNode>) -> io::Result<()> {
        let mut parts = self.partitions(device)?;
        parts.push(device.clone());
        for part in parts {
            for name in holders(&part.directory)? {
                if found.iter().any(|known| known.name == name) {
                    continue;
                }
                let link = self.sys.join("block").join(&name);
                if let Some(holder) = unless_gone(BlockNode::of_link(&link))? {
                    self.add_above(&holder, found)?;
                    found.push(holder);
                }
            }
        }
        Ok(())
    }
}

/// The partitions of a disk: their numbers and directories, sorted by number.
#[derive(Debug, Default)]
pub struct Partitions {
    /// The partitions that could be read.
    pub readable: Vec<(u32, SystemPath)>,
    /// The first error. If there was an error, `readable` is incomplete, so code that
    /// decides what may be written must stop.
    pub unread: Option<io::Error>,
}

impl Partitions {
    /// # Errors
    /// If the list may be incomplete, because a part of sysfs could not be read.
    pub fn all(self) -> io::Result<Vec<(u32, SystemPath)>> {
        self.unread.map_or(Ok(self.readable), Err)
    }
}

/// The partitions of the disk with this directory in sysfs. Empty if the disk has
/// disappeared.
pub fn partitions(disk: &SystemPath) -> Partitions {
    let mut partitions = Partitions::default();
    let names = match unless_gone(names(disk)) {
        Ok(names) => names.unwrap_or_default(),
        Err(error) => {
            partitions.unread = Some(error);
            return partitions;
        }
    };
    for name in names {
        let directory = disk.join(name);
        match unless_gone(partition_number(&directory)) {
            Ok(number) => {
                let number = number.flatten();
                partitions
                    .readable
                    .extend(number.map(|number| (number, directory)));
            }
            Err(error) => {
                partitions.unread.get_or_insert(error);
            }
        }
    }
    partitions.readable.sort_by_key(|(number, _)| *number);
    partitions
}

/// The number of a partition; `None` if the path is the directory of another kind of
/// device, or no directory.
fn partition_number(directory: &SystemPath) -> io::Result<Option<u32>> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match text(&directory.join("partition")) {
        Ok(text) => Ok(Some(text.parse().map_err(io::Error::other)?)),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The kernel's names of the devices that are built on this device, sorted. Empty if
/// the device has disappeared.
///
/// # Errors
/// If sysfs cannot be read.
pub fn holders(device: &SystemPath) -> io::Result<Vec<String>> {
    Ok(unless_gone(names(&device.join("holders")))?.unwrap_or_default())
}

/// The kernel's names of the devices that this device is made of, sorted: the members of
/// an array, the paths of a multipath disk. Empty for an ordinary disk.
///
/// # Errors
/// If sysfs cannot be read.
pub fn parts(device: &SystemPath) -> io::Result<Vec<String>> {
    Ok(unless_gone(names(&device.join("slaves")))?.unwrap_or_default())
}

/// Like [`parts`], but returns the devices. Skips a device that disappears in the
/// meantime.
///
/// # Errors
/// If sysfs cannot be read.
pub fn part_nodes(device: &SystemPath) -> io::Result<Vec<BlockNode>> {
    let slaves = device.join("slaves");
    let mut nodes = Vec::new();
    for part in parts(device)? {
        nodes.extend(unless_gone(BlockNode::of_link(&slaves.join(part)))?);
    }
    Ok(nodes)
}

/// Like [`parts`], but names the disk of a partition instead of the partition.
///
/// # Errors
/// If sysfs cannot be read, or if one of the devices disappears meanwhile.
pub fn disks_of_parts(device: &SystemPath) -> io::Result<Vec<String>> {
    let slaves = device.join("slaves");
    let mut disks = Vec::new();
    for part in parts(device)? {
        let directory = slaves.join(part).resolved();
        let mut directory = directory.ok_or(io::ErrorKind::NotFound)?;
        if directory.join("partition").exists()
            && let Some(disk) = directory.parent()
        {
            directory = disk;
        }
        disks.extend(directory.name().map(str::to_owned));
    }
    Ok(disks)
}

/// The number of the block device that a device node refers to. `None` for any other
/// node, because a character device may have the same number as a block device.
pub fn number_of(node: &fs::Metadata) -> Option<dev_t> {
    node.file_type().is_block_device().then(|| node.rdev())
}

/// As the kernel writes it: `8:1`.
fn text_of(number: dev_t) -> String {
    format!("{}:{}", major(number), minor(number))
}

/// Returns `None` if the device was removed in the meantime: its directory is missing
/// (`NotFound`), or its attributes no longer have a device (`ENODEV`).
fn unless_gone<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The names of the entries of a directory, sorted. Unlike `sysfs::names` this reports
/// errors, because a disk whose holders cannot be read must not count as free.
fn names(directory: &SystemPath) -> io::Result<Vec<String>> {
    let directory = directory.on_disk().ok_or(io::ErrorKind::NotFound)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn text(path: &SystemPath) -> io::Result<String> {
    let path = path.on_disk().ok_or(io::ErrorKind::NotFound)?;
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::{PlantedTree, plant};
    use nix::sys::stat::makedev;

    use super::*;

    /// A RAID 1 array of a partition and a whole disk, with a logical volume on the
    /// array's partition.
    fn stacked() -> (PlantedTree, BlockGraph) {
        let root = plant(
            r"sys/block/sda/dev = 8:0\n
sys/block/sda/sda1/dev = 8:1\n
sys/block/sda/sda1/partition = 1\n
sys/block/sda/sda1/holders/md0/
sys/block/sda/sda10/dev = 8:10\n
sys/block/sda/sda10/partition = 10\n
sys/block/sda/sda2/dev = 8:2\n
sys/block/sda/sda2/partition = 2\n
sys/block/sdb/dev = 8:16\n
sys/block/sdb/holders/md0/
sys/block/md0/dev = 9:0\n
sys/block/md0/md/level = raid1\n
sys/block/md0/slaves/sda1 -> /sys/block/sda/sda1
sys/block/md0/slaves/sdb -> /sys/block/sdb
sys/block/md0/md0p1/dev = 259:0\n
sys/block/md0/md0p1/partition = 1\n
sys/block/md0/md0p1/holders/dm-0/
sys/block/dm-0/dev = 253:0\n
sys/block/dm-0/dm/name = vg-lv\n
sys/block/dm-0/slaves/md0p1 -> /sys/block/md0/md0p1
sys/dev/block/8:1 -> /sys/block/sda/sda1",
        );
        let graph = BlockGraph::new(root.path().join("sys"));
        (root, graph)
    }

    fn names_of(nodes: &[BlockNode]) -> Vec<&str> {
        nodes.iter().map(|node| &*node.name).collect()
    }

    /// The character device `/dev/null` has the number 1:3, which is also that of a RAM
    /// disk.
    #[test]
    fn the_number_of_a_character_device_leads_to_no_block_device() {
        let null = fs::metadata("/dev/null").unwrap();
        assert_eq!(null.rdev(), makedev(1, 3));
        let root = plant(
            r"sys/block/ram3/dev = 1:3\n
sys/dev/block/1:3 -> /sys/block/ram3
",
        );
        let graph = BlockGraph::new(root.path().join("sys"));
        assert_eq!(graph.by_number(null.rdev()).unwrap().name, "ram3");
        let error = graph.by_node(&null).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn partitions_are_in_the_order_of_their_numbers() {
        let (_root, graph) = stacked();
        let disks = graph.disks().unwrap();
        assert_eq!(names_of(&disks), ["dm-0", "md0", "sda", "sdb"]);
        let partitions = graph.partitions(&disks[2]).unwrap();
        assert_eq!(names_of(&partitions), ["sda1", "sda2", "sda10"]);
        assert_eq!(graph.by_number(makedev(8, 1)).unwrap(), partitions[0]);
        assert!(graph.by_number(makedev(8, 3)).is_err());
        let kinds = |of: fn(&BlockNode) -> bool| -> Vec<bool> { disks.iter().map(of).collect() };
        assert_eq!(kinds(BlockNode::is_mapped), [true, false, false, false]);
        assert_eq!(kinds(BlockNode::is_array), [false, true, false, false]);
    }

    #[test]
    fn the_graph_is_followed_both_ways() {
        let (_root, graph) = stacked();
        let disks = graph.disks().unwrap();
        for disk in &disks[2..] {
            assert_eq!(names_of(&graph.above(disk).unwrap()), ["dm-0", "md0"]);
        }
        assert_eq!(names_of(&graph.above(&disks[1]).unwrap()), ["dm-0"]);
        let below = |index: usize| disks_of_parts(&disks[index].directory).unwrap();
        assert_eq!(below(0), ["md0"]);
        assert_eq!(below(1), ["sda", "sdb"]);
        assert_eq!(below(2), [""; 0]);
        assert_eq!(parts(&disks[1].directory).unwrap(), ["sda1", "sdb"]);
        let nodes = part_nodes(&disks[1].directory).unwrap();
        assert_eq!(names_of(&nodes), ["sda1", "sdb"]);
        for (node, disk) in nodes.iter().zip(&disks[2..]) {
            assert_eq!(node.disk_directory(), Some(disk.directory.clone()));
        }
        assert_eq!(holders(&disks[3].directory).unwrap(), ["md0"]);
    }

    #[test]
    fn a_partition_that_cannot_be_read_hides_no_other() {
        let root = plant(
            r"sys/block/sda/dev = 8:0\n
sys/block/sda/sda1/partition = ?\n
sys/block/sda/sda2/partition = 2\n
sys/block/sda/sda2/dev = 8:2\n
sys/block/sdb = a file",
        );
        let graph = BlockGraph::new(root.path().join("sys"));
        let disk = root.path().join("sys/block/sda");
        let partitions = partitions(&disk);
        assert_eq!(partitions.readable, [(2, disk.join("sda2"))]);
        assert!(partitions.all().is_err());
        let disk = BlockNode::of_link(&disk).unwrap();
        assert!(graph.partitions(&disk).is_err());
        let no_directory = super::partitions(&root.path().join("sys/block/sdb"));
        assert!(no_directory.all().is_err());
        let gone = super::partitions(&root.path().join("sys/block/sdc"));
        assert!(gone.all().unwrap().is_empty());
    }

    #[test]
    fn an_unreadable_directory_is_an_error_and_a_missing_one_is_empty() {
        let root = plant("sys/block/sda/holders = a file\nsys/block/sdb/");
        assert!(holders(&root.path().join("sys/block/sda")).is_err());
        assert_eq!(
            holders(&root.path().join("sys/block/sdb")).unwrap(),
            [""; 0]
        );
    }
}
