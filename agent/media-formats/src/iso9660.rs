//! Reads files from an ISO 9660 image: Landfall's own media and those that Ironic
//! builds.
//!
//! It reads the volume descriptor, directory records and Rock Ridge names (ECMA-119
//! sections 8 and 9; IEEE P1281 `CE`, P1282 `NM` and `SL`). Every length that the
//! image gives is bounded.

use std::io::{self, Read, Seek, SeekFrom};

const SECTOR: u64 = 2048;
/// Offset of the volume descriptors in bytes.
pub const VOLUME_OFFSET: u64 = 16 * SECTOR;
/// The first bytes of the primary volume descriptor.
pub const MARK: [u8; 6] = *b"\x01CD001";
/// In bytes. A directory on Landfall's own media takes one sector.
const MAX_DIRECTORY: u32 = 1 << 20;
/// ECMA-119, 6.8.2.1 allows eight levels; Landfall's own media have three.
const MAX_DEPTH: usize = 8;
const MAX_ENTRIES: usize = 10_000;
/// Largest number of continuation areas that are read for one record.
const MAX_CONTINUATIONS: usize = 4;
/// ECMA-119, 9.1.6: the file flags of a directory, and of a file with several
/// extents.
const DIRECTORY: u8 = 1 << 1;
const MULTI_EXTENT: u8 = 1 << 7;

#[derive(Debug)]
pub struct Iso<R> {
    image: R,
    root: Extent,
    pub label: String,
    /// The publisher; Ironic writes an id of its own here.
    pub publisher: String,
    /// The modification date, in the form in which GRUB searches for it.
    pub uuid: String,
    /// Size of the volume in bytes; the image may be longer.
    pub size: u64,
}

/// Where a file is in the image, always as one piece. A file of 4 GiB and more has
/// several records, but every writer places their extents one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte, in bytes.
    pub offset: u64,
    /// In bytes.
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    /// A link or a device, or a file whose extents are not contiguous.
    Other,
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
            kind: if follows { self.kind } else { Kind::Other },
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
    #[error("reading the ISO at byte {offset}: {source}")]
    Io {
        /// In bytes from the start of the image.
        offset: u64,
        source: io::Error,
    },
    #[error("expected an ISO 9660 volume descriptor at byte 32768, found none")]
    NoVolume,
    #[error("ISO: {0} is not on it")]
    NotFound(String),
    #[error("ISO: {what} is {size} bytes, expected at most {limit}")]
    TooLarge {
        what: String,
        /// In bytes.
        size: u64,
        /// The limit of the caller, in bytes.
        limit: u32,
    },
    /// A directory record whose lengths contradict each other, a directory tree
    /// that is too deep, or too many entries.
    #[error("ISO: broken directory record at byte {0}")]
    BrokenRecord(u64),
}

