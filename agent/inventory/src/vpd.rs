//! Parses SCSI vital product data, the INQUIRY pages in which a disk describes
//! itself.
//!
//! Formats: SPC-4, section 7.8 (page 0 in 7.8.14, 0x80 in 7.8.15, 0x83 in 7.8.5). A page
//! is at most 64 KiB. The disk provides the page, so its content is not trusted.

/// Length in bytes of the header that all pages have.
const HEADER: usize = 4;

/// The `DESIGNATOR TYPE` of a designator in page 0x83.
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
    pub kind: Kind,
    /// Whether the designator names the disk itself, not a port or the target.
    pub names_unit: bool,
    /// Whether the bytes are ASCII text, by their code set.
    pub is_text: bool,
    /// Whether the designator contains binary data. A designator in UTF-8 or with a
    /// reserved code set is neither binary nor ASCII.
    pub is_binary: bool,
    pub bytes: &'a [u8],
}

/// The body of a page if its code is `page`, cut to the length in its header.
fn body(data: &[u8], page: u8) -> Option<&[u8]> {
    let [_, code, high, low, ..] = *data else {
        return None;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let end = (HEADER + length).min(data.len());
    (code == page).then(|| &data[HEADER..end])
}

/// The text of page 0x80 with its padding. NUL bytes, which some disks append, are
/// removed.
pub fn unit_serial(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body(page, 0x80)?).into_owned();
    Some(text.trim_end_matches('\0').to_owned())
}

/// Whether page 0, the list of pages, contains this page.
pub fn lists(page_0: &[u8], page: u8) -> bool {
    body(page_0, 0).is_some_and(|pages| pages.contains(&page))
}

/// The designators of page 0x83, in the order of the page.
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

/// The body of a page 0x83 in the format before SPC-3: one binary name without
/// designators. Byte 6, which newer formats reserve, distinguishes the formats.
pub fn pre_spc3_name(page: &[u8]) -> Option<&[u8]> {
    let body = body(page, 0x83)?;
    (body.get(2).is_some_and(|&reserved| reserved != 0)).then_some(body)
}

#[cfg(test)]
mod tests {

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
    fn page_0_lists_pages() {
        let data = page(0, &[0x00, 0x80, 0xb1]);
        assert!(lists(&data, 0x80) && !lists(&data, 0x83));
        assert!(!lists(&page(0x80, &[0x83]), 0x83), "another page");
        assert!(!lists(&[0, 0, 0, 2, 0, 0x80, 0x83], 0x83), "beyond its end");
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
}
