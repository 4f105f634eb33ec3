//! SCSI vital product data: what a disk says of itself in INQUIRY pages.
//!
//! Formats: SPC-4, section 7.8 (page 0x80 in 7.8.15, page 0x83 in 7.8.5), and
//! SAT-3 table 58 for page 0x89, which carries an ATA disk's IDENTIFY data.
//! A page is at most 64 KiB and comes from the disk, so nothing in it is taken
//! for granted.

/// The header that all pages have.
const HEADER: usize = 4;
/// Where page 0x89 has the 512 bytes of IDENTIFY DEVICE.
const IDENTIFY_OFFSET: usize = 60;

/// What a designator of page 0x83 is made of (its `DESIGNATOR TYPE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    VendorSpecific,
    T10Vendor,
    Eui64,
    Naa,
    Other,
}

/// One name of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Designator<'a> {
    /// How the name was made.
    pub kind: Kind,
    /// Whether it names the disk itself, and not a port or the target.
    pub names_unit: bool,
    /// Whether the bytes are text (code set ASCII), and not binary.
    pub is_text: bool,
    /// Whether the bytes are binary. Both are false for UTF-8 and reserved sets.
    pub is_binary: bool,
    /// The name.
    pub bytes: &'a [u8],
}

/// The body of a page if its code is `page`, cut to the length it states.
fn body(data: &[u8], page: u8) -> Option<&[u8]> {
    let [_, code, high, low, ..] = *data else {
        return None;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let end = (HEADER + length).min(data.len());
    (code == page).then(|| &data[HEADER..end])
}

/// The text of page 0x80 with its padding; some disks end it with NUL bytes.
pub fn unit_serial(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body(page, 0x80)?).into_owned();
    Some(text.trim_end_matches('\0').to_owned())
}

/// The designators of page 0x83, in the disk's order.
pub fn designators(page: &[u8]) -> impl Iterator<Item = Designator<'_>> {
    let mut rest = body(page, 0x83).unwrap_or_default();
    std::iter::from_fn(move || {
        let [code_set, flags, _, length, ..] = *rest else {
            return None;
        };
        let bytes = rest.get(HEADER..HEADER + usize::from(length))?;
        rest = &rest[HEADER + bytes.len()..];
        Some(Designator {
            kind: match flags & 0x0f {
                0 => Kind::VendorSpecific,
                1 => Kind::T10Vendor,
                2 => Kind::Eui64,
                3 => Kind::Naa,
                _ => Kind::Other,
            },
            names_unit: flags & 0x30 == 0,
            is_text: code_set & 0x0f == 2,
            is_binary: code_set & 0x0f == 1,
            bytes,
        })
    })
}

/// The body of a page 0x83 as disks before SPC-3 had it: no designators, all
/// of it one binary name. They are told by byte 6, which is reserved since.
pub fn pre_spc3_name(page: &[u8]) -> Option<&[u8]> {
    let body = body(page, 0x83)?;
    (body.get(2).is_some_and(|&reserved| reserved != 0)).then_some(body)
}

/// What an ATA disk says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtaIdentity {
    /// 20 characters with their padding.
    pub serial: String,
    /// 40 characters with their padding.
    pub model: String,
    /// The World Wide Name, if it has one.
    pub wwn: Option<u64>,
}

