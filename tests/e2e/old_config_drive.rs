//! The ramdisk must not use a config drive that an earlier deployment left on a disk.
//! With the address in that config drive, the host would not reach Ironic.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use landfall_tests::dhcp_server::{DhcpServer, NetworkBoot};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::site::{MAC, Network, Plan};
use landfall_tests::{config_drive, program};
use serde_json::json;

use crate::host_test;
use crate::machine_faults::second_disk;

/// The address in the old config drive.
const OLD_ADDRESS: &str = "203.0.113.77";

const MIB: u64 = 1 << 20;

/// Writes the config drive to a disk at the byte offset `at`.
fn put(disk: &Path, config_drive: &[u8], at: u64) -> Result<()> {
    let disk = OpenOptions::new().write(true).open(disk)?;
    Ok(disk.write_all_at(config_drive, at)?)
}

/// One disk has the config drive in a partition, as the agent writes it. The whole of
/// the other disk is a config drive.
#[test]
fn a_config_drive_on_a_disk_is_not_taken_for_settings() {
    host_test("old_config_drive", async |lab| {
        let data = json!({
            "links": [{"id": "nic", "type": "phy", "ethernet_mac_address": MAC}],
            "networks": [{
                "id": "old", "type": "ipv4", "link": "nic",
                "ip_address": OLD_ADDRESS, "netmask": "255.255.255.0",
            }],
            "services": [],
        });
        let iso = config_drive::with_network_data(lab, &data.to_string()).await?;
        let config_drive = std::fs::read(iso)?;
        // Without a network on the command line the agent looks for one on media.
        let plan = Plan {
            network: Network::Given(""),
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.script.hold = true;
        let first = &site.machine.disks[0].path;
        let name = first.display().to_string();
        let partition = ["--new=1:2048:0", "--change-name=1:config-2", &name];
        program::run("sgdisk", &partition).await?;
        put(first, &config_drive, MIB)?;
        let second = second_disk(lab)?;
        put(&second.path, &config_drive, 0)?;
        site.machine.disks.push(second);
        let _dhcp = DhcpServer::start(lab, MAC, &NetworkBoot::default()).await?;
        let _services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        wait_for_heartbeat(lab).await?;
        lab.journal
            .console_line(&["192.0.2.10/24 from DHCP server"])?;
        let events = lab.journal.events();
        let of_old = events.iter().find(|event| {
            let texts = ["network_data.json", OLD_ADDRESS];
            texts.iter().any(|text| event.text.contains(text))
        });
        ensure!(
            of_old.is_none(),
            "the old config drive was read: {of_old:?}"
        );
        guest.cut_power().await
    });
}

async fn wait_for_heartbeat(lab: &Lab) -> Result<()> {
    let is_heartbeat =
        |event: &Event| event.source == Source::Conductor && event.text == "heartbeat 202";
    let start = lab.journal.start();
    let heartbeat = lab
        .journal
        .wait_for("a heartbeat", start, BOOT, is_heartbeat);
    heartbeat.await.map(drop)
}
