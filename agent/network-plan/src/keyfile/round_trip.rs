//! Property tests: the keyfiles of a plan, parsed again, express the same as the plan.

use std::collections::BTreeMap;
use std::net::IpAddr;

use landfall_boot_params::{ClonedMac, IpPrefix, MacAddr, NetArgs};
use proptest::prelude::*;

use super::*;
use crate::plan::{IpPlan, Method};

/// The facts about one interface, as far as a profile contains them.
#[derive(Debug, PartialEq, Default)]
struct Facts {
    name: Option<String>,
    mac: Option<MacAddr>,
    kind: Kind,
    controller: Option<String>,
    down: bool,
    mtu: Option<u32>,
    set_mac: Option<ClonedMac>,
    ipv4: Option<Family>,
    ipv6: Option<Family>,
}

#[derive(Debug, PartialEq, Default)]
enum Kind {
    #[default]
    Ethernet,
    Vlan {
        id: u16,
        parent: Option<String>,
        service: bool,
    },
    Bond(BTreeMap<String, String>),
    Bridge(Option<bool>),
}

#[derive(Debug, PartialEq, Default)]
struct Family {
    method: String,
    addresses: Vec<IpPrefix>,
    gateway: Option<IpAddr>,
    dns: Vec<IpAddr>,
    search: Vec<String>,
    /// The routes: destination, next hop, metric, options.
    routes: Vec<(IpPrefix, Option<IpAddr>, Option<u32>, String)>,
    required: bool,
    /// Set if the addresses come from the network.
    automatic: Option<Asked>,
}

/// What the interface accepts from the network: whether to ignore DNS servers,
/// ignore routes and avoid a default route; the timeout in seconds; the host
/// name to send.
type Asked = (bool, bool, bool, Option<u32>, Option<String>);
type File = BTreeMap<String, BTreeMap<String, String>>;

fn parse(text: &str) -> File {
    let mut file = File::new();
    let mut section = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').unwrap().to_owned();
            assert!(
                file.insert(section.clone(), BTreeMap::new()).is_none(),
                "{text}"
            );
        } else {
            let (key, value) = line.split_once('=').unwrap();
            let old = file
                .get_mut(&section)
                .unwrap()
                .insert(key.to_owned(), value.to_owned());
            assert_eq!(old, None, "{key} twice in\n{text}");
        }
    }
    file
}

fn of_file(text: &str) -> Facts {
    let file = parse(text);
    let get = |section: &str, key: &str| file.get(section).and_then(|s| s.get(key)).cloned();
    let parsed = |text: Option<String>| text.map(|text| text.parse().unwrap());
    let kind = get("connection", "type").unwrap();
    Facts {
        name: get("connection", "interface-name"),
        mac: parsed(get("ethernet", "mac-address")),
        kind: match kind.as_str() {
            "802-3-ethernet" => Kind::Ethernet,
            "vlan" => Kind::Vlan {
                id: get("vlan", "id").unwrap().parse().unwrap(),
                parent: get("vlan", "parent"),
                service: get("vlan", "protocol").is_some_and(|p| p == "802.1ad"),
            },
            "bond" => Kind::Bond(file["bond"].clone()),
            "bridge" => Kind::Bridge(get("bridge", "stp").map(|stp| stp == "true")),
            other => panic!("{other}"),
        },
        controller: get("connection", "master"),
        down: get("connection", "autoconnect").unwrap() == "false",
        mtu: get("ethernet", "mtu").map(|mtu| mtu.parse().unwrap()),
        set_mac: get("ethernet", "cloned-mac-address").map(|text| text.parse().unwrap()),
        ipv4: file.get("ipv4").map(|s| family_of_file(s, true)),
        ipv6: file.get("ipv6").map(|s| family_of_file(s, false)),
    }
}

