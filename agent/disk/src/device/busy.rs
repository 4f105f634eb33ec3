//! Finds out what uses a disk: mounts, swap, and devices that are built on it
//! (RAID, LVM, other device-mapper devices).
//!
//! An exclusive open only reports "busy". This module names the users of the disk and of
//! all its partitions.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landfall_devices::block_graph::{self, BlockGraph};
use landfall_devices::disk_paths;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// A disk or one of its partitions.
pub use landfall_devices::block_graph::BlockNode as Device;

/// Where `/sys` and `/proc` are; tests use a made-up tree.
#[derive(Debug, Clone)]
pub struct KernelView {
    pub sys: PathBuf,
    pub proc: PathBuf,
}

impl Default for KernelView {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }
}

/// One use of a disk or partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The kernel's name of the disk or partition.
    pub name: String,
    pub kind: UseKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UseKind {
    /// The mount point of its file system.
    Mount(String),
    Swap,
    /// The kernel's name of a device that is built on it.
    Holder(String),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.kind {
            UseKind::Mount(place) => write!(f, "{name} is mounted on {place}"),
            UseKind::Swap => write!(f, "{name} is swap"),
            UseKind::Holder(holder) => write!(f, "{name} is held by {holder}"),
        }
    }
}

/// All uses in one line, for messages.
pub fn list(uses: &[Use]) -> String {
    let uses: Vec<String> = uses.iter().map(Use::to_string).collect();
    uses.join(", ")
}

impl KernelView {
    fn graph(&self) -> BlockGraph {
        BlockGraph::new(SystemPath::live().join(&self.sys))
    }

    /// See [`BlockGraph::by_node`].
    ///
    /// # Errors
    /// As for [`BlockGraph::by_node`].
    pub fn device(&self, node: &fs::Metadata) -> io::Result<Device> {
        self.graph().by_node(node)
    }

    /// The device that a path names now.
    ///
    /// # Errors
    /// As for [`Self::device`], or if the path does not exist.
    pub fn device_at(&self, path: &Path) -> io::Result<Device> {
        self.device(&fs::metadata(path)?)
    }

    /// See [`BlockGraph::disks`].
    ///
    /// # Errors
    /// As for [`BlockGraph::disks`].
    pub fn disks(&self) -> io::Result<Vec<Device>> {
        self.graph().disks()
    }

    /// See [`BlockGraph::partitions`].
    ///
    /// # Errors
    /// As for [`BlockGraph::partitions`].
    pub fn partitions(&self, disk: &Device) -> io::Result<Vec<Device>> {
        self.graph().partitions(disk)
    }

    /// The other block devices that are paths to the same disk (multipath). For a
    /// partition: the partitions with the same number on the other paths of its disk.
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn other_paths(&self, device: &Device) -> io::Result<Vec<Device>> {
        let disks = self.other_disks(device)?;
        let Some(number) = device.partition else {
            return Ok(disks);
        };
        let mut partitions = Vec::new();
        for disk in disks {
            partitions.extend(self.partitions(&disk)?);
        }
        partitions.retain(|other| other.partition == Some(number));
        Ok(partitions)
    }

    /// The other paths to this disk, or to the disk of this partition.
    fn other_disks(&self, device: &Device) -> io::Result<Vec<Device>> {
        let directory = device.disk_directory();
        let Some(own) = directory.as_ref().and_then(disk_paths::identity) else {
            return Ok(Vec::new());
        };
        let mut disks = self.disks()?;
        disks.retain(|other| {
            Some(&other.directory) != directory.as_ref()
                && disk_paths::identity(&other.directory).as_ref() == Some(&own)
        });
        Ok(disks)
    }

    /// See [`BlockGraph::above`].
    ///
    /// # Errors
    /// As for [`BlockGraph::above`].
    pub fn stack(&self, disk: &Device) -> io::Result<Vec<Device>> {
        self.graph().above(disk)
    }

    /// The device's name for messages: `dm-0 (rhel-root)`, or only the kernel's name if
    /// device-mapper has no name for it.
    pub fn label(&self, device: &Device) -> String {
        match sysfs::text(&device.directory.join("dm/name")) {
            Some(name) => format!("{} ({name})", device.name),
            None => device.name.clone(),
        }
    }

