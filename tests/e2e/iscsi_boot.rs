//! Hosts whose firmware boots from iSCSI: its table (iBFT) names a target, and the machine
//! has no disk of its own.

use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::conductor::script::Method;
use landfall_tests::ibft::{self, IbftNic, IbftTarget};
use landfall_tests::installation::{BOOT, DEPLOYMENT, POWER_OFF, deploy_and_boot};
use landfall_tests::iscsi_target::{IscsiTarget, LUN, PORT, SECOND_PORT, TARGET};
use landfall_tests::journal::Source;
use landfall_tests::lab::{GUEST_V4, HOST_V4, Lab};
use landfall_tests::old_disk::{OldDisk, ensure_untouched};
use landfall_tests::site::{Network, Plan, Site};
use landfall_tests::vm::{Extra, Firmware};

use crate::host_test;

pub(crate) const INITIATOR: &str = "iqn.2010-04.org.example:host";
pub(crate) const CHAP: (&str, &str) = ("host", "plantedsecret1");

/// The host gets its address from the firmware's table as well.
pub(crate) fn plan() -> Plan {
    Plan {
        network: Network::Given("ip=ibft"),
        ..Plan::default()
    }
}

/// The machine of `site` without its disk. Its iBFT names the target once for each port.
fn diskless(lab: &Lab, site: &Site, ports: &[u16], chap: Option<(&str, &str)>) -> Result<Site> {
    let nic = IbftNic {
        address: GUEST_V4.into(),
        prefix: 24,
        gateway: HOST_V4.into(),
        mac: [0x52, 0x54, 0, 0xc0, 0xff, 1],
    };
    let target = |port: &u16| IbftTarget {
        name: TARGET,
        portal: (HOST_V4, *port).into(),
        lun: LUN,
        chap,
    };
    let targets: Vec<_> = ports.iter().map(target).collect();
    let path = lab.path("ibft");
    std::fs::write(&path, ibft::table(INITIATOR, &nic, &targets))?;
    let mut host = site.clone();
    host.machine.disks.clear();
    let table = format!("sig=iBFT,rev=1,data={}", path.display());
    let table = Extra::QemuOption("-acpitable", table);
    host.machine.extras.push(table);
    Ok(host)
}

/// Writes the image to the target. The installed system gets the arguments with which
/// its initramfs finds the target again. The second boot does not use the target: the
/// file behind it is then a local disk. `iscsi_root.rs` boots from the target.
async fn install_on_target(lab: &Lab, firmware: Firmware) -> Result<()> {
    let plan = Plan { firmware, ..plan() };
    let site = plan.site(lab).await?;
    let _target = IscsiTarget::start(&site.machine.disks[0].path, Some(CHAP)).await?;
    let services = site.serve(lab).await?;
    let guest = diskless(lab, &site, &[PORT], Some(CHAP))?
        .power_on(lab)
        .await?;
    deploy_and_boot(lab, &plan, &site, &services, guest).await?;
    lab.journal.console_line(&[
        "iscsi: /dev/sda is ",
        &format!("LUN {LUN} of {TARGET} at {HOST_V4}:{PORT} over "),
    ])?;
    installed_with(lab, "rd.iscsi.firmware=1 ip=ibft")?;
    let start = lab.journal.start();
    let leak = lab.journal.find(start, |event| event.text.contains(CHAP.1));
    ensure!(leak.is_none(), "the secret is in {leak:?}");
    Ok(())
}

fn installed_with(lab: &Lab, arguments: &str) -> Result<()> {
    let start = lab.journal.start();
    lab.journal
        .line(Source::Console, start, &["TEST-ROOT: cmdline: ", arguments])?;
    Ok(())
}

#[test]
fn installs_on_an_iscsi_target_bios() {
    host_test("installs_on_an_iscsi_target_bios", async |lab| {
        install_on_target(lab, Firmware::Bios).await
    });
}

#[test]
fn installs_on_an_iscsi_target_uefi() {
    host_test("installs_on_an_iscsi_target_uefi", async |lab| {
        install_on_target(lab, Firmware::Uefi).await
    });
}

