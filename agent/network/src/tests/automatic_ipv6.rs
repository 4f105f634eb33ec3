//! Tests of router advertisements and DHCPv6 with a real dnsmasq.

use std::net::{IpAddr, Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, sendto, setsockopt,
    socket, sockopt,
};

use super::*;
use crate::lab::{Lab, ip_output, on_a_machine};

/// The address that the kernel derives from MAC 52:54:00:00:00:00 and the lab's
/// prefix.
const SLAAC: &str = "2001:db8::5054:ff:fe00:0/64";
const SLAAC_RANGE: &str = "--dhcp-range=2001:db8::,ra-only,64";
const STATEFUL_RANGE: &str = "--dhcp-range=2001:db8::100,2001:db8::1ff,64,1h";
const DNS: &str = "--dhcp-option=option6:dns-server,[2001:db8::53]";
const SEARCH: &str = "--dhcp-option=option6:domain-search,lab.example";
/// Identifies the host by its DUID: type LL, Ethernet.
const HOST: &str = "--dhcp-host=id:00:03:00:01:52:54:00:00:00:00,[2001:db8::77]";

/// Plugs in a NIC and a router with a network behind it.
fn plug_in(lab: &Lab) {
    lab.plug_in(0);
    lab.port("addr add 2001:db8::1/64 dev port0 nodad");
    lab.port("addr add 2001:db8:1::1/128 dev lo nodad");
    // A real router has been up for a long time when a host is switched on. So the router
    // of this test does not check its link-local address for duplicates.
    lab.on_network(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/port0/accept_dad", "0").unwrap();
    });
    lab.port("link set port0 up");
}

/// The address that DHCP has assigned.
fn leased(state: &NetworkState) -> Option<Ipv6Addr> {
    let addresses = &nic(state, "eth0")?.addresses;
    addresses.iter().find_map(|known| match known {
        AddressState {
            origin: AddressOrigin::Dhcp(IpAddr::V6(_)),
            usable: true,
            prefix,
        } => match prefix.address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        },
        _ => None,
    })
}

#[test]
fn routers_announce_servers_and_domains() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = lab.dnsmasq("port0", &["--enable-ra", SLAAC_RANGE, DNS, SEARCH]);
        let mut network = lab.boot("ip=eth0:auto6");
        lab.until(&mut network, "address and server", |s| {
            has(s, "eth0", SLAAC) && !s.dns.is_empty() && !s.search.is_empty()
        })
        .await;
        let found = origin(
            &network.borrow(),
            "eth0",
            AddressOrigin::RouterAdvertisement,
        );
        assert_eq!(found, Some("2001:db8::5054:ff:fe00:0".parse().unwrap()));
        assert!(answers("2001:db8:1::1"), "behind the router");
        assert_eq!(
            lab.resolv_conf(),
            "search lab.example\nnameserver 2001:db8::53\n"
        );
        assert!(!server.log().contains("DHCPSOLICIT"), "{}", server.log());
        let file = lab.state_file();
        assert_eq!(file["dns"], json!(["2001:db8::53"]));
    });
}

/// A router that shuts down withdraws its servers (RFC 8106, 6.1).
#[test]
fn a_server_that_a_router_takes_back_is_forgotten() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let router = lab.dnsmasq("port0", &["--enable-ra", SLAAC_RANGE, DNS]);
        let mut network = lab.boot("ip=eth0:auto6 nameserver=[2001:db8::54]");
        lab.until(&mut network, "both servers", |s| s.dns.len() == 2)
            .await;
        assert_eq!(
            lab.resolv_conf(),
            "nameserver 2001:db8::54\nnameserver 2001:db8::53\n"
        );
        drop(router);
        let other = "--dhcp-option=option6:dns-server,[2001:db8::55]";
        let _router = lab.dnsmasq(
            "port0",
            &["--enable-ra", "--ra-param=port0,4,8", SLAAC_RANGE, other],
        );
        lab.until(&mut network, "a third server", |s| s.dns.len() == 3)
            .await;
    });
}

#[test]
fn a_link_local_server_goes_with_its_interface() {
    on_a_machine(async |lab| {
        plug_in(lab);
        // dnsmasq replaces `fe80::` with its own link-local address.
        let dns = "--dhcp-option=option6:dns-server,[fe80::]";
        let _server = lab.dnsmasq("port0", &["--enable-ra", SLAAC_RANGE, dns]);
        let mut network = lab.boot("ip=eth0:auto6");
        lab.until(&mut network, "a server", |s| !s.dns.is_empty())
            .await;
        let text = lab.resolv_conf();
        assert!(
            text.starts_with("nameserver fe80::") && text.ends_with("%eth0\n"),
            "{text}"
        );
    });
}

