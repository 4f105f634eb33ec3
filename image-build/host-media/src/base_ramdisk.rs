//! A base ramdisk, to which a host's files are appended as one more archive.
//!
//! The kernel unpacks archives one after the other; each must begin at a multiple
//! of 4 (`Documentation/driver-api/early-userspace/buffer-format.rst`). An addition
//! ends with a member of fixed length that says where the addition begins. So a
//! ramdisk of hundreds of megabytes need not be unpacked to find what was appended
//! to it, to replace it or to remove it.
//!
//! A base may be a cpio archive without a trailer. The kernel then reads the addition as
//! more members of that archive. A trailer only makes the kernel forget the inodes of
//! hard links (init/initramfs.c), and no member of an addition is a hard link.
//!
//! If the base is compressed with zstd, the addition is a zstd frame too. Ironic uses
//! zstd(1) to unpack every ramdisk that begins with zstd data, and zstd(1) rejects an
//! uncompressed archive after a frame. The frame stores the archive uncompressed, so the
//! file still ends with the member that says where the addition begins.
//!
//! A base that is cut off is an error: the kernel would start with the host's files,
//! but without some of the base's files. A base in bzip2, lzma or lzo is not checked.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use bytes::Bytes;
use landfall_initramfs::compress::{
    Compression, Packing, check_whole, padding_after, stored_frame,
};
use landfall_initramfs::newc;
use serde::{Deserialize, Serialize};

use crate::archive::{self, HostFile};
use crate::base_iso::BaseError;
use crate::host_image::{HostImage, Piece};
use crate::host_version::{HostError, HostVersion};

/// The path of the member that says where the addition begins.
pub const ADDITION_RECORD: &str = "etc/landfall/addition.json";
/// The size in bytes of the content of this member. Spaces pad the content.
const RECORD_BYTES: usize = 64;
/// The size in bytes of the last member and the trailer of an addition.
const END_BYTES: usize = newc::member_len(ADDITION_RECORD.len(), RECORD_BYTES) + newc::TRAILER_LEN;
/// The maximum size in bytes of an addition that is read.
const MAX_ADDITION: u64 = 64 << 20;
/// The number of zeros that end an lz4 archive. lz4 has no end mark: the kernel reads the
/// next four bytes as the size of another block (lib/decompress_unlz4.c).
const END_OF_LZ4: usize = 4;

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    /// The size of the ramdisk without the addition, in bytes.
    base_bytes: u64,
}

#[derive(Debug, Clone)]
pub struct BaseRamdisk {
    /// The place of the ramdisk in its file, without an addition.
    base: Range<u64>,
    /// The place of the ramdisk in its file, with the addition if there is one.
    whole: Range<u64>,
    compression: Compression,
    /// Whether the last archive of the base may be packed with lz4. The check of the
    /// base cannot always exclude it.
    may_end_in_lz4: bool,
    /// The files of the addition.
    files: Vec<HostFile>,
}

impl BaseRamdisk {
    /// Finds the addition of a ramdisk that lies at `place` in a file, and checks that
    /// the ramdisk is not cut off. This takes about a millisecond, or longer for a
    /// ramdisk in gzip or xz, which must be unpacked.
    ///
    /// # Errors
    /// If the bytes at `place` cannot be read, are no ramdisk, are cut off, or have an
    /// addition that is damaged or larger than 64 MiB.
    pub fn open(image: &mut (impl Read + Seek), place: Range<u64>) -> Result<Self, BaseError> {
        let mut magic = [0; 6];
        let size = place.end.saturating_sub(place.start);
        if size >= magic.len() as u64 {
            read_at(image, place.start, &mut magic)?;
        }
        let compression = match Packing::of(&magic) {
            Some(Packing::Zstd) => Compression::Zstd { level: 19 },
            // After the other formats, zeros are valid padding, and the addition is not
            // compressed.
            Some(_) => Compression::None,
            None => return Err(BaseError::NotRamdisk),
        };
        let mut found = Self {
            base: place.clone(),
            whole: place.clone(),
            compression,
            may_end_in_lz4: false,
            files: Vec::new(),
        };
        if let Some(base_bytes) = base_bytes(image, &place)? {
            let addition = size - base_bytes;
            if addition > MAX_ADDITION {
                return Err(BaseError::LargeAddition {
                    limit: MAX_ADDITION,
                    found: addition,
                });
            }
            found.base.end = place.start + base_bytes;
            // The cast is lossless: the addition is small.
            let mut bytes = vec![0; addition as usize];
            read_at(image, found.base.end, &mut bytes)?;
            found.files = archive::read(&bytes).map_err(BaseError::Addition)?;
            found.files.retain(|file| file.path != ADDITION_RECORD);
        }
        let packings = check_whole(image, found.base())?;
        // `check_whole` does not look behind an archive in bzip2, lzma or lzo. An lz4
        // archive may follow there.
        found.may_end_in_lz4 = matches!(
            packings.last(),
            Some(Packing::Lz4 | Packing::Bzip2 | Packing::Lzma | Packing::Lzo)
        );
        Ok(found)
    }

