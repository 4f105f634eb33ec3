//! Turns a server's answer into a lease that can be applied.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use dhcproto::v4::{DhcpOption, OptionCode};
use landfall_boot_params::dracut_net::is_host_name;
use landfall_network_plan::IpPrefix;

use super::message::Answer;

/// Limits for the lists that a server sends. No network needs more. Each entry costs work
/// in the kernel or the resolver.
const MOST_SERVERS: usize = 8;
const MOST_ROUTES: usize = 64;
const MOST_DOMAINS: usize = 6;

/// The shortest lease that the client accepts, in seconds. It would renew a shorter lease
/// without a pause.
const SHORTEST_LEASE: u32 = 10;
/// RFC 2131, 3.3: a lease time that means forever.
const INFINITE: u32 = u32::MAX;
/// Upper limit for T1 and T2, however long the lease is.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);
/// RFC 791: every IPv4 host accepts packets of this size.
const SMALLEST_MTU: u16 = 576;

/// A lease from a DHCPv4 server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub address: IpPrefix,
    pub server: Ipv4Addr,
    /// The duration of the lease, counted from the request. `None` means forever.
    pub lifetime: Option<Duration>,
    /// When to ask the server again (T1), counted from the start of the lease.
    pub renew_after: Duration,
    /// When to ask any server (T2), counted from the start of the lease.
    pub rebind_after: Duration,
    /// Destination and next hop (`None`: on the link), including the default route.
    pub routes: Vec<(IpPrefix, Option<Ipv4Addr>)>,
    pub dns: Vec<IpAddr>,
    pub search: Vec<String>,
    pub ntp: Vec<IpAddr>,
    pub host_name: Option<String>,
    pub mtu: Option<u32>,
}

/// Why an answer is not a lease: a part that is missing or invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The DHCP server offered an address that no host may have, for example a multicast
    /// address. The agent ignores the offer; correct the server.
    #[error("the address is not a host address")]
    Address,
    /// The answer does not say which DHCP server it is from. The agent ignores the
    /// answer; correct the server.
    #[error("the server identifier is missing or invalid")]
    Server,
    /// The DHCP server did not say for how long the address is valid. The agent ignores the
    /// answer; correct the server.
    #[error("the lease time is missing")]
    NoTime,
    /// The DHCP server grants its addresses for less than 10 s, which no client can renew. Set a
    /// longer lease time there.
    #[error("the lease time is below 10 s")]
    ShortTime,
}

impl Lease {
    /// Reads an offer or acknowledgement.
    pub fn from_answer(answer: &Answer) -> Result<Lease, LeaseError> {
        let address = answer.address;
        if !is_host_address(address) {
            return Err(LeaseError::Address);
        }
        let server = match answer.options.get(OptionCode::ServerIdentifier) {
            Some(DhcpOption::ServerIdentifier(server)) if is_host_address(*server) => *server,
            _ => return Err(LeaseError::Server),
        };
        let seconds = match answer.options.get(OptionCode::AddressLeaseTime) {
            Some(DhcpOption::AddressLeaseTime(seconds)) => *seconds,
            _ => return Err(LeaseError::NoTime),
        };
        if seconds < SHORTEST_LEASE {
            return Err(LeaseError::ShortTime);
        }
        let (renew_after, rebind_after) = renewal(answer, seconds);
        Ok(Lease {
            address: IpPrefix {
                address: address.into(),
                length: prefix_length(answer, address),
            },
            server,
            lifetime: (seconds != INFINITE).then(|| Duration::from_secs(seconds.into())),
            renew_after,
            rebind_after,
            routes: routes(answer),
            dns: servers(answer, OptionCode::DomainNameServer),
            search: search(answer),
            ntp: servers(answer, OptionCode::NtpServers),
            host_name: host_name(answer),
            mtu: match answer.options.get(OptionCode::InterfaceMtu) {
                Some(DhcpOption::InterfaceMtu(mtu)) if *mtu >= SMALLEST_MTU => Some((*mtu).into()),
                _ => None,
            },
        })
    }

    /// The next hop of the default route.
    pub fn gateway(&self) -> Option<Ipv4Addr> {
        let default = |(destination, _): &&(IpPrefix, _)| destination.length == 0;
        self.routes.iter().find(default).and_then(|(_, via)| *via)
    }
}

