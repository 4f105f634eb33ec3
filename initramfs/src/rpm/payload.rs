//! Unpacks the archive of a package, one file after the other.

use std::io::{self, BufRead as _, BufReader, Read, Take};

use liblzma::read::XzDecoder;
use liblzma::stream::Stream;

use super::{RpmError, io_error};
use crate::compress::{Packing, XZ_MEMORY};
use crate::newc::{Member, StreamReader};

/// The size limit in bytes of an unpacked archive of a package. The modules of a debug
/// kernel have 1 GB.
const MAX_UNPACKED: u64 = 4 << 30;
const BUFFER_BYTES: usize = 64 << 10;

/// The files of a package. After [`Payload::next_member`], reading from this value
/// ([`Read`]) returns the content of that file.
pub struct Payload {
    members: StreamReader<Take<Box<dyn Read>>>,
}

impl Payload {
    /// `input` begins with the archive.
    pub(super) fn open(input: impl Read + 'static) -> Result<Self, RpmError> {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
        let start = input.fill_buf().map_err(io_error("payload"))?;
        let start = start[..start.len().min(8)].to_vec();
        let unknown = |found| RpmError::UnknownPacking { found };
        let unpacked: Box<dyn Read> = match Packing::of(&start) {
            Some(Packing::None) => Box::new(input),
            Some(Packing::Gzip) => Box::new(flate2::bufread::GzDecoder::new(input)),
            Some(Packing::Xz) => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, 0);
                let stream = stream.map_err(io::Error::from);
                let stream = stream.map_err(io_error("payload"))?;
                Box::new(XzDecoder::new_stream(input, stream))
            }
            Some(Packing::Zstd) => {
                let decoder = zstd::Decoder::with_buffer(input);
                Box::new(decoder.map_err(io_error("payload"))?)
            }
            Some(other) => return Err(unknown(other.to_string())),
            // An archive of RPM 6 that is not compressed.
            None if start.starts_with(b"07070X") => return Err(RpmError::NoNames),
            None => return Err(unknown(format!("`{}`", start.escape_ascii()))),
        };
        Ok(Self {
            members: StreamReader::new(unpacked.take(MAX_UNPACKED)),
        })
    }

    /// The next file, directory or link; `None` after the last one.
    pub fn next_member(&mut self) -> Result<Option<Member>, RpmError> {
        let member = self.members.next_member();
        member.map_err(|error| match self.is_used_up() {
            true => RpmError::Bomb {
                limit: MAX_UNPACKED,
            },
            false => error.into(),
        })
    }

    fn is_used_up(&self) -> bool {
        self.members.get_ref().limit() == 0
    }
}

impl Read for Payload {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.members.read(buffer)
    }
}
