//! Which device an argument means.

use crate::mac::MacAddr;

/// The kernel keeps names of at most 15 bytes (IFNAMSIZ, with its NUL).
const MAX_NAME: usize = 15;

/// A device as an argument names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// By the kernel's name of the interface.
    Name(String),
    /// By hardware address.
    Mac(MacAddr),
    /// By a text that can be neither. NetworkManager then takes the first
    /// profile there is, or makes one that fits any device.
    Invalid(String),
}

impl DeviceSpec {
    /// Tells a name from an address. Every text without `:` of the right
    /// length is a name first, as in NetworkManager; an Ethernet address is
    /// too long for that.
    pub fn parse(text: &str) -> DeviceSpec {
        if is_interface_name(text) {
            return DeviceSpec::Name(text.to_owned());
        }
        match text.parse() {
            Ok(mac) => DeviceSpec::Mac(mac),
            Err(_) => DeviceSpec::Invalid(text.to_owned()),
        }
    }
}

/// What the kernel's `dev_valid_name()` lets pass.
pub fn is_interface_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME
        && text != "."
        && text != ".."
        && !text.contains(|c: char| c == '/' || c == ':' || c.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("a/b", invalid("a/b")),
            ("a b", invalid("a b")),
        ] {
            assert_eq!(DeviceSpec::parse(text), expected, "{text:?}");
        }
    }
}
