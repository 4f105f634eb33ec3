//! Reads files. Nothing on the medium is trusted.

use std::collections::HashSet;
use std::io::{self, Read, Seek, SeekFrom};

use super::long_name::LongName;
use super::{ENTRY, FAT16_CLUSTERS, FAT32_CLUSTERS, LONG_NAME, SUB_DIRECTORY, VOLUME_LABEL};
use crate::little_endian::{u16_at, u32_at};

/// Largest number of entries that are read from one directory.
const MAX_ENTRIES: usize = 16 << 10;
/// The first byte of an entry that was removed.
const REMOVED: u8 = 0xe5;
const END: u8 = 0;

#[derive(Debug)]
pub struct Fat<R> {
    image: R,
    kind: Kind,
    /// Bytes per cluster, at most 4096 times 128.
    cluster: u64,
    /// Offset of the first allocation table in bytes.
    table: u64,
    /// Offset of cluster 2, the first one, in bytes.
    data: u64,
    /// Number of clusters.
    clusters: u32,
    root: Place,
    pub label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fat12,
    Fat16,
    Fat32,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// The root directory of FAT12 and FAT16: offset and length in bytes.
    Fixed(u64, u64),
    Cluster(u32),
}

struct Entry {
    name: String,
    attributes: u8,
    place: Place,
    size: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum FatError {
    /// The file system is cut off, or the medium cannot be read.
    #[error("cannot read the FAT file system at byte {offset}: {source}")]
    Io {
        /// In bytes from the start of the image.
        offset: u64,
        source: io::Error,
    },
    #[error("expected a FAT boot sector, found none")]
    NotFat,
    /// A cluster chain that ends before its file ends, points outside the disk, or is a
    /// loop.
    #[error("FAT: {0}: broken chain of clusters")]
    BrokenChain(String),
    #[error("FAT: {what} is {size} bytes, expected at most {limit}")]
    TooLarge {
        what: String,
        /// In bytes.
        size: u32,
        /// The limit of the caller, in bytes.
        limit: u32,
    },
}

impl<R: Read + Seek> Fat<R> {
    /// Reads the boot sector and the label.
    pub fn open(mut image: R) -> Result<Self, FatError> {
        let mut boot = [0; 512];
        match read_at(&mut image, 0, &mut boot) {
            Err(FatError::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(FatError::NotFat);
            }
            other => other?,
        }
        let word = |at: usize| u64::from(u16_at(&boot, at).unwrap_or_default());
        let root_cluster = u32_at(&boot, 44).unwrap_or_default();
        let double = |at: usize| u64::from(u32_at(&boot, at).unwrap_or_default());
        let or = |short: u64, long: u64| if short != 0 { short } else { long };
        let sector = word(11);
        let sectors_per_cluster = u64::from(boot[13]);
        let (reserved, tables, root_entries) = (word(14), u64::from(boot[16]), word(17));
        let (total, table_sectors) = (or(word(19), double(32)), or(word(22), double(36)));
        // The two end bytes are not enough, because a partition table ends with the same
        // bytes. So the sector must also begin with a jump and describe a plausible disk.
        let plausible = boot[510..] == [0x55, 0xaa]
            && matches!(boot[0], 0xeb | 0xe9)
            && matches!(sector, 512 | 1024 | 2048 | 4096)
            && sectors_per_cluster.is_power_of_two()
            && reserved > 0
            && matches!(tables, 1 | 2)
            && table_sectors > 0;
        let root_sectors = (root_entries * ENTRY as u64).div_ceil(sector.max(1));
        let before_data = reserved + tables * table_sectors + root_sectors;
        if !plausible || before_data >= total {
            return Err(FatError::NotFat);
        }
        let clusters = (total - before_data) / sectors_per_cluster;
        let (kind, label_at) = match usize::try_from(clusters) {
            Ok(0..FAT16_CLUSTERS) => (Kind::Fat12, 43),
            Ok(FAT16_CLUSTERS..FAT32_CLUSTERS) => (Kind::Fat16, 43),
            _ => (Kind::Fat32, 71),
        };
        let root = match kind {
            Kind::Fat32 => Place::Cluster(root_cluster),
            _ => Place::Fixed(
                (reserved + tables * table_sectors) * sector,
                root_sectors * sector,
            ),
        };
        let mut fat = Self {
            image,
            kind,
            cluster: sectors_per_cluster * sector,
            table: reserved * sector,
            data: before_data * sector,
            clusters: u32::try_from(clusters).map_err(|_| FatError::NotFat)?,
            root,
            label: short_text(&boot[label_at..label_at + 11]),
        };
        fat.take_label_of_root()?;
        Ok(fat)
    }

