//! Tests faults of the host and of its environment.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use landfall_tests::artifacts;
use landfall_tests::conductor::{Conductor, LookupFault};
use landfall_tests::installation::{BOOT, DEPLOYMENT, deploy_and_boot};
use landfall_tests::journal::{Event, Source, ensure_contains};
use landfall_tests::lab::Lab;
use landfall_tests::media;
use landfall_tests::old_disk::OldDisk;
use landfall_tests::site::{Network, Plan, Services, Site};
use landfall_tests::vm::{Boot, Bus, Disk, Extra, Firmware, Guest};
use serde_json::{Value, json};

use crate::host_test;
use crate::image_faults::does_not_boot;
use crate::unattended::{CONFIG, IMAGE, LOGS, STATIC, config, kept_logs, url};

#[test]
fn service_comes_late() {
    host_test("service_comes_late", async |lab| {
        let mut site = Plan::default().site(lab).await?;
        site.script.hold = true;
        let guest = site.power_on(lab).await?;
        // The agent prints the URL of the service and the error, and retries with
        // growing pauses.
        let refused = "no answer from http://192.0.2.1:6385: ";
        let mut at = guest.console(refused, BOOT).await?.at;
        let mut pauses = Vec::new();
        for _ in 0..3 {
            let mark = lab.journal.mark();
            let again = guest.console_after(mark, refused, BOOT).await?.at;
            pauses.push(again - at);
            at = again;
        }
        ensure!(
            pauses.last() > pauses.first(),
            "the pauses do not grow: {pauses:?}"
        );
        let conductor = Conductor::start(lab, site.script.clone()).await?;
        lab.journal
            .wait_for("a heartbeat", lab.journal.start(), BOOT, is_heartbeat)
            .await?;
        ensure!(
            conductor.lookups() == 1,
            "expected 1 lookup, found {}",
            conductor.lookups()
        );
        guest.cut_power().await
    });
}

