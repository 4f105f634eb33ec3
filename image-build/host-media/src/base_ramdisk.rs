//! A base ramdisk, to which a host's files are appended as one more archive.
//!
//! The kernel unpacks archives one after the other; each must begin at a multiple
//! of 4 (`Documentation/driver-api/early-userspace/buffer-format.rst`). An addition
//! ends with a member of fixed length that says where the addition begins. So a
//! ramdisk of hundreds of megabytes need not be unpacked to find what was appended
//! to it, to replace it or to remove it.
//!
//! If the base is compressed with zstd, the addition is a zstd frame too. Ironic unpacks every ramdisk that
//! begins as zstd with zstd(1), which rejects a bare archive after a frame. The frame
//! stores the archive as it is, so that the file still ends with that member.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use bytes::Bytes;
use landfall_initramfs::compress::{Compression, padding_after, stored_frame};
use landfall_initramfs::newc;
use serde::{Deserialize, Serialize};

use crate::archive::{self, HostFile};
use crate::base_iso::BaseError;
use crate::host_image::{HostImage, Piece};
use crate::host_version::{HostError, HostVersion};

/// The path of the member that says where the addition begins.
pub const ADDITION_RECORD: &str = "etc/landfall/addition.json";
/// In bytes: the content of this member, padded with spaces.
const RECORD_BYTES: usize = 64;
/// In bytes: the last member and the trailer of an addition.
const END_BYTES: usize = newc::member_len(ADDITION_RECORD.len(), RECORD_BYTES) + newc::TRAILER_LEN;
/// In bytes: the largest addition that is read.
const MAX_ADDITION: u64 = 64 << 20;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

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
    /// The files of the addition.
    files: Vec<HostFile>,
}

impl BaseRamdisk {
    /// Finds the addition of a ramdisk that lies at `place` in a file.
    ///
    /// # Errors
    /// If the file cannot be read there, is no ramdisk, or its addition is damaged.
    pub fn open(image: &mut (impl Read + Seek), place: Range<u64>) -> Result<Self, BaseError> {
        let mut magic = [0; 6];
        let size = place.end.saturating_sub(place.start);
        read_at(image, place.start, &mut magic)?;
        let compression = match magic {
            [a, b, c, d, ..] if [a, b, c, d] == ZSTD_MAGIC => Compression::Zstd { level: 19 },
            [b'0', b'7', b'0', b'7', b'0', b'1' | b'2'] => Compression::None,
            // The kernel also unpacks these formats; zeros may follow them.
            [0x1f, 0x8b, ..] | [0xfd, b'7', b'z', ..] | [0x02, 0x21, 0x4c, 0x18, ..] => {
                Compression::None
            }
            _ => {
                let fault =
                    "expected a ramdisk (cpio, zstd, gzip, xz or lz4), found something else";
                return Err(std::io::Error::other(fault).into());
            }
        };
        let mut found = Self {
            base: place.clone(),
            whole: place.clone(),
            compression,
            files: Vec::new(),
        };
        if size < END_BYTES as u64 {
            return Ok(found);
        }
        let mut end = vec![0; END_BYTES];
        read_at(image, place.end - END_BYTES as u64, &mut end)?;
        if let Some(base_bytes) = record(&end).filter(|&bytes| bytes <= size - END_BYTES as u64) {
            let addition = size - base_bytes;
            if addition > MAX_ADDITION {
                let fault = format!(
                    "expected an addition of at most {MAX_ADDITION} bytes, found {addition}"
                );
                return Err(std::io::Error::other(fault).into());
            }
            found.base.end = place.start + base_bytes;
            // The cast is lossless: the addition is small.
            let mut bytes = vec![0; addition as usize];
            read_at(image, found.base.end, &mut bytes)?;
            found.files = archive::read(&bytes).map_err(|source| BaseError::Embedded {
                path: ADDITION_RECORD.to_owned(),
                source,
            })?;
            found.files.retain(|file| file.path != ADDITION_RECORD);
        }
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
            // A frame may begin at any offset, but an archive that a loader appends may
            // not.
            padded_bytes += addition.len() as u64;
        }
        let padding = padding_after(self.compression, padded_bytes);
        image.push(Piece::Own(padding.into()));
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
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::io::{Cursor, Write as _};
    use std::process::Command;

    use landfall_initramfs::compress::unpack_segments;

    /// An archive with one file, of a size that is no multiple of 4 after `extra`
    /// zeros.
    fn plain(extra: usize) -> Vec<u8> {
        let file = HostFile {
            path: "init".to_owned(),
            bytes: Bytes::from_static(b"init"),
        };
        let mut bytes = archive::write(&[file], None, 0).unwrap();
        bytes.resize(bytes.len() + extra, 0);
        bytes
    }

