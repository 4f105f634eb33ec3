//! Reads the lz4 frame format (lz4_Frame_format.md, version 1.6.4): frames, linked and
//! independent blocks, and their checksums. lz4_flex decompresses the blocks.
//!
//! lz4_flex also has a frame reader, but that reader accepts a file that is
//! truncated between two blocks.

mod header;

use std::hash::Hasher as _;
use std::io::{self, BufRead, Read};

use lz4_flex::block;
use twox_hash::XxHash32;

use header::{Header, Magic};

/// How many bytes back a linked block may refer.
const DICTIONARY: usize = 64 << 10;
/// Flag in the size of a block: the block is not compressed.
const STORED: u32 = 1 << 31;

/// Reads one or more frames.
pub(super) struct Lz4Reader<R> {
    input: R,
    frame: Option<Frame>,
    /// The current block as it is in the file.
    packed: Vec<u8>,
    /// The current block, unpacked. The caller has not read `given..filled` yet.
    block: Vec<u8>,
    given: usize,
    filled: usize,
}

struct Frame {
    header: Header,
    /// The last bytes that were unpacked, for linked blocks.
    dictionary: Vec<u8>,
    checksum: XxHash32,
    length: u64,
}

impl<R: BufRead> Lz4Reader<R> {
    /// `input` must be at the start of a frame.
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            frame: None,
            packed: Vec::new(),
            block: Vec::new(),
            given: 0,
            filled: 0,
        }
    }

    /// Returns the input, positioned after the last used byte.
    pub(super) fn into_input(self) -> R {
        self.input
    }

    /// Unpacks the next block. Returns `false` at the end of the file.
    fn next_block(&mut self) -> io::Result<bool> {
        loop {
            let Some(frame) = &mut self.frame else {
                if self.input.fill_buf()?.is_empty() {
                    return Ok(false);
                }
                self.next_frame()?;
                continue;
            };
            let size = read_u32(&mut self.input)?;
            if size == 0 {
                frame.check_end(&mut self.input)?;
                self.frame = None;
                continue;
            }
            let (len, stored) = ((size & !STORED) as usize, size & STORED != 0);
            let most = frame.header.block_size;
            if len > most {
                return Err(invalid(format!(
                    "expected a block of at most {most} bytes, found {len}"
                )));
            }
            self.packed.resize(len, 0);
            self.input.read_exact(&mut self.packed)?;
            if frame.header.block_checksums {
                let expected = read_u32(&mut self.input)?;
                check("a block", expected, XxHash32::oneshot(0, &self.packed))?;
            }
            if stored {
                std::mem::swap(&mut self.packed, &mut self.block);
                self.filled = len;
            } else {
                self.block.resize(most, 0);
                self.filled = block::decompress_into_with_dict(
                    &self.packed,
                    &mut self.block,
                    &frame.dictionary,
                )
                .map_err(|e| invalid(e.to_string()))?;
            }
            self.given = 0;
            frame.take(&self.block[..self.filled]);
            // A block may be empty.
            if self.filled > 0 {
                return Ok(true);
            }
        }
    }

    fn next_frame(&mut self) -> io::Result<()> {
        let magic = header::magic(read_u32(&mut self.input)?);
        match magic.map_err(|error| invalid(error.to_string()))? {
            Magic::Frame => {
                self.frame = Some(Frame {
                    header: Header::read(&mut self.input)?,
                    dictionary: Vec::new(),
                    checksum: XxHash32::with_seed(0),
                    length: 0,
                });
            }
            Magic::Skippable => {
                let len = u64::from(read_u32(&mut self.input)?);
                let skipped = io::copy(&mut (&mut self.input).take(len), &mut io::sink())?;
                if skipped < len {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Lz4Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || (self.given == self.filled && !self.next_block()?) {
            return Ok(0);
        }
        let rest = &self.block[self.given..self.filled];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.given += len;
        Ok(len)
    }
}

impl Frame {
    fn take(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.header.content_checksum {
            self.checksum.write(bytes);
        }
        if self.header.linked {
            let new = &bytes[bytes.len().saturating_sub(DICTIONARY)..];
            let old = (self.dictionary.len() + new.len()).saturating_sub(DICTIONARY);
            self.dictionary.drain(..old.min(self.dictionary.len()));
            self.dictionary.extend_from_slice(new);
        }
    }

    /// Checks the content size and the content checksum after the last block.
    fn check_end(&self, input: &mut impl Read) -> io::Result<()> {
        if let Some(expected) = self.header.content_size
            && expected != self.length
        {
            return Err(invalid(format!(
                "expected {expected} bytes, found {}",
                self.length
            )));
        }
        if self.header.content_checksum {
            let expected = read_u32(input)?;
            check("the content", expected, self.checksum.finish_32())?;
        }
        Ok(())
    }
}

fn check(of: &str, expected: u32, found: u32) -> io::Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(invalid(format!(
        "checksum of {of}: expected {expected:08x}, found {found:08x}"
    )))
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn invalid(details: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, details)
}

#[cfg(test)]
mod tests;
