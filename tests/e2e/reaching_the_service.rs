//! Tests how the agent gets from the first carrier to the first lookup: which NIC
//! reaches the provisioning service, and what the agent does about the other NICs.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::capture::{Capture, Frame};
use landfall_tests::dhcp_server::{DhcpServer, NetworkBoot, Subnet};
use landfall_tests::installation::{BOOT, DEPLOYMENT};
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::program;
use landfall_tests::site::{MAC, Network, Plan, Services, Site};
use landfall_tests::vm::Extra;

use crate::host_test;

/// The MAC address of the second NIC.
const OTHER_MAC: &str = "52:54:00:c0:ff:02";

/// The time limit from the carrier to the first heartbeat, inventory included, on a
/// busy machine. It is shorter than any timeout that a NIC without a way to the service
/// could cost.
const AT_ONCE: Duration = Duration::from_secs(20);

/// A host whose deployment does not start until the test releases it.
async fn site(lab: &Lab, arguments: &'static str) -> Result<Site> {
    let plan = Plan {
        network: Network::Given(arguments),
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    site.script.hold = true;
    Ok(site)
}

async fn ip(line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    program::run("ip", &words).await.map(drop)
}

async fn heartbeat(lab: &Lab, services: &Services) -> Result<Duration> {
    let is_heartbeat =
        |event: &Event| event.source == Source::Conductor && event.text == "heartbeat 202";
    let start = lab.journal.start();
    let heartbeat = lab
        .journal
        .wait_for("a heartbeat", start, BOOT, is_heartbeat)
        .await?;
    ensure!(services.conductor.lookups() == 1, "expected 1 lookup");
    Ok(heartbeat.at)
}

/// Both NICs get a lease with a default gateway. The first NIC's route takes
/// precedence, but its gateway drops every packet to the service. The agent detects
/// that by itself and fetches its image over the second NIC.
#[test]
fn two_nics_of_which_one_leads_nowhere() {
    host_test("two_nics_of_which_one_leads_nowhere", async |lab| {
        // The service is behind the gateway of the second NIC.
        ip("link add br1 type bridge forward_delay 0 stp_state 0 mcast_snooping 0").await?;
        ip("addr add 198.51.100.1/24 dev br1").await?;
        ip("link set tap0 master br1").await?;
        ip("link set br1 up").await?;
        ip("addr add 203.0.113.1/24 dev br0").await?;
        // By default the kernel looks up its own addresses before any other rule, and
        // would never reach the blackhole rule.
        ip("rule add pref 100 lookup local").await?;
        ip("rule del pref 0").await?;
        ip("rule add pref 50 iif br1 to 192.0.2.0/24 blackhole").await?;
        let serve = async |mac, bridge, net: [u8; 3]| {
            let [a, b, c] = net;
            let subnet = Subnet {
                bridge,
                guest: Ipv4Addr::new(a, b, c, 10),
                router: Ipv4Addr::new(a, b, c, 1),
            };
            let boot = NetworkBoot {
                subnet,
                ..NetworkBoot::default()
            };
            DhcpServer::start(lab, mac, &boot).await
        };
        let _nowhere = serve(MAC, "br1", [198, 51, 100]).await?;
        let _somewhere = serve(OTHER_MAC, "br0", [203, 0, 113]).await?;

        let mut site = site(lab, "ip=dhcp").await?;
        site.script.hold = false;
        site.machine.nics.push(OTHER_MAC.to_owned());
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        guest
            .console("198.51.100.10/24 from DHCP server", BOOT)
            .await?;
        let carrier = lab.journal.console_line(&[OTHER_MAC, "carrier up"])?.at;
        let took = heartbeat(lab, &services).await?.saturating_sub(carrier);
        ensure!(
            took < AT_ONCE,
            "the first heartbeat came {took:?} after the carrier"
        );
        lab.journal
            .console_line(&[OTHER_MAC, "takes precedence over the other NICs"])?;
        lab.journal
            .console_line(&["provisioning service answers at", "via 203.0.113.1"])?;
        services.conductor.deployed(DEPLOYMENT).await?;
        guest.powered_off(Duration::from_secs(60)).await
    });
}

#[test]
fn nic_appears_late() {
    host_test("nic_appears_late", async |lab| {
        let arguments = "ip=192.0.2.10::192.0.2.1:24::52-54-00-c0-ff-01:none";
        let mut site = site(lab, arguments).await?;
        site.machine.nics.clear();
        site.machine.late_nic = true;
        site.machine.extras.push(Extra::OldNic);
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("no network device found", BOOT).await?;
        let example = "no-driver-for-the-nic";
        guest.shows_example(lab, example, BOOT).await?;
        guest
            .shows(lab, example, &["(PCI ID 1011:0019)"], BOOT)
            .await?;
        guest.plug_nic(MAC).await?;
        heartbeat(lab, &services).await?;
        guest.cut_power().await
    });
}

#[test]
fn carrier_comes_late() {
    host_test("carrier_comes_late", async |lab| {
        let arguments = "ip=192.0.2.10::192.0.2.1:24::52-54-00-c0-ff-01:none \
             rd.net.timeout.carrier=5";
        let site = site(lab, arguments).await?;
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.set_carrier(0, false).await?;
        guest
            .console("no carrier; waiting -- check cable", BOOT)
            .await?;
        // The rows of the status table must fit on a serial console of 80 columns.
        let unplugged = guest.console("carrier FAILED: none", BOOT).await?.text;
        ensure!(unplugged.len() <= 80, "longer than a line: {unplugged}");
        guest
            .shows_example(lab, "waiting-for-carrier", BOOT)
            .await?;
        guest.set_carrier(0, true).await?;
        heartbeat(lab, &services).await?;
        guest.cut_power().await
    });
}

/// A NIC on which no DHCP server answers does not delay the lookup over the other NIC.
#[test]
fn static_address_next_to_a_dead_dhcp() {
    host_test("static_address_next_to_a_dead_dhcp", async |lab| {
        let arguments = "ip=52-54-00-c0-ff-01:dhcp \
             ip=192.0.2.10::192.0.2.1:24::52-54-00-c0-ff-02:none";
        let mut site = site(lab, arguments).await?;
        site.machine.nics.push(OTHER_MAC.to_owned());
        let services = site.serve(lab).await?;
        let capture = Capture::start()?;
        let guest = site.power_on(lab).await?;
        let at = heartbeat(lab, &services).await?;
        let took = at.saturating_sub(lab.journal.console_line(&[OTHER_MAC, "carrier up"])?.at);
        ensure!(
            took < AT_ONCE,
            "the first heartbeat came {took:?} after the carrier"
        );
        // Proves that the capture recognises DHCP packets.
        // `dhcp_disabled_is_not_on_the_wire` relies on it.
        let asked = capture.count(MAC, Frame::is_dhcp);
        ensure!(asked > 0, "no DHCP packet was seen");
        guest.cut_power().await
    });
}

/// No source configures the second NIC, and the first NIC has a static address: the
/// host sends no DHCP packet at all. The first NIC's own traffic proves that the
/// capture works. `static_address_next_to_a_dead_dhcp` proves that the capture
/// recognises DHCP packets.
#[test]
fn dhcp_disabled_is_not_on_the_wire() {
    host_test("dhcp_disabled_is_not_on_the_wire", async |lab| {
        let arguments = "ip=192.0.2.10::192.0.2.1:24::52-54-00-c0-ff-01:none";
        let mut site = site(lab, arguments).await?;
        site.machine.nics.push(OTHER_MAC.to_owned());
        let services = site.serve(lab).await?;
        let capture = Capture::start()?;
        let guest = site.power_on(lab).await?;
        heartbeat(lab, &services).await?;
        // Wait longer than a DHCP client waits before its first message (RFC 2131,
        // 4.4.1).
        tokio::time::sleep(Duration::from_secs(12)).await;
        guest.cut_power().await?;
        let tcp = capture.count(MAC, Frame::is_tcp);
        ensure!(tcp > 10, "only {tcp} TCP packets were seen");
        for mac in [MAC, OTHER_MAC] {
            let dhcp = capture.count(mac, Frame::is_dhcp);
            ensure!(dhcp == 0, "{dhcp} DHCP packets from {mac}");
            let ipv6 = capture.count(mac, Frame::is_ipv6);
            ensure!(ipv6 == 0, "{ipv6} IPv6 packets from {mac}");
        }
        let other = capture.count(OTHER_MAC, |_| true);
        ensure!(
            other == 0,
            "{other} packets from the NIC that nothing names"
        );
        Ok(())
    });
}
