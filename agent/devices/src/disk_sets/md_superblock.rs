//! Finds the superblocks of Linux software RAID members
//! (include/uapi/linux/raid/md_p.h). The parser does no I/O.

pub mod version_1;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use landfall_media_formats::little_endian::{u32_at, u64_at};
use uuid::Uuid;

use self::version_1::{NAME_LEN, SECTOR, at};

/// The maximum number of bytes that [`MdSuperblock::parse`] uses. The kernel writes no
/// longer superblock, not counting a bitmap.
pub const LEN: usize = 4096;

/// `MD_SB_MAGIC`.
pub const MAGIC: u32 = 0xa92b_4efc;
/// `MD_RESERVED_BYTES`: version 0.90 reserves this many bytes at the end of the
/// device.
const RESERVED: u64 = 64 << 10;

/// The places where a superblock may be. The names are mdadm's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// At the end, in the last whole 64 KiB.
    V0_90,
    /// 8 to 12 KiB before the end.
    V1_0,
    /// At the start.
    V1_1,
    /// 4 KiB from the start.
    V1_2,
}

impl Version {
    pub const ALL: [Self; 4] = [Self::V0_90, Self::V1_0, Self::V1_1, Self::V1_2];

    /// The offset in bytes on a device of this size, `None` if it is too small.
    pub fn offset(self, size: u64) -> Option<u64> {
        let offset = match self {
            Self::V0_90 => (size - size % RESERVED).checked_sub(RESERVED)?,
            Self::V1_0 => (size - size % 4096).checked_sub(8192)?,
            Self::V1_1 => 0,
            Self::V1_2 => 4096,
        };
        (offset + LEN as u64 <= size).then_some(offset)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdSuperblock {
    pub version: Version,
    /// In bytes from the start of the device.
    pub offset: u64,
    /// The UUID of the array that the device belongs to, in the order in which mdadm
    /// prints it.
    pub array: Uuid,
    /// The array's name as mdadm writes it, usually `host:name`. Version 0.90 has
    /// none.
    pub name: Option<String>,
    /// The number of members of the complete array, without spares.
    pub disks: u32,
}

impl MdSuperblock {
    /// Parses the bytes at the place of a superblock of this version, on a device of
    /// `size` bytes. Returns `None` if the bytes are not a superblock of this device.
    pub fn parse(bytes: &[u8], version: Version, size: u64) -> Option<Self> {
        let offset = version.offset(size)?;
        if bytes.len() < 256 {
            return None;
        }
        let little = |at: usize| u32_at(bytes, at);
        if version == Version::V0_90 {
            // Version 0.90 has the byte order of the machine that made it.
            let big = |at: usize| little(at).map(u32::swap_bytes);
            let is_big = big(0) == Some(MAGIC);
            let word = |at| if is_big { big(at) } else { little(at) };
            if word(0) != Some(MAGIC) || word(4) != Some(0) {
                return None;
            }
            // If the size in the superblock is larger than the space before the
            // superblock, the superblock belongs to a longer device that ends at the
            // same place: for example to the whole disk, if this device is its last
            // partition.
            let used = u64::from(word(32)?) << 10;
            if used > offset {
                return None;
            }
            let mut array = [0; 16];
            for (part, at) in array.chunks_exact_mut(4).zip([20, 52, 56, 60]) {
                // Big-endian, because mdadm prints this UUID as four numbers
                // (`swapuuid` of super0.c is 0). For superblocks of version 1, mdadm
                // prints the UUID byte by byte.
                part.copy_from_slice(&word(at)?.to_be_bytes());
            }
            return Some(Self {
                version,
                offset,
                array: Uuid::from_bytes(array),
                name: None,
                disks: word(40)?,
            });
        }
        let sector = u64_at(bytes, at::SUPER_OFFSET)?;
        let is_version_1 = little(at::MAGIC) == Some(MAGIC) && little(at::MAJOR_VERSION) == Some(1);
        if !is_version_1 || sector != offset / SECTOR {
            return None;
        }
        let name = bytes.get(at::SET_NAME..)?.get(..NAME_LEN)?;
        let end = { name.iter() }.position(|&byte| byte == 0);
        let end = end.unwrap_or(NAME_LEN);
        let array = bytes.get(at::SET_UUID..)?.first_chunk()?;
        Some(Self {
            version,
            offset,
            array: Uuid::from_bytes(*array),
            name: Some(String::from_utf8_lossy(&name[..end]).into_owned()),
            disks: little(at::RAID_DISKS)?,
        })
    }

    /// The array's name without the name of the host that made it, to compare with
    /// `volume_name` in the node's properties.
    pub fn volume_name(&self) -> Option<&str> {
        let name = self.name.as_deref()?;
        Some(name.split_once(':').map_or(name, |(_, name)| name))
    }
}

/// Every superblock on a device of `size` bytes.
///
/// # Errors
/// If one of the places of a superblock cannot be read.
pub fn find(device: &File, size: u64) -> io::Result<Vec<MdSuperblock>> {
    let places = Version::ALL.into_iter();
    let found = places.map(|version| find_version(device, size, version));
    found.filter_map(io::Result::transpose).collect()
}

/// The superblocks in the places that can be read. A bad sector at the end of a
/// disk must not hide the superblock at its start, because the disk is still a
/// member of its array.
pub fn find_readable(device: &File, size: u64) -> Vec<MdSuperblock> {
    let places = Version::ALL.into_iter();
    places
        .filter_map(|version| find_version(device, size, version).ok().flatten())
        .collect()
}

fn find_version(device: &File, size: u64, version: Version) -> io::Result<Option<MdSuperblock>> {
    let Some(offset) = version.offset(size) else {
        return Ok(None);
    };
    let mut bytes = vec![0; LEN];
    device.read_exact_at(&mut bytes, offset)?;
    Ok(MdSuperblock::parse(&bytes, version, size))
}

/// A superblock of this version, as mdadm writes it. The offsets are literal numbers, so
/// that a wrong offset in [`version_1::at`] fails the tests.
#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, reason = "only tests call it")]
pub fn superblock(version: Version, size: u64, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &MAGIC.to_le_bytes());
    if version == Version::V0_90 {
        put(8, &90u32.to_le_bytes());
        put(20, &[1; 4]);
        put(
            32,
            &(u32::try_from(size >> 10).unwrap() - 128).to_le_bytes(),
        );
        put(52, &[2; 12]);
        return bytes;
    }
    put(4, &1u32.to_le_bytes());
    put(16, &[7; 16]);
    put(32, name.as_bytes());
    put(144, &(version.offset(size).unwrap() / 512).to_le_bytes());
    // `max_dev` is 0, so there are no roles. The tests of the code that writes
    // superblocks check the checksum with mdadm.
    let sum = version_1::checksum(&bytes[..256]);
    bytes[216..220].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_place_that_cannot_be_read_hides_no_other() {
        let size = 64 << 20;
        let file = tempfile::tempfile().unwrap();
        let offset = Version::V1_2.offset(size).unwrap();
        let bytes = superblock(Version::V1_2, size, "host:data");
        file.write_all_at(&bytes, offset).unwrap();
        // The file is shorter than `size`, so reads at the end fail, as they do at a
        // bad sector.
        file.set_len(size / 2).unwrap();
        assert!(find(&file, size).is_err());
        let found = find_readable(&file, size);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].volume_name(), Some("data"));
    }

    #[test]
    fn every_version_is_found_where_it_belongs() {
        let size = (8 << 20) + 4096 + 512;
        for version in Version::ALL {
            let file = tempfile::tempfile().unwrap();
            file.set_len(size).unwrap();
            assert_eq!(find(&file, size).unwrap(), []);
            let offset = version.offset(size).unwrap();
            file.write_all_at(&superblock(version, size, "host:data"), offset)
                .unwrap();
            let found = find(&file, size).unwrap();
            assert_eq!(found.len(), 1, "{version:?}");
            assert_eq!((found[0].version, found[0].offset), (version, offset));
            let name = (version != Version::V0_90).then_some("data");
            assert_eq!(found[0].volume_name(), name);
        }
    }

    /// mdadm prints 01234567:89abcdef:00112233:44556677 for version 0.90 and for version
    /// 1.2.
    #[test]
    fn the_uuid_of_version_0_90_is_four_numbers() {
        let size = 8 << 20;
        let words = [0x0123_4567_u32, 0x89ab_cdef, 0x0011_2233, 0x4455_6677];
        let expected = Uuid::from_u128(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        let mut old = superblock(Version::V0_90, size, "");
        for (at, word) in [20, 52, 56, 60].into_iter().zip(words) {
            old[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let found = MdSuperblock::parse(&old, Version::V0_90, size).unwrap();
        assert_eq!(found.array, expected);
        let mut new = superblock(Version::V1_2, size, "");
        new[16..32].copy_from_slice(expected.as_bytes());
        let found = MdSuperblock::parse(&new, Version::V1_2, size).unwrap();
        assert_eq!(found.array, expected);
        let as_big_endian: Vec<u8> = { old.chunks_exact(4) }
            .flat_map(|word| [word[3], word[2], word[1], word[0]])
            .collect();
        let found = MdSuperblock::parse(&as_big_endian, Version::V0_90, size).unwrap();
        assert_eq!(found.array, expected);
    }

    #[test]
    fn a_copy_at_another_place_is_none() {
        let size = 8 << 20;
        let bytes = superblock(Version::V1_2, size, "a");
        assert!(MdSuperblock::parse(&bytes, Version::V1_2, size).is_some());
        assert!(MdSuperblock::parse(&bytes, Version::V1_1, size).is_none());
        let bytes = superblock(Version::V0_90, size * 2, "");
        assert!(MdSuperblock::parse(&bytes, Version::V0_90, size).is_none());
    }
}
