//! Parses masks and networks in the forms that writers of this format use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use landfall_boot_params::longest_prefix;

/// Parses `192.0.2.10` or `2001:db8::10/64`: an address, and its prefix length if
/// there is one.
pub(super) fn address(text: &str) -> Option<(IpAddr, Option<u8>)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.trim().parse().ok()?;
    let length = match length {
        Some(text) => Some(mask(text, address.is_ipv4())?),
        None => None,
    };
    Some((address, length))
}

/// Parses `255.255.255.0`, `ffff:ffff::` or `24` into a prefix length. `None` for
/// anything else, including masks that are not contiguous.
pub(super) fn mask(text: &str, is_ipv4: bool) -> Option<u8> {
    let text = text.trim();
    let longest = longest_prefix(is_ipv4);
    if !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) {
        return text.parse().ok().filter(|length| *length <= longest);
    }
    let (ones, set) = if is_ipv4 {
        let bits = text.parse::<Ipv4Addr>().ok()?.to_bits();
        (bits.leading_ones(), bits.count_ones())
    } else {
        let bits = text.parse::<Ipv6Addr>().ok()?.to_bits();
        (bits.leading_ones(), bits.count_ones())
    };
    // The cast is lossless: at most 128.
    (ones == set).then_some(ones as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_in_all_forms() {
        for (text, is_ipv4, length) in [
            ("255.255.255.0", true, Some(24)),
            ("0.0.0.0", true, Some(0)),
            ("255.255.255.255", true, Some(32)),
            ("24", true, Some(24)),
            ("33", true, None),
            ("255.0.255.0", true, None),
            ("ffff:ffff::", true, None),
            ("ffff:ffff:ffff:ffff::", false, Some(64)),
            ("ffff:ff80::", false, Some(25)),
            ("::", false, Some(0)),
            ("64", false, Some(64)),
            ("129", false, None),
            ("::1", false, None),
            ("255.255.255.0", false, None),
            ("", true, None),
            ("+24", true, None),
        ] {
            assert_eq!(mask(text, is_ipv4), length, "{text:?}");
        }
    }

    #[test]
    fn addresses_with_and_without_a_prefix() {
        for (text, found) in [
            ("192.0.2.1", Some(("192.0.2.1", None))),
            ("192.0.2.1/24", Some(("192.0.2.1", Some(24)))),
            ("2001:DB8::1/64", Some(("2001:db8::1", Some(64)))),
            ("192.0.2.1/33", None),
            ("192.0.2", None),
            ("fe80::1%eth0", None),
        ] {
            let found = found.map(|(text, length)| (text.parse().unwrap(), length));
            assert_eq!(address(text), found, "{text}");
        }
    }
}
