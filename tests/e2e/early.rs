//! Tests init's part of the boot: drivers, consoles, the power button, the
//! watchdog.

use std::time::Duration;

use anyhow::{Result, ensure};
use landfall_tests::conductor::{LookupFault, TERMINAL_SEQUENCES};
use landfall_tests::installation::{BOOT, DEPLOYMENT};
use landfall_tests::journal::{Event, Source};
use landfall_tests::lab::Lab;
use landfall_tests::ramdisk_parts::Kernel;
use landfall_tests::site::{Network, Plan, Site};
use landfall_tests::vm::{Boot, Bus, COM2_IS_THE_CONSOLE, Extra};
use landfall_tests::{artifacts, media};

use crate::host_test;
use crate::image_faults::does_not_boot;
use crate::machine_faults::second_disk;
use crate::network_form::DRAWING;

/// The time limit of a clean shutdown. It takes a second; the rest is for a
/// loaded test machine.
const SOFT_OFF: Duration = Duration::from_secs(60);

fn is_heartbeat(event: &Event) -> bool {
    event.source == Source::Conductor && event.text == "heartbeat 202"
}

async fn heartbeat(lab: &Lab) -> Result<()> {
    lab.journal
        .wait_for("a heartbeat", lab.journal.start(), BOOT, is_heartbeat)
        .await
        .map(drop)
}

/// A host that listens for commands while the conductor gives none.
async fn idle_site(lab: &Lab, plan: &Plan) -> Result<Site> {
    let mut site = plan.site(lab).await?;
    site.script.hold = true;
    Ok(site)
}

/// The kernel comes from RPM packages, as that of RHEL. Its modules are .ko.xz and
/// .ko.zst files, which this kernel itself cannot unpack. The heartbeat shows that init
/// has loaded both kinds.
#[test]
#[ignore = "rpmbuild packs a kernel: a minute"]
fn kernel_from_rpms() {
    host_test("kernel_from_rpms", async |lab| {
        let plan = Plan {
            kernel: Kernel::Rpm,
            ..Plan::default()
        };
        let site = idle_site(lab, &plan).await?;
        let _services = site.serve(lab).await?;
        let _guest = site.power_on(lab).await?;
        heartbeat(lab).await
    });
}

#[test]
fn power_button_ends_the_boot() {
    host_test("power_button_ends_the_boot", async |lab| {
        let site = idle_site(lab, &Plan::default()).await?;
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        heartbeat(lab).await?;
        guest.press_power_button().await?;
        guest.console("init: powering off now", SOFT_OFF).await?;
        guest.powered_off(SOFT_OFF).await
    });
}

/// The agent had committed nothing when the power button was pressed, so the disk must
/// not boot. The test also checks that nobody can change the network during the write.
#[test]
fn power_button_while_writing() {
    host_test("power_button_while_writing", async |lab| {
        let mut site = Plan::default().site(lab).await?;
        site.machine.disks.push(second_disk(lab)?);
        // The download is slow, so that it lasts longer than the steps in the network
        // form.
        site.files[0].behaviour.bytes_per_second = Some(512 * 1024);
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("disk: writing the image: ", BOOT).await?;
        // The screen shows the progress, and why the agent chose this disk. It has no
        // line that offers the network form, but Enter still opens the form.
        guest.shows_example(lab, "writing", BOOT).await?;
        let picture = lab.log_path("form").with_extension("png");
        guest.press(&["ret"]).await?;
        guest
            .until_screen(&picture, "change the network of this host", DRAWING)
            .await?;
        // "up" leads from the first field to the last one, which tries the values.
        guest.press(&["up", "ret"]).await?;
        let refusal = "not tried: Ironic already uses this network";
        guest.until_screen(&picture, refusal, DRAWING).await?;
        guest.press_power_button().await?;
        guest.powered_off(SOFT_OFF).await?;
        does_not_boot(lab, &site).await
    });
}

