//! One image for fifty hosts: each host finds its own network in it.

use std::io::ErrorKind;
use std::net::UdpSocket;

use anyhow::{Result, ensure};
use landfall_tests::embedded_hosts::{COUNT, NAME};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::site::{MAC, Network, Plan, Site, Way};
use landfall_tests::vm::Firmware;

use crate::host_test;

/// The UDP port of DHCP servers.
const BOOTPS: u16 = 67;

/// No DHCP server answers here. The agent must not ask for a lease, although a
/// kernel argument says `ip=dhcp`.
#[test]
fn host_of_an_iso_for_many() {
    host_test("host_of_an_iso_for_many", async |lab| {
        let server = UdpSocket::bind(("0.0.0.0", BOOTPS))?;
        server.set_nonblocking(true)?;
        let plan = Plan {
            firmware: Firmware::Uefi,
            way: Way::Iso,
            network: Network::HostsFolder,
            ..Plan::default()
        };
        let site = plan.site(lab).await?;
        look_up(lab, &site).await?;
        let asked = server.recv_from(&mut [0; 1500]);
        ensure!(
            asked
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
            "somebody has asked for a lease: {asked:?}"
        );
        Ok(())
    });
}

/// iPXE needs a DHCP lease, the agent does not. The agent also finds its NIC
/// although the file calls it by another name.
#[test]
#[ignore = "as host_of_an_iso_for_many"]
fn host_of_a_network_tree_for_many() {
    host_test("host_of_a_network_tree_for_many", async |lab| {
        let plan = Plan {
            way: Way::Pxe,
            network: Network::AgentConfig,
            ..Plan::default()
        };
        let site = plan.site(lab).await?;
        look_up(lab, &site).await?;
        let events = lab.journal.events();
        let kernel = events.iter().position(|event| {
            event.source == Source::Console && event.text.contains("Linux version")
        });
        let of_dhcp = |event: &&landfall_tests::journal::Event| {
            event.source == Source::Dhcp && event.text.contains("DHCPDISCOVER")
        };
        let (before, after) = events.split_at(kernel.unwrap_or_default());
        ensure!(
            before.iter().any(|event| of_dhcp(&event)),
            "iPXE asked for no lease"
        );
        let asked = after.iter().find(of_dhcp);
        ensure!(
            asked.is_none(),
            "the agent has asked for a lease: {asked:?}"
        );
        Ok(())
    });
}

/// Runs a host up to its first lookup, and checks that the console names the plan
/// that the agent chose.
async fn look_up(lab: &Lab, site: &Site) -> Result<()> {
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    let count = format!("one of {COUNT} hosts in the image");
    let source = format!("plan embedded in the ramdisk: {NAME} ({MAC}), {count}");
    guest.console(&source, BOOT).await?;
    guest
        .console("ip=dhcp: ignored, because there is an embedded plan", BOOT)
        .await?;
    guest
        .console("192.0.2.10/24 from embedded plan", BOOT)
        .await?;
    guest.console("this machine is node", BOOT).await?;
    ensure!(services.conductor.lookups() == 1, "looked up again");
    Ok(())
}
