//! Tests MAC-VLAN, IPVLAN, VRF, a veth pair, a routing rule and a blackhole route from
//! an NMState document. They run in the guest's kernel, because the kernel of the build
//! machine supports none of them.
//!
//! Also tests the plan of a bond whose NICs the host does not have.
//!
//! Only the tables that a rule or a VRF selects have a default route, so the answer
//! to each ping has exactly one way back.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::{GUEST_V4, HOST_V4, Lab};
use landfall_tests::site::{MAC, Network, Plan};
use landfall_tests::vm::Boot;
use landfall_tests::{artifacts, media, program};
use serde_json::{Value, json};

use crate::host_test;

/// MAC addresses of the NIC below the IPVLAN and of the NIC in the VRF.
const IPVLAN_MAC: &str = "52:54:00:c0:ff:02";
const VRF_MAC: &str = "52:54:00:c0:ff:03";

const IPVLAN_V4: &str = "198.51.100.10";
const VRF_V4: &str = "203.0.113.10";
const VETH_V4: &str = "10.64.0.1";

/// Source addresses of pings. No route of the main table leads back to them. The
/// answers use the rule, the blackhole or the VRF.
const BY_RULE: &str = "10.8.8.1";
const INTO_BLACKHOLE: &str = "10.9.9.1";
const BY_VRF: &str = "10.7.7.1";

/// A NIC without an address.
fn nic(name: &str, mac: &str) -> Value {
    json!({
        "name": name, "type": "ethernet", "state": "up",
        "identifier": "mac-address", "mac-address": mac,
        "ipv4": {"enabled": false},
    })
}

fn address(ip: &str) -> Value {
    json!({"enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": 24}]})
}

fn document() -> Value {
    let mut vrf_port = nic("vport", VRF_MAC);
    vrf_port["ipv4"] = address(VRF_V4);
    json!({
        "interfaces": [
            nic("mbase", MAC),
            {
                "name": "shared", "type": "mac-vlan", "state": "up",
                "mac-vlan": {"base-iface": "mbase", "mode": "bridge"},
                "ipv4": address(&GUEST_V4.to_string()),
            },
            nic("ibase", IPVLAN_MAC),
            {
                "name": "slice", "type": "ipvlan", "state": "up",
                "ipvlan": {"base-iface": "ibase", "mode": "l2"},
                "ipv4": address(IPVLAN_V4),
            },
            vrf_port,
            {
                "name": "red", "type": "vrf", "state": "up",
                "vrf": {"port": ["vport"], "route-table-id": 300},
            },
            {
                "name": "cable0", "type": "veth", "state": "up",
                "veth": {"peer": "cable1"}, "ipv4": address(VETH_V4),
            },
            {"name": "cable1", "type": "veth", "state": "up", "veth": {"peer": "cable0"}},
        ],
        "route-rules": {"config": [
            {"ip-from": format!("{IPVLAN_V4}/32"), "route-table": 200, "priority": 1000},
        ]},
        "routes": {"config": [
            {
                "destination": "0.0.0.0/0", "next-hop-address": "198.51.100.1",
                "next-hop-interface": "slice", "table-id": 200,
            },
            {"destination": "10.9.9.0/24", "route-type": "blackhole", "table-id": 200},
            {
                "destination": "0.0.0.0/0", "next-hop-address": "203.0.113.1",
                "next-hop-interface": "vport", "table-id": 300,
            },
        ]},
    })
}

/// Builds a ramdisk with the document as the network configuration of this host.
async fn ramdisk(lab: &Lab, document: &Value) -> Result<PathBuf> {
    let folder = lab.path("hosts");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("host.yaml"), document.to_string())?;
    let options = ["--hosts".to_owned(), folder.display().to_string()];
    media::ramdisk(lab, &options, &[]).await
}

async fn ip(line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    program::run("ip", &words).await.map(drop)
}

