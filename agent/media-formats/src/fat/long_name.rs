//! Reads and writes long names. A long name is stored in pieces of 13 UTF-16 units, in
//! entries before the file's own entry. The last piece of the name comes first.

use std::ops::Range;

use super::{ENTRY, LONG_NAME};
use crate::little_endian;

/// The number of UTF-16 units in a piece.
const PIECE: usize = 13;
const PLACES: [Range<usize>; 3] = [1..11, 14..26, 28..32];
/// A long name has at most 20 pieces, and at most 255 units.
const MAX_PIECES: u8 = 20;
const MAX_UNITS: usize = 255;
/// The flag of the last piece, which is stored first.
const LAST: u8 = 0x40;

/// Collects the pieces of a long name while a directory is read.
#[derive(Debug, Default)]
pub(super) struct LongName {
    units: Vec<u16>,
    next: u8,
    checksum: u8,
}

impl LongName {
    /// Adds the next entry with a piece of the name. If the piece does not continue the
    /// previous pieces, discards all pieces.
    pub(super) fn add(&mut self, record: &[u8; ENTRY]) {
        let order = record[0] & 0x3f;
        if record[0] & LAST != 0 {
            *self = Self {
                units: Vec::new(),
                next: order,
                checksum: record[13],
            };
        }
        if order == 0 || order > MAX_PIECES || order != self.next || record[13] != self.checksum {
            *self = Self::default();
            return;
        }
        let mut piece: Vec<u16> = PLACES
            .into_iter()
            .flat_map(|range| little_endian::all_u16(&record[range]))
            .take_while(|&unit| unit != 0)
            .collect();
        piece.append(&mut self.units);
        self.units = piece;
        self.next = order - 1;
    }

    /// The name, if it is complete and belongs to the entry with these 11 bytes.
    pub(super) fn finish(self, short: &[u8]) -> Option<String> {
        let whole = self.next == 0 && !self.units.is_empty() && self.checksum == checksum(short);
        whole.then(|| String::from_utf16_lossy(&self.units))
    }
}

/// The entries that store `name`; they precede the entry with this short name. `None` if
/// FAT does not permit the name.
pub(super) fn entries(name: &str, short: &[u8; 11]) -> Option<Vec<[u8; ENTRY]>> {
    let mut units: Vec<u16> = name.encode_utf16().collect();
    let forbidden = |c: char| c.is_control() || r#""*:<>?|\/"#.contains(c);
    if matches!(name, "" | "." | "..") || name.contains(forbidden) || units.len() > MAX_UNITS {
        return None;
    }
    let pieces = count(name);
    if !units.len().is_multiple_of(PIECE) {
        units.push(0);
    }
    units.resize(pieces * PIECE, 0xffff);
    let checksum = checksum(short);
    let mut entries: Vec<[u8; ENTRY]> = (1u8..)
        .zip(units.chunks_exact(PIECE))
        .map(|(number, piece)| {
            let mut entry = [0; ENTRY];
            entry[0] = number;
            entry[11] = LONG_NAME;
            entry[13] = checksum;
            let bytes = piece.iter().flat_map(|unit| unit.to_le_bytes());
            for (place, byte) in PLACES.into_iter().flatten().zip(bytes) {
                entry[place] = byte;
            }
            entry
        })
        .collect();
    if let Some(last) = entries.last_mut() {
        last[0] |= LAST;
    }
    entries.reverse();
    Some(entries)
}

/// The number of entries that store `name`, in addition to the file's own.
pub(super) fn count(name: &str) -> usize {
    name.encode_utf16().count().div_ceil(PIECE)
}

/// The checksum of a short name. Each piece of a long name contains it, so that a reader
/// can verify that the piece belongs to the entry after it.
fn checksum(short: &[u8]) -> u8 {
    short
        .iter()
        .fold(0, |sum: u8, &byte| sum.rotate_right(1).wrapping_add(byte))
}
