//! Parses `RTM_NEWNDUSEROPT` messages into the resolver options of a router
//! advertisement.

use std::net::Ipv6Addr;
use std::time::Duration;

use landfall_boot_params::dracut_net::is_host_name;

/// Constants from linux/include/uapi/linux/rtnetlink.h, RFC 4861
/// (advertisement) and RFC 8106 (options).
const RTM_NEWNDUSEROPT: u16 = 68;
const ROUTER_ADVERTISEMENT: u8 = 134;
const RDNSS: u8 = 25;
const DNSSL: u8 = 31;

/// Sizes of `struct nlmsghdr` and `struct nduseroptmsg`.
const NETLINK_HEADER: usize = 16;
const OPTION_HEADER: usize = 16;

/// Alignment of netlink messages.
const ALIGNMENT: usize = 4;
/// Bytes in one unit of an option's length field (RFC 4861, 4.6).
const UNIT: usize = 8;
/// RFC 8106, 5.1: a lifetime that means forever.
const INFINITE: u32 = u32::MAX;

/// One option of a router advertisement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOption {
    /// The kernel's index of the device that received it.
    pub index: u32,
    /// `None` means forever; zero withdraws the content.
    pub lifetime: Option<Duration>,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Servers(Vec<Ipv6Addr>),
    Domains(Vec<String>),
}

/// Returns the options in one datagram from the kernel. Skips messages and options
/// of other types, and malformed ones.
pub fn read(mut datagram: &[u8]) -> Vec<UserOption> {
    let mut found = Vec::new();
    while datagram.len() >= NETLINK_HEADER {
        let length = u32_at(datagram, 0).map_or(0, |length| length as usize);
        let Some(message) = datagram.get(NETLINK_HEADER..length) else {
            break;
        };
        if u16_at(datagram, 4) == Some(RTM_NEWNDUSEROPT) {
            options(message, &mut found);
        }
        let next = length.next_multiple_of(ALIGNMENT).min(datagram.len());
        datagram = &datagram[next..];
    }
    found
}

fn options(message: &[u8], found: &mut Vec<UserOption>) {
    let header = (u16_at(message, 2), u32_at(message, 4), message.get(8));
    let (Some(length), Some(index), Some(&ROUTER_ADVERTISEMENT)) = header else {
        return;
    };
    let end = OPTION_HEADER + usize::from(length);
    let Some(mut options) = message.get(OPTION_HEADER..end) else {
        return;
    };
    while let Some(&units) = options.get(1) {
        let length = usize::from(units) * UNIT;
        if length == 0 || length > options.len() {
            return;
        }
        let (option, rest) = options.split_at(length);
        found.extend(one(index, option));
        options = rest;
    }
}

/// Parses one option: type, length, two reserved bytes, lifetime, content.
fn one(index: u32, option: &[u8]) -> Option<UserOption> {
    let seconds = u32::from_be_bytes(*option.get(4..)?.first_chunk()?);
    let content = match option[0] {
        RDNSS => Content::Servers(servers(&option[8..])),
        DNSSL => Content::Domains(domains(&option[8..])),
        _ => return None,
    };
    Some(UserOption {
        index,
        lifetime: (seconds != INFINITE).then(|| Duration::from_secs(seconds.into())),
        content,
    })
}

fn servers(bytes: &[u8]) -> Vec<Ipv6Addr> {
    let (addresses, _) = bytes.as_chunks::<16>();
    addresses
        .iter()
        .map(|octets| Ipv6Addr::from(*octets))
        .filter(|address| is_server_address(*address))
        .collect()
}

