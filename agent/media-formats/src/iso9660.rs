//! Reads files from an ISO 9660 image: Landfall's own media, media that Ironic builds,
//! and config drives. Every length in the image is checked against a limit.
//!
//! Files have the names that Linux shows: the Rock Ridge names, otherwise the names of
//! the Joliet tree, otherwise the plain names in lower case (ECMA-119 sections 8 and 9;
//! IEEE P1281 and P1282; Joliet Specification, 1995).

mod record;
mod volume;

use std::io::{self, Read, Seek, SeekFrom};

use record::{DIRECTORY, MULTI_EXTENT, Record, RockRidge};

/// The block size in bytes. Every program that writes ISO images uses this size.
const SECTOR: u64 = 2048;
/// Offset of the volume descriptors in bytes.
pub const VOLUME_OFFSET: u64 = 16 * SECTOR;
/// The first bytes of the primary volume descriptor.
pub const MARK: [u8; 6] = *b"\x01CD001";
/// The size limit of a directory in bytes. A directory on Landfall's own media takes one
/// sector.
const MAX_DIRECTORY: u32 = 1 << 20;
/// The maximum depth of a directory. ECMA-119, 6.8.2.1 allows eight levels; Landfall's
/// own media have three.
const MAX_DEPTH: usize = 8;
/// The maximum number of files and directories in a list. A config drive has about a
/// dozen.
const MAX_ENTRIES: usize = 10_000;
/// The maximum number of bytes that one search or one list may use: directories and
/// continuation areas that the agent reads, and paths that it builds. Ten thousand
/// files with long names need less. Without this limit, a small image with many records
/// of the same directory could make the agent read gigabytes.
const MAX_WORK: u64 = 32 << 20;
/// Largest number of continuation areas that are read for one record.
const MAX_CONTINUATIONS: usize = 4;

#[derive(Debug)]
pub struct Iso<R> {
    image: R,
    root: Extent,
    /// The directory tree that `root` belongs to.
    tree: Tree,
    /// In bytes. If the block size of a medium is not 2048, the agent can read the label,
    /// but not the files.
    block_size: u16,
    pub label: String,
    /// The publisher; Ironic writes an id of its own here.
    pub publisher: String,
    /// The modification date, in the form in which GRUB searches for it; empty if there
    /// is none.
    pub uuid: String,
    /// Size of the volume in bytes; the image may be longer.
    pub size: u64,
    /// What is left of `MAX_WORK`.
    work_left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tree {
    /// The tree of the primary volume descriptor. Its records may have Rock Ridge fields
    /// after the names.
    Primary,
    Joliet,
}

/// The place of a file in the image, always in one piece. A file of 4 GiB or more has
/// several records, but every known writer stores their extents without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte, in bytes.
    pub offset: u64,
    /// In bytes.
    pub size: u64,
}

impl Extent {
    /// The content of the file, from an image in memory. `None` if the image ends before
    /// the file does.
    pub fn content<'a>(&self, image: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let size = usize::try_from(self.size).ok()?;
        // The record of an empty file may have any extent.
        if size == 0 {
            return Some(&[]);
        }
        image.get(start..start.checked_add(size)?)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    /// A link or a device.
    Special,
    /// A file whose extents are not contiguous.
    Scattered,
}

struct Entry {
    name: Vec<u8>,
    kind: Kind,
    extent: Extent,
}

