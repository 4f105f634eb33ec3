//! Tests what GRUB does if it cannot load the kernel or the ramdisk.

use std::fs::OpenOptions;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use landfall_tests::installation::BOOT;
use landfall_tests::lab::Lab;
use landfall_tests::site::{Network, Plan, Way};
use landfall_tests::vm::{Boot, Firmware};
use landfall_tests::{folder_server, image_server};

use crate::host_test;

/// How long the test waits for GRUB's next attempt. GRUB's own connection
/// timeout is below a minute.
const NEXT_TRY: Duration = Duration::from_secs(90);

/// By default GRUB stays in its menu after a failed load. The builder's menu
/// retries.
#[test]
#[ignore = "as pxe_uefi, but for a minute of waiting"]
fn grub_waits_for_its_server() {
    host_test("grub_waits_for_its_server", async |lab| {
        let plan = Plan {
            firmware: Firmware::Uefi,
            way: Way::Pxe,
            network: Network::Dhcp,
            grub_over_http: true,
            ..Plan::default()
        };
        let site = plan.site(lab).await?;
        let _addresses = site.serve_addresses(lab).await?;
        let guest = site.power_on(lab).await?;
        guest.console("Landfall: cannot load (http,", BOOT).await?;
        guest.console("Trying again in 5 seconds", NEXT_TRY).await?;
        let _server = folder_server::start(&lab.path("pxe"), image_server::PORT)?;
        guest.console("init: landfall", BOOT).await.map(drop)
    });
}

#[test]
#[ignore = "as a_truncated_iso_is_reported_under_bios"]
fn a_truncated_iso_is_reported_under_uefi() {
    host_test("a_truncated_iso_is_reported_under_uefi", async |lab| {
        cut_iso(lab, Firmware::Uefi).await
    });
}

#[test]
fn a_truncated_iso_is_reported_under_bios() {
    host_test("a_truncated_iso_is_reported_under_bios", async |lab| {
        cut_iso(lab, Firmware::Bios).await
    });
}

/// Cuts the end of the ramdisk off the ISO, as an interrupted copy does. Boots the ISO
/// and waits until the console reports the fault.
async fn cut_iso(lab: &Lab, firmware: Firmware) -> Result<()> {
    let plan = Plan {
        firmware,
        way: Way::Iso,
        ..Plan::default()
    };
    let site = plan.site(lab).await?;
    let Boot::Iso(iso) = &site.machine.boot else {
        bail!(
            "expected an ISO to boot from, found {:?}",
            site.machine.boot
        );
    };
    let file = OpenOptions::new().write(true).open(iso);
    let file = file.with_context(|| format!("opening {}", iso.display()))?;
    file.set_len(file.metadata()?.len() - (2 << 20))?;
    let guest = site.power_on(lab).await?;
    if firmware == Firmware::Bios {
        // Beyond the end of the medium the BIOS returns zeros without an error. GRUB
        // does not notice, the kernel unpacks only part of the ramdisk, and init
        // reports the reason.
        let found = guest
            .console("its file is damaged or was cut off", BOOT)
            .await;
        return found.map(drop);
    }
    guest.console("the ISO is cut off or damaged", BOOT).await?;
    guest
        .console("Trying again in 5 seconds", NEXT_TRY)
        .await
        .map(drop)
}
