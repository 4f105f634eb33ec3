//! An address or a network with its prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPrefix {
    pub address: IpAddr,
    /// At most [`longest_prefix`].
    pub length: u8,
}

/// The text is neither an address nor an address with its prefix length. Correct it, for
/// example to `192.0.2.10/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected ADDRESS or ADDRESS/LENGTH")]
pub struct InvalidPrefix;

/// The number of bits of an address.
pub fn longest_prefix(is_ipv4: bool) -> u8 {
    if is_ipv4 { 32 } else { 128 }
}

impl IpPrefix {
    /// The address with a default prefix length. For IPv4 this is the length of the
    /// address class (class A: 8), as in dracut. For IPv6 it is 64.
    pub fn with_default_length(address: IpAddr) -> IpPrefix {
        let length = match address {
            IpAddr::V4(v4) => match v4.octets()[0] {
                0..=127 => 8,
                128..=191 => 16,
                _ => 24,
            },
            IpAddr::V6(_) => 64,
        };
        IpPrefix { address, length }
    }

    /// The network: the address with every bit after the prefix set to zero. The
    /// kernel accepts destinations only in this form.
    pub fn network(self) -> IpPrefix {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !host))
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !host))
            }
        };
        IpPrefix { address, ..self }
    }
}

impl FromStr for IpPrefix {
    type Err = InvalidPrefix;

    /// Parses `192.0.2.0/24`. Without a length, the network is this one address.
    fn from_str(text: &str) -> Result<IpPrefix, InvalidPrefix> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidPrefix)?;
        let longest = longest_prefix(address.is_ipv4());
        let length = length.map_or(Ok(longest), str::parse);
        let length = length.ok().filter(|length| *length <= longest);
        let length = length.ok_or(InvalidPrefix)?;
        Ok(IpPrefix { address, length })
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_an_address_gives_its_length() {
        for text in [
            "10.0.0.1/8",
            "172.16.0.1/16",
            "192.0.2.1/24",
            "2001:db8::1/64",
        ] {
            let prefix: IpPrefix = text.parse().unwrap();
            assert_eq!(IpPrefix::with_default_length(prefix.address), prefix);
        }
    }

    #[test]
    fn a_network_has_no_host_bits() {
        for (text, network) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("2001:db8::1/64", "2001:db8::/64"),
            ("2001:db8::1/0", "::/0"),
            ("2001:db8::1", "2001:db8::1/128"),
        ] {
            let prefix: IpPrefix = text.parse().unwrap();
            assert_eq!(prefix.network().to_string(), network);
        }
        for text in ["", "10.1.2.3/", "10.1.2.3/33", "2001:db8::1/129", "/8"] {
            assert_eq!(text.parse::<IpPrefix>(), Err(InvalidPrefix), "{text}");
        }
    }
}
