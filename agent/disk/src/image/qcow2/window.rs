//! The part of a file that is in memory: the last few MiB. If a table comes after the
//! clusters that it refers to (for example an L2 table after its first clusters), these
//! clusters are usually still in the window.

use std::collections::VecDeque;
use std::ops::Range;

use landfall_download::digest::sha256;

use crate::device::aligned_buffer::AlignedBuffer;
use crate::image::pipeline::UNIT;

/// Length of a piece and alignment of its offset, in bytes. The last piece of a
/// file may be shorter.
pub const PIECE: u64 = UNIT as u64;

/// The first 16 bytes of a SHA-256. At this length nobody can find other bytes with the
/// same fingerprint.
pub type Fingerprint = [u8; 16];

pub fn fingerprint(bytes: &[u8]) -> Fingerprint {
    let mut short = Fingerprint::default();
    short.copy_from_slice(&sha256(bytes)[..16]);
    short
}

/// Up to 1 MiB of a file, at a multiple of 1 MiB.
#[derive(Debug)]
pub struct Piece {
    /// Offset in the file, in bytes.
    pub offset: u64,
    buffer: AlignedBuffer,
    len: usize,
    used: Cover,
}

impl Piece {
    /// A piece with the first `len` bytes of `buffer`, which belong at `offset` in
    /// the file.
    pub fn new(offset: u64, buffer: AlignedBuffer, len: usize) -> Self {
        Self {
            offset,
            buffer,
            len,
            used: Cover::default(),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// File offset of the first byte after the piece.
    pub fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    pub fn is_used_up(&self) -> bool {
        self.len == 0 || self.used.0.first() == Some(&(0..self.len))
    }

    pub fn into_buffer(self) -> AlignedBuffer {
        self.buffer
    }
}

/// Consecutive pieces of a file.
#[derive(Debug)]
pub struct Window {
    pieces: VecDeque<Piece>,
    capacity: usize,
}

impl Window {
    /// A window that can hold `longest` consecutive bytes, wherever they begin in its
    /// first piece.
    pub fn new(longest: u64) -> Self {
        // One more piece, because the bytes may begin inside a piece. At least three
        // pieces, for tables that come after their data.
        let capacity = longest.div_ceil(PIECE).max(2) + 1;
        Self {
            pieces: VecDeque::new(),
            // At most 5, because clusters have at most 2 MiB (see `Header`).
            capacity: capacity as usize,
        }
    }

    /// File offset of the first byte in the window.
    pub fn start(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.offset)
    }

    /// File offset of the first byte after the window.
    pub fn end(&self) -> Option<u64> {
        self.pieces.back().map(Piece::end)
    }

    /// Whether the caller must remove a piece before it adds another one.
    pub fn is_full(&self) -> bool {
        self.pieces.len() == self.capacity
    }

    /// Adds the piece that follows the last one.
    pub fn push(&mut self, piece: Piece) {
        debug_assert!(self.end().is_none_or(|end| end == piece.offset));
        self.pieces.push_back(piece);
    }

    pub fn oldest(&self) -> Option<&Piece> {
        self.pieces.front()
    }

    /// Removes the oldest piece.
    pub fn pop(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Up to `len` bytes from file offset `host`, but not beyond the end of a
    /// piece. Empty if `host` is not in the window.
    pub fn part(&self, host: u64, len: u64) -> &[u8] {
        let Some(piece) = self.piece(host) else {
            return &[];
        };
        let bytes = &piece.bytes()[(host - piece.offset) as usize..];
        &bytes[..len.min(bytes.len() as u64) as usize]
    }

    /// `len` bytes from file offset `host`, or fewer if the window ends before that.
    /// Bytes from several pieces are copied to `scratch`.
    pub fn together<'a>(&'a self, host: u64, len: u64, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let first = self.part(host, len);
        if first.len() as u64 == len {
            return first;
        }
        scratch.clear();
        while (scratch.len() as u64) < len {
            let have = scratch.len() as u64;
            let part = self.part(host + have, len - have);
            if part.is_empty() {
                break;
            }
            scratch.extend_from_slice(part);
        }
        scratch
    }

    /// Marks the `len` bytes from file offset `host` as used. [`Piece::is_used_up`] is
    /// true once all bytes of a piece are marked.
    pub fn mark_used(&mut self, host: u64, len: u64) {
        let end = host + len;
        for piece in &mut self.pieces {
            let (from, to) = (host.max(piece.offset), end.min(piece.end()));
            if from < to {
                let place = |at: u64| (at - piece.offset) as usize;
                piece.used.add(place(from)..place(to));
            }
        }
    }

    fn piece(&self, host: u64) -> Option<&Piece> {
        let index = host.checked_sub(self.start()?)? / PIECE;
        let piece = self.pieces.get(usize::try_from(index).ok()?)?;
        (host < piece.end()).then_some(piece)
    }
}

/// Ascending ranges with gaps between them.
#[derive(Debug, Default)]
struct Cover(Vec<Range<usize>>);

impl Cover {
    fn add(&mut self, range: Range<usize>) {
        // Most ranges arrive in order and touch the last one.
        if let Some(last) = self.0.last_mut()
            && last.start <= range.start
            && range.start <= last.end
        {
            last.end = last.end.max(range.end);
            return;
        }
        let from = self.0.partition_point(|known| known.end < range.start);
        let to = self.0.partition_point(|known| known.start <= range.end);
        let merged = self.0[from..to].iter().fold(range, |all, known| {
            all.start.min(known.start)..all.end.max(known.end)
        });
        self.0.splice(from..to, [merged]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(len: u64) -> Window {
        let mut window = Window::new(0);
        for offset in (0..len).step_by(UNIT) {
            let mut buffer = AlignedBuffer::zeroed(UNIT);
            buffer.fill((offset / PIECE) as u8 + 1);
            window.push(Piece::new(
                offset,
                buffer,
                (len - offset).min(PIECE) as usize,
            ));
        }
        window
    }

    #[test]
    fn bytes_across_pieces() {
        let mut window = window(2 * PIECE + 100);
        assert!(window.is_full());
        let mut scratch = Vec::new();
        assert_eq!(window.part(PIECE - 2, 5), [1, 1]);
        assert_eq!(window.together(PIECE - 2, 5, &mut scratch), [1, 1, 2, 2, 2]);
        assert_eq!(window.together(2 * PIECE + 98, 5, &mut scratch), [3, 3]);
        assert!(window.part(2 * PIECE + 100, 1).is_empty());
        window.pop();
        assert!(window.part(0, 1).is_empty());
        assert_eq!(
            (window.start(), window.end()),
            (Some(PIECE), Some(2 * PIECE + 100))
        );
    }

    proptest! {
        #[test]
        fn used_up_is_every_byte(ranges in proptest::collection::vec((0u64..300, 0u64..200), 0..20)) {
            let mut window = window(300);
            let mut model = [false; 300];
            for (start, len) in ranges {
                window.mark_used(start, len);
                for at in start..(start + len).min(300) {
                    model[at as usize] = true;
                }
                let used_up = window.oldest().unwrap().is_used_up();
                prop_assert_eq!(used_up, model.iter().all(|&used| used));
            }
        }
    }
}
