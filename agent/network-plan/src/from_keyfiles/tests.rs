use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::describe::describe;
use crate::keyfile;
use crate::plan::{Automatic, IpPlan};

fn test_data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("test_data")
        .join(name)
}

/// The keyfiles in a folder.
fn keyfiles_in(folder: &Path) -> Vec<Keyfile> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "nmconnection"))
        .collect();
    paths.sort();
    let keyfile = |path: PathBuf| Keyfile {
        name: path.file_name().unwrap().to_str().unwrap().to_owned(),
        text: fs::read_to_string(&path).unwrap(),
    };
    paths.into_iter().map(keyfile).collect()
}

/// Compares the lines of the debug output and the rules. Returns those that only
/// `expected` has (`-`) and those that only `found` has (`+`).
fn differences(expected: &NetworkPlan, found: &NetworkPlan) -> Vec<String> {
    let lines = |plan: &NetworkPlan| -> Vec<String> {
        let mut plan = comparable(plan);
        let rules = std::mem::take(&mut plan.rules).into_iter();
        let rules = rules.map(|rule| format!("rule: {rule}"));
        let text = format!("{plan:#?}");
        let is_bracket =
            |line: &&str| line.ends_with(['{', '[', '(']) || line.starts_with(['}', ']', ')']);
        let lines = text.lines().map(str::trim).filter(|line| !is_bracket(line));
        lines.map(str::to_owned).chain(rules).collect()
    };
    let (expected, found) = (lines(expected), lines(found));
    let count = |lines: &[String], line: &String| lines.iter().filter(|l| *l == line).count();
    let mut differences = BTreeMap::new();
    for line in expected.iter().chain(&found) {
        let (was, is) = (count(&expected, line), count(&found, line));
        if was != is {
            let sign = if was > is { '-' } else { '+' };
            differences.insert(format!("{sign} {line}"), ());
        }
    }
    differences.into_keys().collect()
}

/// The plan without the values that a keyfile cannot contain
/// (`test_data/keyfiles/README.md` lists them), and without settings that change
/// nothing.
fn comparable(plan: &NetworkPlan) -> NetworkPlan {
    let mut plan = plan.clone();
    plan.warnings.clear();
    plan.host_name = None;
    plan.rules.sort_by_key(ToString::to_string);
    let whole = plan.clone();
    for interface in plan.interfaces.iter_mut().chain(&mut plan.installed) {
        interface.port_number = 0;
        for family in interface.families_mut() {
            if !family.method.is_automatic() {
                family.automatic = Automatic::default();
            }
            family.automatic.mode = None;
        }
        let id = keyfile::id(interface);
        if interface.profile.is_ramdisk_only {
            // An interface that only the ramdisk has is not written as a profile.
            interface.profile = Default::default();
            interface.profile.is_ramdisk_only = true;
            for family in interface.families_mut() {
                family.settings.clear();
            }
            continue;
        }
        if interface.profile.label.as_ref() == Some(&id) {
            interface.profile.label = None;
        }
        without_redundant(interface, |interface| {
            whole.sections(interface, &id).to_string()
        });
    }
    plan.interfaces
        .sort_by_cached_key(|interface| format!("{interface:?}"));
    plan.installed
        .sort_by_cached_key(|interface| format!("{interface:?}"));
    plan
}

/// Removes each setting that does not change the text that the writer writes.
fn without_redundant(interface: &mut Interface, text: impl Fn(&Interface) -> String) {
    let expected = text(interface);
    let try_to = |interface: &mut Interface, change: &dyn Fn(&mut Interface)| {
        let mut changed = interface.clone();
        change(&mut changed);
        if text(&changed) == expected {
            *interface = changed;
        }
    };
    for (section, keys) in interface.profile.settings.clone() {
        for key in keys.into_keys() {
            try_to(interface, &|interface| {
                let settings = interface.profile.settings.get_mut(section);
                settings.unwrap().remove(&key);
            });
        }
        if interface.profile.settings[section].is_empty() {
            try_to(interface, &|interface| {
                interface.profile.settings.remove(section);
            });
        }
    }
    for is_ipv4 in [true, false] {
        let Some(family) = interface.family_mut(is_ipv4).clone() else {
            continue;
        };
        for key in family.settings.into_keys() {
            try_to(interface, &|interface| {
                let family: &mut Option<IpPlan> = interface.family_mut(is_ipv4);
                family.as_mut().unwrap().settings.remove(&key);
            });
        }
    }
}

