//! Generates random kernel command lines for the network: mostly valid words in
//! mostly valid places, so that arguments interact.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;

// `|` separates the entries of a list. Simple texts come first, because proptest
// shrinks a failing line towards the front of each list.

const DEVICES: &str = "\
    eth0|eth1|ens3|52-54-00-00-00-01|52-54-00-00-00-02|bond0|br0|team0|vlan5|bond0.5|ib0|\
    ib0.8001|80-00-02-08-fe-80-00-00-00-00-00-00-00-02-c9-03-00-12-34-57";
const ODD_DEVICES: &str = "|%|a/b|default|all|..|averylonginterface0|52-54-00-00-00|eth0%d";
const IPV4: &str = "192.0.2.5|192.0.2.6|10.0.0.7|172.16.3.4";
const ODD_IPV4: &str = "|0.0.0.0|192.0.2.300|1.2.3|255.255.255.255";
const IPV6: &str = "[2001:db8::5]|[2001:db8::6]|[fe80::1]";
const ODD_IPV6: &str = "[::]|[2001:db8::g]|2001:db8::5|[[2001:db8::5]]";
const PREFIXES: &str = "/24|/16|/64|/32|/0|/33|/128|/129|/x|/";
const MASKS: &str = "|24|255.255.255.0|64|255.255.0.255|0.0.0.0|0|32|33|x|ffff::";
const HOST_NAMES: &str = "|node7|node7.example.org|192.0.2.9|bad_name|-n|a..b|localhost|n!";
const METHODS: &str = "\
    dhcp|none||off|auto|dhcp6|auto6|link6|on|any|single-dhcp|dhcp,dhcp6|auto6,dhcp|dhcp,|\
    none,dhcp|either6|DHCP|bogus";
const TAILS: &str = "\
    |:1400|:192.0.2.53|:[2001:db8::53]|:192.0.2.53:[2001:db8::53]|:1400:52-54-00-00-00-09|\
    ::52:54:00:00:00:09|::preserve|::permanent|::random|::stable|:0|:x|::x|:192.0.2.53:x|\
    :4294967296|:1400:|:";
const BOND_OPTIONS: &str = "\
    |:mode=1|:mode=802.3ad,miimon=100|:mode=active-backup,primary=eth1,miimon=100|\
    :mode=4,lacp_rate=fast,xmit_hash_policy=layer3+4|:miimon=x|:mode=7|\
    :arp_interval=100,arp_ip_target=192.0.2.1|:mode=balance-alb,fail_over_mac=1|:foo=1|\
    :mode=1,updelay=200,downdelay=200|:mode=1:1400|::9000|:mode";

/// One item of a list that is joined by `|`.
fn one(list: &'static str) -> BoxedStrategy<String> {
    select(list.split('|').collect::<Vec<_>>())
        .prop_map(str::to_owned)
        .boxed()
}

/// A word that comes from the first list in nine of ten cases.
fn mostly(usual: &'static str, odd: &'static str) -> BoxedStrategy<String> {
    prop_oneof![9 => one(usual), 1 => one(odd)].boxed()
}

fn device() -> BoxedStrategy<String> {
    mostly(DEVICES, ODD_DEVICES)
}

fn or_nothing(strategy: BoxedStrategy<String>) -> BoxedStrategy<String> {
    prop_oneof![one(""), strategy].boxed()
}

fn address() -> BoxedStrategy<String> {
    prop_oneof![3 => mostly(IPV4, ODD_IPV4), 1 => mostly(IPV6, ODD_IPV6)].boxed()
}

fn with_prefix() -> BoxedStrategy<String> {
    joined(vec![address(), or_nothing(one(PREFIXES))], "")
}

fn joined(fields: Vec<BoxedStrategy<String>>, separator: &'static str) -> BoxedStrategy<String> {
    fields
        .prop_map(move |fields| fields.join(separator))
        .boxed()
}

