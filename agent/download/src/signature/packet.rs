//! Parses the framing of OpenPGP: packets, lengths and integers (RFC 9580, chapter
//! 4).

use super::SignatureError;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    /// Packet type.
    pub tag: u8,
    pub body: &'a [u8],
}

/// Whether the file begins with the header of a packet. The highest bit of a header is
/// always set (RFC 9580, 4.2), but it is never set in ASCII text.
pub(super) fn has_header(file: &[u8]) -> bool {
    file.first().is_some_and(|header| header & 0x80 != 0)
}

/// The packets of a file. Ends after the first error.
pub(super) fn packets(file: &[u8]) -> impl Iterator<Item = Result<Packet<'_>, SignatureError>> {
    let mut left = Cursor::new(file);
    std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let packet = left.packet();
        if packet.is_err() {
            left = Cursor::new(&[]);
        }
        Some(packet)
    })
}

/// Reads from the front of a slice, never beyond its end.
#[derive(Debug)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], SignatureError> {
        let cut_off = SignatureError::CutOff {
            expected: length,
            found: self.0.len(),
        };
        let (taken, left) = self.0.split_at_checked(length).ok_or(cut_off)?;
        self.0 = left;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, SignatureError> {
        Ok(self.take(1)?[0])
    }

    /// A big-endian number of at most eight bytes.
    pub(super) fn number(&mut self, length: usize) -> Result<u64, SignatureError> {
        let bytes = self.take(length)?.iter();
        Ok(bytes.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// Reads an integer: the length in bits, then the number (RFC 9580, 3.2). Returns the
    /// number without leading zeros.
    pub(super) fn integer(&mut self) -> Result<&'a [u8], SignatureError> {
        let bits = self.number(2)? as usize;
        let bytes = self.take(bits.div_ceil(8))?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Ok(&bytes[zeros..])
    }

    /// Reads the length of a subpacket (RFC 9580, 5.2.3.7).
    pub(super) fn subpacket_length(&mut self) -> Result<usize, SignatureError> {
        let length = match self.byte()? {
            first @ 0..=191 => u64::from(first),
            first @ 192..=254 => ((u64::from(first) - 192) << 8) + u64::from(self.byte()?) + 192,
            255 => self.number(4)?,
        };
        // A number of at most 4 bytes, so the cast is lossless.
        Ok(length as usize)
    }

    fn packet(&mut self) -> Result<Packet<'a>, SignatureError> {
        let is_packet = has_header(self.0);
        let header = self.byte()?;
        if !is_packet {
            return Err(SignatureError::NotOpenPgp);
        }
        let is_new = header & 0x40 != 0;
        let (tag, length) = if is_new {
            let length = match self.byte()? {
                first @ 0..=191 => u64::from(first),
                first @ 192..=223 => {
                    ((u64::from(first) - 192) << 8) + u64::from(self.byte()?) + 192
                }
                224..=254 => return Err(SignatureError::UnknownLength),
                255 => self.number(4)?,
            };
            (header & 0x3f, length)
        } else {
            let length = match header & 3 {
                0 => self.number(1)?,
                1 => self.number(2)?,
                2 => self.number(4)?,
                _ => return Err(SignatureError::UnknownLength),
            };
            (header >> 2 & 0xf, length)
        };
        // A number of at most 4 bytes, so the cast is lossless.
        let body = self.take(length as usize)?;
        Ok(Packet { tag, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &[u8]) -> Vec<Result<Packet<'_>, SignatureError>> {
        packets(file).collect()
    }

    #[test]
    fn both_formats_of_headers() {
        let packet = |tag, body| Ok(Packet { tag, body });
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[0x88, 1, 7]), [packet(2, &[7][..])], "old");
        assert_eq!(read(&[0x89, 0, 1, 7]), [packet(2, &[7][..])], "old, 2");
        assert_eq!(read(&[0xc2, 1, 7]), [packet(2, &[7][..])], "new");
        let mut long = vec![0xc2, 192, 8];
        long.resize(3 + 200, 1);
        assert_eq!(read(&long), [packet(2, &[1; 200][..])], "new, 2");
        let five = [0xc2, 255, 0, 0, 0, 1, 7, 0x88, 0];
        assert_eq!(read(&five), [packet(2, &[7][..]), packet(2, &[][..])]);
    }

    #[test]
    fn an_invalid_packet_is_rejected() {
        for fault in [
            &[0x08, 1, 7][..],
            &[0x8b, 1],
            &[0xc2, 230],
            &[0x88, 2, 7],
            &[0xc2, 255, 255, 255, 255, 255],
            &[0x89, 0],
        ] {
            let packets = read(fault);
            assert!(matches!(packets[..], [Err(_)]), "{fault:?}: {packets:?}");
        }
    }

    #[test]
    fn integers_lose_their_zeros() {
        assert_eq!(Cursor::new(&[0, 9, 1, 2]).integer().unwrap(), [1, 2]);
        assert_eq!(Cursor::new(&[0, 16, 0, 2]).integer().unwrap(), [2]);
        assert_eq!(Cursor::new(&[0, 0]).integer().unwrap(), [0; 0]);
        assert!(Cursor::new(&[0, 9, 1]).integer().is_err());
    }
}
