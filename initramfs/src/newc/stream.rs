//! Reads an archive from a stream, one member after the other, for archives that are
//! too large for memory.

use std::io::{self, Read};

use super::reader::{NewcError, NewcFault, name_len, numbers};
use super::{HEADER_LEN, MAGIC, MAGIC_WITH_CHECKSUMS, MAX_ENTRIES, S_IFMT, S_IFREG, TRAILER};

/// Why the next member cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file cannot be read, or its compressed data are damaged. Download it again.
    #[error("cannot read the archive")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Newc(#[from] NewcError),
}

/// What the header of a member says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name as written in the archive.
    pub name: String,
    /// File type and permissions, as in `stat`.
    pub mode: u32,
    /// The inode number, which names of one file share.
    pub inode: u32,
    /// The number of names of the file. If it is more than 1, the archive has the content
    /// only at the last name.
    pub links: u32,
    /// The size of the content in bytes.
    pub size: u32,
}

impl Member {
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.mode & S_IFMT == S_IFREG
    }
}

/// Reads one archive. After [`StreamReader::next_member`], reading from this value
/// ([`Read`]) returns the content of that member.
#[derive(Debug)]
pub struct StreamReader<R> {
    input: R,
    offset: usize,
    /// In bytes: the part of the content that has not been read yet, and the zeros after
    /// it.
    content: u64,
    padding: u64,
    members: usize,
    ended: bool,
}

impl<R: Read> StreamReader<R> {
    pub fn new(input: R) -> Self {
        Self {
            input,
            offset: 0,
            content: 0,
            padding: 0,
            members: 0,
            ended: false,
        }
    }

    pub fn get_ref(&self) -> &R {
        &self.input
    }

    /// Skips the rest of the previous member and returns the next one; `None` after the
    /// trailer, and after an error.
    pub fn next_member(&mut self) -> Result<Option<Member>, StreamError> {
        if self.ended {
            return Ok(None);
        }
        // After an error, the reader is also at its end.
        self.ended = true;
        let rest = self.content + self.padding;
        self.skip(rest, NewcFault::NoEntry)?;
        (self.content, self.padding) = (0, 0);
        if self.members == MAX_ENTRIES {
            return Err(self.fault(NewcFault::TooManyEntries).into());
        }
        let mut header = [0; HEADER_LEN];
        self.fill(&mut header, NewcFault::NoEntry)?;
        let (magic, fields) = header.split_at(MAGIC.len());
        if magic != MAGIC && magic != MAGIC_WITH_CHECKSUMS {
            let found = magic.escape_ascii().to_string();
            return Err(self.fault(NewcFault::Magic(found)).into());
        }
        let numbers = numbers(fields).map_err(|fault| self.fault(fault))?;
        let name_size = name_len(numbers[11]).map_err(|fault| self.fault(fault))?;
        let mut name = vec![0; name_size];
        self.fill(&mut name, NewcFault::NoName)?;
        if name.pop() != Some(0) || name.contains(&0) {
            return Err(self.fault(NewcFault::NameEnd).into());
        }
        let name = String::from_utf8(name).map_err(|_| self.fault(NewcFault::NotUtf8))?;
        self.skip(zeros_after(HEADER_LEN + name_size), NewcFault::NoName)?;
        if name == TRAILER {
            return Ok(None);
        }
        let [_, mode, _, _, links, _, size, ..] = numbers;
        self.content = u64::from(size);
        // The cast is lossless: this is a program for 64-bit systems.
        self.padding = zeros_after(size as usize);
        self.members += 1;
        self.ended = false;
        Ok(Some(Member {
            name,
            mode,
            inode: numbers[0],
            links,
            size,
        }))
    }

    fn fault(&self, fault: NewcFault) -> NewcError {
        NewcError {
            offset: self.offset,
            fault,
        }
    }

    fn fill(&mut self, bytes: &mut [u8], at_end: NewcFault) -> Result<(), StreamError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.offset += bytes.len();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.fault(at_end).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn skip(&mut self, bytes: u64, at_end: NewcFault) -> Result<(), StreamError> {
        let skipped = io::copy(&mut (&mut self.input).take(bytes), &mut io::sink())?;
        // The cast is lossless: this is a program for 64-bit systems.
        self.offset += skipped as usize;
        if skipped < bytes {
            return Err(self.fault(at_end).into());
        }
        Ok(())
    }
}

fn zeros_after(size: usize) -> u64 {
    (size.next_multiple_of(4) - size) as u64
}

/// The content of the member that [`StreamReader::next_member`] returned last.
impl<R: Read> Read for StreamReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The cast is lossless: not more than the length of the buffer.
        let most = self.content.min(buffer.len() as u64) as usize;
        if most == 0 {
            return Ok(0);
        }
        let read = self.input.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += read;
        self.content -= read as u64;
        Ok(read)
    }
}