#[test]
fn no_disk() {
    host_test("no_disk", async |lab| {
        // By default the agent waits up to 30 s for a disk before the inspection, and
        // again in the deploy step.
        let plan = Plan {
            more_arguments: "ipa-disk-wait-attempts=2 ipa-disk-wait-delay=1",
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.machine.disks.clear();
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let last_error = services.conductor.failed(BOOT + DEPLOYMENT).await?;
        ensure!(
            last_error.contains("no disk found"),
            "last_error is: {last_error}"
        );
        guest
            .console("commands: FAILED execute_deploy_step: ", BOOT)
            .await?;
        guest.cut_power().await
    });
}

/// The cloud kernel has no driver for the controller of the disk. The host reports
/// this, and does not fill its console with the same line.
#[test]
fn no_driver_for_the_disk() {
    host_test("no_driver_for_the_disk", async |lab| {
        // `ATTEMPTS` is long enough for several attempts of the agent. `INTERVAL` is a
        // little less than the 60 s after which the agent prints the same error again.
        const ATTEMPTS: Duration = Duration::from_secs(20);
        const INTERVAL: Duration = Duration::from_secs(55);
        let plan = Plan {
            network: Network::Given(STATIC),
            unattended: Some(format!(
                "coreos.inst.install_dev=/dev/sda coreos.inst.image_url={} \
                 coreos.inst.ignition_url={} coreos.inst.insecure",
                url(IMAGE),
                url(CONFIG)
            )),
            bus: Bus::Sata,
            more_arguments: "ipa-disk-wait-attempts=2 ipa-disk-wait-delay=1",
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.files.push(config(site.proof.config()));
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        let failed = "agent: FAILED install failed: ";
        let line = guest.console(failed, BOOT).await?;
        let texts = [
            "no driver for storage controller 0000:00:1f.2 (PCI ID 8086:2922); trying again",
            "Debian's complete kernel",
        ];
        ensure_contains(&line.text, &texts)?;
        guest
            .shows_example(lab, "no-driver-for-the-disk", BOOT)
            .await?;
        tokio::time::sleep(ATTEMPTS).await;
        let events = lab.journal.events();
        let lines: Vec<Duration> = { events.iter() }
            .filter(|event| event.source == Source::Console && event.text.contains(failed))
            .map(|event| event.at)
            .collect();
        ensure!(
            lines.windows(2).all(|two| two[1] - two[0] >= INTERVAL),
            "the error is repeated at {lines:?}"
        );
        guest.cut_power().await
    });
}

/// Neither of the two disks matches the root device hints.
#[test]
fn no_disk_matches_the_hints() {
    host_test("no_disk_matches_the_hints", async |lab| {
        let mut site = Plan::default().site(lab).await?;
        site.machine.disks.push(second_disk(lab)?);
        site.script.root_device = Some(json!({"serial": "s== disk7"}));
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        let last_error = services.conductor.failed(BOOT + DEPLOYMENT).await?;
        ensure_contains(&last_error, &["no disk matches", "/dev/vda", "/dev/vdb"])?;
        guest.shows_example(lab, "no-matching-disk", BOOT).await?;
        guest.cut_power().await
    });
}

/// A host with three disks and no hints, booted by UEFI: its screen is a framebuffer,
/// as on most servers. The screen shows which disk the agent chose and why, why it did
/// not choose each of the others, and how to choose another one.
#[test]
fn several_disks_and_which_was_chosen() {
    host_test("several_disks_and_which_was_chosen", async |lab| {
        let plan = Plan {
            firmware: Firmware::Uefi,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        let small = blank_disk(lab, "small.raw", 2)?;
        site.machine.disks.extend([small, second_disk(lab)?]);
        site.machine.extras = vec![Extra::SerialNumber("LF4711")];
        // The download is slow, so that the test sees the screen.
        site.files[0].behaviour.bytes_per_second = Some(128 * 1024);
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.shows_example(lab, "several-disks", BOOT).await?;
        let texts = [
            "QEMU Standard PC (Q35 + ICH9, 2009) | serial LF4711 | UEFI, no Secure Boot",
            "DISK /dev/vda: the smallest disk of at least 4 GiB",
            "not chosen: /dev/vdb: 2.00 GiB is below the 4 GiB",
            "/dev/vdc: 8.0 GiB is more than the 5.0 GiB of /dev/vda",
            "-> to choose another disk, set root_device in the node's properties",
        ];
        guest.shows(lab, "several-disks", &texts, BOOT).await?;
        // The serial console shows the same reason.
        guest
            .console("not chosen: /dev/vdb: 2.00 GiB is below", BLOCK)
            .await?;
        guest.cut_power().await
    });
}

/// The time limit for a line of the status block on the serial console. The agent
/// prints the block at most once a minute, and a busy machine is slow.
const BLOCK: Duration = Duration::from_secs(120);

/// A blank disk of 8 GiB, larger than the root disk of the other tests.
pub(crate) fn second_disk(lab: &Lab) -> Result<Disk> {
    blank_disk(lab, "second.raw", 8)
}

fn blank_disk(lab: &Lab, name: &str, gib: u64) -> Result<Disk> {
    let path = lab.path(name);
    std::fs::File::create(&path)?.set_len(gib << 30)?;
    Ok(Disk {
        path,
        bus: Bus::VirtioBlk,
        unplugged: false,
        fault: None,
    })
}

/// A second NIC has no driver, but the host works. The console and the inventory name
/// the NIC, with the module that the kernel has for it.
#[test]
fn a_nic_without_a_driver_is_reported() {
    host_test("a_nic_without_a_driver_is_reported", async |lab| {
        let plan = Plan::default();
        let mut site = plan.site(lab).await?;
        site.script.hold = true;
        site.machine.boot = Boot::Direct {
            kernel: artifacts::generic_kernel()?,
            ramdisk: artifacts::generic_ramdisk()?,
            arguments: plan.kernel_arguments(),
        };
        site.machine.extras.push(Extra::OldNic);
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let words = "agent: warning: no driver for network card 0000:00:15.0";
        let line = guest.console(words, BOOT).await?;
        let texts = [
            "(PCI ID 1011:0019, class 020000, DEC)",
            "the kernel's module tulip would drive it",
            "-- build the ramdisk with --module-set server",
        ];
        ensure_contains(&line.text, &texts)?;
        lab.journal
            .wait_for("a heartbeat", lab.journal.start(), BOOT, is_heartbeat)
            .await?;
        let fault = reported_fault(&services, "0000:00:15.0")?;
        ensure!(
            fault["id"] == "1011:0019" && fault["modules"] == json!(["tulip"]),
            "the inventory has {fault}"
        );
        guest.cut_power().await
    });
}

/// The entry of `driver_faults` in the inventory for the PCI device at this address.
fn reported_fault(services: &Services, address: &str) -> Result<Value> {
    let inventory = services.conductor.inventory().unwrap_or_default();
    let faults = inventory["driver_faults"].as_array();
    let mut faults = faults.into_iter().flatten();
    let found = faults.find(|fault| fault["address"] == address);
    found.cloned().ok_or_else(|| {
        anyhow::anyhow!(
            "the inventory does not name {address}: {}",
            inventory["driver_faults"]
        )
    })
}

/// The driver requests its firmware when the agent brings the NIC up, and does not get
/// it. The console and the inventory name the missing file and its package.
#[test]
fn a_nic_without_firmware_is_reported() {
    host_test("a_nic_without_firmware_is_reported", async |lab| {
        let plan = Plan {
            network: Network::Dhcp,
            // The inspection waits for DHCP on all NICs. So the agent collects the
            // inventory after the driver's firmware request.
            more_arguments: "ipa-inspection-dhcp-all-interfaces=1 ipa-inspection-dhcp-wait-timeout=10",
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.script.hold = true;
        site.machine.boot = Boot::Direct {
            kernel: artifacts::generic_kernel()?,
            ramdisk: media::server_ramdisk(lab).await?,
            arguments: plan.kernel_arguments(),
        };
        site.machine.memory_mib = 1024;
        site.machine.extras.push(Extra::NicWithFirmware);
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let words = "agent: warning: the driver e100 of network card 0000:00:16.0";
        let line = guest.console(words, BOOT).await?;
        let texts = [
            "did not find its firmware e100/d102e_ucode.bin (package firmware-misc-nonfree",
            "-- build the ramdisk with --firmware debian",
        ];
        ensure_contains(&line.text, &texts)?;
        lab.journal
            .wait_for("a heartbeat", lab.journal.start(), BOOT, is_heartbeat)
            .await?;
        let fault = reported_fault(&services, "0000:00:16.0")?;
        ensure!(
            fault["driver"] == "e100"
                && fault["missing_firmware"][0]["file"] == "e100/d102e_ucode.bin",
            "the inventory has {fault}"
        );
        guest.cut_power().await
    });
}

/// The controller is present, but the disk appears late, like a volume of a disk array
/// or a disk that spins up slowly. The disk's uevent ends the agent's wait at once.
#[test]
fn disk_comes_late() {
    host_test("disk_comes_late", async |lab| {
        let plan = Plan {
            bus: Bus::VirtioScsi,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.machine.disks[0].unplugged = true;
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("kernel modules loaded", BOOT).await?;
        guest.plug(0).await?;
        site.machine.disks[0].unplugged = false;
        deploy_and_boot(lab, &plan, &site, &services, guest).await?;
        let inventory = services.conductor.inventory().unwrap_or_default();
        let disk = &inventory["inventory"]["disks"][0]["name"];
        ensure!(disk == "/dev/sda", "the inventory's first disk is {disk}");
        let at = |text: &str| {
            let start = lab.journal.start();
            lab.journal
                .find(start, |event| event.text.starts_with(text))
        };
        let (Some(plugged), Some(reported)) =
            (at("disk 0 plugged in"), at("continue_inspection 202"))
        else {
            bail!("the disk was not plugged in, or nothing was reported");
        };
        // Without the uevent the agent would wait its full 30 s.
        let waited = reported.at.saturating_sub(plugged.at);
        ensure!(
            waited < Duration::from_secs(20),
            "the inventory came {waited:?} after the disk"
        );
        Ok(())
    });
}

/// No DHCP server answers on one of two NICs. The agent does not wait for that NIC.
#[test]
fn dhcp_on_one_of_two_nics() {
    host_test("dhcp_on_one_of_two_nics", async |lab| {
        let plan = Plan {
            network: Network::Dhcp,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        // The DHCP server knows only the other NIC, and ignores unknown clients.
        site.machine.nics.insert(0, SILENT_MAC.to_owned());
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await?;
        let lookup = lab.journal.find(lab.journal.start(), |event| {
            event.text.starts_with("lookup 200") && event.text.contains(SILENT_MAC)
        });
        ensure!(lookup.is_some(), "the lookup leaves out {SILENT_MAC}");
        Ok(())
    });
}

const SILENT_MAC: &str = "52:54:00:c0:ff:02";

fn is_heartbeat(event: &Event) -> bool {
    event.source == Source::Conductor && event.text == "heartbeat 202"
}

#[test]
fn power_cut_while_writing() {
    host_test("power_cut_while_writing", async |lab| {
        let plan = Plan {
            disk_before: OldDisk::Bootable,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        // The download is slow, so that the power cut falls into the write.
        site.files[0].behaviour.bytes_per_second = Some(1024 * 1024);
        let _services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        writing(&guest).await?;
        guest.cut_power().await?;
        does_not_boot(lab, &site).await
    });
}

/// Waits until the agent reports progress of the write.
pub(crate) async fn writing(guest: &Guest) -> Result<()> {
    guest.console("disk: writing the image: ", BOOT).await?;
    Ok(())
}

/// Makes the kernel kill the agent as it would when memory runs out: the agent is
/// the largest process other than PID 1.
pub(crate) async fn kill_agent(lab: &Lab, guest: &mut Guest) -> Result<()> {
    let mark = lab.journal.mark();
    guest.sysrq(b'f').await?;
    guest
        .console_after(mark, "was killed by SIGKILL", Duration::from_secs(60))
        .await?;
    Ok(())
}

/// A host with a direct boot and these additional kernel arguments. With
/// `sysrq_always_enabled` the kernel accepts SysRq on the serial console.
async fn site_with(lab: &Lab, more_arguments: &'static str) -> Result<(Plan, Site)> {
    let plan = Plan {
        more_arguments,
        ..Plan::default()
    };
    let site = plan.site(lab).await?;
    Ok((plan, site))
}

async fn second_lookup(lab: &Lab, services: &Services) -> Result<()> {
    let mark = lab.journal.mark();
    lab.journal
        .wait_for("the restarted agent's heartbeat", mark, BOOT, is_heartbeat)
        .await?;
    ensure!(services.conductor.lookups() == 2, "expected 2 lookups");
    Ok(())
}

/// Waits until the agent exits because Ironic has no node for the machine, and init
/// starts the agent again. Then downloads the logs of the exited agent from the new
/// one.
async fn logs_outlive_the_agent(lab: &Lab, guest: &Guest) -> Result<()> {
    // The time limit for the download. Single attempts can fail, because the agent
    // exits again and again until Ironic knows the machine.
    const DOWNLOAD: Duration = Duration::from_secs(60);
    let error = "agent: FAILED lookup: no node after 3 s";
    let line = guest.console(error, BOOT).await?;
    ensure_contains(&line.text, &["HTTP 404", LOGS])?;
    let mark = lab.journal.mark();
    guest
        .console_after(mark, "ironic: looking up", BOOT)
        .await?;
    let start = Instant::now();
    let logs = loop {
        match kept_logs().await {
            Ok(logs) => break logs,
            Err(error) if start.elapsed() > DOWNLOAD => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    };
    ensure_contains(
        &logs,
        &["FAILED lookup: no node after 3 s", "kernel: Linux version"],
    )
}

/// The agent ends by itself, and is killed later. Init starts it again each time.
#[test]
fn agent_is_killed_and_carries_on() {
    host_test("agent_is_killed_and_carries_on", async |lab| {
        let arguments = "sysrq_always_enabled ipa-lookup-timeout=3";
        let (plan, mut site) = site_with(lab, arguments).await?;
        site.script.hold = true;
        let services = site.serve(lab).await?;
        services.conductor.fail_lookups(Some(LookupFault::NotFound));
        let mut guest = site.power_on(lab).await?;
        logs_outlive_the_agent(lab, &guest).await?;
        services.conductor.fail_lookups(None);
        lab.journal
            .wait_for("a heartbeat", lab.journal.start(), BOOT, is_heartbeat)
            .await?;
        services.conductor.release();
        kill_agent(lab, &mut guest).await?;
        second_lookup(lab, &services).await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await
    });
}

/// The kernel kills the agent while it writes the image, and the restarted agent starts
/// the deploy step again. The agent must not report an empty command list after the
/// restart, because Ironic would then continue with the step after the lost one.
#[test]
fn agent_is_killed_while_writing() {
    host_test("agent_is_killed_while_writing", async |lab| {
        let (plan, mut site) = site_with(lab, "sysrq_always_enabled").await?;
        site.files[0].behaviour.bytes_per_second = Some(2 * 1024 * 1024);
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        writing(&guest).await?;
        let mark = lab.journal.mark();
        kill_agent(lab, &mut guest).await?;
        guest
            .console_after(mark, "execute_deploy_step was interrupted", BOOT)
            .await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await
    });
}
