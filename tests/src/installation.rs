//! A whole installation, from power on to the proof of the installed system, and
//! the checks after it.

use std::time::Duration;

use crate::artifacts::Packing;
use crate::conductor::script::Finish;
use crate::config_drive;
use crate::ignition::{INSTALLED_SYSTEM_OK, Proof};
use crate::image_server::ServedFile;
use crate::journal::{Event, Journal, Mark, Source};
use crate::lab::Lab;
use crate::signed_loaders;
use crate::site::{Deploy, PERMANENT_ARGUMENT, Plan, Services, Site};
use crate::vm::{Extra, Firmware, Guest};
use anyhow::{Result, ensure};

/// The time limit from power on until the conductor has sent the agent its command. An
/// emulated guest needs 10 to 30 s on an idle machine. The rest is for busy machines.
pub const BOOT: Duration = Duration::from_secs(240);

/// The time limit from the command to the end of the deployment.
pub const DEPLOYMENT: Duration = Duration::from_secs(300);

/// The time limit from the reset to the last line of the installed system.
pub const FIRST_BOOT: Duration = Duration::from_secs(240);

/// The time limit for a host that only has to switch itself off.
pub const POWER_OFF: Duration = Duration::from_secs(60);

/// Installs a host by `plan` and checks the result.
pub async fn install(lab: &Lab, plan: Plan) -> Result<()> {
    let site = plan.site(lab).await?;
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    deploy_and_boot(lab, &plan, &site, &services, guest).await
}

/// Like [`install`], with a firmware that trusts Microsoft's keys alone, and an image with
/// signed loaders. The kernel must be locked down.
pub async fn install_with_secure_boot(lab: &Lab, plan: Plan) -> Result<()> {
    // The kernel's line, in security/lockdown/lockdown.c.
    const LOCKED_DOWN: &str = "Kernel is locked down from EFI Secure Boot";
    let packing = Packing::Raw;
    let plan = Plan { packing, ..plan };
    let mut site = plan.site(lab).await?;
    site.machine.extras.push(Extra::SecureBoot);
    site.files[0] = ServedFile::read(packing.file_name(), &signed_loaders::image(lab).await?)?;
    site.script.image.hash_algorithm = "sha512";
    site.script.image.hash = site.files[0].sha512();
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    guest.console(LOCKED_DOWN, BOOT).await?;
    deploy_and_boot(lab, &plan, &site, &services, guest).await
}

/// Continues [`install`] for a host that has just been switched on.
pub async fn deploy_and_boot(
    lab: &Lab,
    plan: &Plan,
    site: &Site,
    services: &Services,
    guest: Guest,
) -> Result<()> {
    // Makes the test fail early: a host that finds nothing to boot never prints this
    // line, and the next wait is much longer.
    guest.console("init: landfall", BOOT).await?;
    services.conductor.deployed(BOOT + DEPLOYMENT).await?;
    let (guest, reset) = match plan.finish {
        Finish::Reboot => {
            let reset = lab.journal.mark();
            guest.reset(POWER_OFF).await?;
            (guest, reset)
        }
        Finish::PowerOff => {
            guest.powered_off(POWER_OFF).await?;
            let reset = lab.journal.mark();
            (site.power_on_from_disk(lab).await?, reset)
        }
    };
    guest
        .console_after(reset, INSTALLED_SYSTEM_OK, FIRST_BOOT)
        .await?;
    guest.powered_off(POWER_OFF).await?;
    check_console(&lab.journal, reset, plan, site)?;
    match &site.config_drive {
        Some(drive) => drive.check_on(&site.machine.disks[0].path).await,
        None => config_drive::partitions(&site.machine.disks[0].path.display().to_string())
            .await
            .map(drop),
    }
}

fn console_line(journal: &Journal, mark: Mark, text: &str) -> Result<Event> {
    let found = journal.find(mark, |event| {
        event.source == Source::Console && event.text.contains(text)
    });
    found.ok_or_else(|| anyhow::anyhow!("the console does not show '{text}'"))
}

/// Checks what the installed system's console shows.
fn check_console(journal: &Journal, reset: Mark, plan: &Plan, site: &Site) -> Result<()> {
    if plan.firmware == Firmware::Uefi {
        // The line names the boot entry that the agent made, not the firmware's own
        // entry for the disk.
        console_line(journal, reset, "starting Boot")
            .and_then(|_| console_line(journal, reset, "\"Red Hat Enterprise Linux\""))?;
    }
    if plan.deploy == Deploy::WriteImage {
        return Ok(());
    }
    check_applied(journal, reset, &site.proof)
}

/// Checks the console of a system that `install_coreos` installed.
pub fn check_applied(journal: &Journal, reset: Mark, proof: &Proof) -> Result<()> {
    console_line(journal, reset, &proof.line())?;
    let arguments = console_line(journal, reset, "TEST-ROOT: cmdline: ")?;
    ensure!(
        arguments.text.contains(PERMANENT_ARGUMENT),
        "{PERMANENT_ARGUMENT} is not among {}",
        arguments.text
    );
    console_line(journal, reset, "TEST-INITRD: config.ign: mode 600 uid 0")?;
    console_line(journal, reset, "folder mode 700")?;
    Ok(())
}
