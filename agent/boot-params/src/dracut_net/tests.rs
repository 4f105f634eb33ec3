use super::*;
use crate::ip_prefix::{IpPrefix, longest_prefix};
use crate::mac::MacAddr;
use proptest::prelude::*;

fn read(text: &str) -> NetArgs {
    NetArgs::from_command_line(&CommandLine::parse(text))
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
    for (text, expected) in [
        // One word.
        ("ip=dhcp", "Dhcp"),
        ("ip=dhcp:", "Dhcp"),
        ("ip=off", "None"),
        ("ip=any", "Auto"),
        ("ip=dhcp,dhcp6", "DhcpAndDhcp6"),
        ("ip=either6", "Auto, 1 warnings"),
        // Interface and method.
        ("ip=eth0:dhcp", r#"Dhcp, on Name("eth0")"#),
        ("ip=:dhcp:1499", "Dhcp, mtu 1499"),
        ("ip=eth0:auto6:9000", r#"Dhcp6, on Name("eth0"), mtu 9000"#),
        (
            "ip=eth0:dhcp::52:54:00:00:00:02",
            r#"Dhcp, on Name("eth0"), mac 52:54:00:00:00:02"#,
        ),
        (
            "ip=eth0:dhcp::preserve",
            r#"Dhcp, on Name("eth0"), mac preserve"#,
        ),
        (
            "ip=eth0:dhcp::Preserve",
            r#"Dhcp, on Name("eth0"), 1 warnings"#,
        ),
        (
            "ip=eth0:dhcp:1400:52-54-00-00-00-02",
            r#"Dhcp, on Name("eth0"), mtu 1400, mac 52:54:00:00:00:02"#,
        ),
        (
            "ip=eth0:dhcp:192.0.2.53:[2001:db8::53]",
            r#"Dhcp, on Name("eth0"), dns 192.0.2.53, dns 2001:db8::53"#,
        ),
        (
            "ip=52-54-00-00-00-01:dhcp",
            "Dhcp, on Mac(MacAddr([82, 84, 0, 0, 0, 1]))",
        ),
        (
            "ip=[52:54:00:00:00:01]:dhcp",
            "Dhcp, on Mac(MacAddr([82, 84, 0, 0, 0, 1]))",
        ),
        (
            "ip=eth0:bogus",
            r#"0 arguments, ["ip=eth0:bogus: expected METHOD, INTERFACE:METHOD or ADDRESS:... with IPv6 in brackets, found \"eth0\"; ignored"]"#,
        ),
        // Static IPv4.
        (
            "ip=192.0.2.10::192.0.2.1:255.255.255.0:node7:eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/24, via 192.0.2.1, name node7"#,
        ),
        (
            "ip=192.0.2.10/26::192.0.2.1:::eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/26, via 192.0.2.1"#,
        ),
        (
            "ip=192.0.2.10/26:::25::eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/25, 1 warnings"#,
        ),
        (
            "ip=192.0.2.10/26:::255.255.255.192::eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/26"#,
        ),
        (
            "ip=/24:::::eth0:none",
            r#"None, on Name("eth0"), 1 warnings"#,
        ),
        (
            "ip=192.0.2.10/26:::x::eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/24, 1 warnings"#,
        ),
        (
            "ip=10.0.0.1:::::eth0:none",
            r#"None, on Name("eth0"), address 10.0.0.1/8"#,
        ),
        (
            "ip=172.16.0.1:::::eth0",
            r#"Auto, on Name("eth0"), address 172.16.0.1/16"#,
        ),
        (
            "ip=192.168.0.1:::::eth0:off",
            r#"None, on Name("eth0"), address 192.168.0.1/24"#,
        ),
        (
            "ip=10.0.0.1:::255.0.255.0::eth0:none",
            r#"None, on Name("eth0"), address 10.0.0.1/24, 1 warnings"#,
        ),
        (
            "ip=10.0.0.1:::0.0.0.0::eth0:none",
            r#"None, on Name("eth0"), address 10.0.0.1/0"#,
        ),
        (
            "ip=10.0.0.1:::33::eth0:none",
            r#"None, on Name("eth0"), address 10.0.0.1/8, 1 warnings"#,
        ),
        (
            "ip=10.0.0.1/33:::::eth0:none",
            r#"None, on Name("eth0"), address 10.0.0.1/8, 1 warnings"#,
        ),
        (
            "ip=192.0.2.10:192.0.2.9::24::eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/24, 1 warnings"#,
        ),
        (
            "ip=192.0.2.10:::24:bad_name:eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/24, 1 warnings"#,
        ),
        (
            "ip=192.0.2.10::gw:24::eth0:none",
            r#"None, on Name("eth0"), address 192.0.2.10/24, 1 warnings"#,
        ),
        (
            "ip=192.0.2.10:::24::eth0:none:1400:52:54:00:00:00:02",
            r#"None, on Name("eth0"), address 192.0.2.10/24, mtu 1400, mac 52:54:00:00:00:02"#,
        ),
        (
            "ip=192.0.2.10:::24::eth0:none:192.0.2.53",
            r#"None, on Name("eth0"), address 192.0.2.10/24, dns 192.0.2.53"#,
        ),
        (
            "ip=192.0.2.10:::24::eth0:none:192.0.2.53:x:y",
            r#"None, on Name("eth0"), address 192.0.2.10/24, dns 192.0.2.53, 2 warnings"#,
        ),
        (
            "ip=192.0.2.10:::24::eth0:none:big:xx",
            r#"None, on Name("eth0"), address 192.0.2.10/24, 2 warnings"#,
        ),
        (
            "ip=192.0.2.10:::24::eth0:none:0",
            r#"None, on Name("eth0"), address 192.0.2.10/24, mtu 0"#,
        ),
        ("ip=192.0.2.10:::24:::none", "None, address 192.0.2.10/24"),
        ("ip=192.0.2.10", "Auto, 1 warnings"),
        // Static IPv6.
        (
            "ip=[2001:db8::10]::[2001:db8::1]:64:node7:eth0:none",
            r#"None, on Name("eth0"), address 2001:db8::10/64, via 2001:db8::1, name node7"#,
        ),
        (
            "ip=[2001:db8::10]/56:::::eth0:none",
            r#"None, on Name("eth0"), address 2001:db8::10/56"#,
        ),
        (
            "ip=[2001:db8::10/56]:::::eth0:none",
            r#"None, on Name("eth0"), address 2001:db8::10/56"#,
        ),
        (
            "ip=[2001:db8::10]:::::eth0:none",
            r#"None, on Name("eth0"), address 2001:db8::10/64"#,
        ),
        (
            "ip=[2001:DB8:0::10]:::129::eth0:none",
            r#"None, on Name("eth0"), address 2001:db8::10/64, 1 warnings"#,
        ),
        (
            "ip=[2001:db8::10]:::255.255.0.0::eth0:none",
            r#"None, on Name("eth0"), address 2001:db8::10/64, 1 warnings"#,
        ),
        (
            "ip=2001:db8::10:::64::eth0:none",
            r#"0 arguments, ["ip=2001:db8::10:::64::eth0:none: expected METHOD, INTERFACE:METHOD or ADDRESS:... with IPv6 in brackets, found \"2001\"; ignored"]"#,
        ),
        // No address.
        (
            "ip=::::node7:eth0:dhcp",
            r#"Dhcp, on Name("eth0"), name node7"#,
        ),
        (
            "ip=::192.0.2.1:24::eth0:dhcp",
            r#"Dhcp, on Name("eth0"), via 192.0.2.1, 1 warnings"#,
        ),
        ("ip=:::::eth0:dhcp", r#"Dhcp, on Name("eth0")"#),
        (
            "ip=averylonginterface:dhcp",
            r#"Dhcp, on Invalid("averylonginterface"), 1 warnings"#,
        ),
        ("ip=", "0 arguments, []"),
        ("ip=ibft", "Firmware"),
        ("ip=eth0:ibft", r#"Firmware, on Name("eth0")"#),
    ] {
        assert_eq!(shown(text), expected, "{text}");
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
fn rd_bootif_takes_bootif_back_wherever_it_stands() {
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
fn what_cannot_be_used_is_one_warning_each() {
    for (text, warning) in [
        (
            "nameserver=dns.lab",
            "nameserver=dns.lab: expected an IP address; ignored",
        ),
        (
            "rd.route=10.0.0.0/33:192.0.2.1",
            "rd.route=10.0.0.0/33:192.0.2.1: expected NETWORK[/PREFIX]:GATEWAY[:INTERFACE] with IPv6 in brackets, found network \"10.0.0.0/33\"; ignored",
        ),
        (
            "rd.route=10.0.0.0/8:[2001:db8::1]",
            "rd.route=10.0.0.0/8:[2001:db8::1]: expected a gateway of the network's family, found \"2001:db8::1\"; ignored",
        ),
        (
            "rd.route=",
            "rd.route=: expected NETWORK[/PREFIX]:GATEWAY[:INTERFACE] with IPv6 in brackets, found network \"\"; ignored",
        ),
        (
            "rd.net.timeout.dhcp=soon",
            "rd.net.timeout.dhcp=soon: expected a number; the default is used",
        ),
        (
            "rd.net.dhcp.retry=0",
            "rd.net.dhcp.retry=0: expected a number; the default is used",
        ),
        (
            "rd.net.dhcp.vendor-class",
            "rd.net.dhcp.vendor-class: expected 1 to 255 bytes, found 0; ignored",
        ),
        (
            "rd.net.dhcp.dscp=CS1",
            "rd.net.dhcp.dscp=CS1: expected CS0, CS4 or CS6, found \"CS1\"; ignored",
        ),
        (
            "rd.net.dns=dns+tls://192.0.2.53",
            "rd.net.dns=dns+tls://192.0.2.53: expected a server without TLS, found \"dns+tls://192.0.2.53\"; ignored",
        ),
        (
            "BOOTIF=eth0",
            "BOOTIF=eth0: expected six hexadecimal bytes joined by ':' or '-', found \"eth0\"; ignored",
        ),
        (
            "rd.peerdns=maybe",
            "rd.peerdns=maybe: expected yes or no, found \"maybe\"; taken as yes",
        ),
        (
            "ib.pkey=ib0",
            "ib.pkey=ib0: expected PARENT.KEY, with a hexadecimal key from 1 to ffff, but not 8000; ignored",
        ),
        (
            "ib.pkey=ib0.8000",
            "ib.pkey=ib0.8000: expected PARENT.KEY, with a hexadecimal key from 1 to ffff, but not 8000; ignored",
        ),
        (
            "rd.ethtool=default:on",
            "rd.ethtool=default:on: expected an interface name or a MAC address, found \"default\"; ignored",
        ),
        (
            "rd.route=10.0.0.0/8:192.0.2.1:a%b",
            "rd.route=10.0.0.0/8:192.0.2.1:a%b: expected an interface name or a MAC address, found \"a%b\"; ignored",
        ),
        (
            "bootdev=all",
            "bootdev=all: expected an interface name or a MAC address, found \"all\"; ignored",
        ),
        (
            r"rd.net.dhcp.vendor-class=a\000",
            "rd.net.dhcp.vendor-class=a\\000: expected a text without a NUL byte, found one; ignored",
        ),
        (
            "BOOTIF=",
            "BOOTIF=: expected six hexadecimal bytes joined by ':' or '-', found \"\"; ignored",
        ),
        (
            "rd.ethtool=",
            "rd.ethtool=: expected INTERFACE:[AUTONEG]:[SPEED]; ignored",
        ),
        (
            "rd.net.dhcp.client-id=eth0:01",
            "rd.net.dhcp.client-id=eth0:01: expected INTERFACE:ID, with 2 to 255 hexadecimal bytes joined by '-', or '@' and a text; ignored",
        ),
    ] {
        let args = read(text);
        assert_eq!(args.warnings, [warning], "{text}");
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

    #[test]
    fn no_text_panics(text in "ip=\\PC{0,60}") {
        read(&text);
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
    for (text, expected) in [
        ("vlan=vlan0005:eth0", vec!["vlan0005 is 5 on eth0"]),
        ("vlan=eth0.4094:eth0", vec!["eth0.4094 is 4094 on eth0"]),
        ("vlan=storage77:bond0", vec!["storage77 is 77 on bond0"]),
        (
            "vlan=v5:52-54-00-00-00-01",
            vec!["v5 is 5 on 52:54:00:00:00:01"],
        ),
        ("ib.pkey=ib0.8001", vec!["ib0.8001 is 0x8001 of ib0"]),
        ("ib.pkey=ib0.0x1", vec!["ib0.0x1 is 0x0001 of ib0"]),
        ("rd.ethtool=eth0:on", vec!["eth0: Some(true) None"]),
        ("rd.ethtool=eth0::1000", vec!["eth0: None Some(1000)"]),
        (
            "rd.ethtool=eth0:off:0",
            vec![
                "eth0: None None",
                "rd.ethtool=eth0:off:0: autonegotiation cannot be off without a speed; the driver's setting is kept",
            ],
        ),
        ("rd.net.dhcp.client-id=eth0:@ab", vec!["eth0: [00, 61, 62]"]),
        (
            "rd.iscsi.ibft rd.iscsi.ibft=0 rd.iscsi.ibft=1",
            vec!["rd.iscsi.ibft", "rd.iscsi.ibft=1"],
        ),
        ("bond", vec!["Bond bond0 of eth0"]),
        (
            "bond=b:eth0:fail_over_mac,miimon=100",
            vec!["Bond b of eth0 fail_over_mac,miimon=100"],
        ),
        ("bridge=", vec!["Bridge br0 of eth0"]),
        ("team=:eth1", vec!["Team team0 of eth1"]),
        (
            "bond=b:eth0,52-54-00-00-00-01:mode=802.3ad,miimon=100:9000",
            vec!["Bond b of eth0+52:54:00:00:00:01 mode=802.3ad miimon=100 mtu 9000"],
        ),
        (
            "bond=b:eth0:arp_ip_target=192.0.2.1;192.0.2.2,ns_ip6_target=[2001:db8::1];[2001:db8::2]",
            vec![
                "Bond b of eth0 arp_ip_target=192.0.2.1,192.0.2.2 ns_ip6_target=2001:db8::1,2001:db8::2",
            ],
        ),
        (
            "vlan=b.5:b bond=b:eth0,eth1 ip=b.5:dhcp",
            vec!["b.5 is 5 on b", "Bond b of eth0+eth1", "ip=b.5:dhcp"],
        ),
        // Arguments that are not valid.
        (
            "vlan=eth0.4095:eth0",
            vec![
                "vlan=eth0.4095:eth0: expected NAME:PARENT, with an id from 0 to 4094 at the end of the name; ignored",
            ],
        ),
        (
            "vlan",
            vec![
                "vlan: expected NAME:PARENT, with an id from 0 to 4094 at the end of the name; ignored",
            ],
        ),
        (
            "vlan=v5:eth0:x",
            vec![
                "v5 is 5 on eth0",
                "vlan=v5:eth0:x: expected no more fields, found \"x\"; ignored",
            ],
        ),
        (
            "bond=b:a/b,eth1::x",
            vec![
                "Bond b of eth1",
                "bond=b:a/b,eth1::x: expected the name or MAC of a port, found \"a/b\"; ignored",
                "bond=b:a/b,eth1::x: expected an MTU, found \"x\"; ignored",
            ],
        ),
        (
            "bridge=a-name-that-is-too-long:eth0",
            vec![
                "bridge=a-name-that-is-too-long:eth0: expected the name of an interface, found \"a-name-that-is-too-long\"; ignored",
            ],
        ),
    ] {
        assert_eq!(shown_virtual(text), expected, "{text}");
    }
}
