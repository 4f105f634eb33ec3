//! The body of an answer: segments of a base in memory, without a copy.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use landfall_host_media::{HostImage, Segment};

use crate::reads::Meter;

/// In bytes: the largest piece that is passed on at once. A piece is only a
/// reference; its size is the precision of what the service reports as sent.
const PIECE: u64 = 1 << 20;
/// An area is filled from these.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[derive(Debug)]
pub(crate) struct ImageBody {
    segments: VecDeque<Segment>,
    /// All bytes of the base file.
    base: Bytes,
    /// Keeps the image for other readers while this one is under way.
    _image: Option<Arc<HostImage>>,
    /// In bytes.
    left: u64,
    meter: Option<Meter>,
}

impl ImageBody {
    pub(crate) fn new(
        segments: Vec<Segment>,
        image: Arc<HostImage>,
        base: Bytes,
        meter: Meter,
    ) -> Self {
        Self {
            left: segments.iter().map(Segment::len).sum(),
            segments: segments.into(),
            base,
            _image: Some(image),
            meter: Some(meter),
        }
    }

    /// A body without bytes, for HEAD. It announces none: the caller sets the length.
    pub(crate) fn empty() -> Self {
        Self {
            segments: VecDeque::new(),
            base: Bytes::new(),
            _image: None,
            left: 0,
            meter: None,
        }
    }

    /// The next piece; `None` at the end.
    fn piece(&mut self) -> Option<Bytes> {
        let segment = self.segments.front_mut()?;
        let len = segment.len().min(PIECE);
        // The casts below are lossless: at most PIECE, or within bytes in memory.
        let (piece, rest) = match segment {
            Segment::Own(bytes) => {
                let piece = bytes.split_to(len as usize);
                (piece, bytes.len() as u64)
            }
            Segment::Base(range) => {
                let start = range.start as usize;
                range.start += len;
                let piece = self.base.slice(start..start + len as usize);
                (piece, range.end - range.start)
            }
            Segment::Zeros(left) => {
                let count = (len as usize).min(ZEROS.len());
                *left -= count as u64;
                (Bytes::from_static(&ZEROS[..count]), *left)
            }
        };
        if rest == 0 {
            self.segments.pop_front();
        }
        Some(piece)
    }
}

impl Body for ImageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.piece() else {
            return Poll::Ready(None);
        };
        let len = piece.len() as u64;
        self.left -= len;
        if let Some(meter) = &mut self.meter {
            meter.passed_on(len);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
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
    fn all_segments_come_in_pieces() {
        let base: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
        let segments = vec![
            Segment::Base(5..(2 << 20) + 5),
            Segment::Own(Bytes::from_static(b"own")),
            Segment::Zeros(100_000),
            Segment::Base(0..1),
        ];
        let mut body = ImageBody {
            left: segments.iter().map(Segment::len).sum(),
            segments: segments.into(),
            base: base.clone().into(),
            _image: None,
            meter: None,
        };
        let mut all = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            let piece = frame.into_data().unwrap();
            assert!(piece.len() as u64 <= PIECE);
            all.extend_from_slice(&piece);
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