#[test]
fn other_settings_come_by_dhcp_if_a_router_requests_it() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let range = "--dhcp-range=2001:db8::,ra-stateless,64";
        let ntp = "--dhcp-option=option6:ntp-server,[2001:db8::123]";
        let server = lab.dnsmasq("port0", &["--enable-ra", range, DNS, SEARCH, ntp]);
        let mut network = lab.boot("ip=eth0:auto6");
        let state = lab
            .until(&mut network, "address and NTP server", |s| {
                has(s, "eth0", SLAAC) && !s.ntp.is_empty()
            })
            .await;
        assert_eq!(state.ntp, ["2001:db8::123".parse::<IpAddr>().unwrap()]);
        assert_eq!(
            lab.resolv_conf(),
            "search lab.example\nnameserver 2001:db8::53\n"
        );
        assert_eq!(leased(&state), None);
        let log = server.log();
        assert!(log.contains("DHCPINFORMATION-REQUEST"), "{log}");
        assert!(!log.contains("DHCPSOLICIT"), "{log}");
    });
}

#[test]
fn an_address_comes_by_dhcp_if_a_router_requests_it() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = lab.dnsmasq("port0", &["--enable-ra", STATEFUL_RANGE, HOST, DNS, SEARCH]);
        let mut network = lab.boot("ip=eth0:dhcp6");
        let state = lab
            .until(&mut network, "a lease", |s| leased(s).is_some())
            .await;
        // The address is reserved for this host by its DUID, which the installed system
        // also uses.
        assert_eq!(leased(&state), Some("2001:db8::77".parse().unwrap()));
        assert!(has(&state, "eth0", "2001:db8::77/128"));
        lab.until_so("the way over the router", || answers("2001:db8:1::1"))
            .await;
        assert_eq!(
            lab.resolv_conf(),
            "search lab.example\nnameserver 2001:db8::53\n"
        );
        assert!(ip_output("-6 addr show eth0").contains("valid_lft 3"));
        assert!(server.log().contains("DHCPREPLY"), "{}", server.log());
        let file = lab.state_file();
        assert_eq!(file["nics"][0]["dhcpv6"]["address"], "2001:db8::77");
    });
}

#[test]
fn both_families_have_their_share_of_the_resolver() {
    on_a_machine(async |lab| {
        plug_in(lab);
        lab.port("addr add 192.0.2.1/24 dev port0");
        let dns = "--dhcp-option=option:dns-server,192.0.2.51,192.0.2.52,192.0.2.53";
        let _server = lab.dnsmasq("port0", &["--enable-ra", POOL, dns, STATEFUL_RANGE, DNS]);
        let mut network = lab.boot("ip=eth0:dhcp,dhcp6");
        lab.until(&mut network, "both", |s| {
            leased(s).is_some() && s.dns.len() == 4
        })
        .await;
        assert_eq!(
            lab.resolv_conf(),
            "nameserver 192.0.2.51\nnameserver 2001:db8::53\nnameserver 192.0.2.52\n"
        );
    });
}

#[test]
fn offered_dns_servers_are_ignored_if_the_plan_says_so() {
    on_a_machine(async |lab| {
        plug_in(lab);
        lab.port("addr add 192.0.2.1/24 dev port0");
        let dns = "--dhcp-option=option:dns-server,192.0.2.51";
        let _server = lab.dnsmasq("port0", &["--enable-ra", POOL, dns, STATEFUL_RANGE, DNS]);
        let mut network = lab.boot("ip=eth0:dhcp,dhcp6 rd.peerdns=0 nameserver=192.0.2.99");
        lab.until(&mut network, "both", |s| {
            leased(s).is_some() && nic(s, "eth0").is_some_and(|nic| nic.addresses.len() >= 3)
        })
        .await;
        assert_eq!(lab.resolv_conf(), "nameserver 192.0.2.99\n");
    });
}

#[test]
fn a_leased_address_of_another_machine_is_declined() {
    on_a_machine(async |lab| {
        plug_in(lab);
        lab.port("addr add 2001:db8::77/64 dev port0 nodad");
        let server = lab.dnsmasq("port0", &["--enable-ra", STATEFUL_RANGE, HOST]);
        let mut network = lab.boot("ip=eth0:dhcp6");
        lab.until_logged(
            "WARN eth0 2001:db8::77/128: another machine on this link has the address; it is not used",
        )
        .await;
        lab.until_so("the server knows", || server.log().contains("DHCPDECLINE"))
            .await;
        let state = lab
            .until(&mut network, "another address", |s| {
                leased(s)
                    .is_some_and(|address| address != "2001:db8::77".parse::<Ipv6Addr>().unwrap())
            })
            .await;
        assert!(!has(&state, "eth0", "2001:db8::77/128"));
    });
}