/// The kernel cannot unpack the whole ramdisk. Without init's check the host would run
/// with only some of its drivers, and the same cause would show as a different fault
/// each time.
#[test]
fn too_little_memory() {
    host_test("too_little_memory", async |lab| {
        let plan = Plan::default();
        let mut site = idle_site(lab, &plan).await?;
        site.machine.boot = Boot::Direct {
            kernel: artifacts::generic_kernel()?,
            ramdisk: media::server_ramdisk(lab).await?,
            arguments: plan.kernel_arguments(),
        };
        site.machine.memory_mib = TOO_LITTLE_MIB;
        let mut guest = site.power_on(lab).await?;
        guest
            .console("init: FAILED the ramdisk does not fit into memory: ", BOOT)
            .await?;
        guest.shows_example(lab, "too-little-memory", BOOT).await?;
        guest.console("== status after", BLOCK).await?;
        guest.cut_power().await
    });
}

/// The target of docs/ways-to-boot.md for the module set `vm`: a whole deployment with
/// 192 MiB of memory.
#[test]
#[ignore = "as the other installations, with less memory"]
fn a_deployment_in_192_mib() {
    host_test("a_deployment_in_192_mib", async |lab| {
        let site = Plan::default().site(lab).await?;
        deployed_in(lab, site, 192).await
    });
}

#[test]
#[ignore = "packs the ramdisk for servers"]
fn a_deployment_in_320_mib_with_the_drivers_of_servers() {
    let name = "a_deployment_in_320_mib_with_the_drivers_of_servers";
    host_test(name, async |lab| {
        let plan = Plan::default();
        let mut site = plan.site(lab).await?;
        site.machine.boot = Boot::Direct {
            kernel: artifacts::generic_kernel()?,
            ramdisk: media::server_ramdisk(lab).await?,
            arguments: plan.kernel_arguments(),
        };
        deployed_in(lab, site, 320).await
    });
}

async fn deployed_in(lab: &Lab, mut site: Site, memory_mib: u32) -> Result<()> {
    site.machine.memory_mib = memory_mib;
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    services.conductor.deployed(BOOT + DEPLOYMENT).await?;
    guest.powered_off(SOFT_OFF).await
}

/// In MiB: enough for the kernel and for the agent, but not for the drivers of servers.
const TOO_LITTLE_MIB: u32 = 160;
/// The time limit for the first status block on the console. The block comes after 15 s,
/// and a busy test machine is slow.
const BLOCK: Duration = Duration::from_secs(90);

/// The driver of this console is a module, so init prints its first lines before the
/// console exists. Text from a server must not control a console.
#[test]
fn console_that_appears_late() {
    host_test("console_that_appears_late", async |lab| {
        let plan = Plan {
            more_arguments: "console=hvc0",
            ..Plan::default()
        };
        let mut site = idle_site(lab, &plan).await?;
        let output = lab.path("hvc0.log");
        site.machine.extras = vec![Extra::HypervisorConsole(output.clone())];
        let services = site.serve(lab).await?;
        services.conductor.fail_lookups(Some(LookupFault::Hostile));
        let mut guest = site.power_on(lab).await?;
        let harmless = TERMINAL_SEQUENCES.replace(['\u{9b}', '\u{1b}'], "?");
        guest.console(&harmless, BOOT).await?;
        guest.shows(lab, "hostile", &[&harmless], BOOT).await?;
        services.conductor.fail_lookups(None);
        heartbeat(lab).await?;
        // A shutdown by the power button lets every console print its last lines.
        guest.press_power_button().await?;
        guest.powered_off(SOFT_OFF).await?;
        let text = std::fs::read_to_string(&output)?;
        for line in [
            "init: landfall",
            "kernel modules loaded",
            "serving commands at",
        ] {
            ensure!(text.contains(line), "'{line}' is not on hvc0:\n{text}");
        }
        // No program of the tests has removed sequences from this output.
        ensure!(
            text.contains(&harmless) && !text.contains(['\u{9b}', '\u{1b}']),
            "expected {harmless:?} and no sequence on hvc0, found {text:?}"
        );
        Ok(())
    });
}

/// The BMC shows COM2. No kernel argument names COM2, but the firmware names it in its
/// SPCR table.
#[test]
fn console_of_the_firmware() {
    host_test("console_of_the_firmware", async |lab| {
        let mut site = idle_site(lab, &Plan::default()).await?;
        let (output, table) = (lab.path("com2.log"), lab.path("spcr"));
        std::fs::write(&table, COM2_IS_THE_CONSOLE)?;
        site.machine.extras = vec![Extra::FirmwareConsole {
            output: output.clone(),
            table,
        }];
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        heartbeat(lab).await?;
        // A shutdown by the power button lets every console print its last lines.
        guest.press_power_button().await?;
        guest.powered_off(SOFT_OFF).await?;
        let text = std::fs::read(&output)?;
        let text = String::from_utf8_lossy(&text);
        for line in ["init: landfall", "serving commands at"] {
            ensure!(text.contains(line), "'{line}' is not on COM2:\n{text}");
        }
        Ok(())
    });
}

