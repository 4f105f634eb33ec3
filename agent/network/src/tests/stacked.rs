//! Tests of the NMState interfaces other than bonds, bridges and VLANs.

use super::*;
use crate::lab::{ip, ip_output, on_a_machine};

const DOCUMENT: &str = r#"
interfaces:
- name: eth0
  type: ethernet
  ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}
- name: mac0
  type: mac-vlan
  mac-address: "52:54:00:00:00:77"
  mac-vlan: {base-iface: eth0, mode: bridge}
  ipv4: {enabled: true, address: [{ip: 192.0.2.20, prefix-length: 24}]}
- name: veth0
  type: veth
  veth: {peer: veth1}
  ipv4: {enabled: true, address: [{ip: 198.51.100.1, prefix-length: 30}]}
routes:
  config:
  - {destination: 10.0.0.0/8, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 200}
  - {destination: 10.1.0.0/16, route-type: blackhole}
  - {destination: "2001:db8:1::/48", route-type: prohibit, metric: 5}
route-rules:
  config:
  - {ip-from: 192.0.2.10/32, route-table: 200, priority: 1000}
  - {family: ipv4, action: unreachable, fwmark: 0x10, fwmask: 0xff}
  - {ip-to: "2001:db8:2::/48", route-table: 300, suppress-prefix-length: 0}
"#;

#[test]
fn rules_routes_and_stacked_interfaces_are_made() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let mut network = lab.boot_nmstate(DOCUMENT);
        lab.until(&mut network, "the addresses", |s| {
            has(s, "eth0", "192.0.2.10/24")
                && has(s, "mac0", "192.0.2.20/24")
                && has(s, "veth0", "198.51.100.1/30")
        })
        .await;
        let shown = ip_output("-d link show mac0");
        assert!(shown.contains("macvlan mode bridge"), "{shown}");
        assert!(shown.contains("52:54:00:00:00:77"), "{shown}");
        let shown = ip_output("-d link show veth1");
        assert!(shown.contains("veth1@veth0"), "{shown}");

        let rules = ip_output("rule show");
        for rule in [
            "1000:\tfrom 192.0.2.10 lookup 200",
            "30000:\tfrom all fwmark 0x10/0xff unreachable",
        ] {
            assert!(rules.contains(rule), "{rule} is not in\n{rules}");
        }
        let rules = ip_output("-6 rule show");
        let rule = "30001:\tfrom all to 2001:db8:2::/48 lookup 300 suppress_prefixlength 0";
        assert!(rules.contains(rule), "{rules}");

        let routes = ip_output("route show table all");
        for route in [
            "10.0.0.0/8 via 192.0.2.1 dev eth0 table 200 proto static",
            "blackhole 10.1.0.0/16 proto static",
        ] {
            assert!(routes.contains(route), "{route} is not in\n{routes}");
        }
        let routes = ip_output("-6 route show type prohibit");
        assert!(routes.contains("prohibit 2001:db8:1::/48"), "{routes}");
        assert!(routes.contains("metric 5"), "{routes}");
        // A restarted agent finds the devices that it created before.
        let warnings = || {
            lab.log_lines()
                .iter()
                .filter(|line| line.starts_with("WARN"))
                .count()
        };
        assert_eq!(warnings(), 0, "{:#?}", lab.log_lines());
        drop(network);
        let mut network = lab.boot_nmstate(DOCUMENT);
        until_has(lab, &mut network, "mac0", "192.0.2.20/24").await;
        assert_eq!(warnings(), 0, "{:#?}", lab.log_lines());
    });
}

/// Rules and routes without a device stay in the kernel when every link goes down.
#[test]
fn another_plan_finds_no_rules_and_no_routes() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let commands = [
            "rule show",
            "-6 rule show",
            "route show table all",
            "-6 route show table all",
        ];
        let foreign = |line: &&str| !line.contains("proto static");
        let before = commands.map(ip_output);
        let mut network = lab.boot_nmstate(DOCUMENT);
        until_has(lab, &mut network, "eth0", "192.0.2.10/24").await;
        lab.until_so("the rules", || {
            ip_output("-6 rule show").contains("lookup 300")
        })
        .await;
        // This rule is not the agent's: it stands for a rule of the machine's owner.
        ip("rule add priority 77 table 77");
        drop(network);
        crate::forget().await.unwrap();
        let [rules, rules6, routes, routes6] = commands.map(ip_output);
        assert_eq!(rules.replace("77:\tfrom all lookup 77\n", ""), before[0]);
        assert_eq!(rules6, before[1]);
        for left in [routes, routes6] {
            assert!(left.lines().all(|line| foreign(&line)), "{left}");
        }
    });
}
