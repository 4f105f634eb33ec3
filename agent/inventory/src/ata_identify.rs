//! Parses the identity of an ATA disk from IDENTIFY DEVICE data and from SCSI pages that
//! contain these data (ACS-3, 7.12; SAT-3, 12.4).
//!
//! The data come from the disk, so they are not trusted.

use landfall_media_formats::little_endian::u16_at;

use super::vpd::{Kind, designators};

/// Length of IDENTIFY data in bytes.
pub const LENGTH: usize = 512;
/// Offset of the IDENTIFY data in page 0x89.
const PAGE_OFFSET: usize = 60;
/// The vendor field that SAT puts before the model and the serial number in page 0x83.
const ATA_VENDOR: &[u8] = b"ATA     ";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtaIdentity {
    /// Up to 20 characters, including the trailing spaces of the padding.
    pub serial: String,
    /// Up to 40 characters, including the trailing spaces of the padding.
    pub model: String,
    /// Up to 8 characters, including the trailing spaces of the padding. `None` if only
    /// page 0x83 is available.
    pub firmware: Option<String>,
    /// The World Wide Name in the format NAA 5; `None` if the disk has no such name.
    pub wwn: Option<u64>,
    /// Whether the disk is a packet device, such as a CD drive.
    pub is_packet_device: bool,
}

/// Parses IDENTIFY data. `None` if there are fewer than [`LENGTH`] bytes, or if all are
/// zero: some USB bridges return only zeros.
pub fn parse(identify: &[u8]) -> Option<AtaIdentity> {
    let identify = identify.first_chunk::<LENGTH>()?;
    if identify.iter().all(|byte| *byte == 0) {
        return None;
    }
    let word = |index: usize| u16_at(identify, 2 * index).unwrap_or_default();
    // Words are little-endian, but a text has its first character in the high byte.
    let text = |first: usize, last: usize| {
        let bytes: Vec<u8> = (first..=last)
            .flat_map(|index| word(index).to_be_bytes())
            .collect();
        // A NUL ends the text, as in C programs.
        let end = bytes.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
    };
    let wwn = (108..=111).fold(0, |wwn: u64, index| wwn << 16 | u64::from(word(index)));
    Some(AtaIdentity {
        serial: text(10, 19),
        firmware: Some(text(23, 26)),
        model: text(27, 46),
        // The name is valid only if it has the format NAA 5 (IEEE registered).
        wwn: (wwn >> 60 == 5).then_some(wwn),
        is_packet_device: word(0) & 0xc000 == 0x8000,
    })
}

/// Parses the identity from page 0x89, which contains the whole IDENTIFY data.
pub fn in_page_89(page: &[u8]) -> Option<AtaIdentity> {
    let identify = page.get(PAGE_OFFSET..)?;
    (page.get(1) == Some(&0x89)).then(|| parse(identify))?
}

/// Parses the identity from page 0x83, where SAT combines model and serial number in one
/// T10 designator.
pub fn in_page_83(page: &[u8]) -> Option<AtaIdentity> {
    let text = designators(page)
        .find(|d| d.kind == Kind::T10Vendor && d.names_unit && d.bytes.starts_with(ATA_VENDOR))?;
    let text = text.bytes.get(8..68)?;
    Some(AtaIdentity {
        serial: String::from_utf8_lossy(&text[40..]).into_owned(),
        model: String::from_utf8_lossy(&text[..40]).into_owned(),
        firmware: None,
        wwn: designators(page)
            .filter(|d| d.kind == Kind::Naa && d.names_unit && d.is_binary)
            .filter_map(|d| Some(u64::from_be_bytes(*d.bytes.first_chunk()?)))
            .find(|wwn| wwn >> 60 == 5),
        // The first byte of every page has the peripheral device type.
        is_packet_device: page.first().is_some_and(|byte| byte & 0x1f == 5),
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    /// A VPD page with this code and body.
    fn page(code: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[0, code][..], &length, body].concat()
    }

    fn identify() -> Vec<u8> {
        let mut identify = vec![0; LENGTH];
        let mut put = |first: usize, text: &str| {
            for (index, pair) in text.as_bytes().chunks_exact(2).enumerate() {
                identify[2 * first + 2 * index] = pair[1];
                identify[2 * first + 2 * index + 1] = pair[0];
            }
        };
        put(10, &format!("{:<20}", "S3Z8NB0K123456"));
        put(23, "RVT01B6Q");
        put(27, &format!("{:<40}", "Samsung SSD 860 EVO 500GB"));
        for (word, value) in (108..).zip([0x5002u16, 0x538e, 0x4012, 0x3456]) {
            identify[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
        }
        identify
    }

    #[test]
    fn one_disk_by_three_ways() {
        let asked = parse(&identify()).unwrap();
        assert_eq!(asked.wwn, Some(0x5002_538e_4012_3456));
        assert_eq!(asked.serial, "S3Z8NB0K123456      ");
        assert_eq!(asked.firmware.as_deref(), Some("RVT01B6Q"));
        let by_89 = in_page_89(&page(0x89, &[vec![0; 56], identify()].concat())).unwrap();
        assert_eq!(by_89, asked);

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
        let by_83 = in_page_83(&page(0x83, &body)).unwrap();
        let without_firmware = AtaIdentity {
            firmware: None,
            ..asked
        };
        assert_eq!(by_83, without_firmware);
    }

    #[test]
    fn invalid_identify_data_is_rejected() {
        assert_eq!(parse(&[0; LENGTH]), None);
        assert_eq!(parse(&[1; LENGTH - 1]), None);
        assert_eq!(in_page_89(&page(0x89, &[1; 500])), None);
        assert_eq!(in_page_89(&page(0x83, &[1; 568])), None);
        assert_eq!(in_page_83(&page(0x83, b"\x02\x01\x00\x08ATA     ")), None);
        let nameless = parse(&[b' '; LENGTH]).unwrap();
        assert_eq!(nameless.wwn, None);
    }

    #[test]
    fn a_text_ends_with_nul() {
        let mut identify = identify();
        identify[2 * 10 + 4] = 0;
        assert_eq!(parse(&identify).unwrap().serial, "S3Z8N");
    }
}
