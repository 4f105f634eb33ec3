//! Parses entries of the L1 and L2 tables, which map the disk to the file. Does no
//! I/O.

use crate::image::qcow2::header::Header;

/// Bits 9 to 55 of an entry: the file offset of a table or a cluster.
pub const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// This bit is set if the table or the cluster has no other reference, so that a
/// program can change it in place.
pub const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
/// The cluster reads as zeros, whatever the file holds at its offset.
const ZERO: u64 = 1;
/// Unit of the length of a compressed cluster, in bytes.
const SECTOR: u64 = 512;

/// What an L2 entry says about its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// The cluster reads as zeros.
    Zeros,
    /// An uncompressed cluster.
    Plain {
        /// Offset in the file, in bytes.
        host: u64,
        /// Bitmap of the allocated subclusters; the others read as zeros. All bits
        /// are set if the file has no subclusters.
        present: u32,
    },
    Compressed {
        /// Offset in the file, in bytes.
        host: u64,
        /// Upper limit of the packed length, in bytes.
        len: u64,
    },
}

/// Why an entry of a table is invalid. The file is damaged: check it with `qemu-img
/// check`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The qcow2 image is damaged. Compare its digest, and check it with `qemu-img check`.
    #[error("an L2 table has the invalid offset {0}")]
    L2Offset(u64),
    /// The qcow2 image is damaged. Compare its digest, and check it with `qemu-img check`.
    #[error("a compressed cluster has subclusters, which is invalid")]
    CompressedSubclusters,
    /// The qcow2 image is damaged. Compare its digest, and check it with `qemu-img check`.
    #[error("a cluster has the invalid offset {0}")]
    ClusterOffset(u64),
    /// The qcow2 image has version 2, but uses a feature of version 3. It is damaged;
    /// check it with `qemu-img check`.
    #[error("a cluster is marked as zeros, which version 2 does not have")]
    ZerosInVersion2,
    /// The qcow2 image is damaged. Compare its digest, and check it with `qemu-img check`.
    #[error("a subcluster is marked both as allocated and as zeros")]
    AllocatedZeros,
    /// The qcow2 image is damaged. Compare its digest, and check it with `qemu-img check`.
    #[error("subclusters are marked as allocated, but their cluster has no offset")]
    NoOffset,
}

/// Returns the file offset of an L2 table. `None` if the table's part of the disk reads
/// as zeros.
///
/// # Errors
/// If the offset is not a multiple of the cluster size.
pub fn l1_entry(header: &Header, entry: u64) -> Result<Option<u64>, EntryError> {
    let offset = entry & OFFSET;
    if !offset.is_multiple_of(header.cluster_size()) {
        return Err(EntryError::L2Offset(offset));
    }
    Ok((offset != 0).then_some(offset))
}

/// Parses an L2 entry. `bitmap` is its second half if the entry has one, else 0.
///
/// # Errors
/// If the entry is inconsistent.
pub fn l2_entry(header: &Header, entry: u64, bitmap: u64) -> Result<Cluster, EntryError> {
    if entry & COMPRESSED != 0 {
        if bitmap != 0 {
            return Err(EntryError::CompressedSubclusters);
        }
        return Ok(compressed(header, entry));
    }
    let host = entry & OFFSET;
    if !host.is_multiple_of(header.cluster_size()) {
        return Err(EntryError::ClusterOffset(host));
    }
    let (present, zeros) = if header.subclusters {
        (bitmap as u32, (bitmap >> 32) as u32)
    } else if entry & ZERO == 0 {
        (u32::MAX, 0)
    } else if header.version >= 3 {
        return Ok(Cluster::Zeros);
    } else {
        return Err(EntryError::ZerosInVersion2);
    };
    if present & zeros != 0 {
        return Err(EntryError::AllocatedZeros);
    }
    if host == 0 && header.subclusters && present != 0 {
        return Err(EntryError::NoOffset);
    }
    if host == 0 || present == 0 {
        return Ok(Cluster::Zeros);
    }
    Ok(Cluster::Plain { host, present })
}

/// The low bits hold the file offset; the `cluster_bits - 8` bits above them hold the
/// number of 512 byte sectors after the first sector. That number can describe up to the
/// length of two clusters, so a compressed cluster can be that long.
fn compressed(header: &Header, entry: u64) -> Cluster {
    let count_bits = header.cluster_bits - 8;
    let count_shift = 62 - count_bits;
    let host = entry & ((1 << count_shift) - 1);
    let count = (entry >> count_shift) & ((1 << count_bits) - 1);
    Cluster::Compressed {
        host,
        len: (count + 1) * SECTOR - host % SECTOR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::qcow2::header::{Compression, RefcountTable};

    fn header(cluster_bits: u32, subclusters: bool) -> Header {
        Header {
            version: 3,
            size: 1 << 30,
            cluster_bits,
            l1_offset: 0x30000,
            compression: Compression::Zlib,
            subclusters,
            suspicion: None,
            snapshots: 0,
            autoclear_features: 0,
            refcounts: RefcountTable {
                offset: 0x10000,
                clusters: 1,
                order: 4,
            },
        }
    }

    #[test]
    fn entries_of_plain_clusters() {
        let header = header(16, false);
        let entry = |entry| l2_entry(&header, entry, 0);
        let plain = Cluster::Plain {
            host: 0x50000,
            present: u32::MAX,
        };
        assert_eq!(entry(0x8000_0000_0005_0000), Ok(plain));
        for zeros in [0, 1, 0x50001, 1 << 63] {
            assert_eq!(entry(zeros), Ok(Cluster::Zeros), "{zeros:#x}");
        }
        assert!(entry(0x50200).is_err());
        let old = Header {
            version: 2,
            ..header.clone()
        };
        assert!(l2_entry(&old, 0x50001, 0).is_err());
        assert_eq!(l1_entry(&header, 0x8000_0000_0004_0000), Ok(Some(0x40000)));
        assert_eq!(l1_entry(&header, 0), Ok(None));
        assert!(l1_entry(&header, 0x40200).is_err());
    }

    #[test]
    fn entries_of_compressed_clusters() {
        for (bits, entry, host, len) in [
            (16, (1 << 62) | (3 << 54) | 0x50123, 0x50123, 2048 - 0x123),
            (9, (1 << 62) | (1 << 61) | 513, 513, 1023),
            (21, (1 << 62) | (0x1fff << 49) | 512, 512, 4 << 20),
        ] {
            assert_eq!(
                l2_entry(&header(bits, false), entry, 0),
                Ok(Cluster::Compressed { host, len })
            );
        }
        assert!(l2_entry(&header(16, true), 1 << 62, 1).is_err());
    }

    #[test]
    fn entries_with_subclusters() {
        let header = header(16, true);
        let entry = |bitmap| l2_entry(&header, 0x50000, bitmap);
        let plain = |present| Cluster::Plain {
            host: 0x50000,
            present,
        };
        assert_eq!(entry(0b101), Ok(plain(0b101)));
        assert_eq!(entry(0b10 << 32 | 0b101), Ok(plain(0b101)));
        assert_eq!(entry(0), Ok(Cluster::Zeros));
        assert!(entry(1 << 32 | 1).is_err());
        assert!(l2_entry(&header, 0, 1).is_err());
        assert_eq!(l2_entry(&header, 0, 1 << 32), Ok(Cluster::Zeros));
    }
}
