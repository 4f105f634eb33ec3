//! Decompression. The format is detected from the content, never from the file's
//! name.

mod lz4;
mod packing;
mod xz;

use std::fmt;
use std::io::{self, BufRead, Chain, Cursor, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;

pub use packing::Packing;

use lz4::Lz4Reader;
use xz::{Limits, XzReader};

/// The largest accepted zstd window is 2^27 bytes (128 MiB), the default limit of
/// libzstd. `zstd --ultra -22` uses it. `zstd --long=31` needs 2 GiB and is rejected.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

type Input<R> = Chain<Cursor<Vec<u8>>, R>;

/// Decodes one image up to the end of its input. The image may consist of several gzip
/// members, or of several frames or streams of the other formats. It is an error if other
/// bytes follow, or if the input ends inside a member, a frame or a stream.
pub struct Decoder<R: BufRead> {
    packing: Packing,
    stream: Unpack<R>,
}

enum Unpack<R: BufRead> {
    Raw(Input<R>),
    Gzip(MultiGzDecoder<Input<R>>),
    Zstd(zstd::stream::read::Decoder<'static, Input<R>>),
    Xz(XzReader<Input<R>>),
    Lz4(Lz4Reader<Input<R>>),
    Bzip2(MultiBzDecoder<Input<R>>),
}

impl<R: BufRead> Decoder<R> {
    /// Detects the packing from the first bytes of the stream and creates the decoder
    /// for it. Also returns the unpacked size if the first header of a zstd stream states
    /// it. This is a lower bound, because more frames may follow.
    ///
    /// # Errors
    /// If the stream cannot be read, or the header is malformed.
    pub fn new(input: R) -> io::Result<(Self, Option<u64>)> {
        Self::with_limits(input, Limits::of_this_machine())
    }

    fn with_limits(mut input: R, limits: Limits) -> io::Result<(Self, Option<u64>)> {
        let mut start = Vec::new();
        (&mut input)
            .take(ZSTD_HEADER_LEN as u64)
            .read_to_end(&mut start)?;
        let packing = Packing::by_content(&start);
        let promised = match packing {
            Packing::Zstd => zstd_content_size(&start),
            // The size is not known from other headers. gzip stores it at the very end,
            // modulo 4 GiB. The index of xz is at the end, too. Few programs that write
            // lz4 know the size.
            _ => None,
        };
        let input = Cursor::new(start).chain(input);
        let stream = match packing {
            Packing::Raw => Unpack::Raw(input),
            Packing::Gzip => Unpack::Gzip(MultiGzDecoder::new(input)),
            Packing::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Unpack::Zstd(decoder)
            }
            Packing::Xz => Unpack::Xz(XzReader::new(input, limits)?),
            Packing::Lz4 => Unpack::Lz4(Lz4Reader::new(input)),
            Packing::Bzip2 => Unpack::Bzip2(MultiBzDecoder::new(input)),
        };
        Ok((Self { packing, stream }, promised))
    }

    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Returns the input, to read the rest of it after an error.
    pub fn into_input(self) -> R {
        match self.stream {
            Unpack::Raw(input) => input,
            Unpack::Gzip(decoder) => decoder.into_inner(),
            Unpack::Zstd(decoder) => decoder.finish(),
            Unpack::Xz(reader) => reader.into_input(),
            Unpack::Lz4(reader) => reader.into_input(),
            Unpack::Bzip2(decoder) => decoder.into_inner(),
        }
        .into_inner()
        .1
    }

    /// Fills the buffer and returns the number of bytes. The number is smaller than
    /// the buffer only at the end of the stream.
    ///
    /// # Errors
    /// If the input cannot be read or decoded.
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Unpack::Raw(input) => input.read(buffer),
            Unpack::Gzip(decoder) => decoder.read(buffer),
            Unpack::Zstd(decoder) => decoder.read(buffer),
            Unpack::Xz(reader) => reader.read(buffer),
            Unpack::Lz4(reader) => reader.read(buffer),
            Unpack::Bzip2(decoder) => decoder.read(buffer),
        }
    }
}

impl<R: BufRead> fmt::Debug for Decoder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({})", self.packing)
    }
}

/// In bytes: 4 for the magic number, and at most 14 for the rest of the frame header
/// (RFC 8878, 3.1.1.1).
const ZSTD_HEADER_LEN: usize = 18;

/// The content size in the header of the first frame. More frames may follow.
fn zstd_content_size(start: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(start)
        .ok()
        .flatten()
}

#[cfg(test)]
pub(super) mod tests;
