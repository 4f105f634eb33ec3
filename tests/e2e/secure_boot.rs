//! Tests the ways to boot that work with Secure Boot: the firmware trusts Microsoft's keys
//! alone, and the kernel is locked down.

use anyhow::Result;
use landfall_tests::conductor::script::Finish;
use landfall_tests::installation::install_with_secure_boot;
use landfall_tests::lab::Lab;
use landfall_tests::site::{Network, Plan, Way};
use landfall_tests::vm::Firmware;

use crate::host_test;

async fn install(lab: &Lab, way: Way, network: Network) -> Result<()> {
    let plan = Plan {
        firmware: Firmware::Uefi,
        way,
        network,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    install_with_secure_boot(lab, plan).await
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
