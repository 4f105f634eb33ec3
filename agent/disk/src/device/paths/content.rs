//! Compares the content of two paths. Equal names do not prove that the paths lead to one
//! disk: cloned virtual disks and faulty enclosures give the same world-wide name, serial
//! number and size to several disks. A write on the wrong path would destroy another
//! disk.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::device::aligned_buffer::AlignedBuffer;

/// In bytes: how much is compared at one place. A multiple of both sector sizes.
const SAMPLE: usize = 4096;
/// How many places are compared when a path is opened. They are distributed from the
/// start of the disk, where a GPT has its GUID, to the end of the disk.
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

/// The mark: a text and 16 random bytes, which no other disk can have, in at most
/// [`SAMPLE`] bytes. The agent writes the mark to the place of the first write, and the
/// first write then replaces the mark.
///
/// Equal content is no proof: if the agent writes an image a second time, clones
/// already have the same content.
pub(super) fn mark(len: usize) -> AlignedBuffer {
    let mut mark = AlignedBuffer::zeroed(len.min(SAMPLE));
    let text = [
        b"Landfall: which disk is this? ",
        &Uuid::new_v4().as_bytes()[..],
    ]
    .concat();
    for (byte, text) in mark.iter_mut().zip(text) {
        *byte = text;
    }
    mark
}

/// Whether the path shows `bytes` at `offset`.
///
/// # Errors
/// If the path cannot be read.
pub(super) fn shows(path: &File, offset: u64, bytes: &[u8]) -> io::Result<bool> {
    Ok(read(path, offset, bytes.len())?[..] == *bytes)
}

/// The beginnings of the first write and of the last write that is not zeros. Another
/// path must show these bytes before the agent uses it. They are the only proof for a
/// path that the agent did not read while the mark was on the disk.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<Samples>);

#[derive(Debug, Default, Clone)]
struct Samples {
    /// The mark, then the bytes that replaced it. If these bytes are zeros that clear a
    /// partition table, a clone with the same image still shows the table.
    first: Option<Sample>,
    last: Option<Sample>,
}

#[derive(Debug, Clone)]
struct Sample {
    offset: u64,
    bytes: Vec<u8>,
}

impl Sample {
    fn of(offset: u64, bytes: &[u8]) -> Self {
        let bytes = bytes[..bytes.len().min(SAMPLE)].to_vec();
        Self { offset, bytes }
    }

    fn is_zeros(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }
}

/// The result of looking for the written samples on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// The path shows all samples, and at least one of them is unlikely to be on another
    /// disk.
    Proof,
    /// There are no samples, or the path shows them all, but they are only zeros, which
    /// another disk may have too.
    Nothing,
    OtherContent,
}

impl Written {
    /// Forgets the samples that are about to change.
    pub(super) fn begins(&self, changed: &Range<u64>) {
        let mut samples = self.lock();
        let is_hit = |sample: &mut Sample| {
            let end = sample.offset + sample.bytes.len() as u64;
            sample.offset < changed.end && changed.start < end
        };
        samples.first.take_if(is_hit);
        samples.last.take_if(is_hit);
    }

    /// Remembers the first write, or the mark before it.
    pub(super) fn first(&self, offset: u64, bytes: &[u8]) {
        self.lock().first = Some(Sample::of(offset, bytes));
    }

    /// Remembers a completed write. A write of zeros does not replace an earlier
    /// sample, because zeros prove less.
    pub(super) fn done(&self, offset: u64, bytes: &[u8]) {
        let sample = Sample::of(offset, bytes);
        if !sample.is_zeros() {
            self.lock().last = Some(sample);
        }
    }

    /// Looks for the samples on the path. An error says nothing about the content,
    /// because a path on standby cannot be read.
    pub(super) fn shown_on(&self, path: &File) -> io::Result<Shown> {
        let samples = self.lock().clone();
        let mut shown = Shown::Nothing;
        for sample in samples.first.iter().chain(&samples.last) {
            if !shows(path, sample.offset, &sample.bytes)? {
                return Ok(Shown::OtherContent);
            }
            if !sample.is_zeros() {
                shown = Shown::Proof;
            }
        }
        Ok(shown)
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
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
    fn only_the_written_disk_shows_the_writes() {
        let (own, foreign) = (empty_file(SIZE), empty_file(SIZE));
        let written = Written::default();
        let shown = |file: &tempfile::NamedTempFile| written.shown_on(file.as_file()).unwrap();
        assert_eq!(shown(&own), Shown::Nothing);
        written.done(4096, &[0; 4096]);
        assert_eq!(shown(&own), Shown::Nothing, "zeros prove nothing");
        own.as_file().write_all_at(&[7; 8192], 4096).unwrap();
        written.done(4096, &[7; 8192]);
        assert_eq!(
            (shown(&own), shown(&foreign)),
            (Shown::Proof, Shown::OtherContent)
        );
        let unreadable = std::fs::OpenOptions::new().write(true).open(own.path());
        assert!(written.shown_on(&unreadable.unwrap()).is_err());
        written.begins(&(8192..12288));
        assert_eq!(shown(&own), Shown::Proof, "behind the sample");
        // The image is on the clone too, but nobody has cleared its partition table.
        written.first(0, &[0; 4096]);
        foreign.as_file().write_all_at(&[7; 8192], 4096).unwrap();
        assert_eq!(shown(&foreign), Shown::Proof);
        foreign.as_file().write_all_at(b"table", 512).unwrap();
        assert_eq!(
            (shown(&own), shown(&foreign)),
            (Shown::Proof, Shown::OtherContent)
        );
        written.begins(&(0..4097));
        assert_eq!(shown(&own), Shown::Nothing);
    }

    #[test]
    fn no_two_marks_are_equal_and_none_is_a_boot_sector() {
        let marks = [mark(512), mark(1 << 20)];
        assert_eq!(marks.each_ref().map(|mark| mark.len()), [512, SAMPLE]);
        assert_ne!(marks[0][..512], marks[1][..512]);
        assert_eq!(marks[1][510..512], [0, 0]);
    }
}
