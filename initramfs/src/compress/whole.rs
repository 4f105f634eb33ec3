//! Detects whether a ramdisk in a file is cut off.
//!
//! A cpio archive, zstd and lz4 state the length of each of their parts, so the check
//! reads only the headers of the parts. gzip and xz do not state it: the check unpacks
//! them to the end, without storing the content. bzip2, lzma and lzo are rare, and are
//! not checked.

use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{Error as XzError, Stream};

use super::packing::{LZ4_MAGIC, Packing, ZSTD_MAGIC};
use super::segments::XZ_MEMORY;
use crate::newc;

/// The maximum unpacked size of a gzip or xz archive in bytes. It limits the time of the
/// check.
const MAX_UNPACKED: u64 = 4 << 30;

/// Why a ramdisk is not complete.
#[derive(Debug, thiserror::Error)]
pub enum WholeError {
    #[error("cannot read the ramdisk")]
    Io(#[from] io::Error),
    #[error(
        "ramdisk at byte {offset}: expected zeros or an archive (cpio, zstd, gzip, xz, lz4, bzip2, lzma or lzo), found `{found}`"
    )]
    UnknownFormat {
        offset: u64,
        /// The first bytes at this offset.
        found: String,
    },
    #[error(
        "ramdisk at byte {offset}: expected an xz archive that unpacks in {limit} MiB of memory, found a larger dictionary -- pack it with `xz -9 --check=crc32`"
    )]
    LargeDictionary {
        /// The offset at which the archive begins.
        offset: u64,
        /// In MiB.
        limit: u64,
    },
    #[error("ramdisk at byte {offset}: expected a complete {packing} archive")]
    Broken {
        /// The offset at which the archive begins.
        offset: u64,
        packing: Packing,
        #[source]
        source: io::Error,
    },
}

/// Walks through every archive of the ramdisk that is at `place` in a file, and returns
/// the compression of each archive. The walk ends at an archive in bzip2, lzma or lzo,
/// which is then the last element of the result.
///
/// Unless the file ends before `place` does, the walk cannot detect that a ramdisk was
/// cut off between two archives, between two members of a cpio archive or between two
/// blocks of lz4. It also accepts an lz4 archive whose end was overwritten with zeros:
/// lz4 has no end mark, and the kernel treats zeros as the end.
///
/// # Errors
/// If the file cannot be read, or ends before `place` does. If an archive is damaged or
/// not complete, has too many members (cpio), needs too much memory (xz), unpacks to more
/// than 4 GiB (gzip, xz), or is followed by data other than zeros or an archive.
pub fn check_whole(
    mut file: impl Read + Seek,
    place: Range<u64>,
) -> Result<Vec<Packing>, WholeError> {
    let end = file.seek(SeekFrom::End(0))?.min(place.end);
    file.seek(SeekFrom::Start(place.start))?;
    let mut walk = Walk {
        input: BufReader::with_capacity(16 << 10, file),
        offset: 0,
        size: end.saturating_sub(place.start),
    };
    let mut found = Vec::new();
    loop {
        walk.zeros()?;
        if walk.left() == 0 {
            break;
        }
        let start = walk.start()?;
        let offset = walk.offset;
        let packing = Packing::of(&start).ok_or_else(|| WholeError::UnknownFormat {
            offset,
            found: start.escape_ascii().to_string(),
        })?;
        let end = match packing {
            Packing::None => walk.cpio(),
            Packing::Zstd => walk.zstd(),
            Packing::Gzip => walk.gzip(),
            Packing::Xz => walk.xz(),
            Packing::Lz4 => walk.lz4(),
            Packing::Bzip2 | Packing::Lzma | Packing::Lzo => {
                found.push(packing);
                break;
            }
        };
        end.map_err(|source| match xz_error(&source) {
            Some(XzError::MemLimit) => WholeError::LargeDictionary {
                offset,
                limit: XZ_MEMORY >> 20,
            },
            _ => WholeError::Broken {
                offset,
                packing,
                source,
            },
        })?;
        found.push(packing);
    }
    if place.end > end {
        return Err(cut_off(walk.offset, place.end - end, 0).into());
    }
    Ok(found)
}

fn cut_off(offset: u64, expected: u64, found: u64) -> io::Error {
    let fault = format!(
        "expected {expected} more bytes at byte {offset} of the ramdisk, found {found}: it is cut off -- copy or build it again"
    );
    io::Error::new(io::ErrorKind::UnexpectedEof, fault)
}

fn invalid(fault: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault.into())
}

struct Walk<R> {
    input: BufReader<R>,
    /// From the beginning of the ramdisk.
    offset: u64,
    size: u64,
}

impl<R: Read + Seek> Walk<R> {
    fn left(&self) -> u64 {
        self.size - self.offset
    }

    fn require(&self, bytes: u64) -> io::Result<()> {
        match self.left() {
            left if left < bytes => Err(cut_off(self.offset, bytes, left)),
            _ => Ok(()),
        }
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.require(N as u64)?;
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        self.offset += N as u64;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.require(bytes)?;
        let distance = i64::try_from(bytes).map_err(|_| invalid("size is out of range"))?;
        self.input.seek_relative(distance)?;
        self.offset += bytes;
        Ok(())
    }

