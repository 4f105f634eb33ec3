use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use landfall_boot_params::dracut_net::VendorClass;
use landfall_boot_params::{ClonedMac, IpPrefix, MacAddr};
use proptest::prelude::*;

use super::*;
use crate::plan::{Ethtool, InterfaceKind, InterfaceMatch, IpPlan, Method, Route, RouteKind};

fn plan(line: &str) -> NetworkPlan {
    NetworkPlan::from_boot_args(&NetArgs::parse(line))
}

#[test]
fn arguments_are_those_that_a_person_would_write() {
    for (line, arguments, lost) in [
        ("ip=dhcp", "ip=dhcp", ""),
        ("ip=off", "ip=none", ""),
        (
            "ip=192.0.2.10/26::192.0.2.1::node7:eth0:none:192.0.2.53",
            "ip=192.0.2.10::192.0.2.1:26:node7:eth0:none:192.0.2.53",
            "",
        ),
        (
            "ip=[2001:db8::10]/64::[2001:db8::1]:::eth0:none:1400:02-00-00-00-00-01 \
             ip=192.0.2.10/24:::::eth0:none nameserver=2001:db8::53 rd.neednet",
            "ip=192.0.2.10:::24::eth0:none \
             ip=[2001:db8::10]::[2001:db8::1]:64::eth0:none:1400:02:00:00:00:00:01 \
             ip=eth0:auto:[2001:db8::53] rd.neednet=1",
            "",
        ),
        (
            "ip=dhcp BOOTIF=01-52-54-00-00-00-01 rd.net.timeout.dhcp=30 rd.net.dhcp.retry=2",
            "rd.net.timeout.dhcp=60 ip=52-54-00-00-00-01:dhcp",
            "",
        ),
        (
            "vlan=bond0.7:bond0 bond=bond0:eth0,52-54-00-00-00-01:mode=1,arp_interval=9,\
             ns_ip6_target=[2001:db8::1];[2001:db8::2] ip=bond0.7:dhcp,dhcp6 \
             rd.net.timeout.ip-required=5 rd.route=[2001:db8:7::]/48:[2001:db8::7]:bond0.7 \
             rd.route=[2001:db8:7::/48]:[2001:db8::7]:bond0.7",
            "rd.net.timeout.ip-required=5 ip=bond0:none ip=bond0.7:dhcp,dhcp6 \
             bond=bond0:eth0,52-54-00-00-00-01:arp_interval=9,mode=active-backup,\
             ns_ip6_target=[2001:db8::1];[2001:db8::2] vlan=bond0.7:bond0 \
             rd.route=[2001:db8:7::/48]:[2001:db8::7]:bond0.7",
            "",
        ),
        (
            "ib.pkey=ib0.8001 ip=ib0.8001:none rd.ethtool=eth0::1000 bootdev=eth0",
            "ip=eth0:auto ip=ib0.8001:none rd.ethtool=eth0::1000 ib.pkey=ib0.8001 rd.neednet=1",
            "",
        ),
        (
            "team=team0:eth0,eth1:lacp ip=team0:off",
            "ip=team0:none team=team0:eth0,eth1:lacp",
            "",
        ),
        (
            "vlan=v5:52-54-00-00-00-01 ip=v5:dhcp",
            "ip=52-54-00-00-00-01:none ip=v5:dhcp",
            "v5: type, or an option of it",
        ),
    ] {
        let written = plan(line).to_boot_args();
        assert_eq!(written.arguments.join(" "), arguments, "{line}");
        assert_eq!(written.lost.join(", "), lost, "{line}");
    }
}

