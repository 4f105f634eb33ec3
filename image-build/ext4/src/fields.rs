//! Reads and writes little-endian numbers in blocks, whose lengths the callers check.
//!
//! A field beyond the end of a damaged block reads as 0. Writing beyond the end panics:
//! to drop a number silently would damage the file system. At the time of the panic, no
//! change has been written to the image.

use landfall_media_formats::little_endian;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    little_endian::u16_at(bytes, at).unwrap_or_default()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    little_endian::u32_at(bytes, at).unwrap_or_default()
}

/// A number whose halves of 16 bits are in different places. Without `high`, its upper
/// half is 0.
pub(crate) fn u32_in_halves(bytes: &[u8], low: usize, high: Option<usize>) -> u32 {
    let high = high.map_or(0, |at| u16_at(bytes, at));
    u32::from(u16_at(bytes, low)) | u32::from(high) << 16
}

/// A number whose halves of 32 bits are in different places. Without `high`, its upper
/// half is 0.
pub(crate) fn u64_in_halves(bytes: &[u8], low: usize, high: Option<usize>) -> u64 {
    let high = high.map_or(0, |at| u32_at(bytes, at));
    u64::from(u32_at(bytes, low)) | u64::from(high) << 32
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32_in_halves(bytes: &mut [u8], low: usize, high: Option<usize>, value: u32) {
    put_u16(bytes, low, low_half(value));
    if let Some(at) = high {
        put_u16(bytes, at, low_half(value >> 16));
    }
}

pub(crate) fn put_u64_in_halves(bytes: &mut [u8], low: usize, high: Option<usize>, value: u64) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    bytes[low..low + 4].copy_from_slice(&[a, b, c, d]);
    if let Some(at) = high {
        bytes[at..at + 4].copy_from_slice(&[e, f, g, h]);
    }
}

/// The lower 16 bits.
pub(crate) fn low_half(value: u32) -> u16 {
    let [a, b, _, _] = value.to_le_bytes();
    u16::from_le_bytes([a, b])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_beyond_the_end_reads_as_zero() {
        let bytes = [1, 2, 3, 4, 5];
        assert_eq!(u16_at(&bytes, 3), 0x0504);
        assert_eq!(u32_at(&bytes, 1), 0x0504_0302);
        assert_eq!((u16_at(&bytes, 4), u32_at(&bytes, 2)), (0, 0));
    }

    #[test]
    fn numbers_in_halves_come_back() {
        let mut bytes = [0; 16];
        put_u64_in_halves(&mut bytes, 0, Some(8), 0x0102_0304_0506_0708);
        assert_eq!(bytes[..4], [8, 7, 6, 5]);
        assert_eq!(bytes[8..12], [4, 3, 2, 1]);
        assert_eq!(u64_in_halves(&bytes, 0, Some(8)), 0x0102_0304_0506_0708);
        assert_eq!(u64_in_halves(&bytes, 0, None), 0x0506_0708);
        put_u32_in_halves(&mut bytes, 4, Some(12), 0xaabb_ccdd);
        assert_eq!(bytes[4..6], [0xdd, 0xcc]);
        assert_eq!(u32_in_halves(&bytes, 4, Some(12)), 0xaabb_ccdd);
        assert_eq!(u32_in_halves(&bytes, 4, None), 0xccdd);
    }
}
