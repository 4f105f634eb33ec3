//! Everything by which anything recognises what a disk or partition holds:
//! found, zeroed, and looked for once more. The data between stay.

use std::collections::BTreeSet;

use super::signatures::SIGNATURES;
use crate::disk::aligned_buffer::AlignedBuffer;
use crate::disk::target::Target;
use crate::failure::{Class, Failure, Result};

/// Zeroed at both ends whatever is there: more than the partition tables that
/// the original zeroes (33 sectors of 512 or 5 of 4096 bytes), since boot code
/// and metadata of makers that nobody listed lie there too.
const ENDS: u64 = 1 << 20;
/// Read at once at both ends; nearly all signatures are in there.
const WINDOW: u64 = (2 << 20) + (64 << 10);
/// What is zeroed around a signature: a multiple of both sector sizes.
const BLOCK: u64 = 4096;

/// Erases the metadata of a disk or a partition. Returns what was recognised,
/// in libblkid's words, each once.
///
/// # Errors
/// If the device cannot be read or written, or keeps a signature.
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
    Err(Failure::new(
        Class::BlockDeviceEraseError,
        format!(
            "{}: expected no metadata, found {} again after zeroing it",
            target.path().display(),
            kept.join(", ")
        ),
    )
    .hint("the disk or its controller is faulty, or another machine writes to it"))
}

/// What there is, and the blocks that hold it.
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

/// Zeroes a range, as far as the device goes.
fn zero(target: &Target, offset: u64, length: u64) -> Result<()> {
    let sector = u64::from(target.sector_size());
    let offset = offset - offset % sector;
    let end = (offset + length).min(target.size());
    // At most a MiB, see the callers.
    let zeros = AlignedBuffer::zeroed(end.saturating_sub(offset) as usize);
    target.write_at(&zeros, offset)
}

/// Both ends of a device.
struct Windows {
    head: AlignedBuffer,
    tail: AlignedBuffer,
    tail_start: u64,
}

impl Windows {
    fn read(target: &Target) -> Result<Self> {
        let length = WINDOW.min(target.size());
        // Sizes are whole sectors, and the window is a multiple of both kinds.
        let tail_start = target.size() - length;
        Ok(Self {
            head: target.read_at(0, length as usize)?,
            tail: target.read_at(tail_start, length as usize)?,
            tail_start,
        })
    }

    /// Whether these bytes are there; reads what is in neither window.
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
