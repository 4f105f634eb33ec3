//! The logical unit number in the firmware's table, as the kernel prints it.

use std::fmt;

/// The 64 bits of a LUN (SAM-5, 4.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lun([u8; 8]);

impl Lun {
    /// Reads the file `lun` of `/sys/firmware/ibft/targetN`.
    ///
    /// The kernel prints each of the eight bytes with `%x` (iscsi_ibft.c). A byte
    /// below 16 therefore has only one digit, and the text alone does not show where a
    /// byte begins. In a LUN with one level, the last six bytes are zero, so only the
    /// first two bytes must be separated. A leading zero is the first byte of a LUN
    /// below 256. Any other digit begins the first byte of the flat addressing method,
    /// which has two digits.
    pub fn from_firmware(text: &str) -> Option<Self> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let hex = |digits: &str| u8::from_str_radix(digits, 16).ok();
        if text.len() == 16 {
            let mut bytes = [0; 8];
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = hex(text.get(2 * index..2 * index + 2)?)?;
            }
            return Some(Self(bytes));
        }
        let level = text.strip_suffix("000000")?;
        let first = match level.len() {
            2 => 1,
            3 if level.starts_with('0') => 1,
            3 | 4 => 2,
            _ => return None,
        };
        let (first, second) = level.split_at(first);
        Some(Self([hex(first)?, hex(second)?, 0, 0, 0, 0, 0, 0]))
    }

    /// The LUN as the kernel's integer (`scsilun_to_int` of scsi_common.c).
    pub fn number(self) -> u64 {
        let level =
            |index: usize| u64::from(u16::from_be_bytes([self.0[index], self.0[index + 1]]));
        (0..4).map(|place| level(2 * place) << (16 * place)).sum()
    }
}

impl fmt::Display for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read_back() {
        for (bytes, number) in [
            ([0, 0, 0, 0, 0, 0, 0, 0], 0),
            ([0, 1, 0, 0, 0, 0, 0, 0], 1),
            ([0, 0x10, 0, 0, 0, 0, 0, 0], 16),
            ([0, 0xff, 0, 0, 0, 0, 0, 0], 255),
            ([0x40, 1, 0, 0, 0, 0, 0, 0], 0x4001),
            ([0x41, 0x23, 0, 0, 0, 0, 0, 0], 0x4123),
            (
                [0x7f, 0xff, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15],
                0x1415_1213_1011_7fff,
            ),
        ] {
            let text: String = bytes.iter().map(|byte: &u8| format!("{byte:x}")).collect();
            assert_eq!(
                Lun::from_firmware(&text).map(Lun::number),
                Some(number),
                "{text}"
            );
        }
    }

    #[test]
    fn an_ambiguous_or_invalid_lun_is_rejected() {
        for text in [
            "",
            "0",
            "00",
            "000000",
            "0x1",
            "00110000000",
            "1122334455",
            "zz000000",
        ] {
            assert_eq!(Lun::from_firmware(text), None, "{text}");
        }
    }
}
