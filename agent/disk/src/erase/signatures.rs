//! The signatures by which the kernel, boot loaders and libblkid recognise the
//! content of a disk: file systems, RAID members, volumes, partition tables.
//!
//! Positions and bytes come from the specifications of the formats and were
//! compared with the probes of libblkid (util-linux 2.38 to 2.42). Checksums that
//! follow a magic are not verified, because the agent destroys every signature that
//! it finds.

#[derive(Debug, Clone, Copy)]
pub struct Signature {
    /// What the signature stands for, with the name that libblkid uses.
    pub kind: &'static str,
    pub magic: &'static [u8],
    pub place: Place,
}

/// Position of a signature. All numbers are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Offset from the start.
    Start(u64),
    /// At `count` offsets, `step` apart.
    Every {
        /// The first offset.
        first: u64,
        step: u64,
        count: u64,
    },
    /// Relative to the end: the offset is the size, rounded down to a multiple of
    /// `align`, minus `back`, plus `plus`.
    End {
        /// A power of two.
        align: u64,
        back: u64,
        plus: u64,
    },
}

impl Place {
    /// The offsets on a device of this size at which `len` bytes still fit.
    pub fn offsets(self, size: u64, len: usize) -> impl Iterator<Item = u64> {
        let (first, step, count) = match self {
            Self::Start(offset) => (Some(offset), 0, 1),
            Self::Every { first, step, count } => (Some(first), step, count),
            Self::End { align, back, plus } => {
                let end = size - size % align;
                (end.checked_sub(back).map(|start| start + plus), 0, 1)
            }
        };
        first
            .into_iter()
            .flat_map(move |first| (0..count).map(move |index| first + index * step))
            .filter(move |offset| offset.saturating_add(len as u64) <= size)
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const fn at(kind: &'static str, magic: &'static [u8], offset: u64) -> Signature {
    Signature {
        kind,
        magic,
        place: Place::Start(offset),
    }
}

const fn every(
    kind: &'static str,
    magic: &'static [u8],
    first: u64,
    step: u64,
    count: u64,
) -> Signature {
    Signature {
        kind,
        magic,
        place: Place::Every { first, step, count },
    }
}

const fn end(
    kind: &'static str,
    magic: &'static [u8],
    align: u64,
    back: u64,
    plus: u64,
) -> Signature {
    Signature {
        kind,
        magic,
        place: Place::End { align, back, plus },
    }
}

/// A signature near the end. It is `plus` bytes behind the start of the last
/// `sectors` sectors of 512 bytes.
const fn last(kind: &'static str, magic: &'static [u8], sectors: u64, plus: u64) -> Signature {
    end(kind, magic, 512, sectors * 512, plus)
}

const MD: &[u8] = b"\xfc\x4e\x2b\xa9";
const MD_BIG_ENDIAN: &[u8] = b"\xa9\x2b\x4e\xfc";
const LUKS_SECOND: &[u8] = b"SKUL\xba\xbe";
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const BTRFS: &[u8] = b"_BHRfS_M";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const PROMISE: &[u8] = b"Promise Technology, Inc.";
/// The nvlist header of a label: XDR, host byte order, version 0, unique names.
const ZFS: &[u8] = b"\x01\x01\0\0\0\0\0\0\0\0\0\x01";
const ZFS_BIG_ENDIAN: &[u8] = b"\x01\0\0\0\0\0\0\0\0\0\0\x01";
const ZFS_UBERBLOCK: &[u8] = b"\x0c\xb1\xba\0\0\0\0\0";
const ZFS_UBERBLOCK_BIG_ENDIAN: &[u8] = b"\0\0\0\0\0\xba\xb1\x0c";
const ZFS_LABEL: u64 = 256 * KIB;

pub const SIGNATURES: &[Signature] = &[
    // Partition tables.
    at("dos", b"\x55\xaa", 510),
    at("gpt", b"EFI PART", 512),
    at("gpt", b"EFI PART", 4096),
    end("gpt", b"EFI PART", 512, 512, 0),
    end("gpt", b"EFI PART", 4096, 4096, 0),
    at("sun", b"\xda\xbe", 508),
    at("sgi", b"\x0b\xe5\xa9\x41", 0),
    at("mac", b"\x45\x52", 0),
    every("mac", b"PM\0\0", 512, 512, 64),
    at("bsd", b"\x57\x45\x56\x82", 512),
    at("bsd", b"\x57\x45\x56\x82", 64),
    at("bsd", b"\x57\x45\x56\x82", 128),
    at("solaris", b"\xee\xde\x0d\x60", 512 + 12),
    at("unixware", b"\x0d\x60\xe5\xca", 29 * 512 + 4),
    at("aix", b"\xc9\xc2\xd4\xc1", 0),
    // Linux software RAID.
    at("linux_raid_member", MD, 0),
    at("linux_raid_member", MD, 4096),
    end("linux_raid_member", MD, 4096, 8192, 0),
    end("linux_raid_member", MD, 64 * KIB, 64 * KIB, 0),
    end("linux_raid_member", MD_BIG_ENDIAN, 64 * KIB, 64 * KIB, 0),
    // Firmware RAID.
    last("ddf_raid_member", b"\xde\x11\xde\x11", 1, 0),
    last("ddf_raid_member", b"\xde\x11\xde\x11", 257, 0),
    end("ddf_raid_member", b"\xde\x11\xde\x11", 4096, 4096, 0),
    last("isw_raid_member", b"Intel Raid ISM Cfg Sig. ", 2, 0),
    end(
        "isw_raid_member",
        b"Intel Raid ISM Cfg Sig. ",
        4096,
        8192,
        0,
    ),
    last("adaptec_raid_member", b"\x37\xfc\x4d\x1e", 1, 0),
    last("hpt45x_raid_member", b"\xf3\x16\x78\x5a", 11, 0),
    last("hpt45x_raid_member", b"\xfd\x16\x78\x5a", 11, 0),
    at("hpt37x_raid_member", b"\xf0\x16\x78\x5a", 9 * 512 + 32),
    at("hpt37x_raid_member", b"\xfd\x16\x78\x5a", 9 * 512 + 32),
    last("jmicron_raid_member", b"JM", 1, 0),
    last("lsi_mega_raid_member", b"$XIDE$", 1, 0),
    last("nvidia_raid_member", b"NVIDIA  ", 2, 0),
    last("silicon_medley_raid_member", b"\0\0\0\x2f", 1, 0x60),
    last("via_raid_member", b"\x55\xaa", 1, 0),
    last("promise_fasttrack_raid_member", PROMISE, 63, 0),
    last("promise_fasttrack_raid_member", PROMISE, 255, 0),
    last("promise_fasttrack_raid_member", PROMISE, 256, 0),
    last("promise_fasttrack_raid_member", PROMISE, 16, 0),
    last("promise_fasttrack_raid_member", PROMISE, 399, 0),
    last("promise_fasttrack_raid_member", PROMISE, 591, 0),
    last("promise_fasttrack_raid_member", PROMISE, 675, 0),
    last("promise_fasttrack_raid_member", PROMISE, 735, 0),
    last("promise_fasttrack_raid_member", PROMISE, 911, 0),
    last("promise_fasttrack_raid_member", PROMISE, 974, 0),
    last("promise_fasttrack_raid_member", PROMISE, 991, 0),
    last("promise_fasttrack_raid_member", PROMISE, 951, 0),
    last("promise_fasttrack_raid_member", PROMISE, 3087, 0),
    // Volumes, encryption, caches, distributed storage.
    every("LVM2_member", b"LABELONE", 0, 512, 4),
    every("LVM2_member", b"LVM2 001", 0x18, 512, 4),
    at("LVM1_member", b"HM", 0),
    at("DM_snapshot_cow", b"SnAp", 0),
    at("DM_verity_hash", b"verity\0\0", 0),
    at("DM_integrity", b"integrt\0", 0),
    at("crypto_LUKS", b"LUKS\xba\xbe", 0),
    at("crypto_LUKS", LUKS_SECOND, 0x4000),
    at("crypto_LUKS", LUKS_SECOND, 0x8000),
    at("crypto_LUKS", LUKS_SECOND, 0x1_0000),
    at("crypto_LUKS", LUKS_SECOND, 0x2_0000),
    at("crypto_LUKS", LUKS_SECOND, 0x4_0000),
    at("crypto_LUKS", LUKS_SECOND, 0x8_0000),
    at("crypto_LUKS", LUKS_SECOND, 0x10_0000),
    at("crypto_LUKS", LUKS_SECOND, 0x20_0000),
    at("crypto_LUKS", LUKS_SECOND, 0x40_0000),
    at("BitLocker", b"-FVE-FS-", 3),
    at("BitLocker", b"MSWIN4.1", 3),
    at("cs_fvault2", b"CS", 88),
    at("bcache", BCACHE, 4096 + 24),
    at("vdo", b"dmvdo001", 0),
    at("stratis", STRATIS, 512 + 4),
    at("stratis", STRATIS, 9 * 512 + 4),
    at("ceph_bluestore", b"bluestore block device", 0),
    end("drbd", b"\x83\x74\x02\x6b", 512, 4096, 60),
    end("drbd", b"\x83\x74\x02\x6c", 512, 4096, 60),
    end("drbd", b"\x83\x74\x02\x6d", 512, 4096, 60),
    at("drbdmanage_control_volume", b"$DRBDmgr=q", 0),
    at("drbdproxy_datalog", b"DRBDdlh*", 0),
    at("oracleasm", b"ORCLDISK", 32),
    at("VMFS_volume_member", b"\x0d\xd0\x01\xc0", MIB),
    at("VMFS", b"\x5e\xf1\xab\x2f", 2 * MIB),
    at("mpool", b"\x6d\x70\x6f\x6f\x6c\x44\x65\x76", 0),
    at("scoutfs", b"\x8b\x42\x3c\x10", 64 * KIB + 4),
    at("ubi", b"UBI#", 0),
    // Swap space and hibernation images, for pages of 4 to 64 KiB.
    at("swap", b"SWAP-SPACE", 0x0ff6),
    at("swap", b"SWAPSPACE2", 0x0ff6),
    at("swap", b"SWAP-SPACE", 0x1ff6),
    at("swap", b"SWAPSPACE2", 0x1ff6),
    at("swap", b"SWAP-SPACE", 0x3ff6),
    at("swap", b"SWAPSPACE2", 0x3ff6),
    at("swap", b"SWAP-SPACE", 0x7ff6),
    at("swap", b"SWAPSPACE2", 0x7ff6),
    at("swap", b"SWAP-SPACE", 0xfff6),
    at("swap", b"SWAPSPACE2", 0xfff6),
    at("swsuspend", b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c", 0),
    every("swsuspend", b"S1SUSPEND", 0x0ff6, 4096, 16),
    every("swsuspend", b"S2SUSPEND", 0x0ff6, 4096, 16),
    every("swsuspend", b"ULSUSPEND", 0x0ff6, 4096, 16),
    every("swsuspend", b"LINHIB0001", 0x0ff6, 4096, 16),
    // File systems.
    at("ext", b"\x53\xef", KIB + 0x38),
    at("xfs", b"XFSB", 0),
    every("xfs_external_log", b"\xfe\xed\xba\xbe", 0, 512, 512),
    at("btrfs", BTRFS, 64 * KIB + 0x40),
    at("btrfs", BTRFS, 64 * MIB + 0x40),
    at("btrfs", BTRFS, (256 << 30) + 0x40),
    at("bcachefs", BCACHEFS, 4096 + 24),
    at("bcachefs", BCACHE, 2 * MIB + 24),
    at("bcachefs", BCACHEFS, 2 * MIB + 24),
    end("bcachefs", BCACHEFS, 512, MIB, 24),
    at("zfs_member", ZFS, 16 * KIB),
    at("zfs_member", ZFS, ZFS_LABEL + 16 * KIB),
    end("zfs_member", ZFS, ZFS_LABEL, 2 * ZFS_LABEL, 16 * KIB),
    end("zfs_member", ZFS, ZFS_LABEL, ZFS_LABEL, 16 * KIB),
    at("zfs_member", ZFS_BIG_ENDIAN, 16 * KIB),
    at("zfs_member", ZFS_BIG_ENDIAN, ZFS_LABEL + 16 * KIB),
    end(
        "zfs_member",
        ZFS_BIG_ENDIAN,
        ZFS_LABEL,
        2 * ZFS_LABEL,
        16 * KIB,
    ),
    end("zfs_member", ZFS_BIG_ENDIAN, ZFS_LABEL, ZFS_LABEL, 16 * KIB),
    // The uberblocks of the two labels at the start. The labels at the end lie in
    // the range that `erase_metadata` always zeroes.
    every("zfs_member", ZFS_UBERBLOCK, 128 * KIB, KIB, 128),
    every("zfs_member", ZFS_UBERBLOCK, 384 * KIB, KIB, 128),
    every("zfs_member", ZFS_UBERBLOCK_BIG_ENDIAN, 128 * KIB, KIB, 128),
    every("zfs_member", ZFS_UBERBLOCK_BIG_ENDIAN, 384 * KIB, KIB, 128),
    at("f2fs", b"\x10\x20\xf5\xf2", KIB),
    at("f2fs", b"\x10\x20\xf5\xf2", 5 * KIB),
    at("nilfs2", b"\x34\x34", KIB + 6),
    end("nilfs2", b"\x34\x34", 4096, 4096, 6),
    at("vfat", b"MSWIN", 0x52),
    at("vfat", b"FAT32   ", 0x52),
    at("vfat", b"MSDOS", 0x36),
    at("vfat", b"FAT16   ", 0x36),
    at("vfat", b"FAT12   ", 0x36),
    at("vfat", b"FAT     ", 0x36),
    // The copies of the boot sector, for sectors of 512 and 4096 bytes.
    at("vfat", b"FAT32   ", 6 * 512 + 0x52),
    at("vfat", b"FAT32   ", 6 * 4096 + 0x52),
    at("exfat", b"EXFAT   ", 3),
    at("exfat", b"EXFAT   ", 12 * 512 + 3),
    at("exfat", b"EXFAT   ", 12 * 4096 + 3),
    at("ntfs", b"NTFS    ", 3),
    last("ntfs", b"NTFS    ", 1, 3),
    end("ntfs", b"NTFS    ", 4096, 4096, 3),
    at("ReFS", b"\0\0\0ReFS\0", 0),
    every("iso9660", b"CD001", 32 * KIB + 1, 2048, 16),
    every("iso9660", b"CDROM", 32 * KIB + 9, 2048, 16),
    every("udf", b"BEA01", 32 * KIB + 1, 2048, 64),
    every("udf", b"BOOT2", 32 * KIB + 1, 2048, 64),
    every("udf", b"CDW02", 32 * KIB + 1, 2048, 64),
    every("udf", b"NSR02", 32 * KIB + 1, 2048, 64),
    every("udf", b"NSR03", 32 * KIB + 1, 2048, 64),
    every("udf", b"TEA01", 32 * KIB + 1, 2048, 64),
    at("gfs2", b"\x01\x16\x19\x70", 64 * KIB),
    at("ocfs", b"OracleCFS", 8 * KIB),
    at("ocfs2", b"OCFSV2", KIB),
    at("ocfs2", b"OCFSV2", 2 * KIB),
    at("ocfs2", b"OCFSV2", 4 * KIB),
    at("ocfs2", b"OCFSV2", 8 * KIB),
    at("reiserfs", b"ReIsErFs", 8 * KIB + 0x34),
    at("reiserfs", b"ReIsErFs", 8 * KIB + 20),
    at("reiserfs", b"ReIsErFs", 64 * KIB + 0x34),
    at("reiserfs", b"ReIsEr2Fs", 64 * KIB + 0x34),
    at("reiserfs", b"ReIsEr3Fs", 64 * KIB + 0x34),
    at("reiser4", b"ReIsEr4", 64 * KIB),
    at("jfs", b"JFS1", 32 * KIB),
    at("jfs", b"JFS1", 60 * KIB),
    at("hfs", b"BD", KIB),
    at("hfsplus", b"H+", KIB),
    at("hfsplus", b"HX", KIB),
    end("hfs", b"BD", 512, KIB, 0),
    end("hfsplus", b"H+", 512, KIB, 0),
    end("hfsplus", b"HX", 512, KIB, 0),
    at("apfs", b"NXSB", 32),
    at("hpfs", b"\x49\xe8\x95\xf9", 8 * KIB),
    at("minix", b"\x7f\x13", KIB + 0x10),
    at("minix", b"\x8f\x13", KIB + 0x10),
    at("minix", b"\x13\x7f", KIB + 0x10),
    at("minix", b"\x13\x8f", KIB + 0x10),
    at("minix", b"\x68\x24", KIB + 0x10),
    at("minix", b"\x78\x24", KIB + 0x10),
    at("minix", b"\x24\x68", KIB + 0x10),
    at("minix", b"\x24\x78", KIB + 0x10),
    at("minix", b"\x5a\x4d", KIB + 0x18),
    at("minix", b"\x4d\x5a", KIB + 0x18),
    at("squashfs", b"hsqs", 0),
    at("squashfs", b"sqsh", 0),
    at("erofs", b"\xe2\xe1\xf5\xe0", KIB),
    at("cramfs", b"\x45\x3d\xcd\x28", 0),
    at("cramfs", b"\x28\xcd\x3d\x45", 0),
    at("romfs", b"-rom1fs-", 0),
    at("ubifs", b"\x31\x18\x10\x06", 0),
    at("zonefs", b"SFOZ", 0),
    at("exfs", b"EXFS", 0),
    at("bfs", b"\xce\xfa\xad\x1b", 0),
    at("befs", b"BFS1", 32),
    at("befs", b"1SFB", 32),
    at("befs", b"BFS1", 512 + 32),
    at("befs", b"1SFB", 512 + 32),
    at("nss", b"SPB5", 4 * KIB),
    at("vxfs", b"\xf5\xfc\x01\xa5", KIB),
    at("vxfs", b"\xa5\x01\xfc\xf5", 8 * KIB),
    at("xenix", b"\x2b\x55\x44", 2 * KIB),
    at("xenix", b"\x44\x55\x2b", 2 * KIB),
    every("sysv", b"\x20\x7e\x18\xfd", 1016, KIB, 19),
    every("sysv", b"\xfd\x18\x7e\x20", 1016, KIB, 19),
    // UFS: the superblock is at 0, 8, 64 or 256 KiB; the magic is at its byte 1372.
    every("ufs", b"\x19\x01\x54\x19", 1372, 8 * KIB, 33),
    every("ufs", b"\x19\x54\x01\x19", 1372, 8 * KIB, 33),
    every("ufs", b"\x54\x19\x01\x00", 1372, 8 * KIB, 33),
    every("ufs", b"\x00\x01\x19\x54", 1372, 8 * KIB, 33),
    every("ufs", b"\x12\x56\x19\x00", 1372, 8 * KIB, 33),
    every("ufs", b"\x00\x19\x56\x12", 1372, 8 * KIB, 33),
    every("ufs", b"\x14\x50\x09\x00", 1372, 8 * KIB, 33),
    every("ufs", b"\x00\x09\x50\x14", 1372, 8 * KIB, 33),
    every("ufs", b"\x95\x21\x61\x00", 1372, 8 * KIB, 33),
    every("ufs", b"\x00\x61\x21\x95", 1372, 8 * KIB, 33),
    every("ufs", b"\x94\x19\x23\x05", 1372, 8 * KIB, 33),
    every("ufs", b"\x05\x23\x19\x94", 1372, 8 * KIB, 33),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_at_the_end() {
        let offsets = |place: Place, size| place.offsets(size, 4).collect::<Vec<_>>();
        let md_0_90 = Place::End {
            align: 64 * KIB,
            back: 64 * KIB,
            plus: 0,
        };
        assert_eq!(offsets(md_0_90, 10 * MIB), [10 * MIB - 64 * KIB]);
        assert_eq!(offsets(md_0_90, 10 * MIB + 4096), [10 * MIB - 64 * KIB]);
        assert_eq!(offsets(md_0_90, 60 * KIB), [0; 0], "too small for one");
    }

    #[test]
    fn nothing_beyond_the_end() {
        for signature in SIGNATURES {
            for size in [0, 512, 1000, 4096, 70_000, 5 * MIB] {
                for offset in signature.place.offsets(size, signature.magic.len()) {
                    let end = offset + signature.magic.len() as u64;
                    assert!(end <= size, "{signature:?} at {offset} of {size}");
                }
            }
        }
    }

    #[test]
    fn no_magic_matches_an_empty_disk() {
        for signature in SIGNATURES {
            assert!(
                signature.magic.iter().any(|&byte| byte != 0),
                "{signature:?}"
            );
        }
    }
}