    /// The place of the ramdisk without its addition.
    #[must_use]
    pub fn base(&self) -> Range<u64> {
        self.base.clone()
    }

    /// The files of the addition.
    #[must_use]
    pub fn files(&self) -> &[HostFile] {
        &self.files
    }

    /// The files of a host: those of the addition, replaced and extended by the host's
    /// own files.
    #[must_use]
    pub fn files_of(&self, host: &HostVersion) -> Vec<HostFile> {
        host.files_on(&self.files)
    }

    /// The host's version of the ramdisk. `more` are files that come before the
    /// host's own, for example those in the area of an ISO.
    ///
    /// # Errors
    /// If a file has a path that cannot be in a ramdisk.
    pub fn of_host(
        &self,
        more: &[HostFile],
        host: &HostVersion,
        epoch: u32,
    ) -> Result<HostImage, HostError> {
        let mut of_base = self.files.clone();
        for file in more {
            archive::put(&mut of_base, file.clone());
        }
        let files = host.files_on(&of_base);
        let mut image = HostImage::default();
        if files == self.files {
            image.push(Piece::Base(self.whole.clone()));
            return Ok(image);
        }
        image.push(Piece::Base(self.base.clone()));
        if files.is_empty() {
            return Ok(image);
        }
        let base_bytes = self.base.end - self.base.start;
        let mut addition = archive::write(&files, Some(&record_file(base_bytes)), epoch)?;
        let mut padded_bytes = base_bytes;
        if let Compression::Zstd { .. } = self.compression {
            let (files, end) = addition.split_at(addition.len() - END_BYTES);
            addition = stored_frame(files, end);
            // A zstd frame may begin at any offset. But a loader may append another
            // archive, so the padding makes the size of the whole ramdisk a multiple of
            // 4.
            padded_bytes += addition.len() as u64;
        }
        let mut between = Vec::new();
        if self.may_end_in_lz4 {
            between.extend([0; END_OF_LZ4]);
        }
        // The padding comes after these zeros, because the padding can be a zstd frame.
        between.extend(padding_after(self.compression, padded_bytes));
        image.push(Piece::Own(between.into()));
        image.push(Piece::Own(addition.into()));
        Ok(image)
    }
}

fn record_file(base_bytes: u64) -> HostFile {
    let text = format!("{{\"format\":1,\"base_bytes\":{base_bytes}}}");
    HostFile {
        path: ADDITION_RECORD.to_owned(),
        bytes: Bytes::from(format!("{text:<width$}\n", width = RECORD_BYTES - 1)),
    }
}

/// The size of the base, if an addition follows it.
fn base_bytes(
    image: &mut (impl Read + Seek),
    place: &Range<u64>,
) -> Result<Option<u64>, std::io::Error> {
    let Some(before_end) = place
        .end
        .saturating_sub(place.start)
        .checked_sub(END_BYTES as u64)
    else {
        return Ok(None);
    };
    let mut end = vec![0; END_BYTES];
    read_at(image, place.start + before_end, &mut end)?;
    Ok(record(&end).filter(|&bytes| bytes <= before_end))
}

/// The size of the base, from the last bytes of a ramdisk with an addition.
fn record(end: &[u8]) -> Option<u64> {
    let file = match newc::Reader::new(end).next()? {
        Ok(entry) if entry.name == ADDITION_RECORD => entry.data,
        _ => return None,
    };
    let record: Record = serde_json::from_slice(file).ok()?;
    (record.format == 1).then_some(record.base_bytes)
}

fn read_at(
    image: &mut (impl Read + Seek),
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), std::io::Error> {
    image.seek(SeekFrom::Start(offset))?;
    image.read_exact(buffer)
}

#[cfg(test)]
mod tests;
