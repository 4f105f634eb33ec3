//! Fetches those parts of an image file that are needed a second time.

use bytes::Bytes;
use landfall_download::fetch::{Download, Event};
use landfall_report::failure::Result;

use super::Work;
use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::pipeline::Stream;
use crate::image::qcow2::window::{PIECE, Piece};

/// In bytes. If a gap is at most this long, the reader downloads and discards it,
/// because a new connection would take as much time.
const SHORT_GAP: u64 = 4 << 20;

/// Reads pieces of the file in ascending order over as few connections as possible.
pub(super) struct PieceReader<'a> {
    work: &'a Work<'a>,
    stream: &'a Stream,
    download: Option<Download>,
    /// Whether the server honours range requests. True until a response proves
    /// otherwise.
    by_range: bool,
    rest: Bytes,
    position: u64,
    /// Bytes received over all connections.
    pub(super) received: u64,
}

impl<'a> PieceReader<'a> {
    pub(super) fn new(work: &'a Work<'a>, stream: &'a Stream) -> Self {
        Self {
            work,
            stream,
            download: None,
            by_range: true,
            rest: Bytes::new(),
            position: 0,
            received: 0,
        }
    }

    /// Returns the piece at `offset` of the file. It is shorter than [`PIECE`] at
    /// the end of the file.
    pub(super) fn piece(&mut self, offset: u64, mut buffer: AlignedBuffer) -> Result<Piece> {
        let near = offset >= self.position && offset - self.position <= SHORT_GAP;
        if self.download.is_none() || (!near && self.by_range) {
            let download = Download::again(
                self.work.source.request.clone(),
                self.work.client.clone(),
                self.stream.place.clone(),
                offset,
            )?;
            self.download = Some(download);
            (self.rest, self.position) = (Bytes::new(), offset);
        }
        while self.position < offset {
            if !self.more()? {
                break;
            }
            let skipped = (offset - self.position).min(self.rest.len() as u64);
            let _ = self.rest.split_to(skipped as usize);
            self.position += skipped;
        }
        let mut filled = 0;
        while filled < PIECE as usize && self.more()? {
            let len = self.rest.len().min(PIECE as usize - filled);
            buffer[filled..filled + len].copy_from_slice(&self.rest.split_to(len));
            filled += len;
            self.position += len as u64;
        }
        Ok(Piece::new(offset, buffer, filled))
    }

    /// Waits for more data. Returns `false` at the end of the file.
    fn more(&mut self) -> Result<bool> {
        let Some(download) = &mut self.download else {
            return Ok(false);
        };
        while self.rest.is_empty() {
            match download.next_event()? {
                Event::Begin(place) => self.by_range = place.by_range || self.position == 0,
                Event::Chunk(chunk) => {
                    self.received += chunk.len() as u64;
                    self.rest = chunk;
                }
                Event::End => {
                    self.download = None;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
