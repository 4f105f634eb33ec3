//! Entries of the L1 and L2 tables: where a piece of the disk lies in the
//! file. Pure.

use crate::disk::qcow2::header::Header;

/// Bits 9 to 55 of an entry: the place of a table or of a cluster.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
/// The cluster reads as zeros, whatever its place holds.
const ZERO: u64 = 1;
/// A compressed cluster is counted in these.
const SECTOR: u64 = 512;

/// What an L2 entry says of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// It reads as zeros.
    Zeros,
    /// It is at `host`, as far as it is there.
    Plain {
        /// Its first byte in the file.
        host: u64,
        /// The subclusters that are there, all others read as zeros; all bits
        /// are set where there are no subclusters.
        present: u32,
    },
    /// It is packed.
    Compressed {
        /// Its first byte in the file.
        host: u64,
        /// How long it is at most.
        len: u64,
    },
}

/// The place of an L2 table, `None` if its part of the disk reads as zeros.
///
/// # Errors
/// If no table can be there.
pub fn l1_entry(header: &Header, entry: u64) -> Result<Option<u64>, String> {
    let offset = entry & OFFSET;
    if !offset.is_multiple_of(header.cluster_size()) {
        return Err(format!("an L2 table is said to be at byte {offset}"));
    }
    Ok((offset != 0).then_some(offset))
}

/// What an L2 entry says. `bitmap` is its second half where it has one, else 0.
///
/// # Errors
/// If it contradicts itself.
pub fn l2_entry(header: &Header, entry: u64, bitmap: u64) -> Result<Cluster, String> {
    if entry & COMPRESSED != 0 {
        if bitmap != 0 {
            return Err("a compressed cluster is said to have subclusters".to_owned());
        }
        return Ok(compressed(header, entry));
    }
    let host = entry & OFFSET;
    if !host.is_multiple_of(header.cluster_size()) {
        return Err(format!("a cluster is said to be at byte {host}"));
    }
    let (present, zeros) = if header.subclusters {
        (bitmap as u32, (bitmap >> 32) as u32)
    } else if entry & ZERO == 0 {
        (u32::MAX, 0)
    } else if header.version >= 3 {
        return Ok(Cluster::Zeros);
    } else {
        return Err("a cluster of zeros is no part of version 2".to_owned());
    };
    if present & zeros != 0 {
        return Err("a subcluster is said to be there and to be zeros".to_owned());
    }
    if host == 0 && header.subclusters && present != 0 {
        return Err("subclusters are said to be there without a place".to_owned());
    }
    if host == 0 || present == 0 {
        return Ok(Cluster::Zeros);
    }
    Ok(Cluster::Plain { host, present })
}

/// The place takes the low bits, the count of sectors after the first the bits
/// above, so that a cluster can be as long as two.
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
    use crate::disk::qcow2::header::Compression;

    fn header(cluster_bits: u32, subclusters: bool) -> Header {
        Header {
            version: 3,
            size: 1 << 30,
            cluster_bits,
            l1_offset: 0x30000,
            compression: Compression::Zlib,
            subclusters,
            suspicion: None,
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