#[test]
fn settings_that_no_argument_can_express_are_reported() {
    let ipv4 = |plan: &mut NetworkPlan, change: fn(&mut IpPlan)| {
        change(plan.interfaces[0].ipv4.as_mut().unwrap());
    };
    let changed = |change: &dyn Fn(&mut NetworkPlan)| {
        let mut plan = plan("ip=eth0:dhcp rd.route=10.0.0.0/8:192.0.2.1:eth0");
        change(&mut plan);
        plan.to_boot_args().lost
    };
    assert_eq!(changed(&|_| {}), Vec::<String>::new());
    for (lost, found) in [
        (
            vec!["eth0: IPv4: routes"],
            changed(&|plan| ipv4(plan, |ip| ip.routes[0].metric = Some(5))),
        ),
        (
            vec!["eth0: IPv6: source of addresses"],
            changed(&|plan| plan.interfaces[0].ipv6.as_mut().unwrap().method = Method::Disabled),
        ),
        (
            vec![
                "rd.net.dhcp.vendor-class=a b: a kernel argument cannot contain white space or quotes",
                "eth0: IPv4: DHCP vendor class",
            ],
            changed(&|plan| {
                ipv4(plan, |ip| {
                    ip.automatic.vendor_class = VendorClass::parse("a b").ok()
                })
            }),
        ),
        (
            vec!["host name"],
            changed(&|plan| plan.host_name = Some("node7".to_owned())),
        ),
        (
            vec!["eth:1: no argument creates it"],
            changed(&|plan| {
                let mut other = plan.interfaces[0].clone();
                other.matches.name = Some("eth:1".to_owned());
                plan.interfaces.push(other);
            }),
        ),
        (
            // A `bond=` without ports configures the port `eth0`.
            vec!["eth0: the arguments configure it as well"],
            changed(&|plan| {
                *plan = self::plan("bond");
                plan.interfaces.truncate(1);
            }),
        ),
    ] {
        assert_eq!(found, lost);
    }
}

/// The test vectors whose plan changes when it is written as arguments and read again.
const LOST: &[&str] = &[
    "vlan=v5:52-54-00-00-00-01",
    // These arguments are for one NIC, but do not say for which one.
    "rd.route=10.0.0.0/8:192.0.2.1:averylonginterfacename",
    "bootdev",
    "bootdev=",
    "bootdev=averylonginterfacename",
];

#[test]
fn every_vector_comes_back() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/boot_args/vectors.txt");
    let text = fs::read_to_string(path).unwrap();
    let is_line = |line: &&str| !line.is_empty() && !line.starts_with(['#', '{']);
    for line in text.lines().filter(is_line) {
        let lost = plan(line).to_boot_args().lost;
        assert_eq!(!lost.is_empty(), LOST.contains(&line), "{line}: {lost:?}");
    }
}

fn address(is_ipv4: bool) -> impl Strategy<Value = std::net::IpAddr> {
    any::<u16>().prop_map(move |host| {
        let [high, low] = host.to_be_bytes();
        if is_ipv4 {
            [198, 51, high, low | 1].into()
        } else {
            [0x2001, 0xdb8, 0, 0, 0, 0, 0, host | 1].into()
        }
    })
}

fn family(is_ipv4: bool) -> impl Strategy<Value = IpPlan> {
    let list = || proptest::collection::vec(address(is_ipv4), 1..3);
    let longest: u8 = if is_ipv4 { 32 } else { 128 };
    let routes = proptest::option::of((address(is_ipv4), 0..=longest, address(is_ipv4)));
    let gateway = proptest::option::of(address(is_ipv4));
    (list(), 0..=longest, gateway, list(), routes).prop_map(
        move |(mut addresses, length, gateway, mut dns, route)| {
            addresses.dedup();
            dns.dedup();
            let address = |address| IpPrefix { address, length };
            let route = route.map(|(address, length, via)| Route {
                kind: RouteKind::Unicast,
                destination: IpPrefix { address, length },
                via: Some(via),
                metric: None,
                table: None,
                options: Vec::new(),
            });
            IpPlan {
                addresses: addresses.into_iter().map(address).collect(),
                gateway,
                dns,
                routes: route.into_iter().collect(),
                required: true,
                ..IpPlan::new(Method::Manual)
            }
        },
    )
}

/// Removes the static addresses of a family and gives it another method.
fn with_method(mut ip: IpPlan, method: Method, required: bool, wait: Option<u32>) -> IpPlan {
    ip.addresses.clear();
    ip.gateway = None;
    if matches!(method, Method::Disabled | Method::LinkLocal) {
        ip.dns.clear();
    }
    IpPlan {
        method,
        required,
        required_timeout_ms: wait,
        ..ip
    }
}

/// The pairs of families that arguments can express. An optional IPv4 family needs a
/// waiting time, because reading the arguments gives it one by default.
fn families() -> impl Strategy<Value = (IpPlan, IpPlan)> {
    const WAIT: Option<u32> = Some(7000);
    (0..9, family(true), family(false)).prop_map(|(choice, ipv4, ipv6)| {
        let auto = |ip, required, wait| with_method(ip, Method::Auto, required, wait);
        let off = |ip| with_method(ip, Method::Disabled, false, None);
        match choice {
            0 => (ipv4, ipv6),
            1 => (ipv4, off(ipv6)),
            2 => (off(ipv4), ipv6),
            3 => (auto(ipv4, true, None), auto(ipv6, false, None)),
            4 => (auto(ipv4, true, None), ipv6),
            5 => (off(ipv4), auto(ipv6, true, None)),
            6 => (auto(ipv4, true, None), auto(ipv6, true, None)),
            7 => (auto(ipv4, false, WAIT), auto(ipv6, false, WAIT)),
            _ => (ipv4, with_method(ipv6, Method::LinkLocal, true, None)),
        }
    })
}

