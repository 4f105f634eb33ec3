//! Opens a volume: reads its descriptors and chooses the tree with long names.

use std::io::{Read, Seek};

use super::record::{self, Record, RockRidge};
use super::{Extent, Iso, IsoError, MARK, SECTOR, Tree, VOLUME_OFFSET, read_at};
use crate::little_endian::{u16_at, u32_at};

/// Largest number of volume descriptors that are read.
const MAX_DESCRIPTORS: u64 = 32;

impl<R: Read + Seek> Iso<R> {
    /// Reads the volume descriptors. The first one must be the primary volume descriptor.
    pub fn open(mut image: R) -> Result<Self, IsoError> {
        let mut volume = [0; SECTOR as usize];
        read_at(&mut image, VOLUME_OFFSET, &mut volume)?;
        if volume[..6] != MARK {
            return Err(IsoError::NoVolume);
        }
        let root = root_of(&volume)?;
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
        let blocks = u32_at(&volume, 80).unwrap_or_default();
        let (label, publisher) = (text(40..72), text(318..446));
        let mut iso = Self {
            image,
            root,
            tree: Tree::Primary,
            block_size: u16_at(&volume, 128).unwrap_or_default(),
            label,
            publisher,
            uuid,
            size: u64::from(blocks) * SECTOR,
            work_left: 0,
        };
        if !iso.has_rock_ridge()
            && let Some(root) = iso.joliet_root()
        {
            iso.root = root;
            iso.tree = Tree::Joliet;
        }
        Ok(iso)
    }

    /// Whether the volume has Rock Ridge names. If the root directory cannot be read, the
    /// result is also true, and the error is reported when a file is read.
    fn has_rock_ridge(&mut self) -> bool {
        let Some(sector) = self.sector(self.root.offset) else {
            return true;
        };
        let mut fields = RockRidge::default();
        let record = sector.get(..usize::from(sector[0]));
        if let Some(record) = record.and_then(Record::parse) {
            fields.read(record.system_use);
        }
        fields.is_announced
    }

    fn joliet_root(&mut self) -> Option<Extent> {
        for number in 1..MAX_DESCRIPTORS {
            let volume = self.sector(VOLUME_OFFSET + number * SECTOR)?;
            if volume[1..6] != MARK[1..] {
                break;
            }
            // Type 2 is a supplementary descriptor. The three texts are the ISO 2022
            // escape sequences for UCS-2, levels 1 to 3.
            if volume[0] == 2 && matches!(&volume[88..91], b"%/@" | b"%/C" | b"%/E") {
                return root_of(&volume).ok();
            }
        }
        None
    }

    fn sector(&mut self, offset: u64) -> Option<[u8; SECTOR as usize]> {
        let mut sector = [0; SECTOR as usize];
        read_at(&mut self.image, offset, &mut sector).ok()?;
        Some(sector)
    }
}

/// The root directory of a volume descriptor.
fn root_of(volume: &[u8; SECTOR as usize]) -> Result<Extent, IsoError> {
    record::extent(&volume[156..190]).ok_or(IsoError::NoVolume)
}
