//! Tests clean steps that need a booted machine: disks that fail or change their
//! names, and crash records that firmware keeps.

use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use landfall_tests::conductor::script::Method;
use landfall_tests::installation::BOOT;
use landfall_tests::journal::ensure_contains;
use landfall_tests::lab::Lab;
use landfall_tests::old_disk::{OldDisk, ensure_untouched};
use landfall_tests::site::{Plan, Site};
use landfall_tests::uefi_variables::UefiVariables;
use landfall_tests::vm::{Bus, Disk, DiskFault, Firmware, Guest};
use uuid::Uuid;

use crate::host_test;

/// The time limit for a step that has little to do.
const STEP: Duration = Duration::from_secs(120);

/// A site whose script runs one clean step.
async fn site(lab: &Lab, plan: &Plan, step: &'static str) -> Result<Site> {
    let mut site = plan.site(lab).await?;
    site.script.method = Method::Clean { step };
    Ok(site)
}

/// An unreadable disk is the only reported failure, and the other disk is still
/// cleaned.
#[test]
fn unreadable_disk_does_not_stop_cleaning() {
    host_test("unreadable_disk_does_not_stop_cleaning", async |lab| {
        let plan = Plan {
            disk_mib: 64,
            disk_before: OldDisk::Pattern,
            ..Plan::default()
        };
        let mut site = site(lab, &plan, "erase_devices_metadata").await?;
        site.machine.disks[0].fault = Some(DiskFault::Unreadable);
        let other = lab.path("other.raw");
        OldDisk::Bootable.make(&other, 512).await?;
        site.machine.disks.push(Disk {
            path: other.clone(),
            bus: Bus::VirtioBlk,
            unplugged: false,
            fault: None,
        });
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let last_error = services.conductor.failed(BOOT + STEP).await?;
        ensure_contains(
            &last_error,
            &["\"/dev/vda\"", "could not be read", "Input/output error"],
        )?;
        ensure!(
            !last_error.contains("/dev/vdb"),
            "last_error is: {last_error}"
        );
        guest.cut_power().await?;
        ensure_untouched(&site.machine.disks[0].path)?;
        let mut start = [0; 1024];
        std::fs::File::open(&other)?.read_exact(&mut start)?;
        ensure!(
            start[510..512] != [0x55, 0xaa] && !start[512..].starts_with(b"EFI PART"),
            "/dev/vdb was not cleaned"
        );
        Ok(())
    });
}

