//! Builds a FAT12 or FAT16 file system with given files. The builder needs neither root
//! nor a mount for this, and the same files give the same bytes.

mod clusters;
mod directory;

use super::{ENTRY, FAT16_CLUSTERS, FAT32_CLUSTERS, FIRST_CLUSTER};
use clusters::Clusters;
use directory::Directory;

/// The number of file allocation tables.
const FATS: usize = 2;

/// The properties of a file system that the caller chooses.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// At most 11 bytes; the rest is cut off.
    pub label: &'a str,
    pub serial: u32,
    /// Bytes per sector: 512 or 4096.
    pub sector: usize,
    /// Bytes per cluster: a power of two, at least a sector and at most 128 sectors.
    pub cluster: usize,
    /// The number of entries in the root directory, which cannot grow. The label, each
    /// file or directory, and each piece of a long name take one entry.
    pub root_entries: usize,
    pub names: Names,
    pub size: Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// 8.3 names in upper case, which every firmware can read. Any other name is an
    /// error.
    Short,
    /// Long names that keep the letter case. Two names in a directory must differ in more
    /// than the letter case.
    Long,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// As few clusters as possible, in FAT12 or FAT16.
    Smallest,
    /// FAT16 of this many bytes. Its tables and its root directory begin at multiples of
    /// the cluster size.
    Bytes(u64),
}

/// Why there is no file system with these files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("expected a size that FAT16 can have, found {0} bytes")]
    Size(u64),
    #[error("the files do not fit into {0} bytes")]
    Full(u64),
    #[error("too many files in the root directory")]
    RootDirectory,
    /// A file has 4 GiB or more, or all files have more than FAT16 can hold.
    #[error("the files do not fit into FAT16")]
    TooLarge,
    #[error("{0:?}: expected an 8.3 name of letters, digits and _")]
    ShortName(String),
    #[error("{0:?}: expected a name that FAT permits")]
    LongName(String),
    #[error("{0} is given twice")]
    Twice(String),
    #[error("{0} is a file and a directory")]
    FileAndDirectory(String),
}

impl WriteError {
    /// The same error with the name of the directory before the path.
    fn below(self, directory: &str) -> Self {
        let path = |rest: String| format!("{directory}/{rest}");
        match self {
            Self::ShortName(rest) => Self::ShortName(path(rest)),
            Self::LongName(rest) => Self::LongName(path(rest)),
            Self::Twice(rest) => Self::Twice(path(rest)),
            Self::FileAndDirectory(rest) => Self::FileAndDirectory(path(rest)),
            other => other,
        }
    }
}

/// Builds the file system. A path is written like `EFI/BOOT/BOOTX64.EFI`.
///
/// With [`Size::Bytes`], returns only the first part of the file system. All bytes after
/// this part are zeros.
pub fn build<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    layout: &Layout<'_>,
) -> Result<Vec<u8>, WriteError> {
    let mut root = Directory::default();
    for (path, content) in files {
        root.insert(path, content)?;
    }
    let mut clusters = Clusters::new(layout.cluster);
    let entries = root.entries(&mut clusters, layout)?;
    let root_fits = entries.len() <= layout.root_entries;
    let plan = match layout.size {
        Size::Smallest if !root_fits => return Err(WriteError::RootDirectory),
        Size::Smallest => Plan::of_clusters(clusters.count(), layout)?,
        Size::Bytes(len) => {
            let plan = Plan::of_length(len, layout)?;
            if !root_fits || clusters.count() > plan.clusters {
                return Err(WriteError::Full(len));
            }
            plan
        }
    };
    let table = clusters.table(plan.is_fat16());
    let mut image = plan.boot_sector(layout);
    image.resize(plan.reserved, 0);
    for _ in 0..FATS {
        let end = image.len() + plan.fat;
        image.extend_from_slice(&table);
        image.resize(end, 0);
    }
    let end = image.len() + layout.root_entries * ENTRY;
    image.extend(entries.concat());
    image.resize(end, 0);
    image.extend(clusters.content());
    if layout.size == Size::Smallest {
        image.resize(plan.sectors * layout.sector, 0);
    }
    Ok(image)
}

