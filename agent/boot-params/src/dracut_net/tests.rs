use proptest::prelude::*;

use super::*;
use crate::ip_prefix::{IpPrefix, longest_prefix};
use crate::mac::MacAddr;
use crate::test_table::rows;

fn read(text: &str) -> NetArgs {
    NetArgs::parse(text)
}

/// The fields that are set in the only `ip=` of a line.
fn shown(text: &str) -> String {
    let args = read(text);
    let list: Vec<_> = args.ip().collect();
    let [argument] = list[..] else {
        return format!("{} arguments, {:?}", list.len(), args.warnings);
    };
    let mut words = vec![format!("{:?}", argument.method)];
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {value}")));
    };
    add("on", argument.device.as_ref().map(|d| format!("{d:?}")));
    add("address", argument.address.map(|a| a.to_string()));
    add("via", argument.gateway.map(|g| g.to_string()));
    add("name", argument.host_name.clone());
    add("mtu", argument.mtu.map(|m| m.to_string()));
    add("mac", argument.set_mac.map(|m| m.to_string()));
    for server in &argument.dns {
        add("dns", Some(server.to_string()));
    }
    if !args.warnings.is_empty() {
        words.push(format!("{} warnings", args.warnings.len()));
    }
    words.join(", ")
}

#[test]
fn reads_every_form_of_ip() {
    for (text, expected) in rows(include_str!("../../test_data/dracut_net/ip.txt")) {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn a_dns_server_beyond_the_limit_is_reported() {
    for key in ["nameserver", "rd.net.dns"] {
        let arguments: Vec<_> = (0..=MOST_SERVERS)
            .map(|n| format!("{key}=192.0.2.{n}"))
            .collect();
        let args = read(&arguments.join(" "));
        let kept = args.nameservers.len() + args.global_dns.len();
        assert_eq!(kept, MOST_SERVERS, "{key}");
        let expected =
            format!("{key}=192.0.2.64: expected at most 64 arguments of this name; ignored");
        assert_eq!(args.warnings, [expected]);
    }
}

#[test]
fn reads_the_arguments_around_ip() {
    let args = read(
        "nameserver=192.0.2.53 nameserver=[2001:db8::53] nameserver=2001:db8::54 nameserver= \
         rd.route=10.0.0.0/8:192.0.2.9 rd.route=[2001:db8:3::/48]:[2001:db8::9]:eth1 \
         rd.route=192.0.2.200::eth0 BOOTIF=01-52-54-00-00-00-01 bootdev=eth1 rd.neednet \
         rd.peerdns=0 rd.net.dhcp.vendor-class=landfall quiet",
    );
    assert_eq!(args.warnings, Vec::<String>::new());
    let addresses =
        ["192.0.2.53", "2001:db8::53", "2001:db8::54"].map(|a| a.parse::<IpAddr>().unwrap());
    assert_eq!(args.nameservers, addresses);
    let routes: Vec<_> = args
        .routes
        .iter()
        .map(|argument| {
            let route = argument.route.unwrap();
            let (destination, gateway) = (route.destination, route.gateway);
            format!("{destination} via {gateway:?} on {:?}", argument.device)
        })
        .collect();
    assert_eq!(
        routes,
        [
            "10.0.0.0/8 via Some(192.0.2.9) on None",
            "2001:db8:3::/48 via Some(2001:db8::9) on Some(Name(\"eth1\"))",
            "192.0.2.200/32 via None on Some(Name(\"eth0\"))",
        ]
    );
    assert_eq!(
        args.boot_interface.unwrap().mac,
        MacAddr([0x52, 0x54, 0, 0, 0, 1])
    );
    assert_eq!(args.boot_device, Some(DeviceSpec::Name("eth1".into())));
    assert!(args.need_network);
    assert!(!args.accept_peer_dns);
    assert_eq!(
        args.dhcp_vendor_class.as_ref().map(VendorClass::text),
        Some("landfall")
    );
}

#[test]
fn reads_names_for_nics() {
    let shown = |text: &str| {
        let args = read(text);
        let names = args.names.iter().map(|n| format!("{} {}", n.name, n.mac));
        names
            .chain(args.warnings.iter().cloned())
            .collect::<Vec<_>>()
    };
    for (text, expected) in [
        (
            "ifname=lan0:52:54:00:00:00:0A ifname=lan1:52-54-00-00-00-02",
            vec!["lan0 52:54:00:00:00:0a", "lan1 52:54:00:00:00:02"],
        ),
        (
            "ifname=lan0:52:54:00:00:00:01 ifname=lan1:52:54:00:00:00:01",
            vec!["lan1 52:54:00:00:00:01"],
        ),
        (
            "ifname=lan0:52:54:00:00:00:01 ifname=lan0:52:54:00:00:00:02",
            vec![
                "lan0 52:54:00:00:00:01",
                "ifname=lan0:52:54:00:00:00:02: an earlier ifname= gives this name to 52:54:00:00:00:01; ignored",
            ],
        ),
        (
            "ifname=a/b:52:54:00:00:00:01",
            vec!["ifname=a/b:52:54:00:00:00:01: expected NAME:MAC; ignored"],
        ),
        (
            "ifname=lan0",
            vec!["ifname=lan0: expected NAME:MAC; ignored"],
        ),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn rd_bootif_cancels_bootif_in_any_position() {
    for text in [
        "rd.bootif=0 BOOTIF=0:1:2:3:4:5",
        "bootif=0:1:2:3:4:5 rd.bootif=no",
    ] {
        assert_eq!(read(text).boot_interface, None, "{text}");
    }
    assert!(
        read("BOOTIF=0:1:2:3:4:5 rd.bootif=x")
            .boot_interface
            .is_some()
    );
}

#[test]
fn times_multiply_and_saturate() {
    for (text, dhcp, carrier, required) in [
        ("", 90, None, 20_000),
        (
            "rd.net.timeout.dhcp=10 rd.net.dhcp.retry=3",
            30,
            None,
            20_000,
        ),
        (
            "rd.net.timeout.dhcp=infinity rd.net.dhcp.retry=3",
            i32::MAX as u32,
            None,
            20_000,
        ),
        ("rd.net.timeout.carrier=45", 90, Some(45), 20_000),
        ("rd.net.timeout.carrier=0", 90, None, 20_000),
        (
            "rd.net.timeout.carrier=45 rd.net.timeout.carrier=0",
            90,
            None,
            20_000,
        ),
        ("rd.net.timeout.ip-required=5", 90, None, 5_000),
        (
            "rd.net.timeout.ip-required=infinity",
            90,
            None,
            i32::MAX as u32,
        ),
    ] {
        let args = read(text);
        assert_eq!(args.warnings, Vec::<String>::new(), "{text}");
        let found = (
            args.dhcp_timeout,
            args.carrier_timeout,
            args.ip_required_timeout_ms,
        );
        assert_eq!(found, (dhcp, carrier, required), "{text}");
    }
}

#[test]
fn each_unusable_argument_gives_one_warning() {
    for (text, warning) in rows(include_str!("../../test_data/dracut_net/ignored.txt")) {
        let args = read(text);
        assert_eq!(args.warnings, [format!("{text}: {warning}")]);
        let mut rest = NetArgs {
            warnings: Vec::new(),
            ..args
        };
        rest.routes.retain(|argument| argument.route.is_some());
        assert_eq!(rest, NetArgs::default(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_line_panics(
        text in "((ip|nameserver|rd\\.route|BOOTIF|bootdev|rd\\.net\\.timeout\\.dhcp)=[]\\[:/.,0-9a-f\\-dhcpnone]{0,40} ){0,5}"
    ) {
        let args = read(&text);
        for argument in args.ip() {
            if let Some(IpPrefix { address, length }) = argument.address {
                prop_assert!(length <= longest_prefix(address.is_ipv4()));
            }
            prop_assert!(argument.dns.len() <= 2);
        }
    }
}

/// A short form of each `bond=`, `bridge=`, `team=` and `vlan=` of a line.
fn shown_virtual(text: &str) -> Vec<String> {
    let args = read(text);
    let device = |device: &DeviceSpec| match device {
        DeviceSpec::Name(name) => name.clone(),
        DeviceSpec::Mac(mac) => mac.to_string(),
        DeviceSpec::Infiniband(mac) => mac.to_string(),
        DeviceSpec::Invalid(text) => format!("invalid {text}"),
    };
    let shown = args.interfaces.iter().map(|argument| match argument {
        InterfaceArgument::Ip(ip) => ip.text.clone(),
        InterfaceArgument::Vlan(vlan) => {
            format!("{} is {} on {}", vlan.name, vlan.id, device(&vlan.parent))
        }
        InterfaceArgument::Controller(c) => {
            let ports: Vec<_> = c.ports.iter().map(device).collect();
            let options: Vec<_> = c.options.iter().map(|(k, v)| format!(" {k}={v}")).collect();
            let mtu = c.mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
            let (kind, name, ports) = (c.kind, &c.name, ports.join("+"));
            format!("{kind:?} {name} of {ports}{}{mtu}", options.concat())
        }
        InterfaceArgument::Partition(p) => format!("{} is {:#06x} of {}", p.name, p.key, p.parent),
        InterfaceArgument::Ethtool(e) => {
            format!("{}: {:?} {:?}", device(&e.device), e.autoneg, e.speed)
        }
        InterfaceArgument::ClientId(c) => format!("{}: {:02x?}", device(&c.device), c.id),
        InterfaceArgument::Firmware(text) => text.clone(),
    });
    shown.chain(args.warnings.iter().cloned()).collect()
}

#[test]
fn reads_interfaces_that_software_makes() {
    for (text, expected) in rows(include_str!("../../test_data/dracut_net/virtual.txt")) {
        assert_eq!(shown_virtual(text).join(" & "), expected, "{text}");
    }
}

#[test]
fn the_login_to_the_firmwares_targets_is_on_unless_switched_off() {
    for (line, is_off) in [
        ("", false),
        ("rd.iscsi.firmware", false),
        ("rd.iscsi.firmware=1", false),
        ("rd.iscsi.firmware=0", true),
        ("rd.iscsi.firmware=no", true),
        ("rd.iscsi.firmware=x", false),
    ] {
        assert_eq!(NetArgs::parse(line).ignores_ibft_targets, is_off, "{line}");
    }
}
