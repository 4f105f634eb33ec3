//! Erases all metadata by which software recognises the content of a disk or partition:
//! finds signatures, zeroes them, and searches again. Data between the signatures stays
//! unchanged.

use std::collections::BTreeSet;

use landfall_report::failure::{Failure, Result};

use super::signatures::SIGNATURES;
use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;

/// In bytes: this much is always zeroed at both ends, because boot code and vendor
/// metadata without a known signature are there. ironic-python-agent zeroes only the
/// partition tables (33 sectors of 512 bytes or 5 of 4096 bytes).
const ENDS: u64 = 1 << 20;
/// Bytes that are read at once at each end of the device. Nearly all signatures lie in
/// these two ranges.
const WINDOW: u64 = (2 << 20) + (64 << 10);
/// Bytes that are zeroed around a signature; a multiple of both sector sizes.
const BLOCK: u64 = 4096;

/// Erases the metadata of a disk or a partition. Returns the kinds of metadata that the
/// agent recognised, each once and with its name in libblkid.
///
/// # Errors
/// If the device cannot be read or written, or if a signature is still there
/// afterwards.
pub fn erase_metadata(target: &Target) -> Result<Vec<&'static str>> {
    let (kinds, blocks) = find(target)?;
    for block in blocks {
        zero(target, block, BLOCK)?;
    }
    zero(target, 0, ENDS)?;
    zero(target, target.size().saturating_sub(ENDS), ENDS)?;
    target.sync()?;
    let (kept, _) = find(target)?;
    if kept.is_empty() {
        return Ok(kinds.into_iter().collect());
    }
    let kept: Vec<&str> = kept.into_iter().collect();
    Err(Failure::erasure(format!(
        "{}: expected no metadata, found {} again after zeroing it",
        target.path().display(),
        kept.join(", ")
    ))
    .hint("replace the disk, its cable or its controller, or stop the other machine that writes to it"))
}

/// The kinds of metadata on a disk or a partition, as in [`erase_metadata`]. Changes
/// nothing.
///
/// # Errors
/// If the device cannot be read.
pub fn kinds(target: &Target) -> Result<Vec<&'static str>> {
    let (kinds, _) = find(target)?;
    Ok(kinds.into_iter().collect())
}

/// The kinds of signatures on the device, and the offsets of the blocks that contain
/// the signatures.
fn find(target: &Target) -> Result<(BTreeSet<&'static str>, BTreeSet<u64>)> {
    let windows = Windows::read(target)?;
    let mut kinds = BTreeSet::new();
    let mut blocks = BTreeSet::new();
    for signature in SIGNATURES {
        let length = signature.magic.len();
        for offset in signature.place.offsets(target.size(), length) {
            if windows.hold(target, offset, signature.magic)? {
                kinds.insert(signature.kind);
                let last = offset + length as u64 - 1;
                blocks.insert(offset - offset % BLOCK);
                blocks.insert(last - last % BLOCK);
            }
        }
    }
    Ok((kinds, blocks))
}

/// Zeroes a range, up to the end of the device at most.
fn zero(target: &Target, offset: u64, length: u64) -> Result<()> {
    let sector = u64::from(target.sector_size());
    let offset = offset - offset % sector;
    let end = (offset + length).min(target.size());
    // The cast is lossless: no caller passes more than 1 MiB.
    let zeros = AlignedBuffer::zeroed(end.saturating_sub(offset) as usize);
    target.write_at(&zeros, offset)
}

struct Windows {
    head: AlignedBuffer,
    tail: AlignedBuffer,
    tail_start: u64,
}

impl Windows {
    fn read(target: &Target) -> Result<Self> {
        let length = WINDOW.min(target.size());
        // `tail_start` is a multiple of the sector size, because the size of the disk and
        // the window are multiples of it.
        let tail_start = target.size() - length;
        Ok(Self {
            head: target.read_at(0, length as usize)?,
            tail: target.read_at(tail_start, length as usize)?,
            tail_start,
        })
    }

    /// Whether these bytes are at `offset`. Reads from the device if neither window
    /// has them.
    fn hold(&self, target: &Target, offset: u64, magic: &[u8]) -> Result<bool> {
        let within = |window: &AlignedBuffer, start: u64| {
            let at = usize::try_from(offset.checked_sub(start)?).ok()?;
            let bytes = window.get(at..at + magic.len())?;
            Some(bytes == magic)
        };
        if let Some(found) = within(&self.head, 0).or_else(|| within(&self.tail, self.tail_start)) {
            return Ok(found);
        }
        let start = offset - offset % BLOCK;
        let length = (2 * BLOCK).min(target.size() - start);
        let window = target.read_at(start, length as usize)?;
        Ok(within(&window, start).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests;