fn nic(matches: InterfaceMatch, (ipv4, ipv6): (IpPlan, IpPlan)) -> Interface {
    Interface {
        multi: matches.is_any() && ipv4.addresses.is_empty() && ipv6.addresses.is_empty(),
        ipv4: Some(ipv4),
        ipv6: Some(ipv6),
        ..Interface::new(matches)
    }
}

fn interfaces() -> impl Strategy<Value = Vec<Interface>> {
    let matches = (0_u8..6).prop_map(|number| match number {
        0 => InterfaceMatch::default(),
        1 => InterfaceMatch::with_mac(MacAddr([0x52, 0x54, 0, 0, 0, 1])),
        _ => InterfaceMatch::named(format!("eth{number}")),
    });
    let link = (
        proptest::option::of(1280_u32..9000),
        proptest::option::of(any::<[u8; 6]>().prop_map(MacAddr)),
        proptest::option::of((any::<bool>(), 10_u32..100_000)),
    );
    let one = (matches, families(), link).prop_map(|(matches, families, (mtu, mac, speed))| {
        let mut nic = nic(matches, families);
        nic.mtu = mtu;
        nic.set_mac = mac.map(ClonedMac::Address);
        let speed = speed.filter(|_| !nic.matches.is_any());
        nic.ethtool = speed.map(|(autoneg, speed)| Ethtool {
            autoneg,
            speed: Some(speed),
        });
        nic
    });
    proptest::collection::vec(one, 1..5)
}

/// Adds a bond or bridge of all NICs that have a name, and a VLAN on it.
fn stacked(mut list: Vec<Interface>, families: (IpPlan, IpPlan), is_bond: bool) -> Vec<Interface> {
    let named = |name: &str| InterfaceMatch::named(name);
    let mut has_ports = false;
    for port in list.iter_mut().filter(|nic| nic.matches.name.is_some()) {
        port.controller = Some("top0".to_owned());
        (port.ipv4, port.ipv6) = (None, None);
        has_ports = true;
    }
    if has_ports {
        let options = [
            ("mode", "802.3ad"),
            ("ad_actor_system", "02:00:00:00:00:07"),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut top = nic(named("top0"), families.clone());
        top.kind = if is_bond {
            InterfaceKind::Bond {
                options: BTreeMap::from(options),
            }
        } else {
            InterfaceKind::Bridge { stp: Some(false) }
        };
        let mut vlan = nic(named("top0.4094"), families);
        vlan.kind = InterfaceKind::Vlan {
            id: 4094,
            parent: Some("top0".to_owned()),
            parent_mac: None,
            service: false,
        };
        list.extend([top, vlan]);
    }
    list
}

proptest! {
    #[test]
    fn plans_come_back(
        list in interfaces(),
        families in families(),
        stack in proptest::option::of(any::<bool>()),
        needed: bool,
        times in (1_u32..1000, proptest::option::of(1_u32..1000)),
    ) {
        let mut interfaces: Vec<Interface> = Vec::new();
        for nic in list {
            if interfaces.iter().all(|known| known.matches != nic.matches) {
                interfaces.push(nic);
            }
        }
        if let Some(is_bond) = stack {
            interfaces = stacked(interfaces, families, is_bond);
        }
        for interface in &mut interfaces {
            interface.needed = needed && interface.kind == InterfaceKind::Ethernet;
            for ip in interface.families_mut() {
                ip.automatic.timeout = Some(times.0);
            }
        }
        let mut plan = NetworkPlan {
            carrier_timeout: times.1,
            interfaces,
            ..NetworkPlan::default()
        };
        plan.sort();
        let written = plan.to_boot_args();
        prop_assert_eq!(&written.lost, &Vec::<String>::new(), "{:?}", written.arguments);
        // Reading the arguments again gives the same interfaces in the same order.
        let again = self::plan(&written.arguments.join(" "));
        let names = |plan: &NetworkPlan| -> Vec<_> {
            plan.interfaces.iter().map(|i| i.matches.clone()).collect()
        };
        prop_assert_eq!(names(&again), names(&plan));
        let far = |warning: &String| warning.contains("is outside of the network of");
        prop_assert!(again.warnings.iter().all(far), "{:?}", again.warnings);
    }
}