/// The lease is confirmed, not requested again.
#[test]
fn a_lease_is_confirmed_when_the_cable_is_back() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let server = lab.dnsmasq("port0", &["--enable-ra", STATEFUL_RANGE]);
        let mut network = lab.boot("ip=eth0:dhcp6");
        let state = lab
            .until(&mut network, "a lease", |s| leased(s).is_some())
            .await;
        let first = leased(&state);
        lab.port("link set port0 down");
        until_nic(lab, &mut network, "no carrier", "eth0", |nic| !nic.carrier).await;
        lab.port("link set port0 up");
        lab.port("addr replace 2001:db8::1/64 dev port0 nodad");
        lab.until_so("a question", || server.log().contains("DHCPCONFIRM"))
            .await;
        assert_eq!(leased(&network.borrow()), first);
    });
}

/// The address is used during duplicate address detection (RFC 4429). Waiting for
/// it would cost a host with a static address more than a second.
#[test]
fn a_static_address_is_used_at_once() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let mut network =
            lab.boot("ip=[2001:db8::10]::[2001:db8::1]:64::eth0:none nameserver=[2001:db8::53]");
        until_nic(lab, &mut network, "the carrier", "eth0", |nic| nic.carrier).await;
        let began = Instant::now();
        until_has(lab, &mut network, "eth0", "2001:db8::10/64").await;
        assert!(answers("2001:db8:1::1"), "behind the gateway");
        let took = began.elapsed();
        assert!(took < Duration::from_millis(900), "{took:?}");
        assert!(answers("2001:db8::1"), "the neighbour");
        assert_eq!(lab.resolv_conf(), "nameserver 2001:db8::53\n");
    });
}

/// The kernel treats the leased address, with /128, and the static one as the same
/// address.
#[test]
fn a_static_address_outlives_a_lease_of_it() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let _server = lab.dnsmasq("port0", &["--enable-ra", STATEFUL_RANGE, HOST]);
        let _network = lab.boot("ip=[2001:db8::77]:::64::eth0:auto6");
        lab.until_so("a lease", || {
            let is_lease = |line: &String| line.contains("eth0 2001:db8::77/128 from DHCP server");
            lab.log_lines().iter().any(is_lease)
        })
        .await;
        // The agent logs the lease before it applies it, so wait.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let addresses = ip_output("-o -6 addr show dev eth0");
        let given = { addresses.lines() }.find(|line| line.contains(" 2001:db8::77/64 "));
        assert!(
            given.is_some_and(|line| line.contains("valid_lft forever")),
            "{addresses}"
        );
    });
}

/// A router advertisement with a route to 2001:db8:1::/48 (RFC 4191, 2.3),
/// which dnsmasq cannot send. The kernel adds the checksum.
const ROUTE_INFORMATION: [u8; 32] = [
    134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, // lifetime 1800 s
    24, 2, 48, 0, 0, 0, 0x07, 0x08, 0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0,
];

/// Sends the advertisement to the host alone. The host treats it like a multicast
/// advertisement.
fn advertise_route(lab: &Lab) {
    lab.on_network(|| {
        let kind = (SockType::Raw, SockFlag::empty(), SockProtocol::IcmpV6);
        let socket = socket(AddressFamily::Inet6, kind.0, kind.1, kind.2).unwrap();
        // The host drops a packet with a lower hop limit, because it may have come
        // through a router (RFC 4861, 6.1.2).
        setsockopt(&socket, sockopt::Ipv6Ttl, &255).unwrap();
        let host = "fe80::5054:ff:fe00:0".parse().unwrap();
        let target = SocketAddrV6::new(host, 0, 0, if_nametoindex("port0").unwrap());
        let target = SockaddrIn6::from(target);
        let sent = sendto(
            socket.as_raw_fd(),
            &ROUTE_INFORMATION,
            &target,
            MsgFlags::empty(),
        );
        assert_eq!(sent.unwrap(), ROUTE_INFORMATION.len());
    });
}

#[test]
fn a_route_to_a_particular_network_is_taken_from_an_advertisement() {
    on_a_machine(async |lab| {
        plug_in(lab);
        let mut network = lab.boot("ip=eth0:auto6");
        until_nic(lab, &mut network, "the link-local address", "eth0", |nic| {
            nic.addresses.iter().any(|a| a.usable)
        })
        .await;
        advertise_route(lab);
        lab.until_so("the route to 2001:db8:1::/48", || {
            ip_output("-6 route").contains("2001:db8:1::/48 via fe80::")
        })
        .await;
    });
}
