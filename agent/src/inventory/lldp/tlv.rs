//! The type-length-value elements of an LLDP frame (IEEE 802.1AB 8.4).

/// Types are 7 bits, lengths 9.
const LENGTH_BITS: u32 = 9;
/// Organizationally specific (IEEE 802.1AB 8.6).
const ORGANIZATIONALLY_SPECIFIC: u8 = 127;
/// The organization IEEE 802.1 with its subtype "VLAN name" (802.1Q annex D.2).
const VLAN_NAME: [u8; 4] = [0x00, 0x80, 0xc2, 3];

/// One element: its type, and its value in hexadecimal digits. Ironic stores
/// it like this and decodes it itself.
pub type Tlv = (u8, String);

/// The elements of a frame without its Ethernet header. The last one may be cut
/// short, as in the original; what comes after the end-of-frame element is
/// padding, which the original reads as further ends.
pub fn parse(mut frame: &[u8]) -> Vec<Tlv> {
    let mut elements = Vec::new();
    while let Some((header, rest)) = frame.split_first_chunk::<2>() {
        let header = u16::from_be_bytes(*header);
        let length = usize::from(header & ((1 << LENGTH_BITS) - 1));
        let value = &rest[..length.min(rest.len())];
        let digits = value.iter().map(|byte| format!("{byte:02x}")).collect();
        // 16 bits less 9 leave 7.
        elements.push(((header >> LENGTH_BITS) as u8, digits));
        frame = &rest[value.len()..];
    }
    elements
}

/// The VLANs that the neighbour names, in the order of the frame.
pub fn vlans(elements: &[Tlv]) -> Vec<u16> {
    let prefix: String = VLAN_NAME.iter().map(|byte| format!("{byte:02x}")).collect();
    elements
        .iter()
        .filter(|(kind, _)| *kind == ORGANIZATIONALLY_SPECIFIC)
        .filter_map(|(_, digits)| {
            u16::from_str_radix(digits.strip_prefix(&prefix)?.get(..4)?, 16).ok()
        })
        .filter(|id| (1..=4094).contains(id))
        .collect()
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
    fn vlans_are_those_of_the_8021_organization() {
        let element = |kind, text: &str| (kind, text.to_owned());
        for (elements, expected) in [
            (vec![element(127, "0080c20300640476313030")], vec![100]),
            (
                vec![
                    element(127, "0080c2030ffe00"),
                    element(127, "0080c203000500"),
                ],
                vec![4094, 5],
            ),
            (vec![element(127, "0080c2010064")], vec![]),
            (vec![element(127, "00120f030064")], vec![]),
            (vec![element(5, "0080c2030064")], vec![]),
            (vec![element(127, "0080c20300")], vec![]),
            (vec![element(127, "0080c2030000")], vec![]),
            (vec![element(127, "0080c2030fff")], vec![]),
        ] {
            assert_eq!(vlans(&elements), expected, "{elements:?}");
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_read_twice(frame in prop::collection::vec(any::<u8>(), 0..1600)) {
            let elements = parse(&frame);
            let bytes: usize = elements.iter().map(|(_, digits)| 2 + digits.len() / 2).sum();
            prop_assert!(bytes <= frame.len() && bytes + 1 >= frame.len());
            let _ = vlans(&elements);
        }
    }
}
