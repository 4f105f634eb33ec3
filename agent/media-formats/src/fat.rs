//! FAT12, FAT16 and FAT32 file systems without partitions: a reader of all three types,
//! and a writer of FAT12 and FAT16.
//!
//! The structures and the long names follow Microsoft's "FAT: General Overview of
//! On-Disk Format" 1.03.

mod long_name;
mod reader;
mod writer;

pub use reader::{Fat, FatError};
pub use writer::{Layout, Names, Size, WriteError, build};

/// The length of a directory entry in bytes.
const ENTRY: usize = 32;

const VOLUME_LABEL: u8 = 0x08;
const SUB_DIRECTORY: u8 = 0x10;
const FILE: u8 = 0x20;
/// The attributes of an entry with a piece of a long name: all four low attributes are
/// set.
const LONG_NAME: u8 = 0x0f;

/// The smallest numbers of clusters for FAT16 and FAT32. Drivers distinguish the three
/// types only by the number of clusters.
const FAT16_CLUSTERS: usize = 4085;
const FAT32_CLUSTERS: usize = 65525;
/// The number of the first cluster; 0 and 1 have other meanings.
const FIRST_CLUSTER: usize = 2;
