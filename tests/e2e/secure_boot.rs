//! Tests the ways to boot that work with Secure Boot: the firmware trusts Microsoft's keys
//! alone, and the kernel is locked down.

use anyhow::Result;
use landfall_tests::artifacts::Packing;
use landfall_tests::conductor::script::Finish;
use landfall_tests::image_server::ServedFile;
use landfall_tests::installation::{BOOT, deploy_and_boot};
use landfall_tests::lab::Lab;
use landfall_tests::signed_loaders;
use landfall_tests::site::{Network, Plan, Way};
use landfall_tests::vm::{Extra, Firmware};

use crate::host_test;

/// The kernel's line, in security/lockdown/lockdown.c.
const LOCKED_DOWN: &str = "Kernel is locked down from EFI Secure Boot";

async fn install(lab: &Lab, way: Way, network: Network) -> Result<()> {
    let plan = Plan {
        firmware: Firmware::Uefi,
        way,
        network,
        packing: Packing::Raw,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    let mut site = plan.site(lab).await?;
    site.machine.extras.push(Extra::SecureBoot);
    let image = signed_loaders::image(lab).await?;
    site.files[0] = ServedFile::read(Packing::Raw.file_name(), &image)?;
    site.script.image.hash_algorithm = "sha512";
    site.script.image.hash = site.files[0].sha512();
    let services = site.serve(lab).await?;
    let guest = site.power_on(lab).await?;
    guest.console(LOCKED_DOWN, BOOT).await?;
    deploy_and_boot(lab, &plan, &site, &services, guest).await
}

#[test]
fn secure_boot_from_an_iso() {
    host_test("secure_boot_from_an_iso", async |lab| {
        install(lab, Way::Iso, Network::StaticV4).await
    });
}

#[test]
#[ignore = "as secure_boot_from_an_iso and usb_uefi"]
fn secure_boot_from_a_stick() {
    host_test("secure_boot_from_a_stick", async |lab| {
        install(lab, Way::UsbStick, Network::StaticV4).await
    });
}

#[test]
#[ignore = "as secure_boot_from_an_iso and pxe_uefi"]
fn secure_boot_by_pxe() {
    host_test("secure_boot_by_pxe", async |lab| {
        install(lab, Way::Pxe, Network::Dhcp).await
    });
}

#[test]
#[ignore = "as secure_boot_from_an_iso and iso_by_http_uefi"]
fn secure_boot_from_an_iso_by_http() {
    host_test("secure_boot_from_an_iso_by_http", async |lab| {
        install(lab, Way::HttpIso, Network::Dhcp).await
    });
}