    /// Every use of the disk and of its partitions, on all its paths (multipath). For a
    /// partition: its uses on all paths, and the uses of the whole disk on the other
    /// paths. (On the partition's own path, the kernel allows no exclusive open of the
    /// partition while another program holds the whole disk.)
    ///
    /// # Errors
    /// If /sys or /proc cannot be read. The caller must then not treat the disk as
    /// free.
    pub fn uses(&self, device: &Device) -> io::Result<Vec<Use>> {
        let mut devices = vec![device.clone()];
        devices.extend(self.partitions(device)?);
        for other in self.other_disks(device)? {
            let mut partitions = self.partitions(&other)?;
            partitions.retain(|it| device.partition.is_none() || it.partition == device.partition);
            devices.push(other);
            devices.extend(partitions);
        }
        let mounts = fs::read_to_string(self.proc.join("self/mountinfo"))?;
        // A kernel without swap support has no such file.
        let swaps = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        let mut uses = Vec::new();
        for device in &devices {
            let kinds = mount_points(&mounts, device)
                .into_iter()
                .map(|place| UseKind::Mount(place.to_owned()))
                .chain(is_swap(&swaps, device).then_some(UseKind::Swap))
                .chain(
                    block_graph::holders(&device.directory)?
                        .into_iter()
                        .map(UseKind::Holder),
                );
            uses.extend(kinds.map(|kind| Use {
                name: device.name.clone(),
                kind,
            }));
        }
        Ok(uses)
    }
}

/// The mount points of the device. The format of a line (proc_pid_mountinfo(5)):
/// `id parent major:minor root mount-point options ... - type source options`.
fn mount_points<'a>(mountinfo: &'a str, device: &Device) -> Vec<&'a str> {
    let source = format!("/dev/{}", device.name);
    mountinfo
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut fields = left.split(' ');
            let number = fields.nth(2)?;
            let place = fields.nth(1)?;
            // A btrfs mount has an anonymous device number, but its `source` names the
            // device.
            let from = right.split(' ').nth(1)?;
            (number == device.number || from == source).then_some(place)
        })
        .collect()
}

