//! Parses the type-length-value elements of an LLDP frame (IEEE 802.1AB 8.4).

use std::time::Duration;

/// The type has 7 bits, the length 9.
const LENGTH_BITS: u32 = 9;
/// One element: its type, and its value as hexadecimal digits. Ironic stores elements in
/// this form and decodes them itself.
pub type Tlv = (u8, String);

/// The elements of a frame without its Ethernet header. As in Ironic's agent, the last
/// element may be incomplete, and padding after the end element is parsed as further end
/// elements.
pub fn parse(mut frame: &[u8]) -> Vec<Tlv> {
    let mut elements = Vec::new();
    while let Some((header, rest)) = frame.split_first_chunk::<2>() {
        let header = u16::from_be_bytes(*header);
        let length = usize::from(header & ((1 << LENGTH_BITS) - 1));
        let value = &rest[..length.min(rest.len())];
        let digits = value.iter().map(|byte| format!("{byte:02x}")).collect();
        // The cast is lossless: the header has 16 bits, and 9 of them are the length, so
        // the type has 7 bits.
        elements.push(((header >> LENGTH_BITS) as u8, digits));
        frame = &rest[value.len()..];
    }
    elements
}

const TIME_TO_LIVE: u8 = 3;

/// In characters. A longer name of a switch or port is cut.
const LONGEST_NAME: usize = 40;
/// In characters: two names, and ` port ` between them.
pub(super) const LONGEST_SWITCH: usize = 2 * LONGEST_NAME + 6;

/// How long the elements of a frame are valid, from its element "time to live". If the
/// frame lacks that element, although the standard requires it, the default of IEEE
/// 802.1AB 9.2.5 applies: four times 30 s.
pub fn time_to_live(elements: &[Tlv]) -> Duration {
    let given = elements.iter().find(|(kind, _)| *kind == TIME_TO_LIVE);
    let seconds = given.and_then(|(_, digits)| u16::from_str_radix(digits.get(..4)?, 16).ok());
    Duration::from_secs(seconds.unwrap_or(120).into())
}

/// The switch that sent a frame, and its port: `switch3 port Ethernet1/7`. `None` if the
/// frame lacks the switch or the port, or if the time to live is zero, because a switch
/// sends such a frame before it shuts down.
pub fn switch_in_words(elements: &[Tlv]) -> Option<String> {
    const CHASSIS: u8 = 1;
    const PORT: u8 = 2;
    const PORT_DESCRIPTION: u8 = 4;
    const SYSTEM_NAME: u8 = 5;
    let bytes = |wanted: u8| {
        let (_, digits) = elements.iter().find(|(kind, _)| *kind == wanted)?;
        let bytes = { digits.as_bytes().chunks(2) }
            .filter_map(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        Some(bytes.collect::<Vec<u8>>()).filter(|bytes| !bytes.is_empty())
    };
    if bytes(TIME_TO_LIVE).is_some_and(|seconds| seconds == [0, 0]) {
        return None;
    }
    let name = bytes(SYSTEM_NAME).map(|name| text(&name));
    let name = name.or_else(|| Some(identifier(&bytes(CHASSIS)?, 4)))?;
    // The name of the port (subtypes 1 and 5) is the most useful text, then the port
    // description, then an address or a number.
    let by_name = bytes(PORT).filter(|port| matches!(port[0], 1 | 5));
    let port = by_name.map(|port| identifier(&port, 3));
    let port = port.or_else(|| Some(text(&bytes(PORT_DESCRIPTION)?)));
    let port = port.or_else(|| Some(identifier(&bytes(PORT)?, 3)))?;
    Some(format!("{name} port {port}"))
}

/// Formats an identifier, whose first byte is its subtype. If the subtype is `mac`,
/// the identifier is a MAC address (IEEE 802.1AB 8.5.2.2 and 8.5.3.2).
fn identifier(value: &[u8], mac: u8) -> String {
    match value.split_first() {
        Some((subtype, address)) if *subtype == mac => {
            let digits: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
            digits.join(":").chars().take(LONGEST_NAME).collect()
        }
        Some((_, name)) => text(name),
        None => String::new(),
    }
}

/// Removes control characters, and cuts the text to [`LONGEST_NAME`]. The console shows
/// the text, and `Frame::is_plausible` rejects a text that contains control characters.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(LONGEST_NAME).collect()
}

/// The VLAN tags in a frame (IEEE 802.1Q annex D, "VLAN Name"), each tag once.
pub fn vlan_tags(elements: &[Tlv]) -> Vec<u16> {
    /// The type of organisationally specific elements. `VLAN_NAME` is the identifier of
    /// IEEE 802.1 with subtype 3.
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
    fn a_switch_and_its_port_in_words() {
        fn element(kind: u8, value: &[u8]) -> Tlv {
            let digits = value.iter().map(|byte| format!("{byte:02x}"));
            (kind, digits.collect())
        }
        let chassis = || element(1, &[4, 0x52, 0x54, 0, 0, 0, 1]);
        let by_mac = || element(2, &[3, 0x52, 0x54, 0, 0, 0, 2]);
        let by_name = || element(2, b"\x05Ethernet1/7");
        let table = [
            (
                vec![chassis(), by_name(), element(5, b"switch3")],
                Some("switch3 port Ethernet1/7"),
            ),
            (
                vec![chassis(), by_mac()],
                Some("52:54:00:00:00:01 port 52:54:00:00:00:02"),
            ),
            (
                vec![chassis(), by_mac(), element(4, b"ge-0/0/3")],
                Some("52:54:00:00:00:01 port ge-0/0/3"),
            ),
            (
                vec![chassis(), by_name(), element(5, b"switch3\x1b[2J\n\0")],
                Some("switch3[2J port Ethernet1/7"),
            ),
            (vec![chassis(), by_name(), element(3, &[0, 0])], None),
            (vec![chassis()], None),
            (vec![element(1, &[]), element(2, &[])], None),
            (vec![], None),
        ];
        for (elements, expected) in table {
            let words = switch_in_words(&elements);
            assert_eq!(words.as_deref(), expected, "{elements:?}");
        }
        let long = switch_in_words(&[chassis(), by_name(), element(5, &[b'x'; 400])]).unwrap();
        assert!(long.len() < 80, "{long}");
    }

    #[test]
    fn a_time_to_live_in_seconds() {
        for (digits, seconds) in [
            (Some("0000"), 0),
            (Some("0078"), 120),
            (Some("ffff"), 65535),
            (Some("00"), 120),
            (None, 120),
        ] {
            let elements: Vec<Tlv> = digits.map(|d| (3, d.to_owned())).into_iter().collect();
            assert_eq!(time_to_live(&elements).as_secs(), seconds, "{digits:?}");
        }
    }

    proptest! {
        #[test]
        fn no_frame_stops_the_reader(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
            time_to_live(&parse(&frame));
            switch_in_words(&parse(&frame));
        }
    }

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
