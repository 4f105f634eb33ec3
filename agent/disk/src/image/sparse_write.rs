//! Writes an image without sending its zeros, to a disk that may hold old data.
//!
//! Where the image has zeros, the writer never leaves old data, because the file system
//! in the image may rely on the zeros. If the device can zero ranges by itself, it
//! zeroes a range before the writer reaches it, and the writer then skips granules of
//! zeros. Otherwise the writer sends the zeros. In both cases everything before the
//! furthest written byte is either data or zeros, even if the data arrives out of
//! order.

use std::ops::Range;

use landfall_report::failure::Result;

use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;
use crate::device::zeros::all_zero;

/// In bytes: how much the device zeroes in one call. A call must be short enough to
/// return before the next progress line is due, and there must be so few calls that
/// they do not affect the total time.
const ZERO_STEP: u64 = 256 << 20;
/// In bytes: the length of a write of zeros, if the device cannot zero by itself.
const ZERO_WRITE: usize = 1 << 20;
/// In bytes: zeros are skipped in units of this length. Finding them costs 0.01 to
/// 0.05 s/GiB.
const GRANULE: usize = 64 << 10;

/// The totals of a writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes sent to the disk.
    pub data: u64,
    /// Bytes of zeros that the writer was given and did not send.
    pub zeros: u64,
}

/// Writes non-overlapping pieces to a range of a disk. If their offsets ascend,
/// nothing is written twice.
#[derive(Debug)]
pub struct SparseWriter<'a> {
    target: &'a Target,
    /// Every byte before this one has been zeroed or written.
    clean_to: u64,
    /// Whether the device zeroes ranges by itself. True until it fails to do so.
    zeroes: bool,
    /// The device zeroes ahead of the writer only up to this byte. Writes may go
    /// beyond it.
    zero_limit: u64,
    written: Written,
}

impl<'a> SparseWriter<'a> {
    /// A writer that starts at `range.start`. It may zero in large steps up to
    /// `range.end`. Beyond `range.end`, it zeroes only as far as it writes.
    pub fn new(target: &'a Target, range: Range<u64>) -> Self {
        Self {
            target,
            clean_to: range.start,
            zeroes: true,
            zero_limit: range.end.min(target.size()),
            written: Written::default(),
        }
    }

    pub fn written(&self) -> Written {
        self.written
    }

    /// Writes whole sectors at `offset`.
    pub fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = offset + bytes.len() as u64;
        self.zero_ahead(end)?;
        if !self.zeroes {
            self.write_zeros(offset)?;
            self.clean_to = self.clean_to.max(end);
            self.written.data += bytes.len() as u64;
            return self.target.write_at(bytes, offset);
        }
        let mut data = 0;
        for run in data_runs(bytes) {
            self.target
                .write_at(&bytes[run.clone()], offset + run.start as u64)?;
            data += run.len() as u64;
        }
        self.written.data += data;
        self.written.zeros += bytes.len() as u64 - data;
        Ok(())
    }

    /// Zeroes everything up to `end` that was not written.
    pub fn finish(&mut self, end: u64) -> Result<()> {
        self.zero_ahead(end)?;
        if self.zeroes {
            Ok(())
        } else {
            self.write_zeros(end)
        }
    }

    fn zero_ahead(&mut self, needed: u64) -> Result<()> {
        while self.zeroes && self.clean_to < needed {
            let from = self.clean_to;
            let to = (from + ZERO_STEP).min(self.zero_limit.max(needed));
            let len = to - from;
            self.zeroes = self.target.punch_zeros(from, len)? && self.is_zero(from, len)?;
            if self.zeroes {
                self.clean_to = to;
            } else {
                tracing::info!(
                    "{} cannot zero ranges itself: the agent writes zeros from byte {from} on",
                    self.target.path().display()
                );
            }
        }
        Ok(())
    }

    /// Writes zeros up to `end`, for a device that does not zero by itself.
    fn write_zeros(&mut self, end: u64) -> Result<()> {
        if self.clean_to >= end {
            return Ok(());
        }
        let zeros = AlignedBuffer::zeroed(ZERO_WRITE);
        while self.clean_to < end {
            let len = (end - self.clean_to).min(ZERO_WRITE as u64);
            self.target
                .write_at(&zeros[..len as usize], self.clean_to)?;
            self.clean_to += len;
            self.written.data += len;
        }
        Ok(())
    }

    /// Whether a range that the device has zeroed begins with zeros. Some firmware may
    /// acknowledge a write-zeroes command and do nothing; the new file system would
    /// then contain old data. Reading one granule per step takes no noticeable time.
    fn is_zero(&self, offset: u64, len: u64) -> Result<bool> {
        // The cast is lossless: at most GRANULE.
        let len = len.min(GRANULE as u64) as usize;
        let granule = self.target.read_at(offset, len)?;
        Ok(all_zero(&granule))
    }
}

