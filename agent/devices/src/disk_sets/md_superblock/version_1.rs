//! The format of superblocks of version 1 (`struct mdp_superblock_1` of
//! include/uapi/linux/raid/md_p.h), for the code that reads them and the code that writes
//! them. All their numbers are little-endian.

/// The unit of offsets and sizes, in bytes.
pub const SECTOR: u64 = 512;
/// The longest name, in bytes. A shorter one ends with a NUL.
pub const NAME_LEN: usize = 32;

/// The offsets of the fields in bytes, under the names that md_p.h has for them.
pub mod at {
    pub const MAGIC: usize = 0;
    pub const MAJOR_VERSION: usize = 4;
    pub const SET_UUID: usize = 16;
    pub const SET_NAME: usize = 32;
    pub const CTIME: usize = 64;
    pub const LEVEL: usize = 72;
    pub const LAYOUT: usize = 76;
    pub const SIZE: usize = 80;
    pub const CHUNKSIZE: usize = 88;
    pub const RAID_DISKS: usize = 92;
    pub const DATA_OFFSET: usize = 128;
    pub const DATA_SIZE: usize = 136;
    pub const SUPER_OFFSET: usize = 144;
    pub const DEV_NUMBER: usize = 160;
    pub const DEVICE_UUID: usize = 168;
    pub const UTIME: usize = 192;
    pub const EVENTS: usize = 200;
    pub const RESYNC_OFFSET: usize = 208;
    pub const SB_CSUM: usize = 216;
    pub const MAX_DEV: usize = 220;
    /// Two bytes for each of `MAX_DEV` devices.
    pub const DEV_ROLES: usize = 256;
}

/// The checksum that `calc_sb_1_csum` in drivers/md/md.c computes, over all bytes up to
/// the last role. The checksum field itself must be zero.
pub fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(4);
    let sum: u64 = words
        .map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    // Both casts keep the low 32 bits, as the kernel does.
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
