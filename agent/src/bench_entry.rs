//! The interface for `benches/stages.rs` only. It runs each stage of writing an
//! image by itself, on bytes in memory.
//!
//! It is compiled only with the feature `bench-entry`. It exists because the
//! agent's modules are private and a benchmark is another crate.

use std::io;
use std::path::Path;

use landfall_boot_params::digest::Algorithm;

use crate::disk::aligned_buffer::AlignedBuffer;
use crate::disk::decode::Decoder;
use crate::disk::digest::Hasher;
use crate::disk::pipeline::UNIT;
use crate::disk::sparse_write::{self, SparseWriter};
use crate::disk::target::Target;
use crate::failure::Result;
use crate::permission::WritePermission;

/// The size of the chunks, in bytes, that the download passes to the digest on a
/// fast link.
const CHUNK: usize = 256 << 10;

/// The digest of these bytes, or `None` if no algorithm has this name.
pub fn digest(name: &str, bytes: &[u8]) -> Option<String> {
    let mut hasher = Hasher::new(Algorithm::by_name(name)?);
    for chunk in bytes.chunks(CHUNK) {
        hasher.update(chunk);
    }
    Some(hasher.finish().hex())
}

/// Unpacks an image, one unit at a time into one buffer. Returns the unpacked size
/// in bytes.
pub fn unpack(packed: &[u8]) -> io::Result<u64> {
    let (mut decoder, _) = Decoder::new(packed)?;
    let mut buffer = AlignedBuffer::zeroed(UNIT);
    let mut unpacked = 0;
    loop {
        let filled = decoder.fill(&mut buffer)?;
        unpacked += filled as u64;
        if filled < UNIT {
            return Ok(unpacked);
        }
    }
}

/// The number of contiguous runs of bytes that have to be written.
pub fn data_runs(bytes: &[u8]) -> usize {
    let units = bytes.chunks(UNIT);
    units.map(|unit| sparse_write::data_runs(unit).len()).sum()
}

/// An image in buffers of the size that the decoder fills.
#[derive(Debug)]
pub struct Units(Vec<AlignedBuffer>);

impl Units {
    pub fn new(bytes: &[u8]) -> Self {
        let padded = |unit| AlignedBuffer::padded(unit, UNIT);
        Self(bytes.chunks(UNIT).map(padded).collect())
    }

    /// Writes the image to a file that stands in for a disk. Returns the number of
    /// bytes that had to be written.
    pub fn write(&self, file: &Path) -> io::Result<u64> {
        self.place(file).map_err(io::Error::other)
    }

    fn place(&self, file: &Path) -> Result<u64> {
        let target = Target::open_file(file, 512, &WritePermission::by_operator())?;
        let end = (self.0.len() * UNIT) as u64;
        let mut writer = SparseWriter::new(&target, 0..end);
        for (index, unit) in self.0.iter().enumerate() {
            writer.write(unit, (index * UNIT) as u64)?;
        }
        writer.finish(end)?;
        Ok(writer.written().data)
    }
}
