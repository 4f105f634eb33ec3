//! Tests of device names and of virtual devices.

use serde_json::Value;

use super::*;
use crate::lab::{ip, ip_output, on_a_machine};

#[test]
fn a_nic_gets_the_name_that_the_operator_chose() {
    on_a_machine(async |lab| {
        for number in 0..3 {
            lab.plug_in_up(number, &[]);
        }
        // The first two NICs exchange their names, which needs more than one rename.
        // The plan matches the third NIC by its future name.
        let mut network = lab.boot(
            "ifname=eth1:52:54:00:00:00:00 ifname=eth0:52-54-00-00-00-01 \
             ifname=lan0:52:54:00:00:00:02 ip=192.0.2.10:::24::eth0:none \
             ip=192.0.2.11:::24::eth1:none ip=192.0.2.12:::24::lan0:none",
        );
        let state = lab
            .until(&mut network, "three addresses", |s| {
                has(s, "eth0", "192.0.2.10/24")
                    && has(s, "eth1", "192.0.2.11/24")
                    && has(s, "lan0", "192.0.2.12/24")
            })
            .await;
        for (name, last) in [("eth0", 1), ("eth1", 0), ("lan0", 2)] {
            assert_eq!(nic(&state, name).unwrap().mac.0[5], last, "{name}");
        }
        // The third NIC still has the kernel's name as an alternative name.
        let third = ip_output("link show eth2");
        assert!(third.contains("lan0"), "{third}");
        let faults: Vec<_> = { lab.log_lines().into_iter() }
            .filter(|line| line.starts_with("WARN"))
            .collect();
        assert!(faults.is_empty(), "{faults:#?}");
    });
}

#[test]
fn a_bridge_with_large_frames_raises_its_ports_first() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let mut network = lab.boot("bridge=br0:eth0 ip=192.0.2.10:::24::br0:none:9000");
        lab.until(&mut network, "the address", |s| {
            has(s, "br0", "192.0.2.10/24") && nic(s, "br0").is_some_and(|nic| nic.carrier)
        })
        .await;
        lab.until_logged("INFO eth0 is a port of br0").await;
        for device in ["eth0", "br0"] {
            let shown = ip_output(&format!("link show {device}"));
            assert!(shown.contains("mtu 9000"), "{shown}");
        }
    });
}

/// The output of `ip` for devices, addresses and routes, without values that change
/// by themselves.
fn everything() -> Vec<Value> {
    let mut all = Vec::new();
    for what in [
        "-j -d link show",
        "-j addr show",
        "-j route show table all",
        "-j -6 route show table all",
    ] {
        let list: Value = serde_json::from_str(&ip_output(what)).unwrap();
        for mut entry in list.as_array().cloned().unwrap_or_default() {
            for data in ["/linkinfo/info_data", "/linkinfo/info_slave_data"] {
                if let Some(Value::Object(data)) = entry.pointer_mut(data) {
                    data.retain(|key, _| !key.ends_with("_timer"));
                }
            }
            all.push(entry);
        }
    }
    all
}