fn family_of_file(section: &BTreeMap<String, String>, is_ipv4: bool) -> Family {
    let get = |key: &str| section.get(key).cloned();
    let list = |key: &str| -> Vec<String> {
        let text = get(key).unwrap_or_default();
        text.split(';')
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let is = |key: &str, value: &str| get(key).is_some_and(|found| found == value);
    let numbered = |name: &str| -> Vec<(usize, String)> {
        let keys = (0..).map_while(|index| Some((index, get(&format!("{name}{index}"))?)));
        keys.collect()
    };
    let route = |(index, text): (usize, String)| {
        let words: Vec<&str> = text.split(',').collect();
        let via = words
            .get(1)
            .filter(|w| !w.is_empty())
            .map(|w| w.parse::<IpAddr>().unwrap());
        (
            words[0].parse().unwrap(),
            via.filter(|via| !via.is_unspecified()),
            words.get(2).map(|w| w.parse().unwrap()),
            get(&format!("route{index}_options")).unwrap_or_default(),
        )
    };
    let method = get("method").unwrap();
    let is_automatic = method == "auto" || method == "dhcp";
    let host_name = get("dhcp-hostname").or(get("dhcp-fqdn").filter(|_| is_ipv4));
    Family {
        addresses: numbered("address")
            .iter()
            .map(|(_, text)| text.parse().unwrap())
            .collect(),
        gateway: get("gateway").map(|text| text.parse().unwrap()),
        dns: list("dns")
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
        search: list("dns-search"),
        routes: numbered("route").into_iter().map(route).collect(),
        required: is("may-fail", "false"),
        automatic: is_automatic.then(|| {
            (
                is("ignore-auto-dns", "true"),
                is("ignore-auto-routes", "true"),
                is("never-default", "true"),
                get("dhcp-timeout").map(|text| text.parse().unwrap()),
                host_name,
            )
        }),
        method,
    }
}

fn of_plan(plan: &NetworkPlan, interface: &Interface) -> Facts {
    let kind = match &interface.kind {
        InterfaceKind::Ethernet => Kind::Ethernet,
        InterfaceKind::Vlan {
            id,
            parent,
            parent_mac,
            service,
        } => {
            // If the NIC is identified by its address, the UUID of its profile replaces
            // the NIC's name.
            let by_mac = |i: &&Interface| i.matches.mac.is_some() && i.matches.mac == *parent_mac;
            let parent_interface = plan.interfaces.iter().find(by_mac);
            Kind::Vlan {
                id: *id,
                parent: parent_interface
                    .map(|i| uuid(i, &super::id(i)))
                    .or(parent.clone()),
                service: *service,
            }
        }
        InterfaceKind::Bond { options } => Kind::Bond(options.clone()),
        InterfaceKind::Bridge { stp } => Kind::Bridge(*stp),
        other => panic!("{other:?}"),
    };
    let family = |ip: &Option<IpPlan>, is_ipv4| {
        let is_port = interface.controller.is_some();
        (!is_port).then(|| ip.as_ref().map(|ip| family_of_plan(ip, is_ipv4)).unwrap())
    };
    Facts {
        name: interface.matches.name.clone(),
        mac: interface.matches.mac,
        kind,
        controller: interface.controller.clone(),
        down: interface.down,
        mtu: interface.mtu,
        set_mac: interface.set_mac,
        ipv4: family(&interface.ipv4, true),
        ipv6: family(&interface.ipv6, false),
    }
}

fn family_of_plan(ip: &IpPlan, is_ipv4: bool) -> Family {
    let kernel_metric = if is_ipv4 { 0 } else { 1024 };
    let automatic = &ip.automatic;
    let names = match ip.method {
        Method::Auto => "auto",
        Method::Dhcp if is_ipv4 => "auto",
        Method::Dhcp => "dhcp",
        Method::Manual => "manual",
        Method::LinkLocal => "link-local",
        Method::Disabled => "disabled",
    };
    let routes = ip.routes.iter().map(|route| {
        let metric = route.metric.or(route.table.map(|_| kernel_metric));
        (
            route.destination.network(),
            route.via,
            metric,
            route.options_text(),
        )
    });
    Family {
        method: names.to_owned(),
        addresses: ip.addresses.clone(),
        gateway: ip.gateway,
        dns: ip.dns.clone(),
        search: ip.search.clone(),
        routes: routes.collect(),
        required: ip.required,
        automatic: ip.method.is_automatic().then(|| {
            (
                automatic.ignore_dns,
                automatic.ignore_routes,
                automatic.never_default,
                automatic.timeout,
                automatic.host_name.clone(),
            )
        }),
    }
}

fn check(plan: &NetworkPlan) -> Result<(), TestCaseError> {
    let files = plan.keyfiles();
    let interfaces = plan.interfaces.iter().filter(|i| is_particular(i));
    prop_assert_eq!(files.len(), interfaces.clone().count());
    for (file, interface) in files.iter().zip(interfaces) {
        prop_assert_eq!(
            of_file(&file.text),
            of_plan(plan, interface),
            "{}",
            file.text
        );
    }
    // The reader turns these files into a plan, and the plan writes the same files
    // again.
    let back = NetworkPlan::from_keyfiles(&files);
    prop_assert!(back.is_ok(), "{back:?}");
    let mut again = back.map(|plan| plan.keyfiles()).unwrap_or_default();
    let mut files = files;
    again.sort_by(|a, b| a.name.cmp(&b.name));
    files.sort_by(|a, b| a.name.cmp(&b.name));
    prop_assert_eq!(again, files);
    Ok(())
}

prop_compose! {
    fn family(is_ipv4: bool)(
        enabled in any::<bool>(),
        dhcp in any::<bool>(),
        hosts in prop::collection::btree_set(1u8..250, 0..3),
        options in prop::collection::vec(any::<bool>(), 3),
    ) -> String {
        let (net, length) = if is_ipv4 { ("192.0.2.", 24) } else { ("2001:db8::", 64) };
        let addresses: Vec<_> = hosts
            .iter()
            .map(|host| format!("{{ip: '{net}{host}', prefix-length: {length}}}"))
            .collect();
        let autoconf = if is_ipv4 { String::new() } else { format!("autoconf: {dhcp}, ") };
        format!(
            "{{enabled: {enabled}, dhcp: {dhcp}, {autoconf}auto-dns: {}, auto-gateway: {}, \
             auto-routes: {}, address: [{}]}}",
            options[0], options[1], options[2], addresses.join(", ")
        )
    }
}

prop_compose! {
    /// A document with `eth0` to `eth3`, a bond of the last two, a VLAN and a bridge,
    /// in any order. It also has `r0` with an address, so that routes and name servers
    /// have an interface.
    fn document()(
        ipv4 in prop::collection::vec(family(true), 5),
        ipv6 in prop::collection::vec(family(false), 5),
        mtu in prop::option::of(1280u32..9000),
        is_down in any::<bool>(),
        by_mac in any::<bool>(),
        tag in 0u16..=4094,
        service in any::<bool>(),
        mode in 0u8..7,
        stp in prop::option::of(any::<bool>()),
        routes in prop::collection::vec((0u8..=32, any::<u32>(), prop::option::of(0u32..5000), prop::option::of(1u32..500)), 0..4),
        order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
    ) -> String {
        let state = if is_down { "down" } else { "up" };
        let identity = if by_mac {
            "identifier: mac-address, mac-address: '52:54:00:00:00:01', "
        } else {
            ""
        };
        let mtu = mtu.map_or(String::new(), |mtu| format!("mtu: {mtu}, "));
        let protocol = if service { "802.1ad" } else { "802.1q" };
        let stp = stp.map_or(String::new(), |on| format!("options: {{stp: {{enabled: {on}}}}}, "));
        let entries = [
            format!("{{name: eth0, type: ethernet, {identity}{mtu}ipv4: {}, ipv6: {}}}", ipv4[0], ipv6[0]),
            format!("{{name: eth1, mac-address: '52:54:00:00:00:02', ipv4: {}, ipv6: {}}}", ipv4[1], ipv6[1]),
            format!("{{name: bond0, type: bond, copy-mac-from: eth1, link-aggregation: {{mode: {mode}, port: [eth2, eth3], options: {{miimon: 100}}}}, ipv4: {}, ipv6: {}}}", ipv4[2], ipv6[2]),
            format!("{{name: v0, type: vlan, vlan: {{base-iface: eth0, id: {tag}, protocol: {protocol}}}}}, {{name: br0, type: linux-bridge, state: {state}, bridge: {{{stp}port: [{{name: v0}}]}}, ipv4: {}, ipv6: {}}}", ipv4[3], ipv6[3]),
        ];
        let entries: Vec<_> = order.into_iter().map(|index| entries[index].clone()).collect();
        let routes: Vec<_> = routes
            .into_iter()
            .map(|(length, address, metric, table)| {
                let address = std::net::Ipv4Addr::from_bits(address | 0x0100_0000);
                let metric = metric.map_or(String::new(), |metric| format!(", metric: {metric}"));
                let table = table.map_or(String::new(), |table| format!(", table-id: {table}"));
                format!("{{destination: {address}/{length}, next-hop-interface: r0{metric}{table}}}")
            })
            .collect();
        format!(
            "interfaces: [{}, {{name: r0, type: ethernet, ipv4: {{enabled: true, address: [{{ip: 203.0.113.9, prefix-length: 24}}]}}}}]\n\
             routes: {{config: [{}]}}\n\
             dns-resolver: {{config: {{server: [192.0.2.53], search: [example.org]}}}}\n",
            entries.join(", "), routes.join(", ")
        )
    }
}

proptest! {
    #[test]
    fn nmstate_comes_back(text in document()) {
        match NetworkPlan::from_nmstate(&text) {
            Ok(plan) => check(&plan)?,
            Err(error) => prop_assert!(false, "{text}\n{error}"),
        }
    }

    #[test]
    fn kernel_arguments_come_back(
        host in 1u8..250,
        mtu in prop::option::of(576u32..9000),
        method in prop::sample::select(vec!["none", "dhcp", "auto6", "link6", "dhcp,dhcp6", "off"]),
        tag in 0u16..=4094,
        prefix in 0u8..=32,
    ) {
        let mtu = mtu.map_or(String::new(), |mtu| format!(":{mtu}"));
        let line = format!(
            "ip=192.0.2.{host}::192.0.2.254:24:node7:bond0:none{mtu} bond=bond0:eth0,eth1:mode=1,miimon=100 \
             vlan=v.{tag}:bond0 ip=v.{tag}:{method} bridge=br0:eth2 ip=br0:{method} \
             rd.route=10.9.8.7/{prefix}:192.0.2.1:bond0 nameserver=192.0.2.53"
        );
        check(&NetworkPlan::for_boot(&NetArgs::parse(&line)))?;
    }

    /// No text of a document can start a line of a keyfile.
    #[test]
    fn no_text_becomes_a_line(text in "[ -~\\n]{0,12}", key in prop::sample::select(vec![
        "name", "profile-name", "description", "copy-mac-from", "controller"])) {
        let value = serde_json::to_string(&text).unwrap();
        let document = format!("interfaces: [{{name: eth0, {key}: {value}}}]").replace("name: eth0, name", "name");
        if let Ok(plan) = NetworkPlan::from_nmstate(&document) {
            for file in plan.keyfiles() {
                parse(&file.text);
                prop_assert!(!file.name.contains(['/', '\n']), "{}", file.name);
            }
        }
    }
}
