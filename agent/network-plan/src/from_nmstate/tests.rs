use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn cases() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/nmstate");
    let mut cases: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    cases
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The keyfiles that nmstate's generator (`gen_conf`) has written for this
/// case, by name.
fn keyfiles_of(case: &Path) -> BTreeMap<String, String> {
    fs::read_dir(case)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "nmconnection"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, with_sorted_rules(&read(&path)))
        })
        .collect()
}

/// Sorts the routing rules of a keyfile. nmstate numbers them in the order of a
/// hash table, which differs from run to run. Their order means nothing, since each
/// rule has a priority.
fn with_sorted_rules(text: &str) -> String {
    let rule = |line: &&str| line.starts_with("routing-rule");
    let mut rules: Vec<_> = text
        .lines()
        .filter(rule)
        .filter_map(|line| line.split_once('='))
        .map(|(_, rule)| rule)
        .collect();
    rules.sort_unstable();
    let mut rules = rules.into_iter().enumerate();
    let mut sorted = String::new();
    for line in text.lines() {
        if !rule(&line) {
            sorted += line;
        } else if let Some((number, rule)) = rules.next() {
            sorted += &format!("routing-rule{number}={rule}");
        }
        sorted.push('\n');
    }
    sorted
}

/// Checks every case of `tests/nmstate-oracle`: this module writes the same text as
/// nmstate, except for `differences`, and rejects what nmstate rejects. If it rejects a
/// case, `faults` contains the reason and its path.
#[test]
fn output_and_rejections_equal_those_of_nmstate() {
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let found = NetworkPlan::from_nmstate(&read(&case.join("input.yml")));
        let faults = case.join("faults");
        match found {
            Ok(plan) => {
                let files = plan.keyfiles().into_iter();
                let ours: BTreeMap<_, _> = files
                    .map(|file| (file.name, with_sorted_rules(&file.text)))
                    .collect();
                if case.join("refusal").exists() || faults.exists() {
                    wrong.push(format!("{name}: taken, and should be refused"));
                } else {
                    let found = difference(&ours, &keyfiles_of(case));
                    let expected = fs::read_to_string(case.join("differences"));
                    if found != expected.unwrap_or_default().trim_end() {
                        wrong.push(format!("{name}: {found}"));
                    }
                }
            }
            Err(error) => {
                let ours = error.to_string() + "\n";
                if !faults.exists() || ours != read(&faults) {
                    wrong.push(format!("{name}: refused\n{ours}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>) -> String {
    let mut lines = Vec::new();
    let names = ours
        .keys()
        .chain(theirs.keys().filter(|n| !ours.contains_key(*n)));
    for name in names {
        let split = |files: &BTreeMap<String, String>| -> Vec<String> {
            let text = files.get(name).cloned().unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        let (ours, theirs) = (split(ours), split(theirs));
        lines.extend(
            ours.iter()
                .filter(|l| !theirs.contains(l))
                .map(|l| format!("{name} + {l}")),
        );
        lines.extend(
            theirs
                .iter()
                .filter(|l| !ours.contains(l))
                .map(|l| format!("{name} - {l}")),
        );
    }
    lines.join("\n")
}

/// Returns the plan of a case as the console prints it, and its warnings.
fn in_ramdisk(case: &str) -> (Vec<String>, Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/nmstate");
    let plan = NetworkPlan::from_nmstate(&read(&path.join(case).join("input.yml"))).unwrap();
    (crate::describe::describe(&plan), plan.warnings)
}

#[test]
fn the_uplink_of_open_vswitch_has_the_addresses() {
    for (case, lines, warnings) in [
        (
            "ovs",
            vec![
                "eth0: MTU 9000, MAC set to 52:54:00:00:00:01",
                "eth0: IPv4 by DHCP, without a time limit",
                "eth0: IPv6 off",
            ],
            vec!["interfaces[1]: the ramdisk has no Open vSwitch: eth0 has the addresses of br-ex"],
        ),
        (
            "ovs_static",
            vec![
                "eth0: MAC set to 52:54:00:00:00:01",
                "eth0: IPv4 192.0.2.10/24, 0.0.0.0/0 via 192.0.2.1, DNS 192.0.2.53",
                "eth0: IPv6 off",
            ],
            vec![
                "interfaces[1]: the ramdisk has no Open vSwitch: eth0 has the addresses of br-ex-if",
            ],
        ),
        (
            "ovs_vlan_port",
            vec![
                "eth0: no addresses, no DHCP",
                "ovs0: VLAN 10 on eth0",
                "ovs0: IPv4 192.0.2.10/24",
                "ovs0: IPv6 off",
            ],
            vec!["interfaces[1]: the ramdisk has no Open vSwitch: ovs0 is VLAN 10 on eth0"],
        ),
        (
            "ovs_bond",
            vec![
                "bond1: bond, mode active-backup",
                "bond1: IPv4 192.0.2.10/24",
                "bond1: IPv6 off",
                "eth0: port of bond1",
                "eth1: port of bond1",
            ],
            vec!["interfaces[1]: the ramdisk has no Open vSwitch: bond1 has the addresses of ovs0"],
        ),
        (
            "ovs_on_a_linux_bond",
            vec![
                "bond0: bond, mode 802.3ad",
                "bond0: IPv4 192.0.2.10/24",
                "bond0: IPv6 off",
                "eth0: port of bond0",
                "eth1: port of bond0",
            ],
            vec!["interfaces[1]: the ramdisk has no Open vSwitch: bond0 has the addresses of ovs0"],
        ),
        (
            "ovs_by_mac",
            vec![
                "the NIC with MAC 52:54:00:00:00:01: IPv4 192.0.2.10/24",
                "the NIC with MAC 52:54:00:00:00:01: IPv6 off",
            ],
            vec!["interfaces[2]: the ramdisk has no Open vSwitch: port0 has the addresses of ovs0"],
        ),
        (
            "ovs_two_uplinks",
            vec!["eth0: no addresses, no DHCP", "eth1: no addresses, no DHCP"],
            vec![
                "interfaces[1]: the ramdisk has no Open vSwitch and expects one uplink, found 2: \
                 it configures no address of this bridge",
            ],
        ),
        (
            "ovs_two_interfaces",
            vec!["eth0: IPv4 192.0.2.10/24", "eth0: IPv6 off"],
            vec![
                "interfaces[2]: the ramdisk has no Open vSwitch: eth0 has the addresses of ovs0",
                "interfaces[2]: the ramdisk has no Open vSwitch: eth0 has the addresses of ovs0, \
                 and nothing has those of ovs1",
            ],
        ),
    ] {
        let (found, reported) = in_ramdisk(case);
        assert_eq!(found, lines, "{case}");
        assert_eq!(reported, warnings, "{case}");
    }
}

#[test]
fn an_ignored_uplink_is_the_reason_for_no_addresses() {
    for (port, ignored) in [
        ("{name: eth0}", "eth0"),
        (
            "{name: b0, link-aggregation: {mode: active-backup, port: [{name: eth0}, {name: eth1}]}}",
            "eth1",
        ),
    ] {
        let document = format!(
            "interfaces: [{{name: {ignored}, state: ignore}}, {{name: ovs0, type: ovs-interface, \
             ipv4: {{enabled: true, dhcp: true}}}}, \
             {{name: br0, type: ovs-bridge, bridge: {{port: [{port}, {{name: ovs0}}]}}}}]"
        );
        let warnings = NetworkPlan::from_nmstate(&document).unwrap().warnings;
        let reason = format!(
            "interfaces[2]: {ignored} has `state: ignore`: the ramdisk configures no address of \
             this bridge"
        );
        assert_eq!(warnings, [reason]);
    }
}

#[test]
fn rules_vrfs_and_stacked_interfaces_are_for_the_ramdisk_too() {
    for (case, expected) in [
        (
            "route_rules_of_an_interface",
            "rule: priority 1000 from 192.0.2.10/32 table 200",
        ),
        (
            "route_types",
            "lo: IPv4 127.0.0.1/8, 10.1.0.0/16 blackhole, 10.2.0.0/16 unreachable, 10.3.0.0/16 prohibited",
        ),
        ("vrf", "eth0: IPv4 by DHCP, without a time limit"),
        ("vrf", "vrf0: VRF, routing table 100"),
        (
            "mac_vlan_address",
            "m0: MAC-VLAN on eth0, MTU 1400, MAC set to 52:54:00:00:00:05",
        ),
        ("mac_vtap", "m0: MAC-VTAP on eth0"),
        ("ipvlan", "i0: IPVLAN on eth0"),
        ("veth", "v0: virtual cable to v1"),
        (
            "infiniband_connected",
            "ib0.8001: InfiniBand, partition 8001 of ib0",
        ),
    ] {
        let (found, _) = in_ramdisk(case);
        assert!(
            found.iter().any(|line| line == expected),
            "{case}: {found:#?}"
        );
    }
    let (_, warnings) = in_ramdisk("sriov");
    assert_eq!(
        warnings,
        [
            "interfaces[0].ethernet.sr-iov.total-vfs: the ramdisk makes no virtual functions; \
          the installed system does"
        ]
    );
}

/// The ramdisk creates service VLANs as planned.
#[test]
fn a_service_vlan_has_no_warning() {
    let (lines, warnings) = in_ramdisk("vlan_protocols");
    let line = "v1: 802.1ad VLAN 7 on eth0";
    assert!(lines.iter().any(|found| found == line), "{lines:#?}");
    assert_eq!(warnings, [""; 0]);
}
