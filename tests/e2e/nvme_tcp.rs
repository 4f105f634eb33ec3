//! Tests a host without a disk of its own, whose firmware has a table for a boot by
//! NVMe/TCP (NBFT). The storage is a second guest with the Linux kernel's NVMe target.
//!
//! Only the table says which NIC leads to the storage, and which storage to use. The
//! target permits only the host NQN from the table.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use landfall_nvme_boot::nbft::fixtures::{ACPI_HEADER, HOST_NQN, Namespace, Nic, table};
use landfall_tests::ignition::INSTALLED_SYSTEM_OK;
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF, check_applied};
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::peer::{Peer, STORAGE_V4, host_ends};
use landfall_tests::site::{Plan, Site};
use landfall_tests::vm::{Extra, Firmware};

use crate::host_test;

const SUBSYSTEM: &str = "nqn.2014-08.org.example:landfall-test";

/// The MAC of the host's NIC at the first cable (`landfall_tests::peer::host_mac`), and the
/// address that the table gives it.
const NIC_MAC: [u8; 6] = [0x52, 0x54, 0x00, 0xc0, 0xfd, 0x00];
const NIC_V4: &str = "198.51.100.10";

/// Moves the disk of the host to the storage, and gives the firmware a table with these
/// namespaces. Returns the path of the disk.
fn diskless(lab: &Lab, site: &mut Site, namespaces: &[Namespace]) -> Result<PathBuf> {
    let nic = Nic::new(1, NIC_MAC, NIC_V4, 24);
    let path = lab.path("nbft");
    // QEMU writes the ACPI header itself.
    std::fs::write(&path, &table(&[nic], namespaces, &[])[ACPI_HEADER..])?;
    let option = format!("sig=NBFT,rev=1,data={}", path.display());
    let machine = &mut site.machine;
    machine.extras.push(Extra::QemuOption("-acpitable", option));
    machine.cords = host_ends(1);
    Ok(machine.disks.remove(0).path)
}

fn namespace(index: u16, subsystem: &str) -> Result<Namespace> {
    Ok(Namespace::new(index, subsystem, STORAGE_V4.parse()?, &[1]))
}

async fn storage(lab: &Lab, disk: &Path) -> Result<Peer> {
    Peer::nvme_tcp(lab, disk, SUBSYSTEM, HOST_NQN).await
}

/// Covers the way from the firmware's table to the first boot of the installed system.
/// The table requires digests of headers and data, for which the kernel loads a module.
/// For the first boot the disk is in the host, because the initramfs of the test image
/// has no NVMe/TCP.
#[test]
fn nvme_tcp_installation() {
    host_test("nvme_tcp_installation", async |lab| {
        let plan = Plan {
            firmware: Firmware::Uefi,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        let disks = site.machine.disks.clone();
        let with_digests = Namespace {
            transport_flags: 7,
            ..namespace(1, SUBSYSTEM)?
        };
        let disk = diskless(lab, &mut site, &[with_digests])?;
        let peer = storage(lab, &disk).await?;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        guest.console("san-boot: NVMe subsystem ", BOOT).await?;
        services.conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.powered_off(POWER_OFF).await?;
        peer.cut_power().await?;
        let start = lab.journal.start();
        let target = format!("at {STORAGE_V4}:4420 is connected over ");
        lab.journal
            .line(Source::Console, start, &["san-boot: ", &target])?;
        let address = [
            &format!("network: enp0s3 {NIC_V4}/24 from "),
            "the firmware's NVMe boot table",
        ];
        lab.journal.line(Source::Console, start, &address)?;
        let written = ["disk: /dev/nvme0n1 has its partition table"];
        lab.journal.line(Source::Console, start, &written)?;
        site.machine.disks = disks;
        let reset = lab.journal.mark();
        let guest = site.power_on_from_disk(lab).await?;
        let system = guest.console_after(reset, INSTALLED_SYSTEM_OK, FIRST_BOOT);
        system.await?;
        guest.powered_off(POWER_OFF).await?;
        check_applied(&lab.journal, reset, &site.proof)
    });
}

/// The storage has only one of two subsystems. The inventory has the disk of that
/// subsystem, and the console reports the missing one.
#[test]
fn nvme_tcp_without_one_subsystem() {
    host_test("nvme_tcp_without_one_subsystem", async |lab| {
        let mut site = Plan::default().site(lab).await?;
        site.script.hold = true;
        let namespaces = [
            namespace(1, "nqn.2014-08.org.example:missing")?,
            namespace(2, SUBSYSTEM)?,
        ];
        let disk = diskless(lab, &mut site, &namespaces)?;
        let _peer = storage(lab, &disk).await?;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        lab.journal
            .wait_for("the inventory", lab.journal.start(), BOOT, is_report)
            .await?;
        let inventory = services.conductor.inventory().unwrap_or_default();
        let disks = inventory["inventory"]["disks"].as_array();
        let names: Vec<_> = disks
            .into_iter()
            .flatten()
            .filter_map(|disk| disk["name"].as_str())
            .collect();
        ensure!(names == ["/dev/nvme0n1"], "the inventory has {names:?}");
        lab.journal.console_line(&[
            "san-boot: warning: NVMe subsystem nqn.2014-08.org.example:missing at ",
            " is not connected over the NIC with MAC 52:54:00:c0:fd:00: ",
            " -- look whether the storage has this subsystem NQN and permits this host NQN",
        ])?;
        guest.cut_power().await
    });
}

fn is_report(event: &Event) -> bool {
    event.source == Source::Conductor && event.text.starts_with("continue_inspection 202")
}
