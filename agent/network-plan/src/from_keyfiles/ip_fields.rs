//! Parses the values that keys for addresses and keys for routes have in common.

use std::net::IpAddr;

use landfall_boot_params::IpPrefix;

use super::keys::Keys;

/// NetworkManager's value for "not set".
const DEFAULT_METRIC: i64 = -1;

/// The fields of an address or a route.
pub(super) struct Fields<'a> {
    address: &'a str,
    length: Option<&'a str>,
    /// The gateway or the next hop.
    pub(super) via: Option<&'a str>,
    pub(super) metric: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// Splits `192.0.2.10/24,192.0.2.1`. As in NetworkManager, `/`, `,` and `;` mean the
    /// same, a separator may end the value, and a second field that is not a number is
    /// the gateway and not the length (read_one_ip_address_or_route in nm-keyfile.c).
    /// `None` if there are more fields than in [`Fields`].
    pub(super) fn split(text: &'a str) -> Option<Fields<'a>> {
        let separators = ['/', ',', ';'];
        let text = text.strip_suffix(separators).unwrap_or(text);
        let mut fields = text.split(separators).map(str::trim).peekable();
        let address = fields.next()?;
        let is_number =
            |field: &&str| !field.is_empty() && field.bytes().all(|c| c.is_ascii_digit());
        let length = fields.next_if(is_number);
        let mut next = || Some(fields.next()).map(|field| field.filter(|field| !field.is_empty()));
        let (via, metric) = (next()?, next()?);
        fields.next().is_none().then_some(Fields {
            address,
            length,
            via,
            metric,
        })
    }

    /// The address with its prefix length. If the length is missing, adds a warning and
    /// uses `default`, NetworkManager's default length. `None` if the address or the
    /// length is invalid.
    pub(super) fn prefix(
        &self,
        keys: &Keys,
        section: &str,
        key: &str,
        default: u8,
    ) -> Option<IpPrefix> {
        let text = |length: &str| format!("{}/{length}", self.address);
        if let Some(length) = self.length {
            return text(length).parse().ok();
        }
        let prefix = text(&default.to_string()).parse().ok()?;
        let words = format!(
            "the prefix length is missing; the ramdisk uses /{default}, as NetworkManager does"
        );
        keys.warn(section, key, words);
        Some(prefix)
    }
}

/// Parses an address of the section's family.
pub(super) fn address(
    keys: &Keys,
    section: &str,
    key: &str,
    text: &str,
    is_ipv4: bool,
) -> Option<IpAddr> {
    let address: Option<IpAddr> = text.parse().ok();
    let address = address.filter(|address| address.is_ipv4() == is_ipv4);
    if address.is_none() {
        let expected = if is_ipv4 {
            "an IPv4 address"
        } else {
            "an IPv6 address"
        };
        keys.expected(section, key, expected, text);
    }
    address
}

/// The metric of the section for routes without a metric of their own. `None` means the
/// default.
pub(super) fn route_metric(keys: &Keys, section: &str) -> Option<u32> {
    let metric = keys.number(section, "route-metric", DEFAULT_METRIC..=u32::MAX.into());
    metric.and_then(|metric| u32::try_from(metric).ok())
}