/// Plugs in one disk after the other until one gets the name sda. The kernel frees the
/// name of a disk that is gone a moment after its last line about it; a disk that is
/// plugged in before that gets the name sdb.
async fn plug_in_as_sda(lab: &Lab, guest: &mut Guest, disks: Range<usize>) -> Result<()> {
    for index in disks.clone() {
        let plugged = lab.journal.mark();
        guest.plug(index).await?;
        let attached = guest
            .console_after(plugged, "] Attached SCSI disk", STEP)
            .await?;
        if attached.text.contains("[sda]") {
            return Ok(());
        }
        // Time for the last user of the old disk to close it.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    bail!("none of the disks {disks:?} became sda")
}

/// While the agent erases the first disk, the second disk disappears. A disk that was
/// not there when the agent listed the disks gets the name of the second disk.
#[test]
fn another_disk_of_the_same_name_is_not_erased() {
    host_test("another_disk_of_the_same_name_is_not_erased", async |lab| {
        let plan = Plan {
            bus: Bus::VirtioScsi,
            disk_mib: 64,
            disk_before: OldDisk::Pattern,
            ..Plan::default()
        };
        let mut site = site(lab, &plan, "erase_devices").await?;
        // The agent erases one disk at a time, in descending order of the names: /dev/vda
        // first.
        site.script.erasure_concurrency = 1;
        let first = lab.path("first.raw");
        OldDisk::Blank.make(&first, 1024).await?;
        site.machine.disks.push(Disk {
            path: first,
            bus: Bus::VirtioBlk,
            unplugged: false,
            fault: None,
        });
        let new = site.machine.disks.len()..site.machine.disks.len() + 3;
        for index in new.clone() {
            let path = lab.path(&format!("new{index}.raw"));
            OldDisk::Pattern.make(&path, 64).await?;
            site.machine.disks.push(Disk {
                path,
                bus: Bus::VirtioScsi,
                unplugged: true,
                fault: None,
            });
        }
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest
            .console("/dev/vda: pass 1 of 2 (random)", BOOT + STEP)
            .await?;
        // Make /dev/vda hang, so that its erasure does not end before another disk has
        // the name sda.
        guest.set_hanging(1, true).await?;
        let gone = lab.journal.mark();
        guest.unplug(0).await?;
        guest
            .console_after(gone, "[sda] Synchronizing SCSI cache", STEP)
            .await?;
        plug_in_as_sda(lab, &mut guest, new.clone()).await?;
        guest.set_hanging(1, false).await?;
        let last_error = services.conductor.failed(STEP).await?;
        ensure_contains(
            &last_error,
            &["\"/dev/sda\"", "found another one", "disk sequence"],
        )?;
        ensure!(
            !last_error.contains("/dev/vda"),
            "last_error is: {last_error}"
        );
        guest.cut_power().await?;
        ensure_untouched(&site.machine.disks[0].path)?;
        for disk in &site.machine.disks[new] {
            ensure_untouched(&disk.path)?;
        }
        Ok(())
    });
}

/// One crash record is in a UEFI variable and one in the firmware's error record
/// store. The kernel prefers the store, so pstore does not show the variable.
#[test]
fn crash_records_are_erased() {
    host_test("crash_records_are_erased", async |lab| {
        const VENDOR: Uuid = Uuid::from_u128(0xcfc8_fc79_be2e_4ddc_97f0_9f98_bfe3_02a0);
        const NAME: &str = "dump-type0-1-1-1700000000-C";
        let plan = Plan {
            firmware: Firmware::Uefi,
            more_arguments: "sysrq_always_enabled",
            ..Plan::default()
        };
        let mut site = site(lab, &plan, "erase_pstore").await?;
        let mut variables = UefiVariables::new(&site.machine.variables)?;
        variables.add(NAME, VENDOR, b"a secret of the former user")?;
        variables.store()?;
        let records = lab.path("error-records");
        site.machine.error_records = Some(records.clone());

        let mut guest = site.power_on(lab).await?;
        guest.console("discovery: looking for ", BOOT).await?;
        guest.sysrq(b'c').await?;
        guest.console("Kernel panic - not syncing", STEP).await?;
        guest.console("---[ end Kernel panic", STEP).await?;
        guest.cut_power().await?;
        ensure!(count_records(&records)? > 0, "the crash left no record");

        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        services.conductor.deployed(BOOT + STEP).await?;
        guest.powered_off(STEP).await?;
        for text in [
            &format!("UEFI variable {NAME}-{VENDOR} deleted"),
            "/sys/fs/pstore/dmesg-erst-",
        ] {
            lab.journal.console_line(&[text])?;
        }
        let left = UefiVariables::read(&site.machine.variables)?.names();
        ensure!(!left.iter().any(|name| name == NAME), "left are {left:?}");
        ensure!(
            left.iter().any(|name| name == "BootOrder"),
            "left are {left:?}"
        );
        let count = count_records(&records)?;
        ensure!(count == 0, "{count} records are left");
        Ok(())
    });
}

/// The number of records, which QEMU keeps in the header of its store
/// (hw/acpi/erst.c). The bytes of a cleared record stay in the file.
fn count_records(store: &std::path::Path) -> Result<u32> {
    const PLACE: u64 = 20;
    let mut count = [0; 4];
    std::fs::File::open(store)?.read_exact_at(&mut count, PLACE)?;
    Ok(u32::from_le_bytes(count))
}
