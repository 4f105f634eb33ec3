//! Divides a ramdisk into archives, so that all cores can compress, and so that the next
//! build can take unchanged archives from a cache.
//!
//! The division depends only on the files, and each archive is compressed separately. So
//! the bytes are the same on every machine, with and without a cache.
//!
//! The first archive and the last one are not compressed, and zeros separate the other
//! archives. Programs that read a ramdisk require this:
//!
//! * Ironic unpacks every file that begins as zstd (`_handle_zstd_compression` in
//!   ironic/common/images.py), and then serves the unpacked file.
//! * coreos-installer reads adjacent zstd frames as one archive, and rejects a second
//!   archive inside it (its src/io/zstd.rs and initrd.rs).
//! * The kernel expects one archive in each compressed part (init/initramfs.c), and
//!   requires that a directory precedes the files in it.

use std::path::Path;

use crate::compress::{Compression, pack};
use crate::file_tree::{Content, Entry, FileTree, Node, Place};
use crate::newc::{self, WriteError};
use crate::parallel;
use crate::segment_cache::SegmentCache;

/// In bytes: after this much content a new archive begins. With Debian 12's server
/// modules (90 MB) and zstd 19, archives of 8 MiB make the ramdisk 1.9 % larger than a
/// single archive. Archives of 16 MiB make it 0.6 % larger, but then only half as many
/// cores can work.
const SEGMENT_BYTES: u64 = 8 << 20;

/// The zstd level for files that are already compressed. A higher level takes as long as
/// for other files, and saves no space.
const PACKED_LEVEL: i32 = 1;

/// Up to this level a core compresses 100 MB in a second, so a cache is not worth its
/// space.
const FAST_LEVEL: i32 = 3;

/// A member of an archive: its path, and what it is.
type Member<'a> = (&'a str, &'a Entry);

#[derive(Debug, PartialEq, Eq)]
struct Segment<'a> {
    members: Vec<Member<'a>>,
    compression: Compression,
    /// Whether the cache may store this archive. False if it contains configuration
    /// files, which may contain a password, or if it takes no time to compress.
    is_cached: bool,
}

/// An archive as it is in the ramdisk.
#[derive(Debug)]
pub(crate) struct PackedSegment {
    /// Including the zeros after the archive.
    pub(crate) bytes: Vec<u8>,
    /// In bytes: the size of the archive before compression.
    pub(crate) unpacked: u64,
}

/// Why an archive cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error(transparent)]
    Archive(#[from] WriteError),
    /// zstd cannot allocate enough memory.
    #[error("cannot compress the ramdisk")]
    Compress(#[source] std::io::Error),
}

/// The archives of a ramdisk, in their order. Without compression there is only one
/// archive, and [`newc::Writer::tree`] writes it without a copy in memory.
pub(crate) fn pack_tree(
    tree: &FileTree,
    epoch: u32,
    level: i32,
    cache: Option<&Path>,
) -> Result<Vec<PackedSegment>, SegmentError> {
    let cache = cache.and_then(SegmentCache::open);
    let segments = divide(tree, level);
    let packed = parallel::map(&segments, |segment| segment.pack(epoch, cache.as_ref()));
    let packed = packed.into_iter().collect::<Result<_, _>>()?;
    if let Some(cache) = cache {
        cache.forget_the_oldest();
    }
    Ok(packed)
}

fn divide(tree: &FileTree, level: i32) -> Vec<Segment<'_>> {
    let segment = |members, compression, is_cached| Segment {
        members,
        compression,
        is_cached,
    };
    let zstd = Compression::Zstd { level };
    let is_slow = level > FAST_LEVEL;
    let (mut head, mut first, mut own, mut end) = (vec![], vec![], vec![], vec![]);
    let (mut packed, mut plain) = (Chunks::default(), Chunks::default());
    for (path, entry) in tree.in_archive_order() {
        let member = (path, entry);
        match &entry.node {
            Node::Directory if !path.contains('/') => head.push(member),
            Node::CharDevice { .. } => head.push(member),
            Node::Directory => own.push(member),
            Node::File(_) if entry.place == Place::Last => end.push(member),
            Node::File(_) if entry.place == Place::First => first.push(member),
            Node::File(Content::Bytes(_)) => own.push(member),
            Node::File(Content::OnDisk { size, .. }) if is_packed(path) => {
                packed.add(member, *size);
            }
            Node::File(Content::OnDisk { size, .. }) => plain.add(member, *size),
        }
    }
    let fast = Compression::Zstd {
        level: level.min(PACKED_LEVEL),
    };
    let mut segments = vec![
        segment(head, Compression::None, false),
        segment(first, zstd, is_slow),
        segment(own, zstd, false),
    ];
    let plain = plain.0.into_iter();
    segments.extend(plain.map(|chunk| segment(chunk.members, zstd, is_slow)));
    let packed = packed.0.into_iter();
    segments.extend(packed.map(|chunk| segment(chunk.members, fast, false)));
    segments.push(segment(end, Compression::None, false));
    segments.retain(|segment| !segment.members.is_empty());
    segments
}

/// Whether the name of the file shows that it is compressed, as for a module or firmware.
fn is_packed(path: &str) -> bool {
    [".xz", ".zst", ".gz"]
        .iter()
        .any(|suffix| path.ends_with(suffix))
}

/// Files in groups of about [`SEGMENT_BYTES`].
#[derive(Default)]
struct Chunks<'a>(Vec<Chunk<'a>>);

#[derive(Default)]
struct Chunk<'a> {
    members: Vec<Member<'a>>,
    bytes: u64,
}

impl<'a> Chunks<'a> {
    fn add(&mut self, member: Member<'a>, bytes: u64) {
        match self.0.last_mut() {
            Some(chunk) if chunk.bytes < SEGMENT_BYTES => {
                chunk.members.push(member);
                chunk.bytes += bytes;
            }
            _ => self.0.push(Chunk {
                members: vec![member],
                bytes,
            }),
        }
    }
}

impl Segment<'_> {
    fn pack(
        &self,
        epoch: u32,
        cache: Option<&SegmentCache>,
    ) -> Result<PackedSegment, SegmentError> {
        let mut writer = newc::Writer::new(Vec::new());
        writer.members(self.members.iter().copied(), epoch)?;
        let (archive, unpacked) = writer.finish()?;
        let mut bytes = match self.compression {
            Compression::None => archive,
            compression => {
                let cache = cache.filter(|_| self.is_cached);
                let pack = || pack(compression, &archive).map_err(SegmentError::Compress);
                match cache {
                    Some(cache) => cache.get_or_make(compression, &archive, pack)?,
                    None => pack()?,
                }
            }
        };
        if self.compression != Compression::None {
            // Add at least one zero, even if the length is already a multiple of 4.
            bytes.push(0);
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        Ok(PackedSegment { bytes, unpacked })
    }
}

#[cfg(test)]
mod tests;
