//! Tests of which NIC is used if there are several.

use super::{POOL, has, nic};
use crate::lab::{Lab, ip, ip_output, on_a_machine};
use crate::reach::Reach;
use crate::resolv_conf::DnsServer;
use crate::state::NicState;

const TWO_WAYS_OUT: &str = "ip=192.0.2.10::192.0.2.1:24::eth0:none \
     ip=198.51.100.10::198.51.100.1:24::eth1:none rd.route=10.0.0.0/8:192.0.2.9:eth0";

fn plug_in_two(lab: &Lab) {
    for number in [0, 1] {
        lab.plug_in_up(number, &[]);
    }
}

fn way(to: &str) -> String {
    ip_output(&format!("route get {to}"))
}

async fn until_by(lab: &Lab, to: &str, device: &str) {
    let device = format!(" dev {device} ");
    lab.until_so(&format!("{to} by{device}"), || way(to).contains(&device))
        .await;
}

/// The kernel uses the route with the smaller metric, though it leads nowhere. Once
/// the other NIC has reached the service, its routes take precedence as long as it
/// has a carrier.
#[test]
fn the_nic_that_has_reached_the_service_takes_precedence() {
    on_a_machine(async |lab| {
        plug_in_two(lab);
        let mut network = lab.boot_with_reach(TWO_WAYS_OUT);
        lab.until(&mut network.state, "both addresses", |s| {
            has(s, "eth0", "192.0.2.10/24") && has(s, "eth1", "198.51.100.10/24")
        })
        .await;
        until_by(lab, "203.0.113.1", "eth0").await;
        let state = network.state.borrow().clone();
        let over = nic(&state, "eth1").map(|nic| nic.index);
        network.reach.send_modify(|reach| reach.over = over);
        lab.until(&mut network.state, "the preference", |s| {
            s.preferred == over
        })
        .await;
        // The agent adds the routes before it publishes the preference.
        assert!(way("203.0.113.1").contains(" dev eth1 "));
        // The agent does not change routes that only the other NIC has.
        assert!(way("10.1.2.3").contains(" dev eth0 "));
        let line = "INFO eth1 (52:54:00:00:00:01) takes precedence over the other NICs: \
                    the service answers there";
        lab.until_logged(line).await;

        lab.port("link set port1 down");
        until_by(lab, "203.0.113.1", "eth0").await;
        lab.port("link set port1 up");
        until_by(lab, "203.0.113.1", "eth1").await;

        network.reach.send_modify(|reach| *reach = Reach::default());
        until_by(lab, "203.0.113.1", "eth0").await;
    });
}

#[test]
fn of_two_nics_in_one_network_the_working_one_is_used() {
    on_a_machine(async |lab| {
        plug_in_two(lab);
        // Both NICs are in 192.0.2.0/24; no machine is behind port0.
        lab.port("addr add 192.0.2.1/24 dev port1");
        let mut network =
            lab.boot_with_reach("ip=192.0.2.10:::24::eth0:none ip=192.0.2.11:::24::eth1:none");
        lab.until(&mut network.state, "both addresses", |s| {
            has(s, "eth0", "192.0.2.10/24") && has(s, "eth1", "192.0.2.11/24")
        })
        .await;
        until_by(lab, "192.0.2.1", "eth0").await;
        let over = nic(&network.state.borrow(), "eth1").map(|nic| nic.index);
        network.reach.send_modify(|reach| reach.over = over);
        until_by(lab, "192.0.2.1", "eth1").await;
        assert!(way("192.0.2.1").contains("src 192.0.2.11"));
        assert!(super::answers("192.0.2.1"));
    });
}

#[test]
fn advertised_routes_are_preferred_like_others() {
    on_a_machine(async |lab| {
        plug_in_two(lab);
        let mut servers = Vec::new();
        for number in [0, 1] {
            lab.port(&format!(
                "addr add 2001:db8:{number}::1/64 dev port{number} nodad"
            ));
            servers.push(lab.dnsmasq(
                &format!("port{number}"),
                &[
                    "--enable-ra",
                    &format!("--dhcp-range=2001:db8:{number}::,ra-only"),
                ],
            ));
        }
        let mut network = lab.boot_with_reach("");
        let state = lab
            .until(&mut network.state, "both addresses", |s| {
                s.nics.len() == 2 && s.nics.iter().all(NicState::is_online)
            })
            .await;
        for name in ["eth0", "eth1", "eth0"] {
            let over = nic(&state, name).map(|nic| nic.index);
            network.reach.send_modify(|reach| reach.over = over);
            until_by(lab, "2001:db8:ffff::1", name).await;
        }
    });
}

/// The agent reaches the name server behind the second NIC's gateway over that
/// NIC.
#[test]
fn a_name_server_is_asked_over_the_nic_whose_network_has_named_it() {
    on_a_machine(async |lab| {
        plug_in_two(lab);
        lab.port("addr add 192.0.2.1/24 dev port1");
        let _server = lab.dnsmasq(
            "port1",
            &[
                POOL,
                "--dhcp-option=option:dns-server,203.0.113.53,192.0.2.1",
            ],
        );
        let mut network = lab.boot("ip=198.51.100.10::198.51.100.1:24::eth0:none ip=eth1:dhcp");
        let servers = ["203.0.113.53", "192.0.2.1"].map(|text| DnsServer {
            address: text.parse().unwrap(),
            interface: None,
        });
        lab.until(&mut network, "the lease", |s| s.dns == servers)
            .await;
        assert!(way("203.0.113.53").contains("via 192.0.2.1 dev eth1 "));
        assert!(way("203.0.113.54").contains(" dev eth0 "));
    });
}

/// The plan contains the NIC name of another machine; the log lists the names that
/// exist.
#[test]
fn a_missing_nic_name_is_reported_with_all_existing_nics() {
    on_a_machine(async |lab| {
        lab.plug_in(0);
        ip("link property add dev eth0 altname enp7s0");
        let mut network = lab.boot("ip=192.0.2.10:::24::eno9:none ip=52-54-00-00-00-09:dhcp");
        lab.until(&mut network, "the NIC", |s| !s.nics.is_empty())
            .await;
        for line in [
            "WARN eno9 has not appeared yet: the agent waits for it; it has found these NICs:",
            "WARN the NIC with MAC 52:54:00:00:00:09 has not appeared yet: the agent waits for it; it has found these NICs:",
            "WARN found NIC eth0 = enp7s0, 52:54:00:00:00:00",
        ] {
            lab.until_logged(line).await;
        }
        assert_eq!(lab.state_file()["nics"][0]["other_names"][0], "enp7s0");
    });
}

/// Ironic creates ports for the NICs that have an address (`add_ports = active`),
/// so the NICs other than the boot NIC get one as well.
#[test]
fn with_a_boot_nic_the_others_are_configured_as_well() {
    on_a_machine(async |lab| {
        plug_in_two(lab);
        let mut servers = Vec::new();
        for (number, network) in [(0, "192.0.2"), (1, "198.51.100")] {
            lab.port(&format!("addr add {network}.1/24 dev port{number}"));
            let range = format!("--dhcp-range={network}.100,{network}.150,255.255.255.0,1h");
            servers.push(lab.dnsmasq(&format!("port{number}"), &[&range]));
        }
        let mut network = lab.boot_with_reach("BOOTIF=01-52-54-00-00-00-01");
        lab.until(&mut network.state, "both leases", |s| {
            s.nics.len() == 2 && s.nics.iter().all(NicState::is_online)
        })
        .await;
        // Both NICs have a default route; that of the boot NIC is preferred.
        until_by(lab, "203.0.113.1", "eth1").await;
    });
}
