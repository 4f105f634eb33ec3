//! One ISO for the three hosts of an install-config.yaml. They boot at the same time,
//! and each one uses its own static network and its own root device hint.

use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context, Result, ensure};
use landfall_tests::config_drive;
use landfall_tests::embedded_hosts::{InstallerHost, install_config};
use landfall_tests::ignition::INSTALLED_SYSTEM_OK;
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::media;
use landfall_tests::old_disk::OldDisk;
use landfall_tests::site::{Network, Plan};
use landfall_tests::vm::{Boot, Bus, Disk, Guest, Machine};
use serde_json::json;

use crate::host_test;
use crate::unattended::{CONFIG, IMAGE, config, url};

const TARGET_MIB: u64 = 5 * 1024;
/// The size of the disk that the agent must not choose. It is smaller than the target
/// disk and large enough for a root disk: without hints the agent would choose it.
const DECOY_MIB: u64 = 4 * 1024 + 512;

/// The factor for time limits: three hosts share the processors that one host has in
/// other tests.
const SLOWER: u32 = 3;

/// A host, the controller of its disks, and what the console says about the host.
pub(crate) struct Case {
    pub(crate) host: InstallerHost,
    bus: Bus,
    hints: &'static str,
    disk: &'static str,
}

impl Case {
    /// The lines on the console of the host until the agent has chosen the disk.
    /// `count` is the text that follows the host in the first line.
    pub(crate) fn lines(&self, count: &str) -> [String; 4] {
        let name = format!("{} ({})", self.host.name, self.host.mac);
        [
            format!("plan embedded in the ramdisk: {name}{count}"),
            format!("{}/24 from embedded plan", self.host.address),
            format!(
                "root device hints embedded in the ramdisk for {name}: {}",
                self.hints
            ),
            format!("installing to {}", self.disk),
        ]
    }
}

pub(crate) fn cases() -> [Case; 3] {
    let host = |name, mac, address, hints| InstallerHost {
        name,
        mac,
        address,
        hints,
    };
    [
        Case {
            host: host(
                "master-0",
                "52:54:00:c0:fc:00",
                "192.0.2.20",
                json!({"serialNumber": "disk0"}),
            ),
            // The kernel numbers SCSI disks in any order, so `disk` has no letter.
            bus: Bus::VirtioScsi,
            hints: "serial: \"s== disk0\"",
            disk: "/dev/sd",
        },
        Case {
            host: host(
                "master-1",
                "52:54:00:c0:fc:01",
                "192.0.2.21",
                json!({"deviceName": "/dev/vda"}),
            ),
            bus: Bus::VirtioBlk,
            hints: "name: \"s== /dev/vda\"",
            disk: "/dev/vda",
        },
        Case {
            host: host(
                "worker-0.example.org",
                "52:54:00:c0:fc:02",
                "192.0.2.22",
                json!({"minSizeGigabytes": 5}),
            ),
            bus: Bus::VirtioBlk,
            hints: "size: \">= 5\"",
            disk: "/dev/vda",
        },
    ]
}

/// An unattended installation that names no disk: each host has its own hint.
pub(crate) fn plan() -> Plan {
    Plan {
        network: Network::Given("ip=dhcp"),
        unattended: Some(format!(
            "coreos.inst.image_url={} coreos.inst.ignition_url={} coreos.inst.insecure",
            url(IMAGE),
            url(CONFIG)
        )),
        ..Plan::default()
    }
}

#[test]
fn three_hosts_of_an_install_config() {
    host_test("three_hosts_of_an_install_config", async |lab| {
        let plan = plan();
        let mut site = plan.site(lab).await?;
        site.files.push(config(site.proof.config()));
        let _services = site.serve(lab).await?;
        let cases = cases();
        let options = install_config(lab, cases.iter().map(|case| &case.host))?;
        let iso = media::iso(lab, &plan.kernel_arguments(), &options).await?;
        let mut guests = Vec::new();
        for (number, case) in (0..).zip(&cases) {
            let boot = Boot::Iso(iso.clone());
            let machine = machine(lab, &site.machine, number, case, boot).await?;
            let guest = Guest::start_host(lab, &machine, number).await?;
            guests.push((number, machine, guest));
        }
        let line = site.proof.line();
        let proof = line.split(' ').next_back().context("no proof")?;
        for (case, (number, machine, guest)) in cases.iter().zip(guests) {
            for text in case.lines(", one of 3 hosts in the image") {
                guest.console(&text, SLOWER * BOOT).await?;
            }
            let installed = SLOWER * (DEPLOYMENT + FIRST_BOOT);
            guest.console(INSTALLED_SYSTEM_OK, installed).await?;
            guest.powered_off(POWER_OFF).await?;
            let start = lab.journal.start();
            for text in [proof, "/boot/coreos-firstboot-network/"] {
                lab.journal.line(Source::Host(number), start, &[text])?;
            }
            check_disks(&machine).await?;
        }
        Ok(())
    });
}

/// The machine of a host, with two blank disks. The BIOS boots the first one.
pub(crate) async fn machine(
    lab: &Lab,
    template: &Machine,
    number: u8,
    case: &Case,
    boot: Boot,
) -> Result<Machine> {
    let mut disks = Vec::new();
    for (name, mib) in [("target", TARGET_MIB), ("decoy", DECOY_MIB)] {
        let path = lab.path(&format!("{name}-{number}.raw"));
        OldDisk::Blank.make(&path, mib).await?;
        disks.push(Disk {
            path,
            bus: case.bus,
            unplugged: false,
            fault: None,
        });
    }
    Ok(Machine {
        disks,
        nics: vec![case.host.mac.to_owned()],
        first_tap: number.into(),
        boot,
        variables: lab.path(&format!("uefi-variables-{number}")),
        ..template.clone()
    })
}

/// Fails unless the target disk has partitions and the other disk is still blank.
async fn check_disks(machine: &Machine) -> Result<()> {
    let [target, decoy] = &machine.disks[..] else {
        anyhow::bail!("expected two disks");
    };
    config_drive::partitions(&target.path.display().to_string()).await?;
    ensure_blank(decoy)
}

/// A blank file has no blocks until somebody writes to it.
pub(crate) fn ensure_blank(disk: &Disk) -> Result<()> {
    let blocks = std::fs::metadata(&disk.path)?.blocks();
    let path = disk.path.display();
    ensure!(blocks == 0, "{blocks} blocks were written to {path}");
    Ok(())
}
