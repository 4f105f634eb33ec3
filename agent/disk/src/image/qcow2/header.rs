//! Parses the header of a qcow2 file and checks whether the agent can write the
//! image to a disk. Does no I/O.
//!
//! Offsets and bits come from the specification, docs/interop/qcow2.txt of QEMU. Limits
//! that it does not mention come from QEMU itself (block/qcow2.h), so that no file that
//! QEMU opens is rejected because of its sizes.

use std::ops::RangeInclusive;

pub const MAGIC: &[u8; 4] = b"QFI\xfb";

/// Clusters have 512 bytes to 2 MiB.
const CLUSTER_BITS: RangeInclusive<u32> = 9..=21;
/// A cluster with subclusters has 32 of them, each at least 512 bytes long, so such a
/// cluster has at least 2^14 bytes.
const EXTENDED_CLUSTER_BITS: u32 = 14;
/// `QCOW_MAX_L1_SIZE`: the L1 table has at most 32 MiB.
const MOST_L1_ENTRIES: u64 = (32 << 20) / 8;
const V2_HEADER_LEN: usize = 72;
const V3_HEADER_LEN: usize = 104;
/// In bytes: [`Header::parse`] reads no more.
pub const READ_LEN: usize = V3_HEADER_LEN + 1;

/// Bits of `incompatible_features`.
mod incompatible {
    pub(super) const DIRTY: u64 = 1 << 0;
    pub(super) const CORRUPT: u64 = 1 << 1;
    pub(super) const DATA_FILE: u64 = 1 << 2;
    pub(super) const COMPRESSION: u64 = 1 << 3;
    pub(super) const EXTENDED_L2: u64 = 1 << 4;
    /// Incompatible features that this module supports, or that do not change where
    /// clusters are in the file.
    pub(super) const READ: u64 = DIRTY | CORRUPT | COMPRESSION | EXTENDED_L2;
}

/// Compression method of the clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Deflate without a header.
    Zlib,
    /// Zstandard frames.
    Zstd,
}

/// The reason in the header of a qcow2 file why the disk inside cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file is cut off. Copy it to the server again.
    #[error("the file ends inside of its header")]
    CutOff,
    /// The file is a qcow image of an old or unknown version. Convert it with `qemu-img convert
    /// -O qcow2`.
    #[error("expected version 2 or 3, found {0}")]
    Version(u32),
    /// The image needs another file next to it, which the agent does not have. Convert it with
    /// `qemu-img convert`, which makes one complete file.
    #[error("it has a backing file, so it holds a part of the disk only")]
    BackingFile,
    /// The agent has no key for an encrypted qcow2 image. Convert it to an image without
    /// encryption.
    #[error("it is encrypted (method {0})")]
    Encrypted(u32),
    /// The header of the qcow2 image has a value that qcow2 does not permit. The file is
    /// damaged; compare its digest.
    #[error("expected clusters of two to the power of 9 to 21 bytes, found {0}")]
    ClusterBits(u32),
    /// The header of the qcow2 image contradicts itself, so the file is damaged. Compare its
    /// digest, and make it again.
    #[error("a disk of {size} bytes needs an L1 table of {needed} entries, found {found}")]
    L1Length { size: u64, needed: u64, found: u64 },
    /// The qcow2 image is damaged. Compare its digest, and check it with `qemu-img check`.
    #[error("the L1 table has the invalid offset {0}")]
    L1Offset(u64),
    /// The qcow2 file only describes data in another file. Convert it with `qemu-img convert`,
    /// which makes one complete file.
    #[error("its data is in another file")]
    DataFile,
    /// A newer program made the qcow2 image. Convert it with `qemu-img convert -O qcow2`.
    #[error("it has incompatible features that are not known here (bits {0:#x})")]
    Features(u64),
    /// The header of the qcow2 image is shorter than version 3 requires, so the file is
    /// damaged. Compare its digest, and make it again.
    #[error("its header has {0} bytes, expected 104")]
    HeaderLength(usize),
    /// The agent unpacks deflate and zstd only. Convert the image with `qemu-img convert`.
    #[error("its clusters are compressed with method {0}")]
    Compression(u8),
}

/// A header that passed all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// The size of the disk inside, in bytes; a multiple of 512.
    pub size: u64,
    /// The cluster size is two to the power of this.
    pub cluster_bits: u32,
    /// Offset of the L1 table in the file, in bytes.
    pub l1_offset: u64,
    pub compression: Compression,
    /// Whether each L2 entry has a bitmap of 32 subclusters.
    pub subclusters: bool,
    /// Text for a warning: the file is marked as corrupt or was not closed.
    pub suspicion: Option<&'static str>,
    pub snapshots: u32,
    /// If this is not 0, the file has data that is wrong after a change of the disk
    /// inside, for example dirty bitmaps.
    pub autoclear_features: u64,
    pub refcounts: RefcountTable,
}

/// The place of the table that counts how often each cluster is used. Only a program
/// that changes the file needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefcountTable {
    /// Offset in the file, in bytes.
    pub offset: u64,
    pub clusters: u32,
    /// A refcount has two to the power of this many bits.
    pub order: u32,
}

