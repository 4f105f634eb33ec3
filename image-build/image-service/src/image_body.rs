//! The body of an answer: pieces of a base in memory, without a copy.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use landfall_host_media::{HostImage, Piece};

use crate::reads::Meter;

/// The maximum size in bytes of a chunk that is passed on at once. A chunk is only a
/// reference; its size determines how precisely the service reports the bytes sent.
const CHUNK: u64 = 1 << 20;
/// The source of the zeros that fill an area.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[derive(Debug)]
pub(crate) struct ImageBody {
    pieces: VecDeque<Piece>,
    /// All bytes of the base file.
    base: Bytes,
    /// Keeps the image in memory while this body is sent, so that other readers can share
    /// it.
    _image: Option<Arc<HostImage>>,
    /// In bytes.
    left: u64,
    meter: Option<Meter>,
}

impl ImageBody {
    pub(crate) fn new(
        pieces: Vec<Piece>,
        image: Arc<HostImage>,
        base: Bytes,
        meter: Meter,
    ) -> Self {
        Self {
            left: pieces.iter().map(Piece::len).sum(),
            pieces: pieces.into(),
            base,
            _image: Some(image),
            meter: Some(meter),
        }
    }

    /// A body without bytes, for HEAD. The caller sets the length.
    pub(crate) fn empty() -> Self {
        Self {
            pieces: VecDeque::new(),
            base: Bytes::new(),
            _image: None,
            left: 0,
            meter: None,
        }
    }

    /// The next chunk; `None` at the end.
    fn chunk(&mut self) -> Option<Bytes> {
        let piece = self.pieces.front_mut()?;
        let len = piece.len().min(CHUNK);
        // The casts below are lossless: the numbers are at most CHUNK, or offsets in
        // bytes that are in memory.
        let (chunk, rest) = match piece {
            Piece::Own(bytes) => {
                let chunk = bytes.split_to(len as usize);
                (chunk, bytes.len() as u64)
            }
            Piece::Base(range) => {
                let start = range.start as usize;
                range.start += len;
                let chunk = self.base.slice(start..start + len as usize);
                (chunk, range.end - range.start)
            }
            Piece::Zeros(left) => {
                let count = (len as usize).min(ZEROS.len());
                *left -= count as u64;
                (Bytes::from_static(&ZEROS[..count]), *left)
            }
        };
        if rest == 0 {
            self.pieces.pop_front();
        }
        Some(chunk)
    }
}

impl Body for ImageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(chunk) = self.chunk() else {
            return Poll::Ready(None);
        };
        let len = chunk.len() as u64;
        self.left -= len;
        if let Some(meter) = &mut self.meter {
            meter.passed_on(len);
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn all_pieces_come_in_chunks() {
        let base: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
        let pieces = vec![
            Piece::Base(5..(2 << 20) + 5),
            Piece::Own(Bytes::from_static(b"own")),
            Piece::Zeros(100_000),
            Piece::Base(0..1),
        ];
        let mut body = ImageBody {
            left: pieces.iter().map(Piece::len).sum(),
            pieces: pieces.into(),
            base: base.clone().into(),
            _image: None,
            meter: None,
        };
        let mut all = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            let chunk = frame.into_data().unwrap();
            assert!(chunk.len() as u64 <= CHUNK);
            all.extend_from_slice(&chunk);
            assert_eq!(body.size_hint().exact(), Some(body.left));
        }
        assert!(body.is_end_stream());
        let mut expected = base[5..(2 << 20) + 5].to_vec();
        expected.extend_from_slice(b"own");
        expected.extend_from_slice(&[0; 100_000]);
        expected.push(0);
        assert!(all == expected);
    }
}
