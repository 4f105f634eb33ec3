//! The checksums of ext4 (Documentation/filesystems/ext4/checksums.rst): CRC-32C
//! without the final inversion, so that the result of one part is the start value of
//! the next. The group descriptors of older file systems have CRC-16.

use crc::{Algorithm, CRC_16_MODBUS, CRC_32_ISCSI, Crc};

const WITHOUT_INVERSION: Algorithm<u32> = Algorithm {
    xorout: 0,
    ..CRC_32_ISCSI
};
const CRC32C: Crc<u32> = Crc::<u32>::new(&WITHOUT_INVERSION);
const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_MODBUS);

/// Continues a CRC-32C with more bytes. The first start value is `!0`.
pub(crate) fn crc32c(start: u32, bytes: &[u8]) -> u32 {
    // The crate reverses the bits of the initial value, so reverse them here first.
    let mut digest = CRC32C.digest_with_initial(start.reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

/// The CRC-16 of these parts, one after the other.
pub(crate) fn crc16(parts: &[&[u8]]) -> u16 {
    let mut digest = CRC16.digest();
    for part in parts {
        digest.update(part);
    }
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_continue_one_another() {
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(!crc32c(!0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(crc32c(!0, b"1234"), b"56789"), !0xe306_9283);
        assert_eq!(crc16(&[b"1234", b"56789"]), 0x4b37);
    }
}