impl Header {
    /// # Errors
    /// If the header is damaged or its version or layout is unknown, if part of the disk
    /// inside is in another file, or if the file is encrypted.
    pub fn parse(start: &[u8]) -> Result<Self, HeaderError> {
        let word = |at: usize| u32_at(start, at);
        let long = |at: usize| u64_at(start, at);
        if start.len() < V2_HEADER_LEN || !start.starts_with(MAGIC) {
            return Err(HeaderError::CutOff);
        }
        let version = word(4);
        if !matches!(version, 2 | 3) {
            return Err(HeaderError::Version(version));
        }
        if long(8) != 0 {
            return Err(HeaderError::BackingFile);
        }
        if word(32) != 0 {
            return Err(HeaderError::Encrypted(word(32)));
        }
        let features = Features::read(start, version)?;
        let cluster_bits = word(20);
        if !CLUSTER_BITS.contains(&cluster_bits)
            || (features.subclusters && cluster_bits < EXTENDED_CLUSTER_BITS)
        {
            return Err(HeaderError::ClusterBits(cluster_bits));
        }
        let header = Self {
            version,
            // Rounded down, like in QEMU, which counts whole sectors.
            size: long(24) & !511,
            cluster_bits,
            l1_offset: long(40),
            compression: features.compression,
            subclusters: features.subclusters,
            suspicion: features.suspicion,
            snapshots: word(60),
            autoclear_features: features.autoclear,
            refcounts: RefcountTable {
                offset: long(48),
                clusters: word(56),
                order: features.refcount_order,
            },
        };
        header.check_l1(u64::from(word(36)))?;
        Ok(header)
    }

    fn check_l1(&self, entries: u64) -> Result<(), HeaderError> {
        let needed = self.size.div_ceil(self.l2_coverage());
        if needed > MOST_L1_ENTRIES || needed > entries {
            return Err(HeaderError::L1Length {
                size: self.size,
                needed,
                found: entries,
            });
        }
        if !self.l1_offset.is_multiple_of(self.cluster_size())
            || (needed > 0 && self.l1_offset == 0)
            || self.l1_offset.checked_add(needed * 8).is_none()
        {
            return Err(HeaderError::L1Offset(self.l1_offset));
        }
        Ok(())
    }

    pub fn cluster_size(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// The smallest unit that qcow2 allocates, in bytes: a subcluster, or a cluster if
    /// the file has no subclusters.
    pub fn allocation_unit(&self) -> u64 {
        if self.subclusters {
            self.cluster_size() / 32
        } else {
            self.cluster_size()
        }
    }

    /// Length in bytes of that part of the L1 table which the disk needs.
    pub fn l1_len(&self) -> u64 {
        self.size.div_ceil(self.l2_coverage()) * 8
    }

    /// In bytes.
    pub fn l2_entry_len(&self) -> u64 {
        if self.subclusters { 16 } else { 8 }
    }

    /// Bytes of the disk that one L2 table maps.
    pub fn l2_coverage(&self) -> u64 {
        self.cluster_size() / self.l2_entry_len() * self.cluster_size()
    }
}

struct Features {
    compression: Compression,
    subclusters: bool,
    suspicion: Option<&'static str>,
    autoclear: u64,
    refcount_order: u32,
}

impl Features {
    fn read(start: &[u8], version: u32) -> Result<Self, HeaderError> {
        if version == 2 {
            return Ok(Self {
                compression: Compression::Zlib,
                subclusters: false,
                suspicion: None,
                autoclear: 0,
                refcount_order: 4,
            });
        }
        if start.len() < V3_HEADER_LEN {
            return Err(HeaderError::CutOff);
        }
        let bits = u64_at(start, 72);
        if bits & incompatible::DATA_FILE != 0 {
            return Err(HeaderError::DataFile);
        }
        if bits & !incompatible::READ != 0 {
            return Err(HeaderError::Features(bits & !incompatible::READ));
        }
        let header_len = u32_at(start, 100) as usize;
        // The upper limit of the header length is not checked: QEMU allows one cluster,
        // which has at least 512 bytes, and this function reads only the first 105
        // bytes.
        if header_len < V3_HEADER_LEN {
            return Err(HeaderError::HeaderLength(header_len));
        }
        let compression = match start.get(V3_HEADER_LEN) {
            Some(kind) if header_len > V3_HEADER_LEN => *kind,
            _ => 0,
        };
        let compression = match (compression, bits & incompatible::COMPRESSION != 0) {
            (0, false) => Compression::Zlib,
            (1, true) => Compression::Zstd,
            (kind, _) => return Err(HeaderError::Compression(kind)),
        };
        Ok(Self {
            compression,
            subclusters: bits & incompatible::EXTENDED_L2 != 0,
            suspicion: if bits & incompatible::CORRUPT != 0 {
                Some("is marked as corrupt")
            } else if bits & incompatible::DIRTY != 0 {
                Some("was not closed")
            } else {
                None
            },
            autoclear: u64_at(start, 88),
            refcount_order: u32_at(start, 96),
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(value)
}

/// Reads a big-endian number. Panics if `bytes` is too short.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(value)
}

#[cfg(test)]
mod tests;