impl Entry {
    /// Appends the next extent of the same file.
    fn with(self, next: &Self) -> Self {
        let end = self.extent.offset + self.extent.size;
        let follows = self.kind == next.kind && end == next.extent.offset;
        Self {
            kind: if follows { self.kind } else { Kind::Scattered },
            extent: Extent {
                offset: self.extent.offset,
                // No overflow: `MAX_DIRECTORY` limits the number of records.
                size: self.extent.size + next.extent.size,
            },
            name: self.name,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum IsoError {
    /// The image is cut off or cannot be read.
    #[error("cannot read the ISO at byte {offset}: {source}")]
    Io {
        /// In bytes from the start of the image.
        offset: u64,
        source: io::Error,
    },
    #[error("expected an ISO 9660 volume descriptor at byte 32768, found none")]
    NoVolume,
    #[error("ISO: no regular file {0}")]
    NotFound(String),
    #[error("ISO: {what} is {size} bytes, expected at most {limit}")]
    TooLarge {
        what: String,
        /// In bytes.
        size: u64,
        /// The limit of the caller, in bytes.
        limit: u32,
    },
    #[error("expected blocks of 2048 bytes on the ISO, found {0}")]
    BlockSize(u16),
    #[error("ISO: expected a name that cannot lead out of its directory, found {0:?}")]
    Name(String),
    #[error("ISO: {0} is in several pieces")]
    Scattered(String),
    #[error("ISO: expected at most {MAX_WORK} bytes of directories, found more")]
    TooMuch,
    /// A directory record whose lengths contradict each other, a directory tree that is
    /// too deep, or too many entries.
    #[error("ISO: broken directory record at byte {0}")]
    BrokenRecord(u64),
}

impl<R: Read + Seek> Iso<R> {
    /// Finds a file by its path. Ignores the letter case and does not follow links.
    ///
    /// # Errors
    /// If there is no such file, or if a directory cannot be read.
    pub fn find(&mut self, path: &str) -> Result<Extent, IsoError> {
        let found = self.entry(path)?.filter(|entry| entry.kind == Kind::File);
        let entry = found.ok_or_else(|| IsoError::NotFound(path.to_owned()))?;
        Ok(entry.extent)
    }

    /// The names of the files in a directory; empty if there is no such directory. Links,
    /// subdirectories, files in several pieces and names that are not UTF-8 are not
    /// included.
    pub fn files(&mut self, directory: &str) -> Result<Vec<String>, IsoError> {
        let here = match self.entry(directory)? {
            Some(entry) if entry.kind == Kind::Directory => entry.extent,
            _ => return Ok(Vec::new()),
        };
        let mut names = Vec::new();
        self.work_left = MAX_WORK;
        self.each_entry(here, |entry| {
            if entry.kind == Kind::File
                && let Ok(name) = String::from_utf8(entry.name)
            {
                names.push(name);
            }
            None::<()>
        })?;
        Ok(names)
    }

    /// All files, with their paths from the root, sorted by path. Links are not included.
    ///
    /// # Errors
    /// If a directory cannot be read, if the image exceeds the limits of entries, levels
    /// or work, if a file is in several pieces, or if a name could lead out of its
    /// directory.
    pub fn all_files(&mut self) -> Result<Vec<(String, Extent)>, IsoError> {
        let mut files = Vec::new();
        let mut directories = vec![(String::new(), self.root, 0)];
        let mut entries = 0;
        let mut path_bytes = 0;
        self.work_left = MAX_WORK;
        while let Some((path, extent, depth)) = directories.pop() {
            // A broken directory can contain itself.
            let too_much = || IsoError::BrokenRecord(extent.offset);
            if depth > MAX_DEPTH {
                return Err(too_much());
            }
            let fault = self.each_entry(extent, |entry| {
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Some(too_much());
                }
                let name = String::from_utf8_lossy(&entry.name);
                if matches!(&*name, "" | "." | "..") || name.contains(['/', '\\', '\0']) {
                    return Some(IsoError::Name(name.into_owned()));
                }
                let path = match path.as_str() {
                    "" => name.into_owned(),
                    parent => format!("{parent}/{name}"),
                };
                path_bytes += path.len() as u64;
                if path_bytes > MAX_WORK {
                    return Some(IsoError::TooMuch);
                }
                match entry.kind {
                    Kind::File => files.push((path, entry.extent)),
                    Kind::Directory => directories.push((path, entry.extent, depth + 1)),
                    Kind::Special => {}
                    Kind::Scattered => return Some(IsoError::Scattered(path)),
                }
                None
            })?;
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
        files.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(files)
    }

    fn entry(&mut self, path: &str) -> Result<Option<Entry>, IsoError> {
        let mut here = Entry {
            name: Vec::new(),
            kind: Kind::Directory,
            extent: self.root,
        };
        self.work_left = MAX_WORK;
        for part in path.split('/') {
            if here.kind != Kind::Directory {
                return Ok(None);
            }
            let found = self.each_entry(here.extent, |entry| {
                let fits = entry.name.eq_ignore_ascii_case(part.as_bytes());
                fits.then_some(entry)
            })?;
            match found {
                Some(entry) => here = entry,
                None => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// If there is no such file, if the file has more than `limit` bytes, or if it cannot
    /// be read.
    pub fn read(&mut self, path: &str, limit: u32) -> Result<Vec<u8>, IsoError> {
        let extent = self.find(path)?;
        self.bytes(extent, path, limit)
    }

    /// Reads the first `len` bytes of a file, or all of a shorter file.
    ///
    /// # Errors
    /// If there is no such file, or if it cannot be read.
    pub fn read_start(&mut self, path: &str, len: u32) -> Result<Vec<u8>, IsoError> {
        let extent = self.find(path)?;
        self.bytes(
            Extent {
                size: extent.size.min(len.into()),
                ..extent
            },
            path,
            len,
        )
    }

    fn bytes(&mut self, extent: Extent, what: &str, limit: u32) -> Result<Vec<u8>, IsoError> {
        if extent.size > u64::from(limit) {
            return Err(IsoError::TooLarge {
                what: what.to_owned(),
                size: extent.size,
                limit,
            });
        }
        let mut bytes = vec![0; extent.size as usize];
        read_at(&mut self.image, extent.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Like [`Self::bytes`], but the bytes also count towards `MAX_WORK`.
    fn charged(&mut self, extent: Extent, what: &str, limit: u32) -> Result<Vec<u8>, IsoError> {
        let left = self.work_left.checked_sub(extent.size.min(limit.into()));
        self.work_left = left.ok_or(IsoError::TooMuch)?;
        self.bytes(extent, what, limit)
    }

    /// Passes the entries of a directory to `wanted` until `wanted` returns a result.
    fn each_entry<T>(
        &mut self,
        directory: Extent,
        mut wanted: impl FnMut(Entry) -> Option<T>,
    ) -> Result<Option<T>, IsoError> {
        if u64::from(self.block_size) != SECTOR {
            return Err(IsoError::BlockSize(self.block_size));
        }
        let records = self.charged(directory, "a directory", MAX_DIRECTORY)?;
        let mut at = 0;
        // A file with several records, joined as far as they have been read.
        let mut begun: Option<Entry> = None;
        while let Some(&len) = records.get(at) {
            if len == 0 {
                // A length of 0 means that no further record fits into this sector.
                // Continue at the next sector.
                at = (at + 1).next_multiple_of(SECTOR as usize);
                continue;
            }
            let record = records
                .get(at..at + usize::from(len))
                .and_then(Record::parse)
                .ok_or(IsoError::BrokenRecord(directory.offset + at as u64))?;
            at += usize::from(len);
            if record.is_navigation() {
                continue;
            }
            let flags = record.flags;
            let mut entry = self.described(&record)?;
            if let Some(start) = begun.take().filter(|start| start.name == entry.name) {
                entry = start.with(&entry);
            }
            if flags & MULTI_EXTENT != 0 {
                begun = Some(entry);
            } else if let Some(found) = wanted(entry) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn described(&mut self, record: &Record<'_>) -> Result<Entry, IsoError> {
        let fields = match self.tree {
            Tree::Primary => self.rock_ridge(record.system_use)?,
            Tree::Joliet => RockRidge::default(),
        };
        let kind = match record.flags {
            _ if fields.is_special => Kind::Special,
            flags if flags & DIRECTORY != 0 => Kind::Directory,
            _ => Kind::File,
        };
        let name = match (fields.name, self.tree) {
            (Some(name), _) => name,
            (None, Tree::Primary) => record::plain_name(record.name),
            (None, Tree::Joliet) => record::joliet_name(record.name),
        };
        Ok(Entry {
            name,
            kind,
            extent: record.extent,
        })
    }

    /// Reads the fields of a system use area and of its continuation areas.
    fn rock_ridge(&mut self, area: &[u8]) -> Result<RockRidge, IsoError> {
        let mut found = RockRidge::default();
        let mut next = found.read(area);
        for _ in 0..MAX_CONTINUATIONS {
            let Some(more) = next.take() else {
                break;
            };
            let area = self.charged(more, "a continuation area", SECTOR as u32)?;
            next = found.read(&area);
        }
        Ok(found)
    }
}

fn read_at(image: &mut (impl Read + Seek), offset: u64, buffer: &mut [u8]) -> Result<(), IsoError> {
    let result = image
        .seek(SeekFrom::Start(offset))
        .and_then(|_| image.read_exact(buffer));
    result.map_err(|source| IsoError::Io { offset, source })
}

#[cfg(test)]
mod tests;