/// True if another machine on the network can have this address.
pub fn is_server_address(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// Parses names in DNS wire format without compression, padded with zeros. Drops names
/// that are not valid host names, because they could add a line to resolv.conf.
fn domains(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let Some((name, rest)) = domain(bytes) {
        if is_host_name(&name) {
            found.push(name);
        }
        bytes = rest;
    }
    found
}

/// Returns the first name and the rest. `None` at the padding or the end, or if the name
/// is truncated.
fn domain(mut bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut labels: Vec<&str> = Vec::new();
    loop {
        let (&length, rest) = bytes.split_first()?;
        if length == 0 {
            return (!labels.is_empty()).then(|| (labels.join("."), rest));
        }
        let label = rest.get(..usize::from(length))?;
        labels.push(std::str::from_utf8(label).unwrap_or("?"));
        bytes = &rest[usize::from(length)..];
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message as the kernel sends it, for interface 7. The source address of the
    /// router follows the options.
    fn message(kind: u16, icmp: u8, options: &[u8]) -> Vec<u8> {
        let mut body = vec![10, 0];
        body.extend((options.len() as u16).to_ne_bytes());
        body.extend(7_u32.to_ne_bytes());
        body.extend([icmp, 0, 0, 0, 0, 0, 0, 0]);
        body.extend(options);
        body.extend(20_u16.to_ne_bytes());
        body.extend(1_u16.to_ne_bytes());
        body.extend([0xfe; 16]);
        let mut bytes = ((NETLINK_HEADER + body.len()) as u32)
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn rdnss(seconds: u32, addresses: &[&str]) -> Vec<u8> {
        let mut option = vec![RDNSS, 1 + 2 * addresses.len() as u8, 0, 0];
        option.extend(seconds.to_be_bytes());
        for address in addresses {
            option.extend(address.parse::<Ipv6Addr>().unwrap().octets());
        }
        option
    }

    fn dnssl(seconds: u32, names: &[u8]) -> Vec<u8> {
        let length = (UNIT + names.len()).next_multiple_of(UNIT);
        let mut option = vec![DNSSL, (length / UNIT) as u8, 0, 0];
        option.extend(seconds.to_be_bytes());
        option.extend(names);
        option.resize(length, 0);
        option
    }

    fn read_option(option: &[u8]) -> Vec<(Option<Duration>, Content)> {
        read(&message(RTM_NEWNDUSEROPT, ROUTER_ADVERTISEMENT, option))
            .into_iter()
            .map(|option| (option.lifetime, option.content))
            .collect()
    }

    #[test]
    fn servers_and_domains_with_their_time() {
        let hour = Some(Duration::from_secs(3600));
        let server = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let names = b"\x03lab\x07example\x00\x03net\x00";
        for (option, lifetime, content) in [
            (
                rdnss(3600, &["2001:db8::53", "fe80::1"]),
                hour,
                Content::Servers(vec![server("2001:db8::53"), server("fe80::1")]),
            ),
            (
                rdnss(u32::MAX, &["2001:db8::53"]),
                None,
                Content::Servers(vec![server("2001:db8::53")]),
            ),
            (
                rdnss(0, &["2001:db8::53"]),
                Some(Duration::ZERO),
                Content::Servers(vec![server("2001:db8::53")]),
            ),
            (
                dnssl(3600, names),
                hour,
                Content::Domains(vec!["lab.example".into(), "net".into()]),
            ),
        ] {
            assert_eq!(read_option(&option), [(lifetime, content)]);
        }
    }

    #[test]
    fn invalid_entries_are_left_out() {
        let none = |content| vec![(Some(Duration::from_secs(60)), content)];
        for address in ["::", "::1", "ff02::1"] {
            let read = read_option(&rdnss(60, &[address]));
            assert_eq!(read, none(Content::Servers(Vec::new())), "{address}");
        }
        for names in [
            &b"\x05a\nb c\x00"[..],
            b"\x09lab",
            b"\x02\xff\xfe\x00",
            b"\xc0\x00",
            b"",
        ] {
            let read = read_option(&dnssl(60, names));
            assert_eq!(read, none(Content::Domains(Vec::new())), "{names:?}");
        }
        let good = rdnss(60, &["2001:db8::53"]);
        let prefix = [3, 4];
        assert!(read_option(&prefix).is_empty(), "cut off");
        assert!(read_option(&[RDNSS, 0, 0, 0, 0, 0, 0, 0]).is_empty());
        assert!(read(&message(RTM_NEWNDUSEROPT, 137, &good)).is_empty());
        assert!(read(&message(16, ROUTER_ADVERTISEMENT, &good)).is_empty());
    }

    #[test]
    fn a_datagram_may_have_several_messages() {
        let one = message(
            RTM_NEWNDUSEROPT,
            ROUTER_ADVERTISEMENT,
            &rdnss(60, &["2001:db8::53"]),
        );
        let found = read(&[one.clone(), message(2, 0, &[]), one.clone()].concat());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].index, 7);
        assert!(read(&one[..one.len() - 1]).is_empty(), "cut off");
    }

    proptest! {
        #[test]
        fn no_datagram_panics(
            option in proptest::collection::vec(any::<u8>(), 0..200),
            raw in proptest::collection::vec(any::<u8>(), 0..200),
            kind in prop_oneof![Just(RDNSS), Just(DNSSL)],
        ) {
            read(&raw);
            let units = 1 + option.len() / UNIT;
            let mut whole = vec![kind, units as u8];
            whole.extend(option);
            whole.resize(units * UNIT, 0);
            for option in read(&message(RTM_NEWNDUSEROPT, ROUTER_ADVERTISEMENT, &whole)) {
                if let Content::Domains(names) = option.content {
                    prop_assert!(names.iter().all(|name| is_host_name(name)));
                }
            }
        }
    }
}