    /// Uses the label in the root directory if there is one: programs change that label,
    /// but often leave the label in the boot sector unchanged.
    fn take_label_of_root(&mut self) -> Result<(), FatError> {
        let label = |entry: &Entry| entry.attributes & VOLUME_LABEL != 0;
        let label_entry = match self.entries(self.root, "the root directory") {
            Ok(entries) => entries.into_iter().find(label),
            // If the root directory is broken, continue without its label. Reading a file
            // reports the error.
            Err(FatError::BrokenChain(_)) => None,
            Err(error) => return Err(error),
        };
        if let Some(entry) = label_entry {
            self.label = entry.name;
        }
        Ok(())
    }

    /// Reads a whole file. The letter case of the path is ignored; `None` if there
    /// is no such file.
    ///
    /// # Errors
    /// If the file has more than `limit` bytes or cannot be read.
    pub fn read(&mut self, path: &str, limit: u32) -> Result<Option<Vec<u8>>, FatError> {
        let Some(entry) = self.entry(path)? else {
            return Ok(None);
        };
        if entry.attributes & SUB_DIRECTORY != 0 {
            return Ok(None);
        }
        if entry.size > limit {
            return Err(FatError::TooLarge {
                what: path.to_owned(),
                size: entry.size,
                limit,
            });
        }
        let bytes = self.bytes(entry.place, entry.size as usize, path)?;
        if bytes.len() < entry.size as usize {
            return Err(FatError::BrokenChain(path.to_owned()));
        }
        Ok(Some(bytes))
    }

    /// The names of the files in a directory; empty if there is no such directory.
    pub fn files(&mut self, directory: &str) -> Result<Vec<String>, FatError> {
        let place = match self.entry(directory)? {
            Some(entry) if entry.attributes & SUB_DIRECTORY != 0 => entry.place,
            _ => return Ok(Vec::new()),
        };
        let entries = self.entries(place, directory)?;
        Ok(entries
            .into_iter()
            .filter(|entry| entry.attributes & (SUB_DIRECTORY | VOLUME_LABEL) == 0)
            .map(|entry| entry.name)
            .collect())
    }