fn is_swap(swaps: &str, device: &Device) -> bool {
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(|path| path.strip_prefix("/dev/") == Some(device.name.as_str()))
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::makedev;

    use super::*;

    /// A sysfs with disk `vda` (254:0) and partitions 1 and 3.
    fn tree() -> (tempfile::TempDir, KernelView) {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("sys/block/vda/dev", "254:0\n");
        for part in ["1", "3"] {
            put(
                &format!("sys/block/vda/vda{part}/dev"),
                &format!("254:{part}\n"),
            );
            put(
                &format!("sys/block/vda/vda{part}/partition"),
                &format!("{part}\n"),
            );
        }
        put(
            "proc/self/mountinfo",
            "22 1 0:5 / /proc rw - proc proc rw\n",
        );
        fs::create_dir_all(dir.path().join("sys/dev/block")).unwrap();
        for (number, place) in [("254:0", "vda"), ("254:3", "vda/vda3")] {
            std::os::unix::fs::symlink(
                dir.path().join("sys/block").join(place),
                dir.path().join("sys/dev/block").join(number),
            )
            .unwrap();
        }
        let view = KernelView {
            sys: dir.path().join("sys"),
            proc: dir.path().join("proc"),
        };
        (dir, view)
    }

    fn device(view: &KernelView, major: u64, minor: u64) -> io::Result<Device> {
        view.graph().by_number(makedev(major, minor))
    }

    #[test]
    fn finds_the_disk_and_its_partitions() {
        let (_dir, view) = tree();
        let disk = device(&view, 254, 0).unwrap();
        assert_eq!(view.disks().unwrap(), std::slice::from_ref(&disk));
        assert_eq!((disk.name.as_str(), disk.partition), ("vda", None));
        let parts = view.partitions(&disk).unwrap();
        assert_eq!(
            parts.iter().map(|p| p.partition).collect::<Vec<_>>(),
            [Some(1), Some(3)]
        );
        assert_eq!(device(&view, 254, 3).unwrap().partition, Some(3));
        assert!(device(&view, 8, 0).is_err());
        assert_eq!(view.uses(&disk).unwrap(), []);
    }

    #[test]
    fn a_use_by_another_path_is_a_use() {
        let (dir, view) = tree();
        let put = |path: &str, text: &str| {
            let path = dir.path().join("sys/block").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (disk, minor) in [("sda", 0), ("sdb", 16), ("sdc", 32)] {
            put(&format!("{disk}/dev"), &format!("8:{minor}\n"));
            put(&format!("{disk}/size"), "2048\n");
            let wwid = if disk == "sdc" { "naa.2" } else { "naa.1" };
            put(&format!("{disk}/device/wwid"), wwid);
        }
        for (partition, minor) in [("sda/sda1", 1), ("sdb/sdb1", 17), ("sdb/sdb2", 18)] {
            put(&format!("{partition}/dev"), &format!("8:{minor}\n"));
            let number = &partition[partition.len() - 1..];
            put(&format!("{partition}/partition"), number);
        }
        fs::create_dir_all(dir.path().join("sys/block/sdb/sdb1/holders/dm-0")).unwrap();
        fs::create_dir_all(dir.path().join("sys/block/sdc/holders/dm-1")).unwrap();
        let disks = view.disks().unwrap();
        let sda = disks.iter().find(|disk| disk.name == "sda").unwrap();
        let sdb = disks.iter().find(|disk| disk.name == "sdb").unwrap();
        let others = view.other_paths(sda).unwrap();
        assert_eq!(others.iter().map(|d| &*d.name).collect::<Vec<_>>(), ["sdb"]);
        assert_eq!(list(&view.uses(sda).unwrap()), "sdb1 is held by dm-0");
        // An array on one path must prevent writes to the partition on the other path.
        let sda1 = view.partitions(sda).unwrap().remove(0);
        let others = view.other_paths(&sda1).unwrap();
        assert_eq!(
            others.iter().map(|d| &*d.name).collect::<Vec<_>>(),
            ["sdb1"]
        );
        assert_eq!(list(&view.uses(&sda1).unwrap()), "sdb1 is held by dm-0");
        let sdb2 = view.partitions(sdb).unwrap().remove(1);
        assert_eq!(view.uses(&sdb2).unwrap(), [], "another partition");
        fs::create_dir_all(dir.path().join("sys/block/sda/holders/dm-2")).unwrap();
        assert_eq!(list(&view.uses(&sdb2).unwrap()), "sda is held by dm-2");
    }

    #[test]
    fn volumes_on_a_disk_are_found_from_the_top() {
        let (dir, view) = tree();
        let put = |path: &str, text: &str| {
            let path = dir.path().join("sys/block").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // A volume group on two partitions with two volumes, one of which holds a
        // LUKS container.
        for (name, number, holder) in [
            ("dm-0", "253:0", None),
            ("dm-1", "253:1", Some("dm-2")),
            ("dm-2", "253:2", None),
        ] {
            put(&format!("{name}/dev"), number);
            put(&format!("{name}/dm/name"), &format!("volume-{name}\n"));
            put(
                &format!("{name}/holders/{}/x", holder.unwrap_or("none")),
                "",
            );
            if holder.is_none() {
                fs::remove_dir_all(dir.path().join(format!("sys/block/{name}/holders/none")))
                    .unwrap();
            }
        }
        for (part, holder) in [("vda1", "dm-0"), ("vda1", "dm-1"), ("vda3", "dm-1")] {
            put(&format!("vda/{part}/holders/{holder}/x"), "");
        }
        let disk = device(&view, 254, 0).unwrap();
        let stack = view.stack(&disk).unwrap();
        let names: Vec<String> = stack.iter().map(|device| view.label(device)).collect();
        assert_eq!(
            names,
            [
                "dm-0 (volume-dm-0)",
                "dm-2 (volume-dm-2)",
                "dm-1 (volume-dm-1)"
            ]
        );
    }

    /// Another thread removes a volume while this one reads sysfs.
    #[test]
    fn a_volume_removed_meanwhile_is_no_error() {
        let (dir, view) = tree();
        let block = dir.path().join("sys/block");
        fs::create_dir_all(block.join("vda/vda1/holders/dm-0")).unwrap();
        fs::create_dir_all(block.join("vda/vda3/holders/dm-1")).unwrap();
        // The directory of dm-1 exists, but its `dev` file is gone.
        fs::create_dir_all(block.join("dm-1")).unwrap();
        let disk = device(&view, 254, 0).unwrap();
        assert_eq!(view.stack(&disk).unwrap(), []);
        assert_eq!(view.disks().unwrap(), std::slice::from_ref(&disk));
        fs::remove_file(block.join("vda/vda1/dev")).unwrap();
        let parts = view.partitions(&disk).unwrap();
        assert_eq!(parts.len(), 1);
        fs::remove_dir_all(block.join("vda")).unwrap();
        assert_eq!(view.stack(&disk).unwrap(), []);
    }

    #[test]
    fn names_every_use() {
        let (dir, view) = tree();
        fs::write(
            dir.path().join("proc/self/mountinfo"),
            "22 1 0:5 / /proc rw - proc proc rw\n\
             30 1 254:1 / /mnt/old rw shared:1 - ext4 /dev/vda1 rw\n\
             31 1 0:44 / /srv rw - btrfs /dev/vda3 rw\n",
        )
        .unwrap();
        fs::write(
            dir.path().join("proc/swaps"),
            "Filename Type Size Used Priority\n/dev/vda3 partition 1 0 -2\n",
        )
        .unwrap();
        fs::create_dir_all(dir.path().join("sys/block/vda/vda3/holders/dm-0")).unwrap();
        let disk = device(&view, 254, 0).unwrap();
        assert_eq!(
            list(&view.uses(&disk).unwrap()),
            "vda1 is mounted on /mnt/old, vda3 is mounted on /srv, vda3 is swap, vda3 is held by dm-0"
        );
    }
}