/// The size of each area of the file system.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Bytes before the first table.
    reserved: usize,
    /// Bytes of one table.
    fat: usize,
    clusters: usize,
    /// The number of sectors in the file system.
    sectors: usize,
}

impl Plan {
    /// The smallest file system with this many clusters.
    fn of_clusters(count: usize, layout: &Layout<'_>) -> Result<Self, WriteError> {
        // Microsoft warns of drivers whose limit is wrong by a few clusters, so stay at
        // least 16 clusters away from the limit.
        let clusters = if count.abs_diff(FAT16_CLUSTERS) < 16 {
            FAT16_CLUSTERS + 16
        } else {
            // A FAT file system has at least one cluster.
            count.max(1)
        };
        // The same distance applies to the limit of FAT32.
        if clusters + 16 > FAT32_CLUSTERS {
            return Err(WriteError::TooLarge);
        }
        let numbers = clusters + FIRST_CLUSTER;
        let fat = if clusters < FAT16_CLUSTERS {
            (numbers * 3).div_ceil(2)
        } else {
            numbers * 2
        };
        let mut plan = Self {
            reserved: layout.sector,
            fat: fat.next_multiple_of(layout.sector),
            clusters,
            sectors: 0,
        };
        plan.sectors = (plan.before_data(layout) + clusters * layout.cluster) / layout.sector;
        Ok(plan)
    }

    /// A file system that has `len` bytes.
    fn of_length(len: u64, layout: &Layout<'_>) -> Result<Self, WriteError> {
        let wrong = || WriteError::Size(len);
        let count = usize::try_from(len / layout.cluster as u64).map_err(|_| wrong())?;
        // `count` includes the space of the tables, so the tables get slightly longer
        // than necessary. That does no harm.
        let fat = count.min(FAT32_CLUSTERS) * 2;
        let mut plan = Self {
            reserved: layout.cluster,
            fat: fat.next_multiple_of(layout.cluster),
            clusters: 0,
            sectors: usize::try_from(len / layout.sector as u64).map_err(|_| wrong())?,
        };
        plan.clusters = count.saturating_sub(plan.before_data(layout).div_ceil(layout.cluster));
        if !(FAT16_CLUSTERS..FAT32_CLUSTERS).contains(&plan.clusters) {
            return Err(wrong());
        }
        Ok(plan)
    }

    fn before_data(&self, layout: &Layout<'_>) -> usize {
        self.reserved + FATS * self.fat + layout.root_entries * ENTRY
    }

    fn is_fat16(&self) -> bool {
        self.clusters >= FAT16_CLUSTERS
    }

    fn boot_sector(&self, layout: &Layout<'_>) -> Vec<u8> {
        // All casts are lossless: FAT16 has fewer than 65525 clusters, so that each
        // number is smaller than its field.
        let short = |number: usize| (number as u16).to_le_bytes();
        let mut boot = vec![0; layout.sector];
        let mut put = |at: usize, bytes: &[u8]| boot[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0xeb, 0x3c, 0x90]);
        put(3, b"LANDFALL");
        put(11, &short(layout.sector));
        put(13, &[(layout.cluster / layout.sector) as u8]);
        put(14, &short(self.reserved / layout.sector));
        put(16, &[FATS as u8]);
        put(17, &short(layout.root_entries));
        match u16::try_from(self.sectors) {
            Ok(sectors) => put(19, &sectors.to_le_bytes()),
            Err(_) => put(32, &(self.sectors as u32).to_le_bytes()),
        }
        put(21, &[clusters::MEDIA_TYPE]);
        put(22, &short(self.fat / layout.sector));
        // Sectors per track and heads. No current reader uses these numbers, but some
        // readers reject zeros.
        put(24, &[63, 0, 255, 0]);
        put(36, &[0x80, 0, 0x29]);
        put(39, &layout.serial.to_le_bytes());
        put(43, &directory::padded(layout.label));
        put(
            54,
            if self.is_fat16() {
                b"FAT16   "
            } else {
                b"FAT12   "
            },
        );
        put(510, &[0x55, 0xaa]);
        boot
    }
}

#[cfg(test)]
mod tests;