/// IDENTIFY data within page 0x89 (ACS-3, 7.12): words are little-endian, but
/// text has its first character in the high byte.
pub fn ata_information(page: &[u8]) -> Option<AtaIdentity> {
    let identify = page
        .get(IDENTIFY_OFFSET..)?
        .first_chunk::<512>()
        .filter(|_| page.get(1) == Some(&0x89))?;
    let text = |first: usize, last: usize| {
        let bytes: Vec<u8> = identify[2 * first..2 * (last + 1)]
            .chunks_exact(2)
            .flat_map(|word| [word[1], word[0]])
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let wwn = (108..=111).fold(0, |wwn: u64, word| {
        wwn << 16
            | u64::from(u16::from_le_bytes([
                identify[2 * word],
                identify[2 * word + 1],
            ]))
    });
    Some(AtaIdentity {
        serial: text(10, 19),
        model: text(27, 46),
        // NAA 5, IEEE registered: the only kind that ATA knows.
        wwn: (wwn >> 60 == 5).then_some(wwn),
    })
}

/// The same from page 0x83, where SAT puts an ATA disk's model and serial
/// number into one T10 designator.
pub fn ata_designators(page: &[u8]) -> Option<AtaIdentity> {
    let text = designators(page)
        .find(|d| d.kind == Kind::T10Vendor && d.names_unit && d.bytes.starts_with(b"ATA     "))?;
    let text = text.bytes.get(8..68)?;
    Some(AtaIdentity {
        serial: String::from_utf8_lossy(&text[40..]).into_owned(),
        model: String::from_utf8_lossy(&text[..40]).into_owned(),
        wwn: designators(page)
            .filter(|d| d.kind == Kind::Naa && d.names_unit && d.is_binary)
            .filter_map(|d| Some(u64::from_be_bytes(*d.bytes.first_chunk()?)))
            .find(|wwn| wwn >> 60 == 5),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A page with this code and body.
    fn page(code: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[0, code][..], &length, body].concat()
    }

    #[test]
    fn serial_number_keeps_blanks_and_loses_nul() {
        assert_eq!(
            unit_serial(&page(0x80, b"a b/c ")).as_deref(),
            Some("a b/c ")
        );
        assert_eq!(unit_serial(&page(0x80, b"SN1\0\0")).as_deref(), Some("SN1"));
        assert_eq!(unit_serial(&page(0x83, b"SN1")), None, "another page");
        assert_eq!(unit_serial(b"\0\x80\0"), None);
        let mut longer = page(0x80, b"SN1");
        longer.extend(b"beyond");
        assert_eq!(unit_serial(&longer).as_deref(), Some("SN1"));
    }

    #[test]
    fn designators_of_a_disk_with_a_port_name() {
        let body = [
            &b"\x02\x00\x00\x0a0123456789"[..],
            b"\x01\x03\x00\x08\x50\x00\xc5\x00\xaa\xbb\xcc\xdd",
            b"\x61\x93\x00\x08\x50\x00\xc5\x00\xaa\xbb\xcc\xde",
            b"\x03\x08\x00\x04iqn.",
        ]
        .concat();
        let data = page(0x83, &body);
        let all: Vec<_> = designators(&data).collect();
        assert_eq!(all.len(), 4);
        assert_eq!((all[0].kind, all[0].is_text), (Kind::VendorSpecific, true));
        assert_eq!((all[1].kind, all[1].is_binary), (Kind::Naa, true));
        assert!(all[1].names_unit && !all[2].names_unit);
        assert_eq!(all[3].kind, Kind::Other);
        assert!(!all[3].is_text && !all[3].is_binary);
        assert_eq!(pre_spc3_name(&data), None);
    }

    #[test]
    fn broken_designators_end_the_page() {
        for body in [&b"\x01\x03\x00\x08\x50"[..], b"\x01\x03\x00", b""] {
            assert_eq!(designators(&page(0x83, body)).count(), 0, "{body:?}");
        }
    }

    #[test]
    fn old_pages_are_one_name() {
        let data = page(0x83, b"\x20\x11\x22\x33\x44\x55\x66\x77");
        assert_eq!(pre_spc3_name(&data).map(<[u8]>::len), Some(8));
    }

    #[test]
    fn ata_disk_by_either_page() {
        let mut identify = vec![0; 512];
        let mut put = |first: usize, text: &str| {
            for (index, pair) in text.as_bytes().chunks_exact(2).enumerate() {
                identify[2 * first + 2 * index] = pair[1];
                identify[2 * first + 2 * index + 1] = pair[0];
            }
        };
        put(10, &format!("{:<20}", "S3Z8NB0K123456"));
        put(27, &format!("{:<40}", "Samsung SSD 860 EVO 500GB"));
        for (word, value) in (108..).zip([0x5002u16, 0x538e, 0x4012, 0x3456]) {
            identify[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
        }
        let by_89 = ata_information(&page(0x89, &[vec![0; 56], identify].concat())).unwrap();
        let text = format!(
            "ATA     {:<40}{:<20}",
            "Samsung SSD 860 EVO 500GB", "S3Z8NB0K123456"
        );
        let body = [
            &b"\x02\x01\x00\x44"[..],
            text.as_bytes(),
            b"\x01\x03\x00\x08\x50\x02\x53\x8e\x40\x12\x34\x56",
        ]
        .concat();
        let by_83 = ata_designators(&page(0x83, &body)).unwrap();
        assert_eq!(by_89, by_83);
        assert_eq!(by_89.wwn, Some(0x5002_538e_4012_3456));
        assert_eq!(by_89.serial.trim_end(), "S3Z8NB0K123456");
    }

    #[test]
    fn ata_disk_without_a_name_of_its_own() {
        let identity = ata_information(&page(0x89, &[0; 568])).unwrap();
        assert_eq!(identity.wwn, None);
        assert_eq!(ata_information(&page(0x89, &[0; 500])), None);
        assert_eq!(ata_information(&page(0x83, &[0; 568])), None);
        assert_eq!(
            ata_designators(&page(0x83, b"\x02\x01\x00\x08ATA     ")),
            None
        );
    }

    proptest! {
        #[test]
        fn any_page_is_read_without_panic(data in prop::collection::vec(any::<u8>(), 0..700), code in prop::sample::select(vec![0x80u8, 0x83, 0x89])) {
            let mut data = data;
            if data.len() > 1 {
                data[1] = code;
            }
            let bytes: usize = designators(&data).map(|d| d.bytes.len()).sum();
            prop_assert!(bytes <= data.len());
            let _ = (unit_serial(&data), pre_spc3_name(&data), ata_information(&data), ata_designators(&data));
        }
    }
}