/// `KEY=` and the fields, separated by colons.
fn argument(key: &'static str, fields: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    joined(fields, ":")
        .prop_map(move |value| format!("{key}={value}"))
        .boxed()
}

fn ip() -> BoxedStrategy<String> {
    let short = argument("ip", vec![one(METHODS)]);
    let of_device = argument(
        "ip",
        vec![device(), joined(vec![one(METHODS), one(TAILS)], "")],
    );
    let long = argument(
        "ip",
        vec![
            with_prefix(),
            mostly("", IPV4),
            or_nothing(address()),
            one(MASKS),
            one(HOST_NAMES),
            or_nothing(device()),
            joined(vec![one(METHODS), one(TAILS)], ""),
        ],
    );
    prop_oneof![1 => short, 3 => of_device, 3 => long].boxed()
}

fn controller(key: &'static str) -> BoxedStrategy<String> {
    let ports = prop::collection::vec(device(), 1..3).prop_map(|ports| ports.join(","));
    argument(key, vec![device(), ports.boxed()])
}

fn any_argument() -> BoxedStrategy<String> {
    let route = || vec![with_prefix(), or_nothing(address())];
    let routes = prop_oneof![
        argument("rd.route", route()),
        argument("rd.route", [route(), vec![device()]].concat()),
    ];
    let bond = joined(vec![controller("bond"), one(BOND_OPTIONS)], "");
    let vlan = argument("vlan", vec![device(), device()]);
    let odd_vlan =
        one("vlan=|vlan|vlan=:eth0|vlan=vlan5|vlan=vlan4095:eth0|vlan=eth0.5:eth0:x|vlan=x:eth0");
    let ethtool = argument(
        "rd.ethtool",
        vec![device(), one("on|off||1|x"), one("|1000|0|x|-1|100:x")],
    );
    let partition = joined(
        vec![
            one("ib.pkey="),
            one("ib0|ib1|eth0|"),
            one(".8001|.0|.8000|.1|.0x8002|.ffff|.10000|.x|."),
            one("|:x"),
        ],
        "",
    );
    let boot_interface = joined(
        vec![
            one("BOOTIF=|bootif="),
            one("|01-|00-|02-"),
            one("52-54-00-00-00-01|52:54:00:00:00:02|52-54-00-00-00-03"),
        ],
        "",
    );
    let whole_machine = one(
        "rd.neednet=1|rd.neednet|rd.neednet=0|rd.bootif=0|rd.bootif=1|rd.peerdns=0|rd.peerdns=x|\
         rd.net.timeout.dhcp=30|rd.net.timeout.dhcp=infinity|rd.net.timeout.dhcp=0|\
         rd.net.dhcp.retry=3|rd.net.timeout.carrier=45|rd.net.timeout.carrier=x|\
         rd.net.dhcp.vendor-class=lab|rd.net.dhcp.vendor-class=a\\040b|\
         rd.net.dhcp.vendor-class=a\\000b|rd.net.dhcp.vendor-class=a\\\\b|\
         rd.net.dhcp.vendor-class=a\\n|rd.net.dhcp.vendor-class=a\\q\\400|rd.net.dhcp.vendor-class=|\
         BOOTIF=|BOOTIF=x|bond|bridge|team|bond=|quiet",
    );
    prop_oneof![
        8 => ip(),
        2 => argument("nameserver", vec![address()]),
        3 => routes,
        2 => vlan,
        1 => odd_vlan,
        2 => bond,
        1 => controller("bridge"),
        1 => controller("team"),
        1 => ethtool,
        1 => partition,
        1 => argument("bootdev", vec![device()]),
        2 => boot_interface,
        2 => whole_machine,
    ]
    .boxed()
}

/// One to five arguments.
pub fn line() -> BoxedStrategy<Vec<String>> {
    prop::collection::vec(any_argument(), 1..6).boxed()
}
