//! The input of a parser. Each read reports to the agent that the child is alive.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::frame;

/// The maximum number of bytes of one read. A longer read could be split into several
/// SCSI commands, which together could take longer than the agent waits for progress.
const PART: usize = 64 << 10;

/// Bytes that are not trusted.
#[derive(Debug)]
pub struct Input {
    file: File,
    /// Where the child reports progress.
    agent: Option<File>,
}

impl Input {
    pub(crate) fn here(file: File) -> Self {
        Self { file, agent: None }
    }

    pub(crate) fn in_child(file: File, agent: File) -> Self {
        let agent = Some(agent);
        Self { file, agent }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(PART);
        let read = self.file.read(&mut buffer[..length])?;
        if let Some(agent) = &self.agent {
            frame::write_progress(agent)?;
        }
        Ok(read)
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
