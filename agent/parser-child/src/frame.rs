//! A message between the agent and the child: its length in four bytes (little-endian),
//! then JSON. Instead of a message, the child can report progress by four bytes 0xff in
//! place of the length.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why no message was received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Holds the length and the limit, in bytes.
    #[error("expected at most {1} bytes, found {0}")]
    TooLong(usize, usize),
    #[error("expected the JSON of a message, found other data")]
    Json,
}

pub(crate) fn write(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    // Write once, so that the reader need not wait for a second write.
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)
}

/// Replaces the length: progress instead of a message.
const PROGRESS: [u8; 4] = [0xff; 4];

/// Reports progress to the reader.
pub(crate) fn write_progress(mut to: impl Write) -> io::Result<()> {
    to.write_all(&PROGRESS)
}

/// The next element of a stream.
pub(crate) enum Next<T> {
    Message(T),
    Progress,
    End,
}

pub(crate) fn read<T: DeserializeOwned>(
    mut from: impl Read,
    limit: usize,
) -> Result<Next<T>, FrameError> {
    let mut length = [0; 4];
    let first = loop {
        match from.read(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(Next::End);
    }
    from.read_exact(&mut length[first..])?;
    if length == PROGRESS {
        return Ok(Next::Progress);
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > limit {
        return Err(FrameError::TooLong(length, limit));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    serde_json::from_slice(&bytes)
        .map(Next::Message)
        .map_err(|_| FrameError::Json)
}
