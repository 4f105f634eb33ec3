//! Disk faults while the agent writes an image: whether either firmware still boots
//! the disk, and what the agent reports to the operator and to Ironic.
//!
//! agent/tests/disk_faults tests the program alone with a fault at every position of a
//! write. The tests here add real drivers, firmware and the conductor.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use landfall_tests::artifacts::{self, Packing};
use landfall_tests::installation::{BOOT, DEPLOYMENT, deploy_and_boot};
use landfall_tests::journal::{Source, ensure_contains};
use landfall_tests::lab::Lab;
use landfall_tests::old_disk::{OldDisk, ensure_untouched};
use landfall_tests::site::{Plan, Services};
use landfall_tests::vm::{Bus, DiskFault};
use serde_json::json;

use crate::host_test;
use crate::image_faults::does_not_boot;

const MIB: usize = 1 << 20;

/// Installs over a bootable system. So if the disk does not boot afterwards, the agent
/// has erased the tables of that system.
fn over_a_system() -> Plan {
    Plan {
        disk_before: OldDisk::Bootable,
        ..Plan::default()
    }
}

/// The number of the 512-byte sector of the test image that contains the first non-zero
/// byte at or after byte `from`.
fn sector_with_data(from: usize) -> Result<u64> {
    let image = std::fs::read(artifacts::coreos_image(Packing::Raw)?)?;
    let data = image.iter().skip(from).position(|&byte| byte != 0);
    Ok((from + data.context("the image ends in zeros")?) as u64 / 512)
}

/// Checks that Ironic's `last_error` and the console contain these texts.
async fn ensure_reported(services: &Services, lab: &Lab, texts: &[&str]) -> Result<()> {
    let last_error = services.conductor.failed(BOOT + DEPLOYMENT).await?;
    ensure_contains(&last_error, texts)?;
    for text in texts {
        lab.journal
            .console_line(&["FAILED execute_deploy_step: ", text])?;
    }
    Ok(())
}

#[test]
fn bad_sector_in_the_middle() {
    host_test("bad_sector_in_the_middle", async |lab| {
        let mut site = over_a_system().site(lab).await?;
        // The sector depends on the content of the image.
        let sector = sector_with_data(64 * MIB)?;
        site.machine.disks[0].fault = Some(DiskFault::BadSector(sector));
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let texts = [
            "/dev/vda: cannot write ",
            " at offset ",
            "Input/output error",
        ];
        ensure_reported(&services, lab, &texts).await?;
        guest.cut_power().await?;
        does_not_boot(lab, &site).await
    });
}

#[test]
#[ignore = "as bad_sector_in_the_middle"]
fn read_only_disk() {
    host_test("read_only_disk", async |lab| {
        let plan = Plan {
            disk_mib: 200,
            disk_before: OldDisk::Pattern,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.machine.disks[0].fault = Some(DiskFault::ReadOnly);
        // A hint that names the disk disables the minimum of 4 GiB, so that only
        // the read-only flag counts.
        site.script.root_device = Some(json!({"name": "s== /dev/vda"}));
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        ensure_reported(&services, lab, &["/dev/vda", "read-only"]).await?;
        guest.cut_power().await?;
        ensure_untouched(&site.machine.disks[0].path)
    });
}

#[test]
fn disk_goes_away_while_writing() {
    host_test("disk_goes_away_while_writing", async |lab| {
        let plan = Plan {
            bus: Bus::VirtioScsi,
            ..over_a_system()
        };
        let mut site = plan.site(lab).await?;
        // The download is slow, so that the disk is in use when it is unplugged.
        site.files[0].behaviour.bytes_per_second = Some(MIB as u64);
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("disk: writing the image: ", BOOT).await?;
        let gone = lab.journal.mark();
        guest.unplug(0).await?;
        // The step must fail long before the download would end.
        guest
            .console_after(gone, "FAILED execute_deploy_step: ", DISK_GONE)
            .await?;
        ensure_reported(
            &services,
            lab,
            &["/dev/sda: cannot write ", "the disk went away"],
        )
        .await?;
        guest.cut_power().await?;
        does_not_boot(lab, &site).await
    });
}

/// How long the test waits for the failed write: the kernel takes seconds to
/// remove a SCSI disk.
const DISK_GONE: Duration = Duration::from_secs(60);

/// The agent cannot cancel a request that hangs in the kernel. It reports the hang,
/// stays reachable for Ironic, and continues when the disk responds again.
#[test]
fn disk_that_hangs() {
    host_test("disk_that_hangs", async |lab| {
        let plan = over_a_system();
        let mut site = plan.site(lab).await?;
        site.files[0].behaviour.bytes_per_second = Some(2 * MIB as u64);
        // The timeout is short, so that several heartbeats arrive before the first
        // warning about the disk.
        site.script.heartbeat_timeout = 15;
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("disk: writing the image: ", BOOT).await?;
        let hung = lab.journal.mark();
        guest.set_hanging(0, true).await?;
        let words = "warning: /dev/vda does not answer: writing ";
        let warning = guest.console_after(hung, words, BOOT).await?;
        // Ironic can query the agent while the disk hangs.
        let answer = lab.journal.find(hung, |event| {
            event.source == Source::Conductor && event.text.starts_with("command list ends with")
        });
        ensure!(answer.is_some(), "the agent was not heard of: {warning}");
        guest.set_hanging(0, false).await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await
    });
}
