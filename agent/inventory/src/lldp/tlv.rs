//! Parses the type-length-value elements of an LLDP frame (IEEE 802.1AB 8.4).

/// The type has 7 bits, the length 9.
const LENGTH_BITS: u32 = 9;
/// One element: its type, and its value as hexadecimal digits. Ironic stores
/// elements in this form and decodes them itself.
pub type Tlv = (u8, String);

/// The elements of a frame without its Ethernet header. As in Ironic's agent,
/// the last element may be cut short, and padding after the end element is read as
/// more end elements.
pub fn parse(mut frame: &[u8]) -> Vec<Tlv> {
    let mut elements = Vec::new();
    while let Some((header, rest)) = frame.split_first_chunk::<2>() {
        let header = u16::from_be_bytes(*header);
        let length = usize::from(header & ((1 << LENGTH_BITS) - 1));
        let value = &rest[..length.min(rest.len())];
        let digits = value.iter().map(|byte| format!("{byte:02x}")).collect();
        // The 16 bits less the 9 bits of the length leave 7.
        elements.push(((header >> LENGTH_BITS) as u8, digits));
        frame = &rest[value.len()..];
    }
    elements
}

/// The VLAN tags in a frame (IEEE 802.1Q annex D, "VLAN Name").
pub fn vlan_tags(elements: &[Tlv]) -> Vec<u16> {
    /// Organisationally specific elements. `VLAN_NAME` is the identifier of IEEE
    /// 802.1 with subtype 3.
    const SPECIFIC: u8 = 127;
    const VLAN_NAME: &str = "0080c203";
    /// 0 means no VLAN, and 4095 is reserved.
    const TAGS: std::ops::RangeInclusive<u16> = 1..=4094;
    let mut tags = Vec::new();
    for (kind, digits) in elements {
        let tag = digits
            .strip_prefix(VLAN_NAME)
            .filter(|_| *kind == SPECIFIC)
            .and_then(|rest| u16::from_str_radix(rest.get(..4)?, 16).ok())
            .filter(|tag| TAGS.contains(tag) && !tags.contains(tag));
        tags.extend(tag);
    }
    tags
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_follow_each_other() {
        for (frame, expected) in [
            (vec![], vec![]),
            (vec![0x02], vec![]),
            (
                vec![0x02, 0x03, 4, 5, 6, 0, 0],
                vec![(1, "040506"), (0, "")],
            ),
            (vec![0x02, 0x07, 4, 5], vec![(1, "0405")]),
            (vec![0xff, 0xff, 9], vec![(127, "09")]),
            (vec![0, 0, 0, 0], vec![(0, ""), (0, "")]),
        ] {
            let expected: Vec<Tlv> = expected
                .into_iter()
                .map(|(kind, text): (u8, &str)| (kind, text.to_owned()))
                .collect();
            assert_eq!(parse(&frame), expected, "{frame:?}");
        }
    }

    #[test]
    fn vlans_are_named() {
        let element = |kind, digits: &str| (kind, digits.to_owned());
        for (elements, expected) in [
            (vec![], vec![]),
            (vec![element(127, "0080c203006406766c616e2d31")], vec![100]),
            (
                vec![
                    element(127, "0080c2030fa000"),
                    element(127, "0080c2010064"),
                    element(126, "0080c203006400"),
                    element(127, "0080c203000700"),
                    element(127, "0080c203000700"),
                    element(127, "0080c203000000"),
                    element(127, "0080c2030fff00"),
                    element(127, "0080c20300"),
                ],
                vec![4000, 7],
            ),
        ] {
            assert_eq!(vlan_tags(&elements), expected, "{elements:?}");
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_read_twice(frame in prop::collection::vec(any::<u8>(), 0..1600)) {
            let elements = parse(&frame);
            let _ = vlan_tags(&elements);
            let bytes: usize = elements.iter().map(|(_, digits)| 2 + digits.len() / 2).sum();
            prop_assert!(bytes <= frame.len() && bytes + 1 >= frame.len());
        }
    }
}
