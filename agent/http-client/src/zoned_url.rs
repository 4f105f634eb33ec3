//! URLs whose host is a link-local IPv6 address with an interface.
//!
//! In a network without routers, Ironic may have only a link-local address:
//! `http://[fe80::1%25eth0]:6385` (RFC 6874). But no URL library accepts such a URL, and
//! the zone means nothing to the server. So the agent removes the zone and binds the
//! socket to the interface that the zone names.

use std::net::Ipv6Addr;

use nix::net::if_::if_indextoname;

/// A URL, and the interface in its zone if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonedUrl {
    /// The URL without the zone, for servers and libraries.
    pub url: String,
    pub interface: Option<String>,
}

/// The kernel's interface names have at most 15 bytes (`IFNAMSIZ` less the NUL).
const NAME_LIMIT: usize = 15;

impl ZonedUrl {
    /// Removes the zone from a URL. Accepts `%25eth0` and the common `%eth0`. A number is
    /// the index of an interface. Any other zone stays in the URL, so that the URL parser
    /// reports it.
    pub fn parse(text: &str) -> Self {
        Self::split(text).unwrap_or_else(|| Self {
            url: text.to_owned(),
            interface: None,
        })
    }

    fn split(text: &str) -> Option<Self> {
        let (before, rest) = text.split_once("://[")?;
        let (host, after) = rest.split_once(']')?;
        let (address, zone) = host.split_once('%')?;
        let zone = zone
            .strip_prefix("25")
            .filter(|zone| !zone.is_empty())
            .unwrap_or(zone);
        let name_like = |c: char| c.is_ascii_graphic() && c != '%' && c != '/';
        if !address.parse::<Ipv6Addr>().ok()?.is_unicast_link_local()
            || zone.is_empty()
            || zone.len() > NAME_LIMIT
            || !zone.chars().all(name_like)
        {
            return None;
        }
        Some(Self {
            url: format!("{before}://[{address}]{after}"),
            interface: Some(name_of(zone)),
        })
    }
}

/// The name of the interface with this index. If no interface has this index, the number
/// is the name of an interface. A number that is both the name of one interface and the
/// index of another is unlikely.
fn name_of(zone: &str) -> String {
    zone.parse()
        .ok()
        .and_then(|index: u32| if_indextoname(index).ok())
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| zone.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_become_interfaces() {
        for (text, url, interface) in [
            (
                "http://[fe80::1%25eth0]:6385/x",
                "http://[fe80::1]:6385/x",
                Some("eth0"),
            ),
            (
                "https://[FE80::1%eno1np0]",
                "https://[FE80::1]",
                Some("eno1np0"),
            ),
            // The loopback interface always has the index 1.
            ("http://[fe80::1%1]:80/", "http://[fe80::1]:80/", Some("lo")),
            (
                "http://[fe80::1%251]:80/",
                "http://[fe80::1]:80/",
                Some("lo"),
            ),
            // An interface may have the name 25.
            ("http://[fe80::1%25]/", "http://[fe80::1]/", Some("25")),
            (
                "http://[2001:db8::1]:6385",
                "http://[2001:db8::1]:6385",
                None,
            ),
            ("http://192.0.2.1/%25eth0", "http://192.0.2.1/%25eth0", None),
        ] {
            let expected = ZonedUrl {
                url: url.to_owned(),
                interface: interface.map(str::to_owned),
            };
            assert_eq!(ZonedUrl::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn an_invalid_zone_is_left_to_the_url_parser() {
        for text in [
            "http://[2001:db8::1%25eth0]/",
            "http://[fe80::1%]/",
            "http://[fe80::1%25a-name-too-long-for-it]/",
            "http://[fe80::1%25eth0",
            "http://[fe80::1%25a/b]/",
            "http://[%25eth0]/",
            "",
        ] {
            let zoned = ZonedUrl::parse(text);
            assert_eq!(zoned.interface, None, "{text}");
            assert_eq!(zoned.url, text);
            assert!(reqwest::Url::parse(text).is_err(), "{text}");
        }
    }
}