/// The table names the disk by two portals. Both get a session, and they count as one disk.
#[test]
fn two_iscsi_targets_are_paths_to_one_disk() {
    host_test("two_iscsi_targets_are_paths_to_one_disk", async |lab| {
        let plan = plan();
        let site = plan.site(lab).await?;
        let _target = IscsiTarget::start(&site.machine.disks[0].path, None).await?;
        let services = site.serve(lab).await?;
        let guest = diskless(lab, &site, &[PORT, SECOND_PORT], None)?
            .power_on(lab)
            .await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await?;
        lab.journal
            .console_line(&["/dev/sda", "/dev/sdb", " are paths of one disk "])?;
        installed_with(lab, "rd.multipath=default")?;
        installed_with(lab, "rd.iscsi.firmware=1 ip=ibft")
    });
}

/// The target has a second LUN, which the table does not name. Cleaning erases the LUN of the
/// table. The kernel does not see the other one, and no byte of it changes.
#[test]
fn cleaning_leaves_the_other_luns_of_a_target() {
    host_test("cleaning_leaves_the_other_luns_of_a_target", async |lab| {
        let plan = Plan {
            disk_before: OldDisk::Bootable,
            disk_mib: 512,
            ..plan()
        };
        let mut site = plan.site(lab).await?;
        site.script.method = Method::Clean {
            step: "erase_devices_metadata",
        };
        let disk = site.machine.disks[0].path.clone();
        let other = lab.path("other.raw");
        OldDisk::Pattern.make(&other, 64).await?;
        let mut target = IscsiTarget::start(&disk, None).await?;
        target.add(LUN + 1, &other).await?;
        let services = site.serve(lab).await?;
        let guest = diskless(lab, &site, &[PORT], None)?.power_on(lab).await?;
        services.conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.powered_off(POWER_OFF).await?;
        let mut start = [0; 1024];
        File::open(&disk)?.read_exact(&mut start)?;
        ensure!(
            start[510..512] != [0x55, 0xaa] && !start[512..].starts_with(b"EFI PART"),
            "LUN {LUN} was not cleaned"
        );
        let second = lab.journal.find(lab.journal.start(), |event| {
            event.source == Source::Console && event.text.contains("sdb")
        });
        ensure!(second.is_none(), "expected one disk, found {second:?}");
        ensure_untouched(&other)
    });
}

/// The target crashes while the image is written. The agent logs in again, and the system on
/// the disk is complete.
#[test]
fn a_lost_iscsi_connection_comes_back() {
    host_test("a_lost_iscsi_connection_comes_back", async |lab| {
        let plan = plan();
        let mut site = plan.site(lab).await?;
        // The download is slow, so that the session is in use when it breaks.
        site.files[0].behaviour.bytes_per_second = Some(2 << 20);
        let mut target = IscsiTarget::start(&site.machine.disks[0].path, None).await?;
        let services = site.serve(lab).await?;
        let guest = diskless(lab, &site, &[PORT], None)?.power_on(lab).await?;
        guest.console("disk: writing the image: ", BOOT).await?;
        target.crash_for(Duration::from_secs(5)).await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await?;
        lab.journal
            .console_line(&["iscsi: warning: the connection to ", " is lost: "])?;
        lab.journal
            .console_line(&["iscsi: logged in to ", " again after "])?;
        Ok(())
    });
}

/// If the CHAP secret is wrong, the console shows the reason and a remedy, and the boot
/// continues.
#[test]
fn a_target_that_rejects_the_secret_is_named() {
    host_test("a_target_that_rejects_the_secret_is_named", async |lab| {
        let site = plan().site(lab).await?;
        let _target = IscsiTarget::start(&site.machine.disks[0].path, Some(CHAP)).await?;
        let _services = site.serve(lab).await?;
        let host = diskless(lab, &site, &[PORT], Some((CHAP.0, "plantedsecret2")))?;
        let guest = host.power_on(lab).await?;
        let line = "authentication failed (status 0x0201) -- compare the CHAP name and secret";
        guest.console(line, BOOT).await?;
        guest.console("inspecting the hardware", BOOT).await?;
        let start = lab.journal.start();
        let leak = lab
            .journal
            .find(start, |event| event.text.contains("plantedsecret"));
        ensure!(leak.is_none(), "a secret is in {leak:?}");
        Ok(())
    });
}