impl<R: Read + Seek> Iso<R> {
    /// Reads the primary volume descriptor, which is the first descriptor.
    pub fn open(mut image: R) -> Result<Self, IsoError> {
        let mut volume = [0; SECTOR as usize];
        read_at(&mut image, VOLUME_OFFSET, &mut volume)?;
        if volume[..6] != MARK {
            return Err(IsoError::NoVolume);
        }
        let root = extent(&volume[156..190]);
        let text = |range: std::ops::Range<usize>| {
            String::from_utf8_lossy(&volume[range])
                .trim_end()
                .to_owned()
        };
        let digits = text(830..846);
        let uuid = if digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_digit()) {
            let pieces = [0..4, 4..6, 6..8, 8..10, 10..12, 12..14, 14..16];
            pieces.map(|range| &digits[range]).join("-")
        } else {
            String::new()
        };
        let size = u64::from(number(&volume, 80)) * SECTOR;
        let label = text(40..72);
        let publisher = text(318..446);
        Ok(Self {
            image,
            root,
            label,
            publisher,
            uuid,
            size,
        })
    }

    /// Finds a file by its path. The letter case is ignored; links are not
    /// followed.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn find(&mut self, path: &str) -> Result<Extent, IsoError> {
        let found = self.entry(path)?.filter(|entry| entry.kind == Kind::File);
        let entry = found.ok_or_else(|| IsoError::NotFound(path.to_owned()))?;
        Ok(entry.extent)
    }

    /// The names of the files in a directory, as they are recorded; empty if there
    /// is no such directory. Links and subdirectories are left out.
    pub fn files(&mut self, directory: &str) -> Result<Vec<String>, IsoError> {
        let here = match self.entry(directory)? {
            Some(entry) if entry.kind == Kind::Directory => entry.extent,
            _ => return Ok(Vec::new()),
        };
        let mut names = Vec::new();
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

    /// All files, with their paths from the root, sorted by path. Links are left
    /// out.
    ///
    /// # Errors
    /// If a directory cannot be read, or the image has more entries or levels than
    /// Landfall's own media have.
    pub fn all_files(&mut self) -> Result<Vec<(String, Extent)>, IsoError> {
        let mut files = Vec::new();
        let mut directories = vec![(String::new(), self.root, 0)];
        while let Some((path, extent, depth)) = directories.pop() {
            // A broken directory can contain itself.
            if depth > MAX_DEPTH || files.len() + directories.len() > MAX_ENTRIES {
                return Err(IsoError::BrokenRecord(extent.offset));
            }
            self.each_entry(extent, |entry| {
                // The first two entries of a directory are the directory itself and
                // its parent.
                let name = String::from_utf8(entry.name).ok()?;
                if matches!(name.as_str(), "" | "\0" | "\u{1}" | "." | "..") {
                    return None::<()>;
                }
                let path = match path.as_str() {
                    "" => name,
                    parent => format!("{parent}/{name}"),
                };
                match entry.kind {
                    Kind::File => files.push((path, entry.extent)),
                    Kind::Directory => directories.push((path, entry.extent, depth + 1)),
                    Kind::Other => {}
                }
                None
            })?;
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
    /// If there is no such file, or it has more than `limit` bytes.
    pub fn read(&mut self, path: &str, limit: u32) -> Result<Vec<u8>, IsoError> {
        let extent = self.find(path)?;
        self.bytes(extent, path, limit)
    }

    /// Reads the first `len` bytes of a file, or all of a shorter file.
    ///
    /// # Errors
    /// If there is no such file.
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

    /// Passes the entries of a directory to `wanted` until it returns a result.
    fn each_entry<T>(
        &mut self,
        directory: Extent,
        mut wanted: impl FnMut(Entry) -> Option<T>,
    ) -> Result<Option<T>, IsoError> {
        let records = self.bytes(directory, "a directory", MAX_DIRECTORY)?;
        let mut at = 0;
        // A file with several records, as far as they have been read.
        let mut begun: Option<Entry> = None;
        while let Some(&len) = records.get(at) {
            if len == 0 {
                // Records do not cross sector boundaries; the rest of this sector
                // is unused.
                at = (at + 1).next_multiple_of(SECTOR as usize);
                continue;
            }
            let broken = || IsoError::BrokenRecord(directory.offset + at as u64);
            let record = records
                .get(at..at + usize::from(len))
                .filter(|r| r.len() >= 34)
                .ok_or_else(broken)?;
            let name_end = 33 + usize::from(record[32]);
            let plain = record.get(33..name_end).ok_or_else(broken)?;
            // A padding byte follows a name of even length.
            let system_use = record
                .get(name_end + 1 - usize::from(record[32]) % 2..)
                .unwrap_or_default();
            let rock_ridge = self.rock_ridge(system_use)?;
            let flags = record[25];
            let mut entry = Entry {
                kind: match flags {
                    _ if rock_ridge.is_special => Kind::Other,
                    _ if flags & DIRECTORY != 0 => Kind::Directory,
                    _ => Kind::File,
                },
                name: rock_ridge.name.unwrap_or_else(|| plain_name(plain)),
                extent: extent(record),
            };
            at += usize::from(len);
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

    /// Reads the fields of a system use area and of its continuation areas.
    fn rock_ridge(&mut self, area: &[u8]) -> Result<RockRidge, IsoError> {
        let mut found = RockRidge::default();
        let mut next = found.read(area);
        for _ in 0..MAX_CONTINUATIONS {
            let Some(more) = next.take() else {
                break;
            };
            let area = self.bytes(more, "a continuation area", SECTOR as u32)?;
            next = found.read(&area);
        }
        Ok(found)
    }
}

#[derive(Debug, Default)]
struct RockRidge {
    /// All `NM` fields joined; `None` if there is no such field.
    name: Option<Vec<u8>>,
    /// Whether the entry is a link (`SL`) or a device (`PN`).
    is_special: bool,
}

impl RockRidge {
    /// Reads one area; returns the place of its continuation area.
    fn read(&mut self, mut fields: &[u8]) -> Option<Extent> {
        let mut continuation = None;
        while let [first, second, len, _, ..] = *fields {
            let Some((field, rest)) = fields
                .split_at_checked(usize::from(len))
                .filter(|(field, _)| field.len() >= 4)
            else {
                break;
            };
            match [first, second] {
                [b'N', b'M'] => self
                    .name
                    .get_or_insert_default()
                    .extend_from_slice(field.get(5..).unwrap_or_default()),
                [b'S', b'L'] | [b'P', b'N'] => self.is_special = true,
                // P1281, 5.1: block, offset and length, each in both byte orders.
                [b'C', b'E'] if field.len() >= 28 => {
                    continuation = Some(Extent {
                        offset: u64::from(number(field, 4)) * SECTOR + u64::from(number(field, 12)),
                        size: number(field, 20).into(),
                    });
                }
                _ => {}
            }
            fields = rest;
        }
        continuation
    }
}

/// `record` must have at least 14 bytes.
fn extent(record: &[u8]) -> Extent {
    Extent {
        offset: u64::from(number(record, 2)) * SECTOR,
        size: number(record, 10).into(),
    }
}

/// Panics if `record` has fewer than `at + 4` bytes.
fn number(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

/// Removes the version number, and the dot of a name without an extension.
fn plain_name(name: &[u8]) -> Vec<u8> {
    let name = name.split(|&b| b == b';').next().unwrap_or_default();
    name.strip_suffix(b".").unwrap_or(name).to_vec()
}

fn read_at(image: &mut (impl Read + Seek), offset: u64, buffer: &mut [u8]) -> Result<(), IsoError> {
    let result = image
        .seek(SeekFrom::Start(offset))
        .and_then(|_| image.read_exact(buffer));
    result.map_err(|source| IsoError::Io { offset, source })
}

#[cfg(test)]
mod tests;