/// T1 and T2: the server's values if they are consistent, otherwise those of RFC
/// 2131, 4.4.5.
fn renewal(answer: &Answer, lease: u32) -> (Duration, Duration) {
    let given = |code| match answer.options.get(code) {
        Some(DhcpOption::Renewal(seconds) | DhcpOption::Rebinding(seconds)) => Some(*seconds),
        _ => None,
    };
    let rebind = given(OptionCode::Rebinding)
        .filter(|t2| (2..lease).contains(t2))
        .unwrap_or(lease - lease / 8);
    let renew = given(OptionCode::Renewal)
        .filter(|t1| (1..rebind).contains(t1))
        .unwrap_or((lease / 2).min(rebind - 1));
    let wait = |seconds: u32| Duration::from_secs(seconds.into()).min(LONGEST_WAIT);
    (wait(renew), wait(rebind))
}

/// The length of the subnet mask. If the mask is missing, zero or not contiguous, the
/// length of the address class applies.
fn prefix_length(answer: &Answer, address: Ipv4Addr) -> u8 {
    if let Some(DhcpOption::SubnetMask(mask)) = answer.options.get(OptionCode::SubnetMask) {
        let bits = mask.to_bits();
        if bits.leading_ones() == bits.count_ones() && bits != 0 {
            // The cast is lossless: at most 32.
            return bits.leading_ones() as u8;
        }
    }
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}

