//! The clusters of a new file system: their content, and the chains that connect the
//! clusters. Each file and each directory occupies contiguous clusters.

use super::super::{FAT32_CLUSTERS, FIRST_CLUSTER};
use super::WriteError;

/// The media type of a fixed disk, for the boot sector. The first entry of the file
/// allocation table must contain this value too.
pub(super) const MEDIA_TYPE: u8 = 0xf8;
const END_OF_CHAIN: u16 = 0xffff;

#[derive(Debug)]
pub(super) struct Clusters {
    /// The length of a cluster in bytes.
    len: usize,
    /// The entries of the file allocation table. The first two are reserved. Each later
    /// entry belongs to a cluster and contains the number of the next cluster.
    next: Vec<u16>,
    content: Vec<u8>,
}

impl Clusters {
    pub(super) fn new(len: usize) -> Self {
        Self {
            len,
            next: vec![0xff00 | u16::from(MEDIA_TYPE), END_OF_CHAIN],
            content: Vec::new(),
        }
    }

    /// Reserves clusters for `len` bytes. Returns the number of the first cluster, or 0
    /// if `len` is 0.
    pub(super) fn reserve(&mut self, len: usize) -> Result<u16, WriteError> {
        let first = self.next.len();
        let count = len.div_ceil(self.len);
        if first + count > FAT32_CLUSTERS {
            return Err(WriteError::TooLarge);
        }
        if count == 0 {
            return Ok(0);
        }
        // The casts are lossless: the check above limits the numbers to 16 bits.
        self.next.extend((1..count).map(|n| (first + n) as u16));
        self.next.push(END_OF_CHAIN);
        self.content
            .resize(self.content.len() + count * self.len, 0);
        Ok(first as u16)
    }

    /// Sets the content of the clusters that [`Self::reserve`] returned.
    pub(super) fn fill(&mut self, first: u16, content: &[u8]) {
        let start = usize::from(first).saturating_sub(FIRST_CLUSTER) * self.len;
        self.content[start..start + content.len()].copy_from_slice(content);
    }

    pub(super) fn count(&self) -> usize {
        self.next.len() - FIRST_CLUSTER
    }

    pub(super) fn content(self) -> Vec<u8> {
        self.content
    }

    /// The file allocation table as bytes, up to the last cluster in use.
    pub(super) fn table(&self, is_fat16: bool) -> Vec<u8> {
        if is_fat16 {
            let numbers = self.next.iter();
            return numbers.flat_map(|next| next.to_le_bytes()).collect();
        }
        // FAT12 stores two entries of 12 bits in three bytes.
        self.next
            .chunks(2)
            .flat_map(|pair| {
                let second = pair.get(1).copied().unwrap_or_default();
                let both = u32::from(pair[0] & 0xfff) | u32::from(second & 0xfff) << 12;
                let [low, middle, high, _] = both.to_le_bytes();
                [low, middle, high]
            })
            .collect()
    }
}
