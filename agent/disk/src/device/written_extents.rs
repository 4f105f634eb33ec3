//! Remembers the checksums of the bytes that were sent to a disk, so that the agent
//! can read the disk back and compare.

use std::collections::BTreeMap;
use std::ops::Range;

use flate2::Crc;

use crate::device::zeros::all_zero;

/// In bytes. Adjacent writes share one checksum up to this length, and holes are read
/// in pieces of this length. So the error for a mismatch names a range that is at most
/// this long, or as long as one write.
pub const LONGEST: u64 = 1 << 20;

/// The checksums of the bytes that were sent to the disk, by offset.
#[derive(Debug, Default)]
pub struct WrittenExtents {
    by_offset: BTreeMap<u64, Extent>,
}

/// Adjacent writes.
#[derive(Debug)]
pub struct Extent {
    /// In bytes.
    pub len: u64,
    pub crc: Crc,
}

impl WrittenExtents {
    /// Records a write. A write of zeros counts as a hole.
    pub fn record(&mut self, offset: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        self.record_zeros(offset..offset + len);
        if all_zero(bytes) {
            return;
        }
        if let Some((&start, last)) = self.by_offset.range_mut(..offset).next_back()
            && start + last.len == offset
            && last.len + len <= LONGEST
        {
            last.crc.update(bytes);
            last.len += len;
            return;
        }
        let mut crc = Crc::new();
        crc.update(bytes);
        self.by_offset.insert(offset, Extent { len, crc });
    }

    /// Records that a range was zeroed, and forgets the earlier writes that overlap the
    /// range. A write that overlaps it only in part is forgotten as a whole, because a
    /// checksum cannot be split. The rest of that write then counts as a hole, which must
    /// read back as zeros.
    pub fn record_zeros(&mut self, range: Range<u64>) {
        let overlapping: Vec<u64> = self
            .by_offset
            .range(..range.end)
            .rev()
            .take_while(|(start, extent)| *start + extent.len > range.start)
            .map(|(start, _)| *start)
            .collect();
        for start in overlapping {
            self.by_offset.remove(&start);
        }
    }

    /// The extents that begin in this range, with their offsets.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Extent)> {
        let extents = self.by_offset.range(range);
        extents.map(|(offset, extent)| (*offset, extent))
    }
}
