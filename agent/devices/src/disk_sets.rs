//! Finds the disks that belong together: the members of a software RAID, of a firmware
//! RAID, of an LVM volume group or of a multipath set. A write to one member destroys
//! the whole set, and may destroy data that is still needed.
//!
//! The ramdisk assembles none of these sets, except for the volumes of the node's RAID
//! configuration, so the kernel does not list them all. This module also reads the
//! signatures on disks and partitions.

pub mod firmware_raid;
pub mod lvm;
pub mod md_superblock;

use std::fmt;
use std::fs::File;

use landfall_sys::block_ioctl;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use crate::block_graph;

/// A set that a disk belongs to. The text continues a sentence that begins "it is".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// A software RAID, running or not.
    Array {
        /// The array's name as mdadm writes it. If the array has no name: its UUID, or
        /// the kernel's name of the array.
        name: String,
        /// The array's name without the host, to compare with `volume_name` in the
        /// node's properties.
        volume: Option<String>,
    },
    /// A RAID that firmware builds from ordinary disks. Holds its kind.
    FirmwareRaid(&'static str),
    /// An LVM volume group that is active, or that has or may have other members.
    VolumeGroup(String),
    /// An LVM volume group whose metadata are on other disks, or are damaged.
    UnknownVolumeGroup,
    /// A multipath set that the kernel runs.
    Multipath(String),
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array { name, .. } => write!(f, "a member of the software RAID {name}"),
            Self::FirmwareRaid(kind) => write!(f, "a member of a firmware RAID ({kind})"),
            Self::VolumeGroup(name) => write!(f, "a member of the LVM volume group {name}"),
            Self::UnknownVolumeGroup => {
                f.write_str("an LVM physical volume whose metadata are damaged or on other disks")
            }
            Self::Multipath(name) => write!(f, "a path of the multipath disk {name}"),
        }
    }
}

/// How a disk is related to sets of disks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskSets {
    /// The sets that the disk or one of its partitions belongs to.
    pub member_of: Vec<Membership>,
    /// The volume name if the disk itself is a software RAID.
    pub volume: Option<String>,
    /// True if memberships may be missing. Either the agent found no superblock on a
    /// device and could not read all places where one may be, or the kernel did not
    /// list all partitions or all devices that are built on the disk or its partitions.
    pub unread: bool,
}

impl DiskSets {
    /// Examines the disk that has this directory in sysfs. If the disk has disappeared,
    /// the result is empty. The signatures of a device that cannot be opened are skipped;
    /// the code that uses the disk reports the error.
    pub fn of(block: &SystemPath) -> Self {
        let Some(block) = block.resolved() else {
            return Self::default();
        };
        let mut sets = Self {
            volume: running_volume(&block),
            ..Self::default()
        };
        let partitions = block_graph::partitions(&block);
        sets.unread |= partitions.unread.is_some();
        let partitions = partitions.readable.into_iter();
        let partitions = partitions.map(|(_, directory)| directory);
        for device in [block].into_iter().chain(partitions) {
            sets.add_signatures(&device);
            let directory = device.join("holders");
            let holders = block_graph::holders(&device);
            sets.unread |= holders.is_err();
            for holder in holders.unwrap_or_default() {
                sets.add_holder(&directory.join(&holder), holder);
            }
        }
        sets
    }

    /// The first of these volumes that the disk is or belongs to.
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
            let unknown = Membership::UnknownVolumeGroup;
            self.add(group.name.map_or(unknown, Membership::VolumeGroup));
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
                self.member_of
                    .retain(|known| *known != Membership::UnknownVolumeGroup);
                self.add(Membership::VolumeGroup(group_of(&dm_name)));
            }
        } else if uuid.starts_with("mpath-") {
            self.add(Membership::Multipath(dm_name));
        }
    }
}

/// The volume group in the device-mapper name of a logical volume: `vg-lv`, with
/// each `-` inside the two names doubled.
fn group_of(name: &str) -> String {
    let doubled = name.replace("--", "\0");
    let group = doubled.split('-').next().unwrap_or_default();
    group.replace('\0', "-")
}

/// The volume name of a running array, from the superblocks of its members. `None` if the
/// disk is no array, or if no superblock that can be read has a name.
fn running_volume(block: &SystemPath) -> Option<String> {
    if !block.join("md").is_dir() {
        return None;
    }
    let slaves = block.join("slaves");
    let members = block_graph::parts(block).unwrap_or_default();
    members.iter().find_map(|member| {
        let (file, size) = open(&slaves.join(member).resolved()?)?;
        let superblocks = md_superblock::find_readable(&file, size);
        let names = superblocks.iter().filter_map(|found| found.volume_name());
        names.map(str::to_owned).next()
    })
}

/// Opens a disk or partition, and determines its size in bytes.
fn open(device: &SystemPath) -> Option<(File, u64)> {
    let file = File::open(device.join("/dev").join(device.name()?).on_disk()?).ok()?;
    let size = match device.is_live() {
        true => block_ioctl::size_bytes(&file).ok()?,
        // In a captured tree a file takes the place of the disk.
        false => file.metadata().ok()?.len(),
    };
    Some((file, size))
}

#[cfg(test)]
mod tests;
