//! Tests VLANs, bonds and jumbo frames against a Linux switch in a second
//! guest: the build machine's own kernel may support none of them.
//!
//! All traffic of the host goes through the tagged or bonded link, so its lookup
//! and heartbeat prove that the link works. The tests also query the switch.

use anyhow::{Context, Result, bail, ensure};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::peer::{Peer, host_ends, host_mac};
use landfall_tests::program;
use landfall_tests::site::{Network, Plan};
use landfall_tests::vm::Guest;

use crate::host_test;

/// Boots a host whose only NICs are on the peer's cables, and waits for its first
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

async fn ip(line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    program::run("ip", &words).await.map(drop)
}

/// Fails if the host does not answer a ping within 20 s.
async fn answers(lab: &Lab, when: &str) -> Result<()> {
    // One ping every 200 ms, until the first answer or for 20 s.
    let arguments = ["-n", "-q", "-i", "0.2", "-w", "20", "-c", "1", "192.0.2.10"];
    let result = program::run("ping", &arguments).await;
    lab.journal.record(Source::Peer, format!("ping {when}"));
    result.map(drop).with_context(|| format!("ping {when}"))
}

/// Frames of 9000 bytes on a VLAN. No argument gives the parent's MTU: the agent
/// has to raise it first.
#[test]
fn vlan_with_large_frames() {
    host_test("vlan_with_large_frames", async |lab| {
        for device in ["peer0", "br0"] {
            ip(&format!("link set {device} mtu 9000")).await?;
        }
        let _peer = Peer::start(
            lab,
            1,
            &[
                "ip link set eth0 mtu 9000 up",
                "ip link set eth1 mtu 9000 up",
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
            "vlan=storage50:52-54-00-c0-fd-00 ip=192.0.2.10::192.0.2.1:24::storage50:none:9000",
        )
        .await?;
        // 8972 bytes of data plus 28 bytes of IPv4 and ICMP headers make a packet of
        // 9000 bytes, the MTU. If the host fragmented its equally large answer, the
        // kernel of this machine would count a reassembly.
        let size = ["-n", "-q", "-c", "3", "-w", "20", "-M", "do", "-s", "8972"];
        program::run("ping", &[&size[..], &["192.0.2.10"]].concat()).await?;
        let put_together = fragments_received()?;
        ensure!(put_together == 0, "{put_together} fragments came");
        guest.cut_power().await
    });
}

/// Number of fragments that this network namespace has received (`ReasmReqds` of
/// RFC 2011).
fn fragments_received() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next(), lines.next());
    let mut columns = names
        .into_iter()
        .flat_map(str::split_whitespace)
        .zip(values.into_iter().flat_map(str::split_whitespace));
    let found = columns.find(|(name, _)| *name == "ReasmReqds");
    let (_, value) = found.context("no ReasmReqds in /proc/net/snmp")?;
    Ok(value.parse()?)
}

/// The switch does not know of the bond, so it accepts the host's frames on either
/// port.
#[test]
fn active_backup_survives_a_cut_cable() {
    host_test("active_backup_survives_a_cut_cable", async |lab| {
        let _peer = Peer::start(
            lab,
            2,
            &[
                "brctl addbr br0",
                "for nic in eth0 eth1 eth2; do brctl addif br0 $nic; ip link set $nic up; done",
                "ip link set br0 up",
            ],
        )
        .await?;
        let mut guest = arrive(
            lab,
            2,
            "bond=bond0:52-54-00-c0-fd-01,enp0s3:mode=active-backup,miimon=50,primary=enp0s3,fail_over_mac=active \
             ip=192.0.2.10::192.0.2.1:24::bond0:none",
        )
        .await?;
        has_options(
            &guest,
            "mode=active-backup, miimon=50, fail_over_mac=active",
        )
        .await?;
        answers(lab, "with both cables").await?;
        guest.set_cord(0, false).await?;
        guest
            .console("enp0s3 (52:54:00:c0:fd:00) carrier lost", BOOT)
            .await?;
        answers(lab, "without the primary's cable").await?;
        guest.set_cord(0, true).await?;
        guest.set_cord(1, false).await?;
        guest
            .console("enp0s4 (52:54:00:c0:fd:01) carrier lost", BOOT)
            .await?;
        answers(lab, "without the other").await?;
        no_complaint(lab, "bond0")?;
        guest.cut_power().await
    });
}

/// Waits for the line in which the agent logs the options that it read back from
/// the kernel.
async fn has_options(guest: &Guest, options: &str) -> Result<()> {
    let line = format!("bond0: the kernel has {options}");
    guest.console(&line, BOOT).await.map(drop)
}

/// Checks that the network code logged no warning about this device. Warnings of the
/// discovery are allowed, because no frame passes before both ends have agreed on LACP.
fn no_complaint(lab: &Lab, device: &str) -> Result<()> {
    match lab.journal.console_line(&["network: warning:", device]) {
        Ok(event) => bail!("{}", event.text),
        Err(_) => Ok(()),
    }
}

/// A VLAN on an LACP bond whose partner is a Linux bond.
#[test]
#[ignore = "as vlan_on_a_bond_by_arguments"]
fn vlan_on_lacp() {
    host_test("vlan_on_lacp", async |lab| {
        let mut peer = Peer::vlan_on_lacp(lab).await?;
        let mut guest = arrive(
            lab,
            2,
            "bond=bond0:52-54-00-c0-fd-01,52-54-00-c0-fd-00:mode=802.3ad,lacp_rate=fast,xmit_hash_policy=layer3+4,ad_select=bandwidth,min_links=1,miimon=60,updelay=120,downdelay=60 \
             vlan=bond0.50:bond0 ip=192.0.2.10::192.0.2.1:24::bond0.50:none",
        )
        .await?;
        has_options(
            &guest,
            "mode=802.3ad, miimon=60, ad_select=bandwidth, downdelay=60, lacp_rate=fast, \
             min_links=1, updelay=120, xmit_hash_policy=layer3+4",
        )
        .await?;
        // Waits until each end of both cables is aggregated, in sync, collecting
        // and distributing. Only then can one cable replace the other.
        let both = "until [ $(grep -c 'port state: 6[13]' /proc/net/bonding/bond0) = 4 ]; do sleep 0.2; done";
        peer.run(lab, both).await?;
        let bond = peer.run(lab, "cat /proc/net/bonding/bond0").await?;
        let partner = bond
            .lines()
            .find(|line| line.contains("Partner Mac Address"));
        // The bond has the MAC address of the first port in the plan's list, although
        // the driver finds the other NIC first.
        ensure!(
            partner.is_some_and(|line| line.contains("52:54:00:c0:fd:01")),
            "the partner is not the host with its first port's MAC: {partner:?}"
        );
        for cable in [0, 1] {
            guest.set_cord(cable, false).await?;
            answers(lab, &format!("without cable {cable}")).await?;
            guest.set_cord(cable, true).await?;
            peer.run(lab, both).await?;
        }
        no_complaint(lab, "bond0")?;
        guest.cut_power().await
    });
}
