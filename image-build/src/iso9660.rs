//! Reads files out of an ISO 9660 image: enough to look into our own media.
//!
//! Volume descriptor, directory records and Rock Ridge names (ECMA-119 sections 8 and
//! 9, IEEE P1282 `NM`). Every length that the image gives is bounded.

use std::io::{self, Read, Seek, SeekFrom};

const SECTOR: u64 = 2048;
/// A directory of our media takes one sector.
const MAX_DIRECTORY: u32 = 1 << 20;

/// An open image.
#[derive(Debug)]
pub(crate) struct Iso<R> {
    image: R,
    root: Extent,
    /// Volume label.
    pub(crate) label: String,
    /// As GRUB searches it: the modification date.
    pub(crate) uuid: String,
}

/// Where a file is in the image: always one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) size: u32,
}

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IsoError {
    #[error("reading the ISO at byte {offset}")]
    Io {
        offset: u64,
        #[source]
        source: io::Error,
    },
    #[error("expected an ISO 9660 volume descriptor at byte 32768, found none")]
    NoVolume,
    #[error("ISO: {0} is not on it")]
    NotFound(String),
    #[error("ISO: {what} is {size} bytes, expected at most {limit}")]
    TooLarge { what: String, size: u32, limit: u32 },
    #[error("ISO: broken directory record at byte {0}")]
    BrokenRecord(u64),
}

impl<R: Read + Seek> Iso<R> {
    /// Reads the primary volume descriptor, which is the first on every medium of ours.
    pub(crate) fn open(mut image: R) -> Result<Self, IsoError> {
        let mut volume = [0; SECTOR as usize];
        read_at(&mut image, 16 * SECTOR, &mut volume)?;
        if volume[..6] != *b"\x01CD001" {
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
        let label = text(40..72);
        Ok(Self {
            image,
            root,
            label,
            uuid,
        })
    }

    /// Finds a file by its path, letter case ignored.
    pub(crate) fn find(&mut self, path: &str) -> Result<Extent, IsoError> {
        let mut here = self.root;
        for part in path.split('/') {
            let not_found = || IsoError::NotFound(path.to_owned());
            here = self.lookup(here, part)?.ok_or_else(not_found)?;
        }
        Ok(here)
    }

    /// Reads a whole file of at most `limit` bytes.
    pub(crate) fn read(&mut self, path: &str, limit: u32) -> Result<Vec<u8>, IsoError> {
        let extent = self.find(path)?;
        self.bytes(extent, path, limit)
    }

    /// Reads the beginning of a file.
    pub(crate) fn read_start(&mut self, path: &str, len: u32) -> Result<Vec<u8>, IsoError> {
        let extent = self.find(path)?;
        self.bytes(
            Extent {
                size: extent.size.min(len),
                ..extent
            },
            path,
            len,
        )
    }

    fn bytes(&mut self, extent: Extent, what: &str, limit: u32) -> Result<Vec<u8>, IsoError> {
        if extent.size > limit {
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

    fn lookup(&mut self, directory: Extent, name: &str) -> Result<Option<Extent>, IsoError> {
        let records = self.bytes(directory, "a directory", MAX_DIRECTORY)?;
        let mut at = 0;
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
            let found = rock_ridge_name(system_use).unwrap_or_else(|| plain_name(plain));
            if found.eq_ignore_ascii_case(name.as_bytes()) {
                return Ok(Some(extent(record)));
            }
            at += usize::from(len);
        }
        Ok(None)
    }
}

/// `record` is at least 14 bytes long.
fn extent(record: &[u8]) -> Extent {
    let number = |at: usize| {
        u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
    };
    Extent {
        offset: u64::from(number(2)) * SECTOR,
        size: number(10),
    }
}

/// Without version number and the dot of a name that has no ending.
fn plain_name(name: &[u8]) -> Vec<u8> {
    let name = name.split(|&b| b == b';').next().unwrap_or_default();
    name.strip_suffix(b".").unwrap_or(name).to_vec()
}

/// The pieces of all `NM` fields; `None` if there is none.
fn rock_ridge_name(mut fields: &[u8]) -> Option<Vec<u8>> {
    let mut name: Option<Vec<u8>> = None;
    while let [first, second, len, _, ..] = *fields {
        let Some((field, rest)) = fields
            .split_at_checked(usize::from(len))
            .filter(|(field, _)| field.len() >= 4)
        else {
            break;
        };
        if [first, second] == *b"NM" {
            name.get_or_insert_default()
                .extend_from_slice(field.get(5..).unwrap_or_default());
        }
        fields = rest;
    }
    name
}

fn read_at(image: &mut (impl Read + Seek), offset: u64, buffer: &mut [u8]) -> Result<(), IsoError> {
    let result = image
        .seek(SeekFrom::Start(offset))
        .and_then(|_| image.read_exact(buffer));
    result.map_err(|source| IsoError::Io { offset, source })
}

#[cfg(test)]
mod tests;