/// The rows that one NMState document needs in `differences.txt`.
fn rows_of(case: &str, document: &str) -> Vec<String> {
    let Ok(plan) = NetworkPlan::from_nmstate(document) else {
        return Vec::new();
    };
    let files = plan.keyfiles();
    let row = |text: &str| format!("{case} | {text}");
    let back = match NetworkPlan::from_keyfiles(&files) {
        Ok(back) => back,
        Err(error) => return vec![row(&error.to_string())],
    };
    let mut rows: Vec<String> = differences(&plan, &back).iter().map(|d| row(d)).collect();
    let mut again = back.keyfiles();
    let mut files = files;
    again.sort_by(|a, b| a.name.cmp(&b.name));
    files.sort_by(|a, b| a.name.cmp(&b.name));
    for (file, again) in files.iter().zip(&again) {
        if file != again {
            rows.push(row(&format!("{}: other text", file.name)));
        }
    }
    if files.len() != again.len() {
        rows.push(row(&format!("{} files, then {}", files.len(), again.len())));
    }
    rows
}

/// Every NMState document of this crate: the keyfiles of its plan are read back into
/// the same plan, which writes the same keyfiles, except for the listed differences.
#[test]
fn plans_come_back() {
    let folder = test_data("nmstate");
    let mut cases: Vec<PathBuf> = { fs::read_dir(folder).unwrap() }
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    let rows = cases.iter().flat_map(|case| {
        let name = case.file_name().unwrap().to_str().unwrap();
        rows_of(name, &fs::read_to_string(case.join("input.yml")).unwrap())
    });
    let found: Vec<String> = rows.collect();
    let table = fs::read_to_string(test_data("keyfiles/differences.txt")).unwrap();
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut expected: Vec<&str> = table.lines().filter(is_row).collect();
    expected.sort_unstable();
    let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{}", found.join("\n"));
    assert!(cases.len() > 280, "{}", cases.len());
}

/// Files that NetworkManager's own programs have written
/// (`test_data/keyfiles/README.md`).
#[test]
fn files_of_networkmanager() {
    for folder in ["nmcli", "initrd_generator"] {
        let folder = test_data("keyfiles").join(folder);
        let plan = NetworkPlan::from_keyfiles(&keyfiles_in(&folder)).unwrap();
        let warnings = plan.warnings.iter().map(|text| format!("warning: {text}"));
        let lines: Vec<String> = describe(&plan).into_iter().chain(warnings).collect();
        let expected = fs::read_to_string(folder.join("plan.txt")).unwrap();
        let lines = lines.join("\n") + "\n";
        assert_eq!(lines, expected, "{}:\n{lines}", folder.display());
    }
}

fn read_one(text: &str) -> Result<NetworkPlan, KeyfilesError> {
    NetworkPlan::from_keyfiles(&[Keyfile {
        name: "f".to_owned(),
        text: text.to_owned(),
    }])
}

const NIC: &str = "[connection]\ntype=ethernet\ninterface-name=eth0\n";

