//! What GRUB does when it cannot load the kernel or the ramdisk.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use landfall_tests::image_server;
use landfall_tests::installation::BOOT;
use landfall_tests::lab::Lab;
use landfall_tests::site::{Network, Plan, Way};
use landfall_tests::vm::{Boot, Firmware};
use tokio::process::{Child, Command};

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
        let _server = python_server(&lab.path("pxe"))?;
        guest.console("init: landfall", BOOT).await.map(drop)
    });
}

/// GRUB 2.06 recognises `Content-Length` only in this spelling, and its verifiers
/// load no file without that header. The lab's own server sends header names in
/// lower case.
fn python_server(folder: &Path) -> Result<Child> {
    let port = image_server::PORT.to_string();
    Command::new("python3")
        .args(["-m", "http.server", &port, "--directory"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting python3 -m http.server")
}

#[test]
#[ignore = "as a_cut_iso_says_so_under_bios"]
fn a_cut_iso_says_so_under_uefi() {
    host_test("a_cut_iso_says_so_under_uefi", async |lab| {
        cut_iso(lab, Firmware::Uefi).await
    });
}

#[test]
fn a_cut_iso_says_so_under_bios() {
    host_test("a_cut_iso_says_so_under_bios", async |lab| {
        cut_iso(lab, Firmware::Bios).await
    });
}

/// Removes the end of the ramdisk from the ISO, as after an interrupted copy.
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
        // Beyond the end of the medium the BIOS returns zeros without an error.
        // GRUB notices nothing, the kernel unpacks part of the ramdisk, and init
        // reports the reason.
        let said = guest
            .console("its file is damaged or was cut off", BOOT)
            .await;
        return said.map(drop);
    }
    guest.console("the ISO is cut off or damaged", BOOT).await?;
    guest
        .console("Trying again in 5 seconds", NEXT_TRY)
        .await
        .map(drop)
}
