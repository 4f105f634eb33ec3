//! Why a partition table cannot be read, or cannot hold a partition.

use uuid::Uuid;

/// The largest number of entries in a GPT. Every known tool writes 128 entries. Four
/// times as many still fit into the first MiB with both sector sizes.
pub(super) const MOST_ENTRIES: u64 = 512;

/// All places and lengths are in bytes, unless their name or their message says that they
/// are sectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("expected a GPT, found none")]
    Missing,

    // Errors of a GPT.
    #[error("the disk ends before the header")]
    NoHeader,
    #[error("expected a header of 92 bytes and entries of 128, found {header} and {entry}")]
    Lengths { header: u32, entry: u32 },
    #[error(
        "expected 1 to {MOST_ENTRIES} entries after the header, found {count} at sector {sector}"
    )]
    EntryCount { count: u32, sector: u64 },
    #[error("entries end at byte {0}, not in the first MiB")]
    EntriesEnd(u64),
    #[error("the header says that it is not the primary one")]
    NotPrimary,
    /// The crate `gpt` rejects the table. Holds its message.
    #[error("{0}")]
    Invalid(String),
    #[error("partition {number} has an invalid range: sector {first_sector} to {last_sector}")]
    InvalidRange {
        number: u32,
        first_sector: u64,
        last_sector: u64,
    },
    #[error(
        "partition {number} begins at byte {offset}, inside the table, which ends at byte {table_end}"
    )]
    InsideTable {
        number: u32,
        offset: u64,
        table_end: u64,
    },
    #[error("partitions {first} and {second} overlap at byte {offset}")]
    Overlap {
        first: u32,
        second: u32,
        offset: u64,
    },

    // Errors of the backup of a GPT.
    #[error("the disk has no last sector")]
    NoLastSector,
    #[error("no backup header in the last sector")]
    NoBackup,
    #[error("the backup header does not have 92 bytes")]
    BackupLength,
    #[error("the backup header has a wrong checksum")]
    BackupChecksum,
    #[error(
        "the backup GPT header: expected sector {expected_sector} and at most {MOST_ENTRIES} entries, found sector {sector} and {count} entries"
    )]
    BackupPlace {
        expected_sector: u64,
        sector: u64,
        count: u64,
    },
    #[error("the backup entries at sector {0} are not at the end")]
    BackupEntriesPlace(u64),
    #[error("the backup entries have a wrong checksum")]
    BackupEntriesChecksum,

    // Errors when a GPT is moved to another disk, or gets more partitions.
    #[error("the disk has no sectors")]
    NoSectors,
    #[error("the disk has no room for a backup table")]
    NoRoomForBackup,
    #[error(
        "partitions end at byte {partitions_end}, the backup table needs the disk from byte {backup} on"
    )]
    PartitionsInBackup { partitions_end: u64, backup: u64 },
    #[error(
        "partition {number} ends at byte {end}, the backup table needs the disk from byte {backup} on"
    )]
    PartitionInBackup { number: u32, end: u64, backup: u64 },
    #[error("no free entry in the partition table")]
    NoEntry,
    #[error(
        "partition {number} does not fit: the image's partition table has only {capacity} entries"
    )]
    NoEntryFor { number: u32, capacity: u32 },
    #[error("entry {0} of the partition table is taken")]
    Taken(u32),
    #[error("partitions {first} and {second} have the same GUID {guid}")]
    SameGuid { first: u32, second: u32, guid: Uuid },
    #[error(
        "no free space for {len} bytes: the last partition ends at byte {partitions_end}, usable space at {usable_end}"
    )]
    NoSpace {
        len: u64,
        partitions_end: u64,
        usable_end: u64,
    },

    // Errors of an MBR.
    #[error("expected an MBR, found none")]
    NoMbr,
    #[error("found the protective MBR of a GPT, but no GPT")]
    OnlyProtective,
    #[error("partition {0} of the MBR has no sectors")]
    EmptyPartition(u32),
    #[error(
        "partition {number} goes from byte {offset} to byte {end}, the disk has {disk_size} bytes"
    )]
    BeyondDisk {
        number: u32,
        offset: u64,
        end: u64,
        disk_size: u64,
    },
    #[error("its MBR has four partitions already, and no room for another one")]
    MbrFull,
    #[error(
        "no free space for {len} bytes after the last partition: it ends at byte {partitions_end}, usable space at {end}"
    )]
    NoSpaceInMbr {
        len: u64,
        partitions_end: u64,
        end: u64,
    },
    #[error("byte {0} is beyond the range of an MBR")]
    BeyondMbr(u64),
}

/// The partition to keep begins where the image's boot loader is written. The disk was not
/// written. Copy its data elsewhere, and install without keeping it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partition {number} begins at byte {offset}, in the first MiB, and would be lost")]
pub struct InHead {
    pub number: u32,
    pub offset: u64,
}
