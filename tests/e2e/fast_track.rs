//! Tests fast track: the agent runs for hours between inspection and
//! deployment.
//!
//! The test simulates the events of a day, not its length. With Ironic's timeout of 300
//! s, an agent sends a heartbeat every 90 to 180 s: on average 640 a day. It renews a
//! lease of one hour every half hour: 48 times a day. Here the same number of events
//! takes minutes. The conductor also requests the list of commands over TLS at each
//! heartbeat, which is more than Ironic does.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use landfall_tests::installation::deploy_and_boot;
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::site::{Network, Plan};
use landfall_tests::vm::Guest;

use crate::host_test;

const HEARTBEATS: usize = 640;
const RENEWALS: usize = 48;
/// The agent logs its memory use at every 50th heartbeat.
const LOGGED_EVERY: usize = 50;
/// By this heartbeat every kind of growth has happened once. The last one is the log in
/// memory (`report/ring`), which needs twice the memory from its 4097th line. A
/// measurement showed 920 KiB for this, at about the 230th heartbeat.
const STEADY: usize = 300;
/// Resident memory: the growth that a day may cause in percent, and the upper limit
/// in KiB.
const MAX_GROWTH: u64 = 5;
const MAX_RESIDENT: u64 = 40 * 1024;

#[test]
#[ignore = "a simulated day takes minutes"]
fn a_day_of_fast_track() {
    host_test("a_day_of_fast_track", live_a_day);
}

async fn live_a_day(lab: &Lab) -> Result<()> {
    let plan = Plan {
        network: Network::Dhcp,
        renew_seconds: Some(5),
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    site.script.hold = true;
    site.script.poll_while_held = true;
    // The agent then sends a heartbeat every 0.3 to 0.6 s.
    site.script.heartbeat_timeout = 1;
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;

    let before = resident_kib(&guest, STEADY, Duration::from_secs(1800)).await?;
    let last = HEARTBEATS.next_multiple_of(LOGGED_EVERY);
    let after = resident_kib(&guest, last, Duration::from_secs(3600)).await?;
    let acknowledged = |text: &str| text.contains("DHCPACK");
    let events = lab.journal.events();
    let dhcp = events.iter().filter(|event| event.source == Source::Dhcp);
    let leases = dhcp.filter(|event| acknowledged(&event.text)).count();
    println!(
        "{} heartbeats, {leases} leases: {before} KiB resident at first, {after} KiB at last",
        services.conductor.heartbeats()
    );
    ensure!(
        leases > RENEWALS,
        "expected the lease to be renewed {RENEWALS} times, found {leases} acknowledgements"
    );
    ensure!(services.conductor.lookups() == 1, "looked up again");
    ensure!(
        after * 100 <= before * (100 + MAX_GROWTH),
        "resident memory has grown from {before} to {after} KiB"
    );
    ensure!(after < MAX_RESIDENT, "{after} KiB are resident");

    // After that day the agent must still deploy.
    services.conductor.release();
    deploy_and_boot(lab, &plan, &site, &services, guest).await
}

/// Resident memory in KiB, as the agent logs it at this heartbeat.
async fn resident_kib(guest: &Guest, heartbeat: usize, within: Duration) -> Result<u64> {
    let text = format!("heartbeat {heartbeat} accepted; agent memory ");
    let event = guest.console(&text, within).await?;
    let (_, rest) = event.text.split_once(&text).context("no memory told")?;
    let number = rest.split(' ').next().unwrap_or_default();
    number
        .parse()
        .with_context(|| format!("memory in '{rest}'"))
}
