//! Tests software RAID with the kernel's md: its creation, and a system on it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use axum::body::Bytes;
use landfall_tests::conductor::script::{Finish, Method};
use landfall_tests::ignition::{INSTALLED_SYSTEM_LATER_BOOT, INSTALLED_SYSTEM_OK};
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::old_disk::OldDisk;
use landfall_tests::site::{Plan, Site};
use landfall_tests::vm::{Boot, Bus, Disk, Firmware};
use landfall_tests::{artifacts, media};
use serde_json::json;

use crate::host_test;

const MIB: u64 = 1 << 20;
/// The time limit for the step `create_configuration`, and for the power-off after it.
const STEP: Duration = Duration::from_secs(120);

/// Whether the disk has an md superblock of version 1.2 with this array name, in a
/// member that begins at MiB `start`.
fn has_member(disk: &Path, start: u64, name: &str) -> Result<bool> {
    let mut superblock = [0; 64];
    File::open(disk)?.read_exact_at(&mut superblock, start * MIB + 4096)?;
    let magic = superblock[..4] == 0xa92b_4efc_u32.to_le_bytes();
    Ok(magic && superblock[32..].starts_with(name.as_bytes()))
}

/// Runs the step `create_configuration` on a host with two disks. The step creates
/// volume `root` with RAID 1 and volume `data` with RAID 0. Afterwards the host is off.
/// The firmware must be UEFI, because a BIOS cannot start an image on software RAID.
async fn create_volumes(lab: &Lab) -> Result<Site> {
    let plan = Plan {
        disk_mib: 2048,
        firmware: Firmware::Uefi,
        finish: Finish::PowerOff,
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    site.script.target_raid_config = Some(json!({"logical_disks": [
        {"size_gb": 1, "raid_level": "1", "controller": "software",
         "volume_name": "root", "is_root_volume": true},
        {"size_gb": "MAX", "raid_level": "0", "controller": "software",
         "volume_name": "data"},
    ]}));
    let second = lab.path("second.raw");
    OldDisk::Blank.make(&second, 2048).await?;
    site.machine.disks.push(Disk {
        path: second,
        bus: Bus::VirtioBlk,
        unplugged: false,
        fault: None,
    });
    // The ramdisk with the drivers for servers has those of software RAID.
    site.machine.boot = Boot::Direct {
        kernel: artifacts::generic_kernel()?,
        ramdisk: media::server_ramdisk(lab).await?,
        arguments: plan.kernel_arguments(),
    };
    site.machine.memory_mib = 1024;
    let mut step = site.clone();
    step.script.method = Method::Clean {
        step: "create_configuration",
    };
    let services = step.serve(lab).await?;
    let guest = step.power_on(lab).await?;
    services.conductor.deployed(BOOT + STEP).await?;
    guest.powered_off(STEP).await?;
    services.stop().await;
    Ok(site)
}

/// The agent creates two volumes on two disks. Each disk has a member of each volume.
#[test]
fn software_raid_is_created() {
    host_test("software_raid_is_created", async |lab| {
        let site = create_volumes(lab).await?;
        lab.journal.console_line(&["volume root of RAID 1"])?;
        lab.journal.console_line(&["volume data of RAID 0"])?;
        for Disk { path: disk, .. } in &site.machine.disks {
            let found = (
                has_member(disk, 551, "root")?,
                has_member(disk, 551 + 1024, "data")?,
            );
            ensure!(found == (true, true), "{}: {found:?}", disk.display());
        }
        Ok(())
    });
}

/// Installs CoreOS on the volume `root`. CoreOS starts with both disks, and then with
/// each disk alone: the firmware uses that disk's copy of the EFI system partition, and
/// mdadm starts the degraded array.
#[test]
fn coreos_starts_from_either_disk_of_a_volume() {
    host_test("coreos_starts_from_either_disk_of_a_volume", async |lab| {
        let mut site = create_volumes(lab).await?;
        let (image, hash) = artifacts::network_manager_image()?;
        site.files[0].content = Bytes::from(std::fs::read(image)?);
        site.script.image.hash = hash;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        services.conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.powered_off(POWER_OFF).await?;
        let disks = site.machine.disks.clone();
        for (disks, end) in [
            (&disks[..], INSTALLED_SYSTEM_OK),
            (&disks[..1], INSTALLED_SYSTEM_LATER_BOOT),
            (&disks[1..], INSTALLED_SYSTEM_LATER_BOOT),
        ] {
            let on = lab.journal.mark();
            site.machine.disks = disks.to_vec();
            site.machine.boot = Boot::Disk;
            let guest = site.power_on(lab).await?;
            guest.console_after(on, end, FIRST_BOOT).await?;
            guest.powered_off(POWER_OFF).await?;
            let shown = |texts: &[&str]| lab.journal.line(Source::Console, on, texts);
            shown(&["TEST-ROOT: cmdline: ", "rd.md.uuid="])?;
            shown(&[
                "TEST-INITRD: disks: ",
                "boot=../../md127p3 root=../../md127p4",
            ])?;
            shown(&[end, &site.proof.line()])?;
        }
        Ok(())
    });
}