#[test]
fn applied_twice_nothing_changes() {
    on_a_machine(async |lab| {
        for number in 0..2 {
            lab.plug_in_up(number, &[]);
        }
        let arguments = "bridge=br0:eth0 ip=192.0.2.10::192.0.2.1:24::br0:none:1400 \
             ifname=lan0:52:54:00:00:00:01 ip=[2001:db8::10]::[2001:db8::1]:64::lan0:none \
             rd.route=10.0.0.0/8:192.0.2.9:br0 nameserver=192.0.2.53";
        let mut network = lab.boot(arguments);
        let done = |s: &crate::NetworkState| {
            has(s, "br0", "192.0.2.10/24") && has(s, "lan0", "2001:db8::10/64")
        };
        lab.until(&mut network, "the addresses", done).await;
        lab.until_logged("INFO eth0 is a port of br0").await;
        lab.until_so("the bridge to have settled", || {
            ip_output("link show br0").contains("state UP")
        })
        .await;
        let first = everything();
        let lines_before = lab.log_lines().len();
        let mut again = lab.boot(arguments);
        lab.until(&mut again, "the addresses again", done).await;
        lab.until_so("the second to have told of both", || {
            let news = &lab.log_lines()[lines_before..];
            let is_reported = |name: &str| {
                news.iter()
                    .any(|line| line.contains(&format!("{name} (")) && line.ends_with("carrier up"))
            };
            is_reported("br0") && is_reported("lan0")
        })
        .await;
        assert_eq!(everything(), first);
        let news = lab.log_lines().split_off(lines_before);
        let faults: Vec<_> = news
            .iter()
            .filter(|line| line.starts_with("WARN"))
            .collect();
        assert!(faults.is_empty(), "{faults:#?}");
    });
}

/// A MACVLAN on a NIC occupies the receive handler that a bridge needs.
#[test]
fn a_port_that_its_controller_has_refused_is_tried_again() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["192.0.2.1/24"]);
        ip("link add link eth0 name held type macvlan");
        let mut network = lab.boot("bridge=br0:eth0 ip=192.0.2.10:::24::br0:none");
        let refused = "WARN eth0: cannot make it a port of br0: Device or resource busy";
        lab.until_so("the refusal", || {
            lab.log_lines().iter().any(|line| line.starts_with(refused))
        })
        .await;
        ip("link del held");
        lab.until_logged("INFO eth0 is a port of br0").await;
        lab.until(&mut network, "the bridge", |s| {
            has(s, "br0", "192.0.2.10/24") && nic(s, "br0").is_some_and(|nic| nic.carrier)
        })
        .await;
        lab.until_so("the way over the port", || super::answers("192.0.2.1"))
            .await;
        let warnings = { lab.log_lines().into_iter() }.filter(|line| line.starts_with(refused));
        assert_eq!(warnings.count(), 1);
    });
}

#[test]
fn a_planned_link_that_is_off_is_switched_on_again() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &[]);
        let mut network = lab.boot("ip=192.0.2.10:::24::eth0:none");
        until_has(lab, &mut network, "eth0", "192.0.2.10/24").await;
        ip("link set eth0 down");
        until_nic(lab, &mut network, "the loss", "eth0", |nic| !nic.carrier).await;
        until_nic(lab, &mut network, "the return", "eth0", |nic| {
            nic.is_online()
        })
        .await;
    });
}

/// The inventory reports the carrier and the neighbours of a NIC that the plan does not
/// mention, so the NIC must be on.
#[test]
fn a_link_without_a_place_in_the_plan_is_switched_on_again() {
    on_a_machine(async |lab| {
        for number in 0..2 {
            lab.plug_in_up(number, &[]);
        }
        let mut network = lab.boot("ip=192.0.2.10:::24::eth0:none");
        let has_carrier = |s: &crate::NetworkState, wanted| {
            nic(s, "eth1").is_some_and(|nic| nic.carrier == wanted)
        };
        lab.until(&mut network, "the carrier", |s| has_carrier(s, true))
            .await;
        ip("link set eth1 down");
        lab.until(&mut network, "the loss", |s| has_carrier(s, false))
            .await;
        lab.until(&mut network, "the return", |s| has_carrier(s, true))
            .await;
    });
}

#[test]
fn a_bridge_has_its_group_address() {
    on_a_machine(async |lab| {
        lab.boot_nmstate(
            "interfaces: [{name: br0, type: linux-bridge, bridge: {options: \
             {group-addr: 01:80:c2:00:00:0a, multicast-snooping: false}, port: []}}]",
        );
        lab.until_so("the bridge", || {
            let shown = ip_output("-d link show br0");
            shown.contains("group_address 01:80:c2:00:00:0a") && shown.contains("mcast_snooping 0")
        })
        .await;
    });
}
