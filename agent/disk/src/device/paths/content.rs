//! Whether two paths show the same content. Equal names do not prove that they lead to one
//! disk: cloned virtual disks and faulty enclosures give the same world-wide name, serial
//! number and size to several disks. A write by such a path would destroy another disk.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::aligned_buffer::AlignedBuffer;

/// In bytes: how much is compared at one place. A multiple of both sector sizes.
const SAMPLE: usize = 4096;
/// How many places are compared when a path is opened: from the start of the disk, with
/// the GUID of a GPT, to its end.
const PLACES: u64 = 16;

/// Whether two open paths show the same bytes at several places of a disk of `size` bytes.
///
/// # Errors
/// If one of the paths cannot be read.
pub(super) fn is_same(one: &File, other: &File, size: u64) -> io::Result<bool> {
    let last = (size / SAMPLE as u64).saturating_sub(1);
    for place in 0..PLACES {
        let offset = last * place / (PLACES - 1) * SAMPLE as u64;
        if read(one, offset, SAMPLE)?[..] != read(other, offset, SAMPLE)?[..] {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read(path: &File, offset: u64, len: usize) -> io::Result<AlignedBuffer> {
    let mut bytes = AlignedBuffer::zeroed(len);
    path.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// The beginning of the last write, by which a path can prove that it leads to the disk
/// that is being written.
#[derive(Debug, Default)]
pub(super) struct LastWrite(Mutex<Option<Sample>>);

#[derive(Debug, Clone)]
struct Sample {
    offset: u64,
    bytes: Vec<u8>,
}

impl LastWrite {
    /// Forgets the sample if these bytes of the disk are about to change.
    pub(super) fn begins(&self, changed: &Range<u64>) {
        let mut sample = self.lock();
        let is_hit = sample.as_ref().is_some_and(|sample| {
            let end = sample.offset + sample.bytes.len() as u64;
            sample.offset < changed.end && changed.start < end
        });
        if is_hit {
            *sample = None;
        }
    }

    /// Remembers a write that is done. Zeros are not remembered, because they may well be
    /// at the same place of another disk.
    pub(super) fn done(&self, offset: u64, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(SAMPLE)];
        if bytes.iter().any(|byte| *byte != 0) {
            let bytes = bytes.to_vec();
            *self.lock() = Some(Sample { offset, bytes });
        }
    }

    /// Whether the path shows the last write; `None` if there was none. An error says
    /// nothing about the content: a path on standby cannot be read.
    pub(super) fn is_on(&self, path: &File) -> Option<io::Result<bool>> {
        let sample = self.lock().clone()?;
        let found = read(path, sample.offset, sample.bytes.len());
        Some(found.map(|found| found[..] == sample.bytes[..]))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::empty_file;

    const SIZE: u64 = 1 << 20;

    #[test]
    fn one_different_byte_at_either_end_is_another_disk() {
        let (one, other) = (empty_file(SIZE), empty_file(SIZE));
        let compare = || is_same(one.as_file(), other.as_file(), SIZE);
        assert!(compare().unwrap());
        for offset in [0, SIZE - 1] {
            other.as_file().write_all_at(b"x", offset).unwrap();
            assert!(!compare().unwrap(), "{offset}");
            one.as_file().write_all_at(b"x", offset).unwrap();
            assert!(compare().unwrap(), "{offset}");
        }
        other.as_file().set_len(SIZE / 2).unwrap();
        assert!(compare().is_err());
    }

    #[test]
    fn only_the_written_disk_shows_the_last_write() {
        let (own, foreign) = (empty_file(SIZE), empty_file(SIZE));
        let last = LastWrite::default();
        let is_on = |file: &tempfile::NamedTempFile| {
            let shown = last.is_on(file.as_file());
            shown.map(|shown| shown.unwrap())
        };
        assert_eq!(is_on(&own), None);
        last.done(4096, &[0; 4096]);
        assert_eq!(is_on(&own), None, "zeros prove nothing");
        own.as_file().write_all_at(&[7; 8192], 4096).unwrap();
        last.done(4096, &[7; 8192]);
        assert_eq!((is_on(&own), is_on(&foreign)), (Some(true), Some(false)));
        let unreadable = std::fs::OpenOptions::new().write(true).open(own.path());
        assert!(last.is_on(&unreadable.unwrap()).unwrap().is_err());
        last.begins(&(8192..12288));
        assert_eq!(is_on(&own), Some(true), "behind the sample");
        last.begins(&(0..4097));
        assert_eq!(is_on(&own), None);
    }
}
