//! Parses the SMBIOS structure table, in which the firmware describes the parts of
//! the machine.
//!
//! Format: DMTF DSP0134, section 6.1. A structure is a header (type, length of the
//! formatted part, handle), the formatted part, and texts that end with two NUL bytes.

use landfall_media_formats::little_endian;

/// The end-of-table structure (DSP0134 7.45); only padding follows.
const END_OF_TABLE: u8 = 127;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structure<'a> {
    /// The structure type: what the structure describes.
    pub kind: u8,
    /// Other structures refer to this one by its handle.
    pub handle: u16,
    /// The formatted part, including the header, so that offsets equal those in the
    /// standard.
    data: &'a [u8],
}

impl Structure<'_> {
    /// The byte at this offset; `None` if the version of the firmware lacks it.
    pub fn byte(&self, offset: usize) -> Option<u8> {
        self.data.get(offset).copied()
    }

    /// The 16-bit number at this offset; `None` if the structure is shorter.
    pub fn word(&self, offset: usize) -> Option<u16> {
        little_endian::u16_at(self.data, offset)
    }

    /// The 32-bit number at this offset; `None` if the structure is shorter.
    pub fn double_word(&self, offset: usize) -> Option<u32> {
        little_endian::u32_at(self.data, offset)
    }
}

/// The structures of a table in the format of /sys/firmware/dmi/tables/DMI. The
/// iterator ends at the end-of-table structure, or at the first broken structure.
pub fn structures(table: &[u8]) -> impl Iterator<Item = Structure<'_>> {
    let mut rest = table;
    std::iter::from_fn(move || {
        let [kind, length, handle_low, handle_high, ..] = *rest else {
            return None;
        };
        // The length includes the header, so less than 4 bytes is invalid.
        let data = rest.get(..usize::from(length)).filter(|_| length >= 4)?;
        let strings = &rest[data.len()..];
        let end = strings.windows(2).position(|pair| pair == [0, 0]);
        rest = match end {
            Some(end) if kind != END_OF_TABLE => &strings[end + 2..],
            _ => &[],
        };
        Some(Structure {
            kind,
            handle: u16::from_le_bytes([handle_low, handle_high]),
            data,
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn structure(kind: u8, handle: u16, body: &[u8], strings: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind, u8::try_from(body.len() + 4).unwrap()];
        bytes.extend(handle.to_le_bytes());
        bytes.extend(body);
        bytes.extend(strings);
        bytes.extend(if strings.is_empty() {
            &[0, 0][..]
        } else {
            &[0]
        });
        bytes
    }

    #[test]
    fn reads_structures_one_after_the_other() {
        let table = [
            structure(1, 0x100, &[7, 0x34, 0x12, 1, 2, 3, 4], b"Rocket\0SN\0"),
            structure(17, 0x1100, &[], b""),
            structure(END_OF_TABLE, 0xfeff, &[], b""),
            structure(1, 1, &[], b""),
        ]
        .concat();
        let all: Vec<_> = structures(&table).collect();
        assert_eq!(all.len(), 3, "nothing after the end");
        assert_eq!((all[0].kind, all[0].handle), (1, 0x100));
        assert_eq!(all[0].byte(4), Some(7));
        assert_eq!(all[0].word(5), Some(0x1234));
        assert_eq!(all[0].double_word(7), Some(0x0403_0201));
        assert_eq!(all[0].byte(11), None, "that would be the text");
        assert_eq!(all[0].double_word(8), None);
        assert_eq!((all[1].kind, all[1].handle), (17, 0x1100));
    }

    #[test]
    fn broken_tables_end_early() {
        let whole = structure(17, 1, &[1, 2, 3], b"");
        for table in [
            &[][..],
            &whole[..3],
            &whole[..5],
            &[17, 3, 0, 0, 0, 0],
            &[17, 0, 0, 0, 0, 0],
            &[17, 200, 0, 0, 0, 0],
        ] {
            assert_eq!(structures(table).count(), 0, "{table:?}");
        }
        assert_eq!(
            structures(&whole[..7]).count(),
            1,
            "only the end is missing"
        );
    }

    proptest! {
        #[test]
        fn written_structures_are_read_back(parts in prop::collection::vec((0u8..127, any::<u16>(), prop::collection::vec(any::<u8>(), 0..200), "[a-z]{0,9}"), 0..20)) {
            let table: Vec<u8> = parts.iter().flat_map(|(kind, handle, body, text)| {
                let strings = if text.is_empty() { vec![] } else { [text.as_bytes(), b"\0"].concat() };
                structure(*kind, *handle, body, &strings)
            }).collect();
            let read: Vec<_> = structures(&table).map(|s| (s.kind, s.handle, s.data[4..].to_vec())).collect();
            let written: Vec<_> = parts.iter().map(|(kind, handle, body, _)| (*kind, *handle, body.clone())).collect();
            prop_assert_eq!(read, written);
        }
    }
}
