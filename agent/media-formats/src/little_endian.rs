//! Reads little-endian numbers at an offset in a slice.
//!
//! Every function returns `None` if the bytes end before the number ends. So the readers
//! of damaged disks, media and firmware tables need no length checks of their own.

/// The number at byte `at`.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number at byte `at`.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number at byte `at`.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// All 16-bit numbers from the start, as UTF-16 text is stored. If the number of bytes is
/// odd, the last byte is ignored.
pub fn all_u16(bytes: &[u8]) -> impl Iterator<Item = u16> {
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs.iter().map(|pair| u16::from_le_bytes(*pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_only() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(u16_at(&bytes, 7), Some(0x0908));
        assert_eq!(u32_at(&bytes, 5), Some(0x0908_0706));
        assert_eq!(u64_at(&bytes, 1), Some(0x0908_0706_0504_0302));
        for at in [8, 9, 10, usize::MAX] {
            assert_eq!(u16_at(&bytes, at), None, "{at}");
            assert_eq!(u32_at(&bytes, at), None, "{at}");
            assert_eq!(u64_at(&bytes, at), None, "{at}");
        }
        assert_eq!(all_u16(&bytes[..5]).collect::<Vec<_>>(), [0x0201, 0x0403]);
    }
}
