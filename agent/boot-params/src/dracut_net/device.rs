//! The device that an argument names.

use crate::cmdline::Token;
use crate::mac::{InfinibandAddr, MacAddr};

/// The kernel limits interface names to 15 bytes (IFNAMSIZ includes a NUL).
const MAX_NAME: usize = 15;

/// A device as an argument names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    Name(String),
    Mac(MacAddr),
    /// The hardware address of an InfiniBand port.
    Infiniband(InfinibandAddr),
    /// A text that is neither a name nor an address. NetworkManager then applies the
    /// argument to the first profile, or creates a profile that matches any device.
    Invalid(String),
}

impl DeviceSpec {
    /// Distinguishes names from addresses. As in NetworkManager, any text that is a
    /// valid interface name counts as a name. A full Ethernet address is too long for a
    /// name.
    pub fn parse(text: &str) -> DeviceSpec {
        if is_interface_name(text) {
            return DeviceSpec::Name(text.to_owned());
        }
        let mac = text.parse().map(DeviceSpec::Mac);
        mac.or_else(|_| text.parse().map(DeviceSpec::Infiniband))
            .unwrap_or_else(|_| DeviceSpec::Invalid(text.to_owned()))
    }

    /// Parses the device of an argument and warns if the text is neither a name nor an
    /// address. Returns `None` if the caller must ignore the argument.
    pub(super) fn parse_reporting(
        text: &str,
        token: &Token,
        warnings: &mut Vec<String>,
    ) -> Option<DeviceSpec> {
        let device = DeviceSpec::parse(text);
        warnings.extend(device.warning(token));
        (!device.cannot_exist()).then_some(device)
    }

    /// The warning about a text that is neither a name nor an address; `None` for a name
    /// and for an address.
    pub(super) fn warning(&self, token: &Token) -> Option<String> {
        let DeviceSpec::Invalid(found) = self else {
            return None;
        };
        let effect = if self.cannot_exist() {
            "ignored"
        } else {
            "the first interface is used"
        };
        Some(format!(
            "{}: expected an interface name or a MAC address, found {found:?}; {effect}",
            token.text
        ))
    }

    /// True if NetworkManager accepts the text as a name or an address, but no device can
    /// have it: `all`, `default`, `bonding_masters`, a name with `%`, or an address that
    /// has neither the length of an Ethernet address nor that of an InfiniBand address.
    /// NetworkManager drops the profile of such a device.
    pub fn cannot_exist(&self) -> bool {
        let DeviceSpec::Invalid(text) = self else {
            return false;
        };
        let is_byte = |word: &str| {
            (1..=2).contains(&word.len()) && word.bytes().all(|c| c.is_ascii_hexdigit())
        };
        let is_address = text.split(['-', ':']).all(is_byte);
        is_address || RESERVED[2..].contains(&text.as_str()) || text.contains('%')
    }
}

/// Names that no interface can have: each is a directory of `/proc/sys/net/ipv4/conf` or
/// a file in `/sys/class/net`.
const RESERVED: [&str; 5] = [".", "..", "all", "default", "bonding_masters"];

/// True for names that the kernel's `dev_valid_name()` accepts, except reserved names,
/// names with `%` (the kernel replaces `%d` by a number), and names with control
/// characters. A JSON document can contain control characters, and the kernel ends a name
/// at NUL.
pub fn is_interface_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME
        && !RESERVED.contains(&text)
        && !text
            .contains(|c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_no_part_of_a_name() {
        for text in ["eth0\0", "eth0\n", "e\u{1b}0", "e\u{85}", "e\u{2028}"] {
            assert!(!is_interface_name(text), "{text:?}");
        }
        assert!(is_interface_name("bond\u{f6}"));
    }

    #[test]
    fn names_addresses_and_neither() {
        let name = |text: &str| DeviceSpec::Name(text.to_owned());
        let invalid = |text: &str| DeviceSpec::Invalid(text.to_owned());
        let mac = DeviceSpec::Mac(MacAddr([0x52, 0x54, 0, 0, 0, 1]));
        for (text, expected) in [
            ("eth0", name("eth0")),
            ("enp0s31f6d1.4094", invalid("enp0s31f6d1.4094")),
            ("enp0s31f6.4094a", name("enp0s31f6.4094a")),
            ("52-54-00-00-00-01", mac.clone()),
            ("52:54:00:00:00:01", mac.clone()),
            ("5:54:0:0:0", invalid("5:54:0:0:0")),
            ("5-4-0-0-0-1", name("5-4-0-0-0-1")),
            ("..", invalid("..")),
            ("all", invalid("all")),
            ("eth%d", invalid("eth%d")),
            ("a/b", invalid("a/b")),
            ("a b", invalid("a b")),
            (
                "80-00-02-08-fe-80-00-00-00-00-00-00-00-02-c9-03-00-12-34-57",
                DeviceSpec::Infiniband(InfinibandAddr([
                    0x80, 0, 2, 8, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0x12, 0x34, 0x57,
                ])),
            ),
        ] {
            assert_eq!(DeviceSpec::parse(text), expected, "{text:?}");
        }
    }
}
