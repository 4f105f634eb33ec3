//! Tests the creation of software RAID with the kernel's md.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::conductor::script::Method;
use landfall_tests::installation::BOOT;
use landfall_tests::old_disk::OldDisk;
use landfall_tests::site::Plan;
use landfall_tests::vm::{Boot, Bus, Disk, Firmware};
use landfall_tests::{artifacts, media};
use serde_json::json;

use crate::host_test;

const MIB: u64 = 1 << 20;
/// The time limit for the step.
const STEP: Duration = Duration::from_secs(120);

/// Whether there is a superblock of version 1.2 with this name on a member that begins at
/// this MiB.
fn has_member(disk: &Path, start: u64, name: &str) -> Result<bool> {
    let mut superblock = [0; 64];
    File::open(disk)?.read_exact_at(&mut superblock, start * MIB + 4096)?;
    let magic = superblock[..4] == 0xa92b_4efc_u32.to_le_bytes();
    Ok(magic && superblock[32..].starts_with(name.as_bytes()))
}

/// Two volumes on two disks. The kernel runs both.
#[test]
fn software_raid_is_created() {
    host_test("software_raid_is_created", async |lab| {
        let plan = Plan {
            disk_mib: 2048,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.script.method = Method::Clean {
            step: "create_configuration",
        };
        // A BIOS cannot start an image on software RAID.
        site.machine.firmware = Firmware::Uefi;
        site.script.uefi = true;
        site.script.target_raid_config = Some(json!({"logical_disks": [
            {"size_gb": 1, "raid_level": "1", "controller": "software",
             "volume_name": "root", "is_root_volume": true},
            {"size_gb": "MAX", "raid_level": "0", "controller": "software",
             "volume_name": "data"},
        ]}));
        let second = lab.path("second.raw");
        OldDisk::Blank.make(&second, 2048).await?;
        site.machine.disks.push(Disk {
            path: second.clone(),
            bus: Bus::VirtioBlk,
            unplugged: false,
            fault: None,
        });
        // The drivers of servers include those of software RAID.
        site.machine.boot = Boot::Direct {
            kernel: artifacts::generic_kernel()?,
            ramdisk: media::server_ramdisk(lab).await?,
            arguments: plan.kernel_arguments(),
        };
        site.machine.memory_mib = 1024;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        services.conductor.deployed(BOOT + STEP).await?;
        guest.powered_off(STEP).await?;
        lab.journal.said(&["volume root of RAID 1"])?;
        lab.journal.said(&["volume data of RAID 0"])?;
        for disk in [&site.machine.disks[0].path, &second] {
            let found = (
                has_member(disk, 551, "root")?,
                has_member(disk, 551 + 1024, "data")?,
            );
            ensure!(found == (true, true), "{}: {found:?}", disk.display());
        }
        Ok(())
    });
}