    fn zeros(&mut self) -> io::Result<()> {
        while self.left() > 0 {
            let buffer = self.input.fill_buf()?;
            let zeros = buffer.iter().take_while(|&&byte| byte == 0).count();
            let is_end = zeros < buffer.len() || buffer.is_empty();
            let zeros = (zeros as u64).min(self.left());
            // The cast is lossless: the number of bytes in the buffer.
            self.input.consume(zeros as usize);
            self.offset += zeros;
            if is_end {
                break;
            }
        }
        Ok(())
    }

    /// The next six bytes, or fewer at the end. The position does not change.
    fn start(&mut self) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        let length = self.left().min(6);
        self.input.by_ref().take(length).read_to_end(&mut start)?;
        // The cast is lossless: at most 6.
        self.input.seek_relative(-(start.len() as i64))?;
        Ok(start)
    }

    /// Reads members up to the trailer. At the end of the ramdisk the trailer may be
    /// missing (Documentation/driver-api/early-userspace/buffer-format.rst). Zeros
    /// instead of the trailer are an error, because they are typical of an incomplete
    /// copy.
    fn cpio(&mut self) -> io::Result<()> {
        for _ in 0..newc::MAX_ENTRIES {
            let header = self.bytes::<{ newc::HEADER_LEN }>()?;
            if Packing::of(&header) != Some(Packing::None) {
                let found = header[..newc::MAGIC.len()].escape_ascii();
                return Err(invalid(format!("expected a member, found `{found}`")));
            }
            let sizes = newc::sizes(&header).map_err(|fault| invalid(fault.to_string()))?;
            let mut name = vec![0; sizes.name];
            self.require(sizes.name as u64)?;
            self.input.read_exact(&mut name)?;
            self.offset += sizes.name as u64;
            let after_header = newc::HEADER_LEN + sizes.name;
            self.skip((after_header.next_multiple_of(4) - after_header) as u64)?;
            self.skip(sizes.content as u64)?;
            // At the end of the file the padding may be missing.
            let padding = (sizes.content.next_multiple_of(4) - sizes.content) as u64;
            self.skip(padding.min(self.left()))?;
            let is_trailer = name.strip_suffix(b"\0") == Some(newc::TRAILER.as_bytes());
            if is_trailer || self.left() == 0 {
                return Ok(());
            }
        }
        Err(invalid(format!(
            "expected at most {} members, found more",
            newc::MAX_ENTRIES
        )))
    }

    /// One frame: RFC 8878, 3.1.1.
    fn zstd(&mut self) -> io::Result<()> {
        self.skip(ZSTD_MAGIC.len() as u64)?;
        let [descriptor] = self.bytes()?;
        let is_single_segment = descriptor & 1 << 5 != 0;
        let window = u64::from(!is_single_segment);
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let content_size = match descriptor >> 6 {
            0 => u64::from(is_single_segment),
            flag => 1 << flag,
        };
        self.skip(window + dictionary + content_size)?;
        loop {
            let [a, b, c] = self.bytes()?;
            let header = u32::from_le_bytes([a, b, c, 0]);
            let size = match header >> 1 & 3 {
                0 | 2 => u64::from(header >> 3),
                // One byte that is repeated.
                1 => 1,
                _ => return Err(invalid("expected a block, found the reserved type")),
            };
            self.skip(size)?;
            if header & 1 != 0 {
                break;
            }
        }
        let has_checksum = descriptor & 1 << 2 != 0;
        self.skip(if has_checksum { 4 } else { 0 })
    }

    /// Skips an lz4 archive: blocks, each after its size in 4 little-endian bytes. Zeros
    /// or the end of the file end the archive.
    fn lz4(&mut self) -> io::Result<()> {
        while self.left() >= 4 {
            match self.bytes()? {
                [0, 0, 0, 0] => return Ok(()),
                LZ4_MAGIC => {}
                size => self.skip(u32::from_le_bytes(size).into())?,
            }
        }
        self.zeros()?;
        match self.left() {
            0 => Ok(()),
            left => Err(cut_off(self.offset, 4, left)),
        }
    }

    fn gzip(&mut self) -> io::Result<()> {
        let left = self.left();
        let mut packed = self.input.by_ref().take(left);
        let unpacked = unpack(GzDecoder::new(&mut packed));
        let after = packed.limit();
        self.unpacked(unpacked, after)
    }

    fn xz(&mut self) -> io::Result<()> {
        let left = self.left();
        let stream = Stream::new_stream_decoder(XZ_MEMORY, 0)?;
        let mut packed = self.input.by_ref().take(left);
        let unpacked = unpack(XzDecoder::new_stream(&mut packed, stream));
        let after = packed.limit();
        self.unpacked(unpacked, after)
    }

    /// Continues after an archive that was unpacked. `after` bytes follow the archive.
    fn unpacked(&mut self, unpacked: io::Result<()>, after: u64) -> io::Result<()> {
        self.offset = self.size - after;
        unpacked.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof if after == 0 => cut_off(self.offset, 1, 0),
            _ => error,
        })
    }
}

/// The error of the xz decoder, if `error` contains one.
pub(crate) fn xz_error(error: &io::Error) -> Option<&XzError> {
    error.get_ref()?.downcast_ref()
}

fn unpack(decoder: impl Read) -> io::Result<()> {
    // One byte more than allowed, to notice an archive that is too large.
    let unpacked = io::copy(&mut decoder.take(MAX_UNPACKED + 1), &mut io::sink())?;
    if unpacked > MAX_UNPACKED {
        let fault = format!("expected at most {MAX_UNPACKED} bytes in it, found more");
        return Err(invalid(fault));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