    fn open(bytes: &[u8]) -> BaseRamdisk {
        BaseRamdisk::open(&mut Cursor::new(bytes), 0..bytes.len() as u64).unwrap()
    }

    fn customized(bytes: &[u8], host: &HostVersion) -> Vec<u8> {
        let image = open(bytes).of_host(&[], host, 0).unwrap();
        image.to_vec(bytes).unwrap()
    }

    #[test]
    fn an_addition_is_found_replaced_and_removed() {
        let host = HostVersion::default().with_file("etc/landfall/a", "1");
        for base in [0, 1, 2, 3].map(plain) {
            let one = customized(&base, &host);
            assert!(one.starts_with(&base));
            assert_eq!(open(&one).base(), 0..base.len() as u64);
            assert_eq!(open(&one).files(), host.files());
            // The same customization again gives the same bytes.
            assert_eq!(customized(&one, &host), one);
            assert_eq!(customized(&one, &HostVersion::default()), one);
            let two = customized(&one, &HostVersion::default().with_file("b", "2"));
            let both = host.clone().with_file("b", "2");
            assert_eq!(two, customized(&base, &both));
            assert_eq!(customized(&two, &HostVersion::default().reset()), base);
            assert_eq!(customized(&two, &host.clone().reset()), one);
            // The kernel finds the archive at a multiple of 4.
            let files = archive::read(&one).unwrap();
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, ["etc/landfall/a", ADDITION_RECORD, "init"]);
        }
    }

    /// Unpacks a whole file as Ironic does it.
    fn unpacked_by_zstd(bytes: &[u8]) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut zstd = Command::new("zstd");
        let result = zstd.args(["-d", "-c"]).stdin(file).output().unwrap();
        let errors = String::from_utf8_lossy(&result.stderr);
        assert!(result.status.success(), "{errors}");
        result.stdout
    }

    /// The files of a ramdisk. Each bare archive begins where the kernel finds it.
    fn files_for_the_kernel(ramdisk: &[u8]) -> Vec<HostFile> {
        for segment in unpack_segments(ramdisk, 64 << 20).unwrap() {
            let is_found = segment.packing != "none" || segment.offset.is_multiple_of(4);
            assert!(is_found, "archive at byte {}", segment.offset);
        }
        archive::read(ramdisk).unwrap()
    }

    #[test]
    fn zstd_stays_readable_by_zstd() {
        let mut remainders = BTreeSet::new();
        for padding in 0..4 {
            let mut packed = zstd_frame();
            // The lengths of the padding frames give the file each remainder modulo 4
            // once.
            packed.extend(padding_after(Compression::Zstd { level: 1 }, padding));
            remainders.insert(packed.len() % 4);
            for len in [1, 300_000] {
                let host = HostVersion::default().with_file("a", vec![b'x'; len]);
                let one = customized(&packed, &host);
                let files = files_for_the_kernel(&one);
                let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
                assert_eq!(paths, ["a", ADDITION_RECORD, "init"]);
                assert_eq!(files_for_the_kernel(&unpacked_by_zstd(&one)), files);
                // A loader may append another archive without padding.
                assert_eq!(one.len() % 4, 0);

                assert_eq!(open(&one).base(), 0..packed.len() as u64);
                assert_eq!(open(&one).files(), host.files());
                assert_eq!(customized(&one, &host), one);
                assert_eq!(customized(&one, &HostVersion::default().reset()), packed);
            }
        }
        assert_eq!(remainders.len(), 4);
    }

    fn zstd_frame() -> Vec<u8> {
        use landfall_initramfs::compress::Compressor;
        let mut out = Compressor::new(Compression::Zstd { level: 1 }, Vec::new()).unwrap();
        out.write_all(&plain(0)).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn what_is_no_ramdisk() {
        for bytes in [&b""[..], b"hello world", &[0; 1000]] {
            let opened = BaseRamdisk::open(&mut Cursor::new(bytes), 0..bytes.len() as u64);
            assert!(opened.is_err(), "{bytes:?}");
        }
        // A place behind the end of the file.
        let bytes = plain(0);
        let place = 0..bytes.len() as u64 + 1000;
        assert!(BaseRamdisk::open(&mut Cursor::new(bytes), place).is_err());
    }

    #[test]
    fn a_record_that_lies_is_ignored() {
        let base = plain(0);
        let mut bytes = customized(&base, &HostVersion::default().with_file("a", "1"));
        let text = format!("\"base_bytes\":{}", base.len());
        let at = bytes
            .windows(text.len())
            .position(|part| part == text.as_bytes());
        let at = at.unwrap() + text.len();
        // Ten times the size is behind the end of the file.
        bytes[at..at + 2].copy_from_slice(b"0}");
        assert_eq!(open(&bytes).base(), 0..bytes.len() as u64);
    }
}
