//! The superblocks of the members of a new array, version 1.0 or 1.2
//! (include/uapi/linux/raid/md_p.h). This module does no I/O.

use std::fmt;

use landfall_devices::disk_sets::md_superblock::version_1::{NAME_LEN, SECTOR, at, checksum};
use landfall_devices::disk_sets::md_superblock::{LEN, MAGIC, Version};
use uuid::Uuid;

/// In bytes: the place where the data of a member with version 1.2 begins. The space
/// before the data has room for the bitmap and the bad-block log that mdadm may add
/// later.
const DATA_OFFSET: u64 = 8 << 20;
/// mdadm's default, in bytes. Levels without stripes have no chunks.
const CHUNK: u64 = 512 << 10;
/// The largest number of members. The superblock has a role for each member, and mdadm
/// reserves space for the same number of members.
pub const MOST_MEMBERS: usize = 128;
/// In bytes.
const ROLES_LEN: usize = MOST_MEMBERS * 2;
/// The resync offset in the superblock if the members are completely in sync
/// (`MaxSector`).
const IN_SYNC: u64 = u64::MAX;

/// A RAID level that Ironic offers for software RAID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Raid0,
    Raid1,
    Raid5,
    Raid6,
    Raid10,
}

impl Level {
    /// The level with this name in Ironic.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "0" => Self::Raid0,
            "1" => Self::Raid1,
            "5" => Self::Raid5,
            "6" => Self::Raid6,
            "1+0" => Self::Raid10,
            _ => return None,
        })
    }

    /// The smallest number of disks.
    pub fn fewest_disks(self) -> usize {
        match self {
            // The kernel runs RAID 10 on two disks; Ironic's agent accepts that.
            Self::Raid0 | Self::Raid1 | Self::Raid10 => 2,
            Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid5 => 5,
            Self::Raid6 => 6,
            Self::Raid10 => 10,
        }
    }

    /// mdadm's defaults: left-symmetric (`ALGORITHM_LEFT_SYMMETRIC`), and for RAID 10 two
    /// near copies (drivers/md/raid10.c, `setup_geo`).
    fn layout(self) -> u32 {
        match self {
            Self::Raid0 | Self::Raid1 => 0,
            Self::Raid5 | Self::Raid6 => 2,
            Self::Raid10 => 0x102,
        }
    }

    fn chunk(self) -> u64 {
        match self {
            Self::Raid1 => 0,
            _ => CHUNK,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RAID {}", self.number())
    }
}

/// An array to make.
#[derive(Debug, Clone)]
pub(super) struct NewArray {
    pub array: Uuid,
    pub name: String,
    pub level: Level,
    /// 1.0 or 1.2.
    pub version: Version,
    /// The sizes of all members, in bytes.
    pub members: Vec<u64>,
    /// Seconds since 1970.
    pub created: u64,
}

/// Where the data of a member are, in bytes.
struct Data {
    offset: u64,
    len: u64,
}

impl NewArray {
    fn data(&self, size: u64) -> Option<Data> {
        let place = self.version.offset(size)?;
        // Version 1.0 has its superblock at the end of the member, version 1.2 near the
        // start.
        let (offset, end) = match self.version {
            Version::V1_0 => (0, place),
            _ => (DATA_OFFSET, size),
        };
        let unit = self.level.chunk().max(4096);
        let len = end.checked_sub(offset)? / unit * unit;
        (len > 0).then_some(Data { offset, len })
    }

