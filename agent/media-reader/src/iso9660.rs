//! Reads files out of an ISO 9660 image: our own media, and those that Ironic builds.
//!
//! Volume descriptor, directory records and Rock Ridge names (ECMA-119 sections 8 and
//! 9; IEEE P1281 `CE`, P1282 `NM` and `SL`). Every length that the image gives is bounded.

use std::io::{self, Read, Seek, SeekFrom};

const SECTOR: u64 = 2048;
/// Where the volume descriptors begin.
pub const VOLUME_OFFSET: u64 = 16 * SECTOR;
/// How the primary one begins.
pub const MARK: [u8; 6] = *b"\x01CD001";
/// A directory of our media takes one sector.
const MAX_DIRECTORY: u32 = 1 << 20;
/// ECMA-119, 6.8.2.1: eight levels; ours have three.
const MAX_DEPTH: usize = 8;
const MAX_ENTRIES: usize = 10_000;
/// Most pieces that the system use area of one record is in.
const MAX_CONTINUATIONS: usize = 4;
/// ECMA-119, 9.1.6: file flags of a directory, and of a file in several extents.
const DIRECTORY: u8 = 1 << 1;
const MULTI_EXTENT: u8 = 1 << 7;

/// An open image.
#[derive(Debug)]
pub struct Iso<R> {
    image: R,
    root: Extent,
    /// Volume label.
    pub label: String,
    /// Who published it; Ironic writes an id of its own here.
    pub publisher: String,
    /// As GRUB searches it: the modification date.
    pub uuid: String,
    /// Bytes of the volume; the image may be longer.
    pub size: u64,
}

/// Where a file is in the image: always one piece. One of 4 GiB and more is
/// recorded in several, which every writer puts one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Of its first byte.
    pub offset: u64,
    /// In bytes.
    pub size: u64,
}

/// What a directory record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    /// A link or a device, or a file whose pieces are not one behind the other.
    Other,
}

struct Entry {
    name: Vec<u8>,
    kind: Kind,
    extent: Extent,
}

impl Entry {
    /// With its next piece.
    fn with(self, next: &Self) -> Self {
        let end = self.extent.offset + self.extent.size;
        let follows = self.kind == next.kind && end == next.extent.offset;
        Self {
            kind: if follows { self.kind } else { Kind::Other },
            extent: Extent {
                offset: self.extent.offset,
                // At most as many records as fit into a directory: no overflow.
                size: self.extent.size + next.extent.size,
            },
            name: self.name,
        }
    }
}

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IsoError {
    /// The image ends before, or cannot be read.
    #[error("reading the ISO at byte {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("expected an ISO 9660 volume descriptor at byte 32768, found none")]
    NoVolume,
    /// No such file.
    #[error("ISO: {0} is not on it")]
    NotFound(String),
    /// More than the caller takes.
    #[error("ISO: {what} is {size} bytes, expected at most {limit}")]
    TooLarge {
        /// The file.
        what: String,
        /// Its size.
        size: u64,
        /// What the caller takes.
        limit: u32,
    },
    /// A directory that contradicts itself.
    #[error("ISO: broken directory record at byte {0}")]
    BrokenRecord(u64),
}

impl<R: Read + Seek> Iso<R> {
    /// Reads the primary volume descriptor, which is the first of all.
    ///
    /// # Errors
    /// If there is none.
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

    /// Finds a file by its path, letter case ignored. Links are not followed.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn find(&mut self, path: &str) -> Result<Extent, IsoError> {
        let found = self.entry(path)?.filter(|entry| entry.kind == Kind::File);
        let entry = found.ok_or_else(|| IsoError::NotFound(path.to_owned()))?;
        Ok(entry.extent)
    }

    /// The names of the files in a directory, as they are written there; empty
    /// if there is no such directory. Links and directories are left out.
    ///
    /// # Errors
    /// If it cannot be read.
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

    /// Every file on it, with its path from the root. Links are left out.
    ///
    /// # Errors
    /// If a directory cannot be read, or there are more than a medium of ours has.
    pub fn all_files(&mut self) -> Result<Vec<(String, Extent)>, IsoError> {
        let mut files = Vec::new();
        let mut directories = vec![(String::new(), self.root, 0)];
        while let Some((path, extent, depth)) = directories.pop() {
            // A directory may contain itself.
            if depth > MAX_DEPTH || files.len() + directories.len() > MAX_ENTRIES {
                return Err(IsoError::BrokenRecord(extent.offset));
            }
            self.each_entry(extent, |entry| {
                // The first two name the directory itself and its parent.
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

    /// Reads a whole file of at most `limit` bytes.
    ///
    /// # Errors
    /// If there is no such file, or it is larger.
    pub fn read(&mut self, path: &str, limit: u32) -> Result<Vec<u8>, IsoError> {
        let extent = self.find(path)?;
        self.bytes(extent, path, limit)
    }

    /// Reads the beginning of a file.
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

    /// Shows every entry of a directory until `wanted` takes one.
    fn each_entry<T>(
        &mut self,
        directory: Extent,
        mut wanted: impl FnMut(Entry) -> Option<T>,
    ) -> Result<Option<T>, IsoError> {
        let records = self.bytes(directory, "a directory", MAX_DIRECTORY)?;
        let mut at = 0;
        // The pieces so far of a file that has several records.
        let mut begun: Option<Entry> = None;
        while let Some(&len) = records.get(at) {
            if len == 0 {
                // Records do not cross sectors; the rest of this one is unused.
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
            // A name of even length is followed by a padding byte.
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

    /// Reads the fields of a system use area, wherever they go on.
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

/// What Rock Ridge says about an entry.
#[derive(Debug, Default)]
struct RockRidge {
    /// The pieces of all `NM` fields; `None` if there is none.
    name: Option<Vec<u8>>,
    /// A link (`SL`) or a device (`PN`).
    is_special: bool,
}

impl RockRidge {
    /// Reads one area; returns where it goes on.
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
                // P1281, 5.1: block, offset and length, each in both orders.
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

/// `record` is at least 14 bytes long.
fn extent(record: &[u8]) -> Extent {
    Extent {
        offset: u64::from(number(record, 2)) * SECTOR,
        size: number(record, 10).into(),
    }
}

/// The bytes are there.
fn number(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

/// Without version number and the dot of a name that has no ending.
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