/// A USB disk appears seconds later than an NVMe disk. The NVMe disk alone would be
/// enough to choose a root disk.
#[test]
fn usb_disk_is_in_the_inventory() {
    host_test("usb_disk_is_in_the_inventory", async |lab| {
        let plan = Plan {
            kernel: Kernel::Generic,
            bus: Bus::Nvme,
            network: Network::StaticV4,
            ..Plan::default()
        };
        let mut site = idle_site(lab, &plan).await?;
        let stick = lab.path("usb.raw");
        std::fs::File::create(&stick)?.set_len(8 << 30)?;
        site.machine.extras = vec![Extra::UsbDisk(stick)];
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        heartbeat(lab).await?;
        let inventory = services.conductor.inventory().unwrap_or_default();
        let disks = inventory["inventory"]["disks"].as_array();
        let mut names: Vec<_> = disks
            .into_iter()
            .flatten()
            .map(|disk| disk["name"].as_str().unwrap_or_default())
            .collect();
        names.sort_unstable();
        ensure!(
            names == ["/dev/nvme0n1", "/dev/sda"],
            "the inventory's disks are {names:?}"
        );
        guest.cut_power().await
    });
}

/// If the agent reports no disks to Ironic, the last line on the console gives the
/// reason.
#[test]
fn no_disk_is_the_last_line() {
    host_test("no_disk_is_the_last_line", async |lab| {
        let plan = Plan {
            more_arguments: "ipa-disk-wait-attempts=2 ipa-disk-wait-delay=1",
            ..Plan::default()
        };
        let mut site = idle_site(lab, &plan).await?;
        site.machine.disks.clear();
        let _services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        guest.console("ironic: heartbeat accepted by", BOOT).await?;
        let start = lab.journal.mark();
        guest
            .console_after(start, "agent: warning: no disk found", SOFT_OFF)
            .await?;
        let last = lab
            .journal
            .find_last(start, |event| event.source == Source::Console)
            .map(|event| event.text)
            .unwrap_or_default();
        ensure!(last.contains("no disk found"), "the last line is: {last}");
        ensure!(last.contains(" -- "), "no remedy in: {last}");
        guest.cut_power().await
    });
}

/// By default the chipset's watchdog resets the machine after it has counted to 30 s
/// twice, unless the agent feeds it. After a kernel panic the watchdog must reset the
/// machine.
#[test]
#[ignore = "the watchdog takes minutes"]
fn running_watchdog_is_fed_until_init_dies() {
    host_test("running_watchdog_is_fed_until_init_dies", async |lab| {
        let plan = Plan {
            kernel: Kernel::Generic,
            more_arguments: "sysrq_always_enabled",
            ..Plan::default()
        };
        let mut site = idle_site(lab, &plan).await?;
        site.machine.extras = vec![Extra::RunningWatchdog];
        let _services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("Linux version", BOOT).await?;
        // Register TCO1_CNT of the ICH9: the timer runs while bit 11 is clear.
        guest.write_port(0x668, 0).await?;
        guest
            .console("(iTCO_wdt) was running: feeding it", BOOT)
            .await?;
        heartbeat(lab).await?;
        let mark = lab.journal.mark();
        let reset = |event: &Event| {
            event.source == Source::Machine
                && (event.text.starts_with("RESET") || event.text.starts_with("WATCHDOG"))
        };
        // Without feeding, the watchdog would reset the machine after 60 s
        // (`TIMEOUT_SECONDS` of the agent).
        tokio::time::sleep(Duration::from_secs(80)).await;
        ensure!(
            lab.journal.find(mark, reset).is_none(),
            "the watchdog was not fed"
        );
        let mark = lab.journal.mark();
        guest.sysrq(b'c').await?;
        guest
            .console_after(mark, "Kernel panic", Duration::from_secs(60))
            .await?;
        lab.journal
            .wait_for("the watchdog", mark, Duration::from_secs(180), reset)
            .await?;
        Ok(())
    });
}
