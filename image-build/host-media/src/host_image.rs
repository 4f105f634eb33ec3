//! One host's version of a base, as a list of pieces.

use std::ops::Range;

use bytes::Bytes;

/// A piece of a host's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of the base file.
    Base(Range<u64>),
    /// Bytes of the host.
    Own(Bytes),
    /// This number of zeros: the unused rest of an area.
    Zeros(u64),
}

impl Piece {
    /// In bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Base(range) => range.end - range.start,
            Self::Own(bytes) => bytes.len() as u64,
            Self::Zeros(len) => *len,
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of the piece. `range` counts bytes from the start of the piece, and must
    /// lie in it.
    fn part(&self, range: Range<u64>) -> Self {
        match self {
            Self::Base(base) => Self::Base(base.start + range.start..base.start + range.end),
            // The casts are lossless: the range is within bytes in memory.
            Self::Own(bytes) => Self::Own(bytes.slice(range.start as usize..range.end as usize)),
            Self::Zeros(_) => Self::Zeros(range.end - range.start),
        }
    }
}

/// The pieces of a whole image, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostImage {
    pieces: Vec<Piece>,
    size: u64,
}

impl HostImage {
    /// Appends a piece, unless it is empty.
    pub fn push(&mut self, piece: Piece) {
        if !piece.is_empty() {
            self.size += piece.len();
            self.pieces.push(piece);
        }
    }

    /// In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The pieces with their offsets in the image.
    pub fn placed(&self) -> impl Iterator<Item = (u64, &Piece)> {
        self.pieces.iter().scan(0, |at, piece| {
            let offset = *at;
            *at += piece.len();
            Some((offset, piece))
        })
    }

    /// The part of the image in `range`. Leaves out what is beyond the end of the
    /// image.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Vec<Piece> {
        let part = |(offset, piece): (u64, &Piece)| {
            let start = range.start.max(offset);
            let end = range.end.min(offset + piece.len());
            (start < end).then(|| piece.part(start - offset..end - offset))
        };
        self.placed().filter_map(part).collect()
    }

    /// The bytes of the image, for tests and small images. `base` is the base file.
    /// `None` if the base file is now shorter than expected.
    #[must_use]
    pub fn to_vec(&self, base: &[u8]) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Base(range) => {
                    let start = usize::try_from(range.start).ok()?;
                    let end = usize::try_from(range.end).ok()?;
                    all.extend_from_slice(base.get(start..end)?);
                }
                Piece::Own(bytes) => all.extend_from_slice(bytes),
                Piece::Zeros(len) => all.resize(all.len() + usize::try_from(*len).ok()?, 0),
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image() -> (Vec<u8>, HostImage) {
        let base: Vec<u8> = (0..200).collect();
        let mut image = HostImage::default();
        for piece in [
            Piece::Base(0..70),
            Piece::Own(Bytes::from_static(b"own bytes")),
            Piece::Base(5..5),
            Piece::Zeros(21),
            Piece::Base(100..200),
        ] {
            image.push(piece);
        }
        (base, image)
    }

    #[test]
    fn empty_pieces_are_left_out() {
        let (base, image) = image();
        assert_eq!(image.pieces().len(), 4);
        assert_eq!(image.size(), 200);
        assert_eq!(image.to_vec(&base).unwrap().len(), 200);
        assert_eq!(image.to_vec(&base[..199]), None);
        let offsets: Vec<u64> = image.placed().map(|(offset, _)| offset).collect();
        assert_eq!(offsets, [0, 70, 79, 100]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_bytes(mut cuts in proptest::collection::vec(0u64..=200, 0..8)) {
            let (base, image) = image();
            cuts.extend([0, 200]);
            cuts.sort_unstable();
            let mut joined = HostImage::default();
            for pair in cuts.windows(2) {
                image.slice(pair[0]..pair[1]).into_iter().for_each(|part| joined.push(part));
            }
            prop_assert_eq!(joined.to_vec(&base), image.to_vec(&base));
        }

        #[test]
        fn ranges_behind_the_end_are_left_out(start in 0u64..400, len in 0u64..400) {
            let (_, image) = image();
            let found: u64 = image.slice(start..start + len).iter().map(Piece::len).sum();
            prop_assert_eq!(found, (start + len).min(200).saturating_sub(start.min(200)));
        }
    }
}
