//! Tests disks of a live system, which assembles arrays and multipath sets by
//! itself, with the real kernel, udev, mdadm and multipathd.

use anyhow::{Result, ensure};
use landfall_tests::artifacts;
use landfall_tests::ignition::INSTALLED_SYSTEM_OK;
use landfall_tests::image_server::ServedFile;
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF};
use landfall_tests::journal::ensure_contains;
use landfall_tests::lab::Lab;
use landfall_tests::site::{Plan, Site};
use landfall_tests::vm::{Bus, Disk};

use crate::host_test;
use crate::live_system::{self, AGENT_FILE, Addition};

const UNIT: &str = "\
[Unit]
Before=landfall-agent.service
[Service]
Type=oneshot
ExecStart=/usr/local/bin/before-the-agent
StandardOutput=journal+console
StandardError=journal+console
[Install]
RequiredBy=landfall-agent.service
";

/// A host with a live system that runs this script before the agent starts.
async fn site(lab: &Lab, plan: &Plan, script: &'static str) -> Result<Site> {
    let mut site = plan.site(lab).await?;
    let addition = Addition {
        unit: "before-the-agent.service",
        unit_content: UNIT,
        program: "/usr/local/bin/before-the-agent",
        program_content: script,
    };
    site.machine.memory_mib = live_system::MEMORY_MIB;
    site.machine.boot = live_system::boot(lab, &addition).await?;
    site.files
        .push(ServedFile::read(AGENT_FILE, &artifacts::live_agent()?)?);
    Ok(site)
}

/// An array that an old installation left: a mirror of two disks, slightly smaller
/// than the disks themselves.
const LEAVE_ARRAY: &str = "#!/bin/sh -ex
modprobe raid1
udevadm settle
mdadm --create /dev/md127 --run --assume-clean --metadata=1.2 --homehost=old --name=root \\
  --level=1 --raid-devices=2 /dev/vda /dev/vdb
udevadm settle
cat /proc/mdstat
";

/// Adds a blank disk of `mib` MiB.
fn add_disk(lab: &Lab, site: &mut Site, name: &str, mib: u64) -> Result<()> {
    let path = lab.path(name);
    std::fs::File::create(&path)?.set_len(mib << 20)?;
    site.machine.disks.push(Disk {
        path,
        bus: Bus::VirtioBlk,
        unplugged: false,
        fault: None,
    });
    Ok(())
}

/// The array is the smallest disk. The agent deletes it and then chooses the
/// smallest of the remaining disks, although both were members of the array.
#[test]
fn array_of_an_old_installation() {
    host_test("array_of_an_old_installation", async |lab| {
        let plan = Plan::default();
        let mut site = site(lab, &plan, LEAVE_ARRAY).await?;
        add_disk(lab, &mut site, "second.raw", plan.disk_mib + 1024)?;
        site.script.automated_clean = true;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        guest.console("md127 : active", BOOT).await?;
        guest.console("]: agent: landfall ", BOOT).await?;
        services.conductor.deployed(BOOT + DEPLOYMENT).await?;
        guest.powered_off(POWER_OFF).await?;
        lab.journal.console_line(&["/dev/md127: array stopped"])?;
        for disk in ["/dev/vda", "/dev/vdb"] {
            let zeroed = format!("{disk}: RAID superblock V1_2 of old:root zeroed");
            lab.journal.console_line(&[&zeroed])?;
        }
        // A deletion that fails is only a warning in this step.
        let warning = lab.journal.console_line(&["the installation continues"]);
        ensure!(warning.is_err(), "the deletion failed: {warning:?}");
        lab.journal.console_line(&["root disk is /dev/vda"])?;
        let reset = lab.journal.mark();
        let guest = site.power_on_from_disk(lab).await?;
        guest
            .console_after(reset, INSTALLED_SYSTEM_OK, FIRST_BOOT)
            .await?;
        Ok(())
    });
}

const START_MULTIPATHD: &str = "#!/bin/sh -ex
printf 'defaults {\\n find_multipaths no\\n user_friendly_names yes\\n}\\n' > /etc/multipath.conf
modprobe dm-multipath
modprobe dm-service-time
systemctl restart multipathd
until [ -e /sys/block/dm-0/dm/uuid ]; do sleep 0.2; done
udevadm settle
multipath -ll
";

/// The Ignition config goes into a partition, but the kernel shows no partitions of
/// a device-mapper device. The agent must detect that before it writes anything.
#[test]
#[ignore = "as two_paths_to_one_disk"]
fn two_paths_to_one_disk_in_a_live_system() {
    host_test("two_paths_to_one_disk_in_a_live_system", async |lab| {
        let plan = Plan {
            bus: Bus::TwoPaths,
            ..Plan::default()
        };
        let site = site(lab, &plan, START_MULTIPATHD).await?;
        let disk = &site.machine.disks[0].path;
        let before = disk.metadata()?.modified()?;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        guest.console("size=5.0G", BOOT).await?;
        let last_error = services.conductor.failed(BOOT + DEPLOYMENT).await?;
        ensure_contains(
            &last_error,
            &[
                "/dev/dm-0: expected a disk with partitions, found the device-mapper device mpatha",
                "nothing was written",
            ],
        )?;
        guest.cut_power().await?;
        let after = disk.metadata()?.modified()?;
        ensure!(after == before, "the disk was written to");
        Ok(())
    });
}