/// The ranges of granules that are not all zero. Adjacent granules form one range.
pub fn data_runs(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (index, granule) in bytes.chunks(GRANULE).enumerate() {
        if all_zero(granule) {
            continue;
        }
        let start = index * GRANULE;
        match runs.last_mut() {
            Some(run) if run.end == start => run.end += granule.len(),
            _ => runs.push(start..start + granule.len()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use landfall_devices::permission::WritePermission;
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    /// A disk full of old data.
    fn old_disk(size: usize) -> (tempfile::NamedTempFile, Target) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![0xaa; size]).unwrap();
        let target = Target::open_file(file.path(), 512, &WritePermission::by_operator()).unwrap();
        (file, target)
    }

    fn content(path: &Path) -> Vec<u8> {
        std::fs::read(path).unwrap()
    }

    #[test]
    fn zeros_replace_old_data_without_being_sent() {
        let (file, target) = old_disk(4 * MIB);
        let mut writer = SparseWriter::new(&target, 0..2 * MIB as u64);
        let mut unit = AlignedBuffer::zeroed(MIB);
        unit[5 * GRANULE] = 1;
        unit[6 * GRANULE + 9] = 2;
        writer.write(&unit, 0).unwrap();
        writer
            .write(&AlignedBuffer::zeroed(MIB), MIB as u64)
            .unwrap();
        let disk = content(file.path());
        assert_eq!(disk[..MIB], unit[..]);
        assert!(all_zero(&disk[MIB..2 * MIB]));
        assert!(disk[2 * MIB..].iter().all(|&b| b == 0xaa), "beyond stays");
        assert_eq!(
            writer.written(),
            Written {
                data: 2 * GRANULE as u64,
                zeros: (2 * MIB - 2 * GRANULE) as u64
            }
        );
    }

    #[test]
    fn a_device_that_refuses_gets_the_zeros() {
        let (file, target) = old_disk(2 * MIB);
        let mut writer = SparseWriter::new(&target, 0..2 * MIB as u64);
        writer.zeroes = false;
        writer.write(&AlignedBuffer::zeroed(MIB), 0).unwrap();
        assert!(all_zero(&content(file.path())[..MIB]));
        assert_eq!(writer.written().data, MIB as u64);
    }

    #[test]
    fn only_written_zeros_are_zeroed_beyond_the_limit() {
        let (file, target) = old_disk(4 * MIB);
        let mut writer = SparseWriter::new(&target, 0..MIB as u64);
        writer.write(&AlignedBuffer::zeroed(MIB), 0).unwrap();
        writer
            .write(&AlignedBuffer::zeroed(512), MIB as u64)
            .unwrap();
        let disk = content(file.path());
        assert!(all_zero(&disk[..MIB + 512]));
        assert_eq!(disk[MIB + 512], 0xaa);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The disk holds the image afterwards, whatever the pieces and their order
        /// are, and whether or not the device can zero ranges by itself.
        #[test]
        fn the_disk_holds_the_given_image(
            sparse in proptest::collection::vec((0usize..4 * MIB, any::<u8>()), 0..20),
            sectors in proptest::collection::vec((1usize..1500, any::<u16>(), any::<bool>()), 4..12),
            zeroes: bool,
            ascending: bool,
        ) {
            let mut image = vec![0; 4 * MIB];
            for (place, byte) in sparse {
                image[place] = byte;
            }
            let (file, target) = old_disk(4 * MIB);
            let mut writer = SparseWriter::new(&target, 0..4 * MIB as u64);
            writer.zeroes = zeroes;
            let mut pieces = Vec::new();
            let mut at = 0;
            for (count, place, hole) in sectors {
                let end = (at + count * 512).min(image.len());
                if hole {
                    image[at..end].fill(0);
                } else {
                    pieces.push((place, at..end));
                }
                at = end;
            }
            if !ascending {
                pieces.sort_by_key(|piece| piece.0);
            }
            let given: usize = pieces.iter().map(|piece| piece.1.len()).sum();
            for (_, range) in pieces {
                let start = range.start as u64;
                writer.write(&AlignedBuffer::padded(&image[range], 512), start).unwrap();
            }
            writer.finish(at as u64).unwrap();
            let disk = content(file.path());
            prop_assert!(disk[..at] == image[..at]);
            let written = writer.written();
            if zeroes {
                prop_assert_eq!(written.data + written.zeros, given as u64);
            } else if ascending {
                prop_assert_eq!(written.data, at as u64, "nothing is written twice");
            }
        }
    }
}