    /// Returns the superblock of a member and its offset in bytes. `None` if there is
    /// no such member, if one of the members is too small, or if there are too many
    /// members.
    pub fn superblock(&self, index: usize, device: Uuid) -> Option<(u64, Vec<u8>)> {
        if self.members.len() > MOST_MEMBERS {
            return None;
        }
        let size = *self.members.get(index)?;
        let place = self.version.offset(size)?;
        let data = self.data(size)?;
        // How much of each member is used: the length that the smallest member has. For
        // RAID 0 the superblock says 0, because RAID 0 uses all of every member.
        let used = { self.members.iter() }
            .map(|size| self.data(*size).map(|data| data.len))
            .collect::<Option<Vec<u64>>>()?;
        let used = match self.level {
            Level::Raid0 => 0,
            _ => used.into_iter().min()?,
        };
        // At all levels except RAID 0, the kernel resyncs the array after the start. The
        // array of the copies of an EFI system partition needs this too, because the
        // copies have different old data behind the copied bytes.
        let in_sync = self.level == Level::Raid0;
        let mut bytes = vec![0; LEN];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(at::MAGIC, &MAGIC.to_le_bytes());
        put(at::MAJOR_VERSION, &1u32.to_le_bytes());
        put(at::SET_UUID, self.array.as_bytes());
        let name = self.name.as_bytes();
        put(at::SET_NAME, &name[..name.len().min(NAME_LEN)]);
        put(at::CTIME, &self.created.to_le_bytes());
        put(at::LEVEL, &self.level.number().to_le_bytes());
        put(at::LAYOUT, &self.level.layout().to_le_bytes());
        put(at::SIZE, &(used / SECTOR).to_le_bytes());
        let chunk = u32_of(self.level.chunk() / SECTOR)?;
        put(at::CHUNKSIZE, &chunk.to_le_bytes());
        let disks = u32_of(self.members.len() as u64)?;
        put(at::RAID_DISKS, &disks.to_le_bytes());
        put(at::DATA_OFFSET, &(data.offset / SECTOR).to_le_bytes());
        put(at::DATA_SIZE, &(data.len / SECTOR).to_le_bytes());
        put(at::SUPER_OFFSET, &(place / SECTOR).to_le_bytes());
        put(at::DEV_NUMBER, &u32_of(index as u64)?.to_le_bytes());
        put(at::DEVICE_UUID, device.as_bytes());
        put(at::UTIME, &self.created.to_le_bytes());
        put(at::EVENTS, &1u64.to_le_bytes());
        let synced = if in_sync { IN_SYNC } else { 0 };
        put(at::RESYNC_OFFSET, &synced.to_le_bytes());
        put(at::MAX_DEV, &u32_of(MOST_MEMBERS as u64)?.to_le_bytes());
        // The role of each member is its index. All other roles are those of spares
        // (0xffff).
        put(at::DEV_ROLES, &[0xff; ROLES_LEN]);
        for role in 0..self.members.len() {
            let place = at::DEV_ROLES + role * 2;
            put(place, &u16::try_from(role).ok()?.to_le_bytes());
        }
        let sum = checksum(&bytes[..at::DEV_ROLES + ROLES_LEN]);
        bytes[at::SB_CSUM..][..4].copy_from_slice(&sum.to_le_bytes());
        Some((place, bytes))
    }
}