/// The routes in the option for classless routes, if the server sends it (RFC 3442).
/// Otherwise a default route over the first usable router.
fn routes(answer: &Answer) -> Vec<(IpPrefix, Option<Ipv4Addr>)> {
    if let Some(DhcpOption::ClasslessStaticRoute(list)) =
        answer.options.get(OptionCode::ClasslessStaticRoute)
        && !list.is_empty()
    {
        return list
            .iter()
            .filter(|(_, gateway)| gateway.is_unspecified() || is_host_address(*gateway))
            .take(MOST_ROUTES)
            .map(|(network, gateway)| {
                let destination = IpPrefix {
                    address: network.addr().into(),
                    length: network.prefix_len(),
                };
                let via = (!gateway.is_unspecified()).then_some(*gateway);
                (destination.network(), via)
            })
            .collect();
    }
    let default = IpPrefix {
        address: Ipv4Addr::UNSPECIFIED.into(),
        length: 0,
    };
    match answer.options.get(OptionCode::Router) {
        Some(DhcpOption::Router(list)) => list
            .iter()
            .find(|router| is_host_address(**router))
            .map(|router| (default, Some(*router)))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

fn servers(answer: &Answer, code: OptionCode) -> Vec<IpAddr> {
    match answer.options.get(code) {
        Some(DhcpOption::DomainNameServer(list) | DhcpOption::NtpServers(list)) => list
            .iter()
            // This machine runs no server, so a loopback address is useless.
            .filter(|address| is_host_address(**address))
            .take(MOST_SERVERS)
            .map(|address| IpAddr::V4(*address))
            .collect(),
        _ => Vec::new(),
    }
}

/// Domains for /etc/resolv.conf. Drops names that are not valid host names, because they
/// could add a line to the file.
fn search(answer: &Answer) -> Vec<String> {
    let mut domains = Vec::new();
    if let Some(DhcpOption::DomainSearch(names)) = answer.options.get(OptionCode::DomainSearch) {
        domains.extend(names.iter().map(ToString::to_string));
    }
    if let Some(DhcpOption::DomainName(name)) = answer.options.get(OptionCode::DomainName) {
        // Contrary to RFC 2132, some servers put a list here.
        domains.extend(name.split([' ', ',']).map(str::to_owned));
    }
    let mut kept: Vec<String> = Vec::new();
    for domain in domains {
        let domain = domain.trim_end_matches(['.', '\0']);
        if is_host_name(domain) && !kept.iter().any(|known| known == domain) {
            kept.push(domain.to_owned());
        }
    }
    kept.truncate(MOST_DOMAINS);
    kept
}

fn host_name(answer: &Answer) -> Option<String> {
    match answer.options.get(OptionCode::Hostname) {
        Some(DhcpOption::Hostname(name)) => {
            let name = name.trim_end_matches(['.', '\0']);
            is_host_name(name).then(|| name.to_owned())
        }
        _ => None,
    }
}

/// Whether a single machine on a network can have this address.
fn is_host_address(address: Ipv4Addr) -> bool {
    let reserved = address.octets()[0] == 0 || address.octets()[0] >= 240;
    !(reserved || address.is_loopback() || address.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::answer;
    use super::*;
    use proptest::prelude::*;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);
    /// The shortest valid options: message type ACK, server 192.0.2.1, lease 3600
    /// s.
    const LEAST: &[u8] = &[53, 1, 5, 54, 4, 192, 0, 2, 1, 51, 4, 0, 0, 14, 16];

    fn lease(address: Ipv4Addr, more: &[u8]) -> Result<Lease, LeaseError> {
        Lease::from_answer(&answer(address, &[LEAST, more].concat()).unwrap())
    }

    #[test]
    fn the_least_a_server_has_to_say() {
        let lease = lease(ADDRESS, &[]).unwrap();
        assert_eq!(lease.address.to_string(), "192.0.2.77/24");
        assert_eq!(lease.server, Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(lease.lifetime, Some(Duration::from_secs(3600)));
        assert_eq!(lease.renew_after, Duration::from_secs(1800));
        assert_eq!(lease.rebind_after, Duration::from_secs(3150));
        assert!(lease.routes.is_empty() && lease.dns.is_empty() && lease.mtu.is_none());
    }

    #[test]
    fn everything_a_server_can_say() {
        let mut more = vec![1, 4, 255, 255, 255, 192]; // mask
        more.extend([3, 8, 192, 0, 2, 65, 192, 0, 2, 66]); // routers
        more.extend([6, 8, 192, 0, 2, 53, 127, 0, 0, 53]); // DNS, one of them this machine
        more.extend(b"\x0c\x06node7\0"); // host name with a NUL, as some send it
        more.extend(b"\x0f\x0blab.example"); // domain
        more.extend(b"\x77\x11\x03net\x03lab\x00\x03lab\x07example"[..19].iter());
        more.extend([26, 2, 0x23, 0x28]); // MTU 9000
        more.extend([42, 4, 192, 0, 2, 123]); // NTP
        more.extend([58, 4, 0, 0, 0, 100, 59, 4, 0, 0, 0, 200]); // T1, T2
        let lease = lease(ADDRESS, &more).unwrap();
        assert_eq!(lease.address.to_string(), "192.0.2.77/26");
        assert_eq!(lease.gateway(), Some(Ipv4Addr::new(192, 0, 2, 65)));
        assert_eq!(lease.dns, [IpAddr::from([192, 0, 2, 53])]);
        assert_eq!(lease.host_name.as_deref(), Some("node7"));
        assert_eq!(lease.search, ["net.lab", "lab.example"]);
        assert_eq!(lease.mtu, Some(9000));
        assert_eq!(lease.ntp, [IpAddr::from([192, 0, 2, 123])]);
        assert_eq!(lease.renew_after, Duration::from_secs(100));
        assert_eq!(lease.rebind_after, Duration::from_secs(200));
    }

    #[test]
    fn classless_routes_replace_the_router() {
        let more = [
            3, 4, 192, 0, 2, 1, // router
            121, 24, // routes
            16, 10, 99, 192, 0, 2, 9, // 10.99/16 via .9
            0, 192, 0, 2, 254, // default via .254
            32, 198, 51, 100, 7, 0, 0, 0, 0, // host on the link
            0, 224, 0, // cut off
        ];
        // The codec drops the whole list if its end is malformed.
        let broken = lease(ADDRESS, &more).unwrap();
        assert_eq!(broken.gateway(), Some(Ipv4Addr::new(192, 0, 2, 1)));
        let mut whole = more[..more.len() - 3].to_vec();
        whole[7] = 21;
        let lease = lease(ADDRESS, &whole).unwrap();
        let shown: Vec<_> = lease
            .routes
            .iter()
            .map(|(to, via)| format!("{to} {via:?}"))
            .collect();
        assert_eq!(
            shown,
            [
                "10.99.0.0/16 Some(192.0.2.9)",
                "0.0.0.0/0 Some(192.0.2.254)",
                "198.51.100.7/32 None"
            ]
        );
        assert_eq!(lease.gateway(), Some(Ipv4Addr::new(192, 0, 2, 254)));
    }

    #[test]
    fn answers_that_cannot_be_a_lease() {
        for address in [
            [0, 0, 0, 0],
            [127, 0, 0, 1],
            [224, 0, 0, 1],
            [255, 255, 255, 255],
        ] {
            assert!(lease(address.into(), &[]).is_err(), "{address:?}");
        }
        for (what, options) in [
            ("no server", &[53, 1, 5, 51, 4, 0, 0, 14, 16][..]),
            ("no time", &[53, 1, 5, 54, 4, 192, 0, 2, 1]),
            (
                "too short a time",
                &[53, 1, 5, 54, 4, 192, 0, 2, 1, 51, 4, 0, 0, 0, 9],
            ),
            (
                "an impossible server",
                &[53, 1, 5, 54, 4, 0, 0, 0, 0, 51, 4, 0, 0, 14, 16],
            ),
        ] {
            let answer = answer(ADDRESS, options).unwrap();
            assert!(Lease::from_answer(&answer).is_err(), "{what}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_left_out() {
        for (what, more) in [
            ("a mask with holes", &[1, 4, 255, 0, 255, 0][..]),
            ("no mask at all", &[1, 4, 0, 0, 0, 0]),
            ("a tiny MTU", &[26, 2, 0, 68]),
            ("T1 behind T2", &[58, 4, 0, 0, 0, 200, 59, 4, 0, 0, 0, 100]),
            ("T2 behind the end", &[59, 4, 0, 0, 255, 255]),
            ("a router that is nobody", &[3, 4, 0, 0, 0, 0]),
            ("a host name with a line break", b"\x0c\x05a\nb c"),
            ("a domain with a line break", b"\x0f\x05a\nb.c"),
        ] {
            let found = lease(ADDRESS, more).unwrap();
            let mut plain = lease(ADDRESS, &[]).unwrap();
            if what == "T1 behind T2" {
                plain.rebind_after = Duration::from_secs(100);
                plain.renew_after = Duration::from_secs(99);
            }
            assert_eq!(found, plain, "{what}");
        }
    }

    #[test]
    fn an_infinite_lease_is_still_checked() {
        let options = [53, 1, 5, 54, 4, 192, 0, 2, 1, 51, 4, 255, 255, 255, 255];
        let lease = Lease::from_answer(&answer(ADDRESS, &options).unwrap()).unwrap();
        assert_eq!(lease.lifetime, None);
        assert_eq!(lease.renew_after, LONGEST_WAIT);
    }

    fn option() -> impl Strategy<Value = Vec<u8>> {
        let codes = vec![1_u8, 3, 6, 12, 15, 26, 42, 51, 53, 54, 58, 59, 119, 121];
        (
            proptest::sample::select(codes),
            proptest::collection::vec(any::<u8>(), 0..40),
        )
            .prop_map(|(code, value)| {
                let mut bytes = vec![code, value.len() as u8];
                bytes.extend(value);
                bytes
            })
    }

    proptest! {
        #[test]
        fn every_lease_can_be_applied(
            address: [u8; 4],
            options in proptest::collection::vec(option(), 0..12),
        ) {
            let Ok(lease) = lease(address.into(), &options.concat()) else {
                return Ok(());
            };
            prop_assert!((1..=32).contains(&lease.address.length));
            prop_assert!(Duration::ZERO < lease.renew_after);
            prop_assert!(lease.renew_after <= lease.rebind_after);
            if let Some(lifetime) = lease.lifetime {
                prop_assert!(lease.rebind_after < lifetime);
            }
            prop_assert!(lease.routes.len() <= MOST_ROUTES);
            prop_assert!(lease.dns.len() <= MOST_SERVERS);
            prop_assert!(lease.search.len() <= MOST_DOMAINS);
            for (destination, _) in &lease.routes {
                prop_assert_eq!(*destination, destination.network());
            }
            for name in lease.search.iter().chain(&lease.host_name) {
                prop_assert!(name.bytes().all(|c| c.is_ascii_graphic()));
            }
        }
    }
}
