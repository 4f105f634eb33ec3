//! Disks that belong together: the members of a software RAID, of a RAID that
//! firmware makes, of an LVM volume group or of a multipath set. What is written to
//! one of them destroys the whole set, which may hold data that nobody wants to lose.
//!
//! In the ramdisk nothing is assembled, so the signatures on disks and partitions
//! count as well as what the kernel runs.

pub mod firmware_raid;
pub mod lvm;
pub mod md_superblock;

use std::fmt;
use std::fs::File;

use crate::sys::block_ioctl;
use crate::sysfs;
use crate::system_path::SystemPath;

/// What a disk belongs to; the text continues "it is ...".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// Of a software RAID, running or not.
    Array {
        /// The array's name as mdadm writes it, or the kernel's.
        name: String,
        /// What `volume_name` in a node's properties is compared with.
        volume: Option<String>,
    },
    /// Of a RAID that firmware makes of ordinary disks, of this kind.
    FirmwareRaid(&'static str),
    /// Of an LVM volume group that is active, or has other members.
    VolumeGroup(String),
    /// Of a multipath set that the kernel runs.
    Multipath(String),
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array { name, .. } => write!(f, "a member of the software RAID {name}"),
            Self::FirmwareRaid(kind) => write!(f, "a member of a firmware RAID ({kind})"),
            Self::VolumeGroup(name) => write!(f, "a member of the LVM volume group {name}"),
            Self::Multipath(name) => write!(f, "a path of the multipath disk {name}"),
        }
    }
}

/// What a disk has to do with sets of disks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskSets {
    /// The sets that the disk or one of its partitions belongs to.
    pub member_of: Vec<Membership>,
    /// The volume name of the software RAID that this disk is itself.
    pub volume: Option<String>,
    /// There may be a superblock where the disk or a partition cannot be read.
    pub unread: bool,
}

impl DiskSets {
    /// Looks at the disk with this directory in sysfs. What cannot be read belongs
    /// to nothing: a disk that fails is reported by whoever uses it.
    pub fn of(block: &SystemPath) -> Self {
        let Some(block) = block.resolved() else {
            return Self::default();
        };
        let mut sets = Self {
            volume: running_volume(&block),
            ..Self::default()
        };
        for device in with_partitions(&block) {
            sets.add_signatures(&device);
            let holders = device.join("holders");
            for holder in sysfs::names(&holders) {
                sets.add_holder(&holders.join(&holder), holder);
            }
        }
        sets
    }

    /// Whether the disk is one of these arrays, or belongs to one of them.
    pub fn kept_volume<'a>(&self, volumes: &'a [String]) -> Option<&'a str> {
        let of_members = self.member_of.iter().filter_map(|member| match member {
            Membership::Array { volume, .. } => volume.as_ref(),
            _ => None,
        });
        let own: Vec<&String> = self.volume.iter().chain(of_members).collect();
        let kept = volumes.iter().find(|volume| own.contains(volume));
        kept.map(String::as_str)
    }

    fn add(&mut self, membership: Membership) {
        if !self.member_of.contains(&membership) {
            self.member_of.push(membership);
        }
    }

    fn add_signatures(&mut self, device: &SystemPath) {
        let Some((file, size)) = open(device) else {
            return;
        };
        if let Some(kind) = firmware_raid::find(&file, size) {
            self.add(Membership::FirmwareRaid(kind));
        }
        let superblocks = md_superblock::find_readable(&file, size);
        self.unread |= superblocks.is_empty() && md_superblock::find(&file, size).is_err();
        for superblock in superblocks {
            self.add(Membership::Array {
                volume: superblock.volume_name().map(str::to_owned),
                name: superblock
                    .name
                    .unwrap_or_else(|| superblock.array.to_string()),
            });
        }
        if let Ok(Some(group)) = lvm::find(&file, size)
            && group.devices != Some(1)
        {
            let name = group.name.unwrap_or_else(|| "of unknown name".into());
            self.add(Membership::VolumeGroup(name));
        }
    }

    fn add_holder(&mut self, holder: &SystemPath, name: String) {
        let Some(holder) = holder.resolved() else {
            return;
        };
        if name.starts_with("md") {
            let is_known = |known: &Membership| matches!(known, Membership::Array { .. });
            if !self.member_of.iter().any(is_known) {
                let volume = running_volume(&holder);
                self.add(Membership::Array { name, volume });
            }
            return;
        }
        let text = |attribute: &str| sysfs::text(&holder.join(attribute)).unwrap_or_default();
        let (uuid, dm_name) = (text("dm/uuid").to_lowercase(), text("dm/name"));
        if uuid.starts_with("lvm-") {
            let known = |known: &Membership| matches!(known, Membership::VolumeGroup(_));
            if !self.member_of.iter().any(known) {
                self.add(Membership::VolumeGroup(group_of(&dm_name)));
            }
        } else if uuid.starts_with("mpath-") {
            self.add(Membership::Multipath(dm_name));
        }
    }
}

/// The volume group in a logical volume's name for device-mapper: `vg-lv`, with
/// each `-` of the two names doubled.
fn group_of(name: &str) -> String {
    let doubled = name.replace("--", "\0");
    let group = doubled.split('-').next().unwrap_or_default();
    group.replace('\0', "-")
}

/// The volume name of a running array, as its members say it.
fn running_volume(block: &SystemPath) -> Option<String> {
    if !block.join("md").is_dir() {
        return None;
    }
    let members = block.join("slaves");
    sysfs::names(&members).iter().find_map(|member| {
        let (file, size) = open(&members.join(member).resolved()?)?;
        let superblocks = md_superblock::find_readable(&file, size);
        let names = superblocks.iter().filter_map(|found| found.volume_name());
        names.map(str::to_owned).next()
    })
}

fn with_partitions(block: &SystemPath) -> Vec<SystemPath> {
    let partitions = sysfs::names(block)
        .into_iter()
        .map(|name| block.join(name))
        .filter(|directory| directory.join("partition").exists());
    [block.clone()].into_iter().chain(partitions).collect()
}

/// A disk or partition, with its size in bytes.
fn open(device: &SystemPath) -> Option<(File, u64)> {
    let file = File::open(device.join("/dev").join(device.name()?).on_disk()?).ok()?;
    let size = match device.is_live() {
        true => block_ioctl::size_bytes(&file).ok()?,
        // A file stands for the disk of a captured tree.
        false => file.metadata().ok()?.len(),
    };
    Some((file, size))
}

#[cfg(test)]
mod tests;