fn u32_of(value: u64) -> Option<u32> {
    u32::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;
    use std::process::Command;

    use landfall_devices::disk_sets::md_superblock::MdSuperblock;
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn array(level: Level, version: Version, members: Vec<u64>) -> NewArray {
        NewArray {
            array: Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
            name: "root".to_owned(),
            level,
            version,
            members,
            created: 1_700_000_000,
        }
    }

    /// mdadm checks the fields that our own parser does not read.
    #[test]
    fn mdadm_reads_it() {
        if Command::new("/sbin/mdadm")
            .arg("--version")
            .output()
            .is_err()
        {
            return landfall_sys::skip::skip("mdadm is not installed");
        }
        for (level, members, name) in [
            (Level::Raid0, 2, "raid0"),
            (Level::Raid1, 2, "raid1"),
            (Level::Raid5, 3, "raid5"),
            (Level::Raid6, 4, "raid6"),
            (Level::Raid10, 2, "raid10"),
        ] {
            for version in [Version::V1_0, Version::V1_2] {
                let new = array(level, version, vec![64 * MIB; members]);
                let (place, bytes) = new.superblock(1, Uuid::from_u128(5)).unwrap();
                let file = tempfile::NamedTempFile::new().unwrap();
                file.as_file().set_len(64 * MIB).unwrap();
                file.as_file().write_all_at(&bytes, place).unwrap();
                let examined = Command::new("/sbin/mdadm")
                    .arg("--examine")
                    .arg(file.path())
                    .output()
                    .unwrap();
                let text = String::from_utf8(examined.stdout).unwrap();
                let fields = [
                    "Array UUID : 01234567:89abcdef:01234567:89abcdef".to_owned(),
                    "Name : root".to_owned(),
                    format!("Raid Level : {name}"),
                    format!("Raid Devices : {members}"),
                    "Device Role : Active device 1".to_owned(),
                    " - correct".to_owned(),
                ];
                for field in fields {
                    assert!(text.contains(&field), "{level} {version:?} {field}: {text}");
                }
            }
        }
    }

    /// If a superblock claimed that the members are in sync, a scrub would report
    /// mismatches, and a read could return the old data of either member.
    #[test]
    fn nothing_is_called_the_same_before_the_kernel_has_made_it_so() {
        for version in [Version::V1_0, Version::V1_2] {
            let new = array(Level::Raid1, version, vec![64 * MIB; 2]);
            let (_, bytes) = new.superblock(0, Uuid::from_u128(5)).unwrap();
            assert_eq!(bytes[at::RESYNC_OFFSET..][..8], [0; 8], "{version:?}");
        }
    }

    #[test]
    fn members_that_are_too_small_or_too_many_are_none() {
        let device = Uuid::from_u128(5);
        let new = array(Level::Raid1, Version::V1_2, vec![64 * MIB, 8 * MIB]);
        assert!(new.superblock(0, device).is_none());
        let new = array(Level::Raid1, Version::V1_2, vec![64 * MIB, 9 * MIB]);
        assert!(new.superblock(0, device).is_some());
        assert!(new.superblock(2, device).is_none());
        let of = |count| array(Level::Raid1, Version::V1_2, vec![64 * MIB; count]);
        assert!(of(MOST_MEMBERS).superblock(0, device).is_some());
        assert!(of(MOST_MEMBERS + 1).superblock(0, device).is_none());
    }

    proptest! {
        /// Our parser reads the superblock that this module makes, and finds the same
        /// offset and fields.
        #[test]
        fn it_is_found_again(
            size in 20 * MIB..200 * MIB,
            name in "[a-z0-9._-]{1,32}",
            is_at_end: bool,
            index in 0usize..3,
        ) {
            let version = if is_at_end { Version::V1_0 } else { Version::V1_2 };
            let size = size / 512 * 512;
            let new = NewArray {
                name: name.clone(),
                ..array(Level::Raid5, version, vec![size; 3])
            };
            let (place, bytes) = new.superblock(index, Uuid::from_u128(9)).unwrap();
            let found = MdSuperblock::parse(&bytes, version, size).unwrap();
            prop_assert_eq!(found.offset, place);
            prop_assert_eq!(found.array, new.array);
            prop_assert_eq!(found.name, Some(name));
            prop_assert_eq!(found.disks, 3);
            prop_assert!(place + bytes.len() as u64 <= size);
        }
    }

    #[test]
    fn a_stored_superblock_is_read_from_a_file() {
        let file: File = tempfile::tempfile().unwrap();
        file.set_len(64 * MIB).unwrap();
        let new = array(Level::Raid1, Version::V1_2, vec![64 * MIB; 2]);
        let (place, bytes) = new.superblock(0, Uuid::from_u128(5)).unwrap();
        file.write_all_at(&bytes, place).unwrap();
        let found = landfall_devices::disk_sets::md_superblock::find(&file, 64 * MIB).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].volume_name(), Some("root"));
    }
}