    fn entry(&mut self, path: &str) -> Result<Option<Entry>, FatError> {
        let mut here = Entry {
            name: String::new(),
            attributes: SUB_DIRECTORY,
            place: self.root,
            size: 0,
        };
        for part in path.split('/') {
            if here.attributes & SUB_DIRECTORY == 0 {
                return Ok(None);
            }
            let found = self.entries(here.place, path)?.into_iter().find(|entry| {
                let fits = entry.name.to_lowercase() == part.to_lowercase();
                fits && entry.attributes & VOLUME_LABEL == 0
            });
            match found {
                Some(entry) => here = entry,
                None => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    fn entries(&mut self, place: Place, what: &str) -> Result<Vec<Entry>, FatError> {
        let bytes = self.bytes(place, MAX_ENTRIES * ENTRY, what)?;
        let mut entries = Vec::new();
        let mut long = LongName::default();
        let (records, _) = bytes.as_chunks::<ENTRY>();
        for record in records {
            let attributes = record[11];
            match record[0] {
                END => break,
                REMOVED => long = LongName::default(),
                _ if attributes & 0x3f == LONG_NAME => long.add(record),
                _ => {
                    let high = u16::from_le_bytes([record[20], record[21]]);
                    let low = u16::from_le_bytes([record[26], record[27]]);
                    let high = if self.kind == Kind::Fat32 { high } else { 0 };
                    entries.push(Entry {
                        name: match std::mem::take(&mut long).finish(&record[..11]) {
                            Some(name) => name,
                            None if attributes & VOLUME_LABEL != 0 => short_text(&record[..11]),
                            None => short_name(record),
                        },
                        attributes,
                        place: Place::Cluster(u32::from(high) << 16 | u32::from(low)),
                        size: u32::from_le_bytes([record[28], record[29], record[30], record[31]]),
                    });
                }
            }
        }
        Ok(entries)
    }

    /// Reads up to `limit` bytes from the start of `place`.
    fn bytes(&mut self, place: Place, limit: usize, what: &str) -> Result<Vec<u8>, FatError> {
        let mut cluster = match place {
            Place::Fixed(offset, length) => {
                // The boot sector can state at most 65535 entries.
                let mut bytes = vec![0; limit.min(length as usize)];
                read_at(&mut self.image, offset, &mut bytes)?;
                return Ok(bytes);
            }
            // An empty file has no cluster.
            Place::Cluster(0) => return Ok(Vec::new()),
            Place::Cluster(cluster) => cluster,
        };
        let broken = || FatError::BrokenChain(what.to_owned());
        let mut bytes = Vec::new();
        // A damaged chain may contain a loop.
        let mut seen = HashSet::new();
        while bytes.len() < limit {
            if cluster < 2 || cluster - 2 >= self.clusters || !seen.insert(cluster) {
                return Err(broken());
            }
            let offset = self.data + u64::from(cluster - 2) * self.cluster;
            let start = bytes.len();
            bytes.resize(start + (self.cluster as usize).min(limit - start), 0);
            read_at(&mut self.image, offset, &mut bytes[start..])?;
            match self.next(cluster)? {
                Some(next) => cluster = next,
                None => break,
            }
        }
        Ok(bytes)
    }

    /// The next cluster of the chain; `None` at its end.
    fn next(&mut self, cluster: u32) -> Result<Option<u32>, FatError> {
        let at = u64::from(cluster);
        let (offset, end) = match self.kind {
            Kind::Fat12 => (at + at / 2, 0xff8),
            Kind::Fat16 => (at * 2, 0xfff8),
            Kind::Fat32 => (at * 4, 0x0fff_fff8),
        };
        let mut bytes = [0; 4];
        let length = if self.kind == Kind::Fat32 { 4 } else { 2 };
        read_at(&mut self.image, self.table + offset, &mut bytes[..length])?;
        let number = u32::from_le_bytes(bytes);
        let next = match self.kind {
            Kind::Fat12 if cluster % 2 == 1 => number >> 4,
            Kind::Fat12 => number & 0xfff,
            Kind::Fat16 => number,
            Kind::Fat32 => number & 0x0fff_ffff,
        };
        Ok((next < end).then_some(next))
    }
}

/// Turns `NAME    TXT` into `NAME.TXT`. Flags in byte 12 say whether Windows NT or a
/// successor wrote the name in lower case without a long name.
fn short_name(record: &[u8; ENTRY]) -> String {
    let part = |bytes: &[u8], small: u8| match record[12] & small {
        0 => short_text(bytes),
        _ => short_text(bytes).to_lowercase(),
    };
    let (name, ending) = (part(&record[..8], 0x08), part(&record[8..11], 0x10));
    match ending.is_empty() {
        true => name,
        false => format!("{name}.{ending}"),
    }
}

fn short_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn read_at(image: &mut (impl Read + Seek), offset: u64, buffer: &mut [u8]) -> Result<(), FatError> {
    let result = image
        .seek(SeekFrom::Start(offset))
        .and_then(|_| image.read_exact(buffer));
    result.map_err(|source| FatError::Io { offset, source })
}

#[cfg(test)]
mod tests;