/// A file, and the fault in it.
#[test]
fn faults_name_file_section_and_key() {
    for (text, expected) in [
        ("", "f: expected the section [connection], found nothing"),
        (
            "[connection]\nid=a\n[ipv4]\n",
            "f: [connection] type: expected the type of the interface, found nothing",
        ),
        (
            "[connection]\ntype=ethernet\ninterface-name=a/b\n",
            "f: [connection] interface-name: expected the name of an interface, found \"a/b\"",
        ),
        (
            "[connection]\ntype=bond\n",
            "f: [connection] interface-name: expected the name of the interface, found nothing",
        ),
        (
            "NIC[ipv4]\naddress1=192.0.2.x/24\n",
            "f: [ipv4] address1: expected an IPv4 address and its prefix length such as \
             192.0.2.10/24, found \"192.0.2.x/24\"",
        ),
        (
            "NIC[ipv6]\naddress1=192.0.2.1/24\n",
            "f: [ipv6] address1: expected an IPv6 address and its prefix length such as \
             2001:db8::10/64, found \"192.0.2.1/24\"",
        ),
        (
            "NIC[ipv4]\nmethod=dhcp\n",
            "f: [ipv4] method: expected auto, manual, link-local, shared or disabled, found \"dhcp\"",
        ),
        (
            "NIC[ipv4]\nroute1=10.0.0.0/8,x\n",
            "f: [ipv4] route1: expected an IPv4 address, found \"x\"",
        ),
        (
            "NIC[ipv4]\nroute1=10.0.0.0/8\nroute1_options=table=x\n",
            "f: [ipv4] route1_options: expected a number as table, found \"x\"",
        ),
        (
            "NIC[ipv4]\nrouting-rule1=from 10.0.0.0/8 table 7\n",
            "f: [ipv4] routing-rule1: expected a rule with its priority, found \"from 10.0.0.0/8 table 7\"",
        ),
        (
            "NIC[ipv4]\ndns=192.0.2.1;x;\n",
            "f: [ipv4] dns: expected an IPv4 address, found \"x\"",
        ),
        (
            "NIC[ipv4]\nmethod=manual\n",
            "f: [ipv4] method: expected an address or a route for method=manual, found none",
        ),
        (
            "NIC[ipv6]\nmethod=manual\ngateway=fe80::1\n",
            "f: [ipv6] method: expected an address or a route for method=manual, found none",
        ),
        (
            "NIC[ipv4]\nmay-fail=maybe\n",
            "f: [ipv4] may-fail: expected true or false, found \"maybe\"",
        ),
        (
            "NIC[ethernet]\nmtu=-1\n",
            "f: [ethernet] mtu: expected a number from 0 to 4294967295, found \"-1\"",
        ),
        (
            "NIC[ipv4]\ndhcp-hostname=a\\nb\n",
            "f: [ipv4] dhcp-hostname: expected a text without control characters, found \"a\\\\nb\"",
        ),
        (
            "NICmaster=bond0\n",
            "f: [connection] master: expected the interface, or the UUID, of a bond, bridge, team, \
             VRF or Open vSwitch bridge in one of the files, found \"bond0\"",
        ),
        (
            "[connection]\ntype=vlan\ninterface-name=v\n[vlan]\nid=4095\nparent=eth0\n",
            "f: [vlan] id: expected a number from 0 to 4094, found \"4095\"",
        ),
        (
            "[connection]\ntype=vlan\ninterface-name=v\n[vlan]\nid=1\n",
            "f: [vlan] parent: expected the interface below the VLAN, found nothing",
        ),
        (
            "[connection]\ntype=vlan\ninterface-name=v\n[vlan]\nid=1\nparent=v\n",
            "f: [connection] interface-name: v depends on itself",
        ),
        (
            "[connection]\ntype=vlan\ninterface-name=v\n[vlan]\nid=1\nparent=99932fb9-14bc-4b86-8b35-e09d55a05e69\n",
            "f: [vlan] parent: expected an interface, or the UUID of a profile in one of the files, \
             found \"99932fb9-14bc-4b86-8b35-e09d55a05e69\"",
        ),
        (
            "[connection]\ntype=bond\ninterface-name=b\n[bond]\nmiimon=x\n",
            "f: [bond] miimon: expected 0 to 2147483647, found \"x\"",
        ),
    ] {
        let error = read_one(&text.replace("NIC", NIC)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

/// A file, and the warnings about it.
#[test]
fn settings_that_the_ramdisk_ignores_are_named() {
    for (text, expected) in [
        ("[proxy]\n[ethernet]\n", vec![]),
        ("zone=x\ntimestamp=7\npermissions=\n", vec![]),
        (
            "zoen=x\n",
            vec!["f: [connection] zoen: unknown key; the ramdisk ignores it"],
        ),
        (
            "[802-1x]\npassword=secret\n",
            vec!["f: [802-1x]: the ramdisk ignores this section"],
        ),
        (
            "[ipv4]\nmethod=manual\naddress1=192.0.2.10/24\nroute1=10.0.0.0/8,192.0.2.1\n\
             route1_options=mtu=1400,x=1\n",
            vec![
                "f: [ipv4] route1_options: the ramdisk adds the route without mtu",
                "f: [ipv4] route1_options: unknown option x; the ramdisk ignores it",
            ],
        ),
        (
            "[ipv4]\nrouting-rule1=priority 7 sport 22 table 7\n",
            vec![
                "f: [ipv4] routing-rule1: the ramdisk has no rules with sport; the rule is ignored",
            ],
        ),
        (
            "[ipv4]\ndns=192.0.2.1#a.example;dns+tls://192.0.2.2\ndns-search=a;~b\n",
            vec![
                "f: [ipv4] dns: the ramdisk has no DNS over TLS; it asks the server without it",
                "f: [ipv4] dns: the ramdisk has no DNS over TLS or other transports; dns+tls://192.0.2.2 is ignored",
                "f: [ipv4] dns-search: the ramdisk sends all names to all DNS servers; ~b is ignored",
            ],
        ),
        (
            "[ipv6]\naddr-gen-mode=stable-privacy\ndhcp-duid=llt\ntoken=::1\n",
            vec![
                "f: [ipv6] addr-gen-mode: the ramdisk uses an eui64 address",
                "f: [ipv6] token: the ramdisk uses an eui64 address",
                "f: [ipv6] dhcp-duid: the ramdisk uses ll",
            ],
        ),
        (
            "[ipv4]\ndhcp-client-id=duid\nmethod=shared\n[ipv6]\nmethod=ignore\n",
            vec![
                "f: [ipv4] method: the ramdisk shares no connection; it only has the addresses",
                "f: [ipv4] dhcp-client-id: the ramdisk uses the hardware address",
                "f: [ipv6] method: the ramdisk switches IPv6 off",
            ],
        ),
    ] {
        let plan = read_one(&format!("{NIC}{text}")).unwrap();
        assert_eq!(plan.warnings, expected, "{text}");
    }
}

/// The plan applies `gateway`, `route-metric`, `route-table` and `never-default` of a
/// family as NetworkManager does.
#[test]
fn static_routes_have_the_metric_and_table_of_their_family() {
    const STATIC: &str = "method=manual\naddress1=192.0.2.10/24\ngateway=192.0.2.1\n";
    for (text, expected) in [
        ("", "gateway 192.0.2.1"),
        ("route-metric=-1\nroute-table=0\n", "gateway 192.0.2.1"),
        ("route-metric=500\n", "gateway 192.0.2.1 with metric 500"),
        ("route-metric=0\n", "gateway 192.0.2.1 with metric 0"),
        ("route-table=200\n", "gateway 192.0.2.1 in table 200"),
        (
            "route-metric=7\nroute-table=200\n",
            "gateway 192.0.2.1 with metric 7 in table 200",
        ),
        (
            "never-default=true\nroute1=10.0.0.0/8,192.0.2.9\n",
            "10.0.0.0/8 via 192.0.2.9",
        ),
    ] {
        let plan = read_one(&format!("{NIC}[ipv4]\n{STATIC}{text}")).unwrap();
        let line = format!("eth0: IPv4 192.0.2.10/24, {expected}");
        assert_eq!(describe(&plan)[0], line, "{text}");
    }
    let metrics = |text: &str| -> Vec<Option<u32>> {
        let plan = read_one(&format!("{NIC}[ipv4]\n{STATIC}{text}")).unwrap();
        let routes = &plan.interfaces[0].ipv4.as_ref().unwrap().routes;
        routes.iter().map(|route| route.metric).collect()
    };
    let routes = "route1=10.0.0.0/8,192.0.2.9\nroute2=10.0.0.0/8,192.0.2.9,0\n\
                  route3=10.0.0.0/8,192.0.2.9,3\n";
    assert_eq!(metrics(routes), [None, Some(0), Some(3)]);
    let with_metric = format!("route-metric=500\n{routes}");
    assert_eq!(metrics(&with_metric), [Some(500), Some(0), Some(3)]);
}

#[test]
fn a_gateway_that_never_default_switches_off_is_named() {
    let plan = read_one(&format!(
        "{NIC}[ipv4]\naddress1=192.0.2.10/24,192.0.2.1\nnever-default=true\n"
    ));
    assert_eq!(
        plan.unwrap().warnings,
        ["f: [ipv4] never-default: gateway 192.0.2.1 is ignored, as in NetworkManager"]
    );
}

/// Each row has a form that NetworkManager reads (read_one_ip_address_or_route in
/// nm-keyfile.c, _normalize_connection_type in nm-connection.c), a line of the plan's
/// description, and the warnings.
#[test]
fn unusual_forms_are_read_as_networkmanager_reads_them() {
    let no_length = |key: &str, length: u8| {
        format!(
            "f: {key}: the prefix length is missing; the ramdisk uses /{length}, as NetworkManager does"
        )
    };
    for (text, expected, warnings) in [
        (
            "NIC[ipv4]\naddress1=192.0.2.10\n",
            "eth0: IPv4 192.0.2.10/24",
            vec![no_length("[ipv4] address1", 24)],
        ),
        (
            "NIC[ipv4]\naddress1=192.0.2.10,192.0.2.1\n",
            "eth0: IPv4 192.0.2.10/24, gateway 192.0.2.1",
            vec![no_length("[ipv4] address1", 24)],
        ),
        (
            "NIC[ipv4]\naddress1=192.0.2.10;25;192.0.2.1;\n",
            "eth0: IPv4 192.0.2.10/25, gateway 192.0.2.1",
            vec![],
        ),
        (
            "NIC[ipv4]\naddress1=192.0.2.10/25/192.0.2.1\n",
            "eth0: IPv4 192.0.2.10/25, gateway 192.0.2.1",
            vec![],
        ),
        (
            "NIC[ipv6]\naddress1=2001:db8::10\n",
            "eth0: IPv6 2001:db8::10/64",
            vec![no_length("[ipv6] address1", 64)],
        ),
        (
            "NIC[ipv4]\naddress1=192.0.2.10/24\nroute1=10.1.2.0,192.0.2.1\n",
            "eth0: IPv4 192.0.2.10/24, 10.1.2.0/24 via 192.0.2.1",
            vec![no_length("[ipv4] route1", 24)],
        ),
        (
            "NIC[ipv4]\naddress1=192.0.2.10/24\nroute1=10.1.0.0;16;192.0.2.1;7\n",
            "eth0: IPv4 192.0.2.10/24, 10.1.0.0/16 via 192.0.2.1",
            vec![],
        ),
        (
            "NIC[ipv6]\naddress1=2001:db8::10/64\nroute1=2001:db8:1::,2001:db8::1\n",
            "eth0: IPv6 2001:db8::10/64, 2001:db8:1::/128 via 2001:db8::1",
            vec![no_length("[ipv6] route1", 128)],
        ),
        (
            "NICid=lan\nid[de]=Netz\n[ipv4]\nmethod=disabled\n",
            "eth0: IPv4 off",
            vec![],
        ),
        (
            "NIC[ipv6]\nmethod=disabled\ndns=fe80::1%eth0\n",
            "eth0: IPv6 off",
            vec![
                "f: [ipv6] dns: the ramdisk has no DNS servers with a scope; fe80::1%eth0 is ignored"
                    .to_owned(),
            ],
        ),
        (
            "[connection]\ninterface-name=eth0\n[802-3-ethernet]\n[ipv4]\nmethod=disabled\n",
            "eth0: IPv4 off",
            vec![],
        ),
        (
            "[connection]\ninterface-name=v\n[vlan]\nid=7\nparent=eth0\n[ethernet]\nmtu=1400\n",
            "v: VLAN 7 on eth0, MTU 1400",
            vec![],
        ),
        (
            "[connection]\ninterface-name=v\n[vlan]\nid=7\nparent=eth0\nprotocol=802.1ad\n",
            "v: 802.1ad VLAN 7 on eth0",
            vec![],
        ),
    ] {
        let plan = read_one(&text.replace("NIC", NIC)).unwrap();
        let lines = describe(&plan);
        assert!(lines.iter().any(|line| line == expected), "{lines:?}");
        assert_eq!(plan.warnings, warnings, "{text}");
    }
}

/// Each row has the interface name (empty: any NIC) and the priority of each profile, and
/// the number of the profile that NetworkManager would use first for eth0. The number of
/// a profile is the last byte of its address.
#[test]
fn the_profile_with_the_highest_priority_comes_first() {
    for (profiles, expected) in [
        (vec![("eth0", 0), ("eth0", 10)], 2),
        (vec![("eth0", 10), ("eth0", 0)], 1),
        (vec![("eth0", 0), ("eth0", 0)], 1),
        (vec![("eth0", 0), ("", 10)], 2),
        (vec![("", 0), ("eth0", 0)], 2),
        (vec![("eth0", -100), ("", -200)], 1),
        (vec![("eth0", -100), ("", 0)], 2),
    ] {
        let files: Vec<Keyfile> = { (1..).zip(&profiles) }
            .map(|(number, (name, priority))| Keyfile {
                name: number.to_string(),
                text: format!(
                    "[connection]\ntype=ethernet\ninterface-name={name}\n\
                     autoconnect-priority={priority}\n[ipv4]\naddress1=192.0.2.{number}/24\n"
                ),
            })
            .collect();
        let plan = NetworkPlan::from_keyfiles(&files).unwrap();
        let first = plan.candidates(&["eth0"], &[])[0];
        let address = plan.interfaces[first].ipv4.as_ref().unwrap().addresses[0];
        assert_eq!(
            address.to_string(),
            format!("192.0.2.{expected}/24"),
            "{profiles:?}"
        );
        // The writer writes no file for a profile that matches any NIC.
        let priorities = |plan: &NetworkPlan| -> Vec<i32> {
            let named = { plan.interfaces.iter() }.filter(|i| i.matches.name.is_some());
            let mut found: Vec<i32> = named.map(|interface| interface.priority).collect();
            found.sort_unstable();
            found
        };
        let written = NetworkPlan::from_keyfiles(&plan.keyfiles()).unwrap();
        assert_eq!(priorities(&written), priorities(&plan), "{profiles:?}");
    }
}

#[test]
fn two_profiles_for_a_nic_are_named() {
    let of_eth0 = |name: &str, priority: i32| Keyfile {
        name: name.to_owned(),
        text: format!("{NIC}autoconnect-priority={priority}\n"),
    };
    for (priority, used) in [
        (0, "one of them"),
        (9, "b, which has the higher autoconnect-priority"),
        (-9, "a, which has the higher autoconnect-priority"),
    ] {
        let plan = NetworkPlan::from_keyfiles(&[of_eth0("a", 0), of_eth0("b", priority)]).unwrap();
        let expected =
            format!("b: [connection] interface-name: a is for eth0 too; the ramdisk uses {used}");
        assert_eq!(plan.warnings, [expected]);
    }
}

/// A known setting that the ramdisk does not apply, with its warning, and the same key
/// with a value that changes nothing.
#[test]
fn known_settings_that_the_ramdisk_does_not_apply() {
    const RANDOM: &str = "the ramdisk keeps the hardware address that Ironic knows";
    const VLANS: &str = "the bridge of the ramdisk forwards the frames of all VLANs";
    for (text, words, harmless) in [
        ("[ethernet]\ncloned-mac-address=random", RANDOM, "preserve"),
        ("[ethernet]\ncloned-mac-address=stable", RANDOM, "permanent"),
        (
            "[ethernet]\nmac-address-denylist=52:54:00:00:00:01",
            "the ramdisk does not look at this list",
            "",
        ),
        (
            "[ipv4]\ndhcp-reject-servers=192.0.2.66",
            "the ramdisk accepts a lease of any DHCP server",
            "",
        ),
        (
            "[ipv4]\nlink-local=3",
            "the ramdisk has a link-local address only with method=link-local",
            "2",
        ),
        (
            "[ipv6]\nrouted-dns=1",
            "the ramdisk adds no routes to DNS servers",
            "0",
        ),
        (
            "[ipv4]\ndns-options=use-vc",
            "the ramdisk ignores these options",
            "",
        ),
        (
            "[ipv4]\ndns-priority=-5",
            "the ramdisk asks the DNS servers of all interfaces",
            "5",
        ),
        (
            "[ipv6]\nip6-privacy=2",
            "the ramdisk uses no temporary addresses",
            "0",
        ),
        ("[bridge-port]\nvlans=2-5", VLANS, ""),
        (
            "[ipv4]\nroute1=10.0.0.0/8,192.0.2.1\nroute1_options=src=192.0.2.7",
            "the ramdisk adds the route without src",
            "onlink=true",
        ),
        (
            "[ipv4]\nroute1=10.0.0.0/8\nroute1_options=type=local",
            "the ramdisk adds a unicast route",
            "type=unicast",
        ),
    ] {
        let (section, line) = text.split_once('\n').unwrap();
        let (start, value) = line.rsplit_once('\n').unwrap_or(("", line));
        let (name, _) = value.split_once('=').unwrap();
        let plan = read_one(&format!("{NIC}{text}\n")).unwrap();
        assert_eq!(
            plan.warnings,
            [format!("f: {section} {name}: {words}")],
            "{text}"
        );
        let plan = read_one(&format!("{NIC}{section}\n{start}\n{name}={harmless}\n")).unwrap();
        assert_eq!(plan.warnings, [""; 0], "{text}");
    }
    let bridge = "[connection]\ntype=bridge\ninterface-name=br0\n[bridge]\nvlan-filtering=";
    let plan = read_one(&format!("{bridge}true\n")).unwrap();
    assert_eq!(
        plan.warnings,
        [format!("f: [bridge] vlan-filtering: {VLANS}")]
    );
    assert_eq!(
        read_one(&format!("{bridge}false\n")).unwrap().warnings,
        [""; 0]
    );
}

fn files_of(texts: &[(&str, String)]) -> Vec<Keyfile> {
    let keyfile = |(name, text): &(&str, String)| Keyfile {
        name: (*name).to_owned(),
        text: text.clone(),
    };
    texts.iter().map(keyfile).collect()
}

/// NetworkManager leaves out a file that it cannot read, and uses the others.
#[test]
fn a_faulty_profile_that_no_other_needs_is_left_out() {
    let bond = |options: &str| {
        format!("[connection]\nuuid=of-bond\ntype=bond\ninterface-name=b\n[bond]\n{options}")
    };
    let port = |rest: &str| format!("{NIC}master=of-bond\nslave-type=bond\n{rest}");
    let other = "[connection]\ntype=ethernet\ninterface-name=eth1\n";
    let files = files_of(&[
        ("a", format!("{NIC}[ipv4]\ndns=x\n")),
        ("b", format!("{other}zoen=x\n")),
    ]);
    let plan = NetworkPlan::from_keyfiles(&files).unwrap();
    assert_eq!(describe(&plan)[0], "eth1: IPv4 by DHCP");
    assert_eq!(plan.interfaces.len(), 1);
    assert_eq!(
        plan.warnings,
        [
            "a: [ipv4] dns: expected an IPv4 address, found \"x\"",
            "a: the ramdisk does not use this profile, because it has a fault",
            "b: [connection] zoen: unknown key; the ramdisk ignores it",
        ]
    );
    let faulty_port = files_of(&[("a", bond("")), ("b", port("mtu=x\n[ethernet]\nmtu=x\n"))]);
    let plan = NetworkPlan::from_keyfiles(&faulty_port).unwrap();
    assert_eq!(plan.interfaces.len(), 1);
    let faulty_bond = files_of(&[("a", bond("miimon=x\n")), ("b", port(""))]);
    let error = NetworkPlan::from_keyfiles(&faulty_bond).unwrap_err();
    assert_eq!(
        error.lines(),
        ["a: [bond] miimon: expected 0 to 2147483647, found \"x\""]
    );
    // More faults than the reader shows.
    let many: String = (0..150).map(|n| format!("address{n}=x\n")).collect();
    let files = files_of(&[
        ("a", format!("{NIC}[ipv4]\n{many}")),
        (
            "b",
            "[connection]\ntype=ethernet\ninterface-name=eth2\nmtu=x\n[ethernet]\nmtu=x\n"
                .to_owned(),
        ),
        ("c", other.to_owned()),
    ]);
    let plan = NetworkPlan::from_keyfiles(&files).unwrap();
    assert_eq!(plan.interfaces.len(), 1);
    assert_eq!(
        plan.warnings[100..],
        [
            "more faults or warnings, not shown",
            "a: the ramdisk does not use this profile, because it has a fault",
            "b: the ramdisk does not use this profile, because it has a fault",
        ]
    );
    let nothing_else = files_of(&[
        ("a", format!("{NIC}[ipv4]\ndns=x\n")),
        ("b", "[connection]\ntype=wifi\n".to_owned()),
    ]);
    let error = NetworkPlan::from_keyfiles(&nothing_else).unwrap_err();
    assert_eq!(
        error.lines(),
        ["a: [ipv4] dns: expected an IPv4 address, found \"x\""]
    );
}

#[test]
fn unknown_keys_stay_for_the_installed_system() {
    let plan = read_one(&format!("{NIC}zoen=x\n[ipv4]\ndns-priority=7\nnew=1\n")).unwrap();
    let text = &plan.keyfiles()[0].text;
    for line in ["zoen=x\n", "dns-priority=7\n", "new=1\n"] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_ramdisk_without_any_of_the_interfaces() {
    for (text, expected) in [
        (
            "[connection]\ntype=wifi\n",
            "f: [connection] type: the ramdisk has no interface of type wifi; only the installed \
             system uses this profile",
        ),
        (
            "[connection]\ntype=ethernet\n[ethernet]\nmac-address-denylist=52:54:00:00:00:01\n",
            "f: [ethernet] mac-address-denylist: the ramdisk finds NICs only by interface-name and \
             mac-address; only the installed system uses this profile",
        ),
        (
            "[connection]\ntype=ethernet\n[match]\npath=pci-0000:00:03.0\n",
            "f: [match] path: the ramdisk finds NICs only by interface-name and mac-address; only \
             the installed system uses this profile",
        ),
    ] {
        let error = read_one(text).unwrap_err();
        let whole = "expected a keyfile for an interface that the ramdisk has, found none";
        assert_eq!(error.lines(), [whole, expected]);
    }
}

#[test]
fn names_of_newer_and_older_versions() {
    for (key, kind) in [("controller", "port-type"), ("master", "slave-type")] {
        for reference in ["bond0", "uuid-of-bond", "my bond"] {
            let files = [
                ("a", format!("{NIC}{key}={reference}\n{kind}=bond\n")),
                (
                    "b",
                    "[connection]\nid=my bond\nuuid=uuid-of-bond\ntype=bond\nautoconnect-ports=1\n\
                     [bond]\ninterface-name=bond0\nmode=1\n"
                        .to_owned(),
                ),
            ];
            let files = files.map(|(name, text)| Keyfile {
                name: name.to_owned(),
                text,
            });
            let plan = NetworkPlan::from_keyfiles(&files).unwrap();
            assert_eq!(
                describe(&plan)[..1],
                ["bond0: bond, mode active-backup"],
                "{reference}"
            );
            assert!(describe(&plan).contains(&"eth0: port of bond0".to_owned()));
            assert_eq!(plan.warnings, [""; 0]);
        }
    }
}

/// NetworkManager names a VLAN without a name after its NIC. Here the profile gives only
/// the address of the NIC, so the name is known only at boot.
#[test]
fn a_vlan_on_a_nic_by_address() {
    let text = "[connection]\nid=lan.7\ntype=vlan\n[vlan]\nid=7\n\
        [ethernet]\nmac-address=52:54:00:00:00:01\n";
    let mut plan = read_one(text).unwrap();
    let names = |plan: &NetworkPlan| plan.interfaces[0].matches.name.clone();
    assert_eq!(names(&plan).as_deref(), Some("lan.7"));
    plan.name_vlans("enp2s0", &["52:54:00:00:00:01".parse().unwrap()]);
    assert_eq!(names(&plan).as_deref(), Some("enp2s0.7"));
}

#[test]
fn sizes_have_limits() {
    let long = "#".repeat(LARGEST + 1);
    let error = read_one(&long).unwrap_err().to_string();
    assert!(
        error.starts_with("f: expected at most 262144 bytes, found 262145"),
        "{error}"
    );
    let file = Keyfile {
        name: "f".to_owned(),
        text: "#".repeat(LARGEST),
    };
    let error = NetworkPlan::from_keyfiles(&vec![file.clone(); 33]).unwrap_err();
    assert_eq!(error, KeyfilesError::TooLong(33 * LARGEST));
    let empty = Keyfile {
        text: String::new(),
        ..file
    };
    let error = NetworkPlan::from_keyfiles(&vec![empty; MOST_FILES + 1]).unwrap_err();
    assert_eq!(error, KeyfilesError::TooMany(MOST_FILES + 1));
    assert_eq!(NetworkPlan::from_keyfiles(&[]), Ok(NetworkPlan::default()));
}

/// Values that the keys of the recorded files get at random.
const VALUES: &[&str] = &[
    "",
    "0",
    "-1",
    "1",
    "4095",
    "99999999999",
    "true",
    "x",
    "a/b",
    "..",
    "a\\nb",
    "\\s",
    ";",
    ",,,",
    "bond0",
    "br0",
    "ens3",
    "0.0.0.0/0",
    "::/0,::,7",
    "192.0.2.1/33",
    "2001:db8::1",
    "52:54:00:00:00:01",
    "bridge",
    "vlan",
    "ovs-port",
    "ovs-interface",
    "vrf",
    "shared",
    "priority 7 table main",
    "99932fb9-14bc-4b86-8b35-e09d55a05e69",
];

proptest! {
    /// If the files are valid, their plan writes files that can be read again. All
    /// faults are single lines.
    #[test]
    fn written_keyfiles_are_read_back(
        folder in prop::sample::select(vec!["keyfiles/nmcli", "nmstate/ovs_bond", "nmstate/vlan_protocols"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..6),
    ) {
        let mut files = keyfiles_in(&test_data(folder));
        for (line, value) in changes {
            let all: usize = files.iter().map(|file| file.text.lines().count()).sum();
            let mut at = line.index(all);
            for file in &mut files {
                let count = file.text.lines().count();
                if at >= count {
                    at -= count;
                    continue;
                }
                let mut lines: Vec<String> = file.text.lines().map(str::to_owned).collect();
                if let Some((key, _)) = lines[at].split_once('=') {
                    lines[at] = format!("{key}={}", value.get(VALUES));
                }
                file.text = lines.join("\n");
                break;
            }
        }
        match NetworkPlan::from_keyfiles(&files) {
            Ok(plan) => match NetworkPlan::from_keyfiles(&plan.keyfiles()) {
                Ok(_) | Err(KeyfilesError::NoInterface(_)) => {}
                Err(error) => prop_assert!(false, "{error}\n{:#?}", plan.keyfiles()),
            },
            Err(error) => {
                let lines = error.lines();
                prop_assert!(!lines.is_empty());
                prop_assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
            }
        }
    }
}
