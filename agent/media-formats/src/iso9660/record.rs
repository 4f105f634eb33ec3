//! Parses directory records (ECMA-119, 9.1) and the system use fields after their names:
//! Rock Ridge (IEEE P1281 `SP` and `CE`, P1282 `NM`, `SL` and `PN`).

use super::{Extent, SECTOR};
use crate::little_endian::u32_at;

/// File flags (ECMA-119, 9.1.6) of a directory, and of a file with several
/// extents.
pub(super) const DIRECTORY: u8 = 1 << 1;
pub(super) const MULTI_EXTENT: u8 = 1 << 7;

/// The names of the entries for the directory itself and for its parent.
const ITSELF: &[u8] = &[0];
const PARENT: &[u8] = &[1];

#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) extent: Extent,
    pub(super) flags: u8,
    pub(super) name: &'a [u8],
    pub(super) system_use: &'a [u8],
}

impl<'a> Record<'a> {
    /// `None` if the lengths in the record contradict each other.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        // The name begins at byte 33, and the shortest name has one byte.
        if bytes.len() < 34 {
            return None;
        }
        let name_end = 33 + usize::from(bytes[32]);
        Some(Self {
            extent: extent(bytes)?,
            flags: bytes[25],
            name: bytes.get(33..name_end)?,
            // A padding byte follows a name of even length.
            system_use: bytes
                .get(name_end.next_multiple_of(2)..)
                .unwrap_or_default(),
        })
    }

    /// Whether this is the entry of the directory itself or of its parent.
    pub(super) fn is_navigation(&self) -> bool {
        matches!(self.name, ITSELF | PARENT)
    }
}

/// The extent in a directory record.
pub(super) fn extent(record: &[u8]) -> Option<Extent> {
    Some(Extent {
        offset: u64::from(u32_at(record, 2)?) * SECTOR,
        size: u32_at(record, 10)?.into(),
    })
}

#[derive(Debug, Default)]
pub(super) struct RockRidge {
    /// All `NM` fields joined; `None` if there is no such field.
    pub(super) name: Option<Vec<u8>>,
    /// Whether the entry is a link (`SL`) or a device (`PN`).
    pub(super) is_special: bool,
    /// Whether the area has the field `SP`. If the volume uses Rock Ridge fields, the
    /// first record of the root directory has this field.
    pub(super) is_announced: bool,
}

impl RockRidge {
    /// Reads one area; returns the place of its continuation area.
    pub(super) fn read(&mut self, mut fields: &[u8]) -> Option<Extent> {
        let mut continuation = None;
        while let [first, second, len, _, ..] = *fields {
            let Some((field, rest)) = fields
                .split_at_checked(usize::from(len))
                .filter(|(field, _)| field.len() >= 4)
            else {
                break;
            };
            match &[first, second] {
                b"SP" => self.is_announced = true,
                b"NM" => self
                    .name
                    .get_or_insert_default()
                    .extend_from_slice(field.get(5..).unwrap_or_default()),
                b"SL" | b"PN" => self.is_special = true,
                b"CE" => continuation = continuation_area(field).or(continuation),
                _ => {}
            }
            fields = rest;
        }
        continuation
    }
}

/// P1281, 5.1: block, offset and length, each in both byte orders.
fn continuation_area(field: &[u8]) -> Option<Extent> {
    Some(Extent {
        offset: u64::from(u32_at(field, 4)?) * SECTOR + u64::from(u32_at(field, 12)?),
        size: u32_at(field, 20)?.into(),
    })
}

/// A plain name as Linux shows it: in lower case, without the version number, and without
/// the dot if there is no extension.
pub(super) fn plain_name(name: &[u8]) -> Vec<u8> {
    let name = name.split(|&b| b == b';').next().unwrap_or_default();
    name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase()
}

/// A name of the Joliet tree, without the version number.
pub(super) fn joliet_name(name: &[u8]) -> Vec<u8> {
    let (units, _) = name.as_chunks::<2>();
    let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
    let name = String::from_utf16_lossy(&units);
    let name = name.rsplit_once(';').map_or(&*name, |(name, _)| name);
    name.as_bytes().to_vec()
}