/// Creates the networks at the host's second and third NIC.
async fn wire() -> Result<()> {
    for (bridge, tap, own) in [
        ("br1", "tap1", "198.51.100.1"),
        ("br2", "peer0", "203.0.113.1"),
    ] {
        ip(&format!(
            "link add {bridge} type bridge forward_delay 0 stp_state 0 mcast_snooping 0"
        ))
        .await?;
        ip(&format!("addr add {own}/24 dev {bridge}")).await?;
        ip(&format!("link set {tap} master {bridge}")).await?;
        ip(&format!("link set {bridge} up")).await?;
    }
    for sender in [BY_RULE, INTO_BLACKHOLE] {
        ip(&format!("addr add {sender}/32 dev br1")).await?;
    }
    ip(&format!("addr add {BY_VRF}/32 dev br2")).await?;
    ip(&format!("route add {VETH_V4} via {IPVLAN_V4}")).await
}

/// Fails if no answer to a ping from this address arrives within `seconds`.
async fn ping(from: &str, to: &str, seconds: &str) -> Result<()> {
    let arguments = [
        "-n", "-q", "-i", "0.2", "-w", seconds, "-c", "1", "-I", from, to,
    ];
    let answered = program::run("ping", &arguments).await;
    answered
        .map(drop)
        .with_context(|| format!("a ping from {from} to {to}"))
}

#[test]
fn links_on_links_from_an_nmstate_document() {
    host_test("links_on_links_from_an_nmstate_document", async |lab| {
        wire().await?;
        let plan = Plan {
            network: Network::HostsFolder,
            ..Plan::default()
        };
        let mut site = Plan::default().site(lab).await?;
        site.script.hold = true;
        site.machine.nics = [MAC, IPVLAN_MAC, VRF_MAC].map(str::to_owned).to_vec();
        site.script.macs = site.machine.nics.clone();
        site.machine.boot = Boot::Direct {
            kernel: artifacts::kernel()?,
            ramdisk: ramdisk(lab, &document()).await?,
            arguments: plan.kernel_arguments(),
        };
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        lab.journal
            .wait_for("a heartbeat", lab.journal.start(), BOOT, |event: &Event| {
                event.source == Source::Conductor && event.text == "heartbeat 202"
            })
            .await?;
        ensure!(
            services.conductor.lookups() == 1,
            "expected 1 lookup over the MAC-VLAN, found {}",
            services.conductor.lookups()
        );
        let own = HOST_V4.to_string();
        ping(&own, &GUEST_V4.to_string(), "20").await?;
        ping(BY_RULE, IPVLAN_V4, "20").await?;
        ping(BY_VRF, VRF_V4, "20").await?;
        ping("198.51.100.1", VETH_V4, "20").await?;
        ensure!(
            ping(INTO_BLACKHOLE, IPVLAN_V4, "3").await.is_err(),
            "expected no answer out of the blackhole route, found one"
        );
        drop(guest);
        Ok(())
    });
}

/// The network of docs/networks.md, with names that no NIC of a virtual machine has.
fn bond_of_other_nics() -> Value {
    json!({
        "interfaces": [
            {
                "name": "bond0", "type": "bond", "state": "up",
                "link-aggregation": {
                    "mode": "802.3ad", "options": {"miimon": 100}, "port": ["eno1", "eno2"],
                },
            },
            {
                "name": "bond0.100", "type": "vlan", "state": "up",
                "vlan": {"base-iface": "bond0", "id": 100},
                "ipv4": address(&GUEST_V4.to_string()),
            },
        ],
    })
}

/// The NICs have a carrier, so the screen must not blame the cable.
#[test]
fn a_bond_of_nics_that_the_host_does_not_have() {
    host_test("a_bond_of_nics_that_the_host_does_not_have", async |lab| {
        let plan = Plan {
            network: Network::HostsFolder,
            ..Plan::default()
        };
        let mut site = Plan::default().site(lab).await?;
        site.machine.nics.push(IPVLAN_MAC.to_owned());
        site.machine.boot = Boot::Direct {
            kernel: artifacts::kernel()?,
            ramdisk: ramdisk(lab, &bond_of_other_nics()).await?,
            arguments: plan.kernel_arguments(),
        };
        let mut guest = site.power_on(lab).await?;
        let example = "wrong-nic-names";
        guest.shows_example(lab, example, BOOT).await?;
        let texts = [
            "bond0: 802.3ad without ports, ",
            "bond0.100: VLAN 100 on bond0, ",
        ];
        guest.shows(lab, example, &texts, BOOT).await?;
        let blamed = lab.journal.console_line(&["check cable and switch port"]);
        ensure!(blamed.is_err(), "the cable is blamed: {blamed:?}");
        guest.cut_power().await
    });
}
