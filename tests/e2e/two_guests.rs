//! VLANs, bonds and large frames, against a Linux switch in another guest: a
//! build machine's own kernel may have none of them.
//!
//! Everything that the host says goes through the tagged or bonded link, so its
//! lookup and heartbeat are the proof; what the switch says is the rest of it.

use anyhow::{Result, ensure};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::peer::{Peer, host_ends, host_mac};
use landfall_tests::site::{Network, Plan};
use landfall_tests::vm::Guest;

use crate::host_test;

/// Boots a host whose only NICs are at the peer's cables, as far as its first
/// heartbeat.
async fn arrive(lab: &Lab, cables: u16, arguments: &'static str) -> Result<Guest> {
    let plan = Plan {
        network: Network::Given(arguments),
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    site.machine.nics.clear();
    site.machine.cords = host_ends(cables);
    site.script.macs = (0..cables).map(host_mac).collect();
    site.script.hold = true;
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    lab.journal
        .wait_for("a heartbeat", lab.journal.start(), BOOT, is_heartbeat)
        .await?;
    ensure!(
        services.conductor.lookups() == 1,
        "expected 1 lookup, found {}",
        services.conductor.lookups()
    );
    Ok(guest)
}

fn is_heartbeat(event: &Event) -> bool {
    event.source == Source::Conductor && event.text == "heartbeat 202"
}

/// A VLAN on a single cable; its id is in no part of the interface's name but
/// the last.
#[test]
fn vlan() {
    host_test("vlan", async |lab| {
        let _peer = Peer::start(
            lab,
            1,
            &[
                "ip link set eth0 up",
                "ip link set eth1 up",
                "ip link add link eth1 name eth1.50 type vlan id 50",
                "ip link set eth1.50 up",
                "brctl addbr br0",
                "brctl addif br0 eth0",
                "brctl addif br0 eth1.50",
                "ip link set br0 up",
            ],
        )
        .await?;
        let guest = arrive(
            lab,
            1,
            "vlan=storage50:52-54-00-c0-fd-00 ip=192.0.2.10::192.0.2.1:24::storage50:none",
        )
        .await?;
        guest.cut_power().await
    });
}
