//! Tests each boot method with each firmware, from the boot medium to the installed
//! system, without intervention: the host restarts by itself. The exception is the USB
//! stick under BIOS: somebody has to pull it out.
//!
//! Address, image packing, deploy method and disk bus are not combined in full:
//! they vary from test to test.

use anyhow::{Context as _, ensure};
use landfall_tests::artifacts::Packing;
use landfall_tests::conductor::script::Finish;
use landfall_tests::installation::{deploy_and_boot, install};
use landfall_tests::ramdisk_parts::Kernel;
use landfall_tests::site::{Deploy, Network, Plan, Way};
use landfall_tests::vm::{Bus, Firmware};

use crate::host_test;

macro_rules! ways {
    ($($(#[$attribute:meta])* $name:ident: $plan:expr;)*) => {
        $($(#[$attribute])* #[test]
        fn $name() {
            host_test(stringify!($name), async |lab| install(lab, $plan).await);
        })*
    };
}

ways! {
    iso_uefi: Plan {
        firmware: Firmware::Uefi,
        way: Way::Iso,
        network: Network::StaticV4,
        packing: Packing::Gz,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioScsi,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    /// A site without an image server: everything that the installation needs is on the
    /// ISO, and the node names no image.
    #[ignore = "as image_on_the_stick"]
    image_on_the_iso: Plan {
        firmware: Firmware::Uefi,
        way: Way::Iso,
        kernel: Kernel::Generic,
        network: Network::StaticV4,
        packing: Packing::Gz,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioScsi,
        finish: Finish::Reboot,
        image_on_medium: true,
        ..Plan::default()
    };
    iso_bios: Plan {
        firmware: Firmware::Bios,
        way: Way::Iso,
        network: Network::StaticV6,
        packing: Packing::Zst,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioBlk,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    pxe_uefi: Plan {
        firmware: Firmware::Uefi,
        way: Way::Pxe,
        network: Network::Dhcp,
        packing: Packing::Xz,
        deploy: Deploy::WriteImage,
        bus: Bus::Nvme,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    pxe_bios: Plan {
        firmware: Firmware::Bios,
        way: Way::Pxe,
        network: Network::Dhcp,
        packing: Packing::Zst,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioScsi,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    /// The firmware fetches the loader of the tree by HTTP.
    http_uefi: Plan {
        firmware: Firmware::Uefi,
        way: Way::Http,
        network: Network::Dhcp,
        packing: Packing::Zst,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioScsi,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    /// The firmware fetches one file by HTTP, and starts it without a boot loader.
    #[ignore = "as http_uefi"]
    uki_uefi: Plan {
        firmware: Firmware::Uefi,
        way: Way::Uki,
        network: Network::Dhcp,
        packing: Packing::Gz,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioBlk,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    /// The firmware fetches the whole ISO by HTTP.
    #[ignore = "as iso_uefi and http_uefi"]
    iso_by_http_uefi: Plan {
        firmware: Firmware::Uefi,
        way: Way::HttpIso,
        network: Network::Dhcp,
        packing: Packing::Gz,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioBlk,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    /// iPXE's network menu instead of GRUB's, under UEFI.
    #[ignore = "as pxe_uefi"]
    ipxe_chained_uefi: Plan {
        firmware: Firmware::Uefi,
        way: Way::IpxeChained,
        network: Network::StaticV4,
        packing: Packing::Raw,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioBlk,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    /// The ISO on a USB stick: the firmware uses the partition table of the ISO instead
    /// of El Torito.
    #[ignore = "as image_on_the_stick"]
    usb_uefi: Plan {
        firmware: Firmware::Uefi,
        way: Way::UsbStick,
        network: Network::StaticV6,
        packing: Packing::Gz,
        deploy: Deploy::WriteImage,
        bus: Bus::VirtioBlk,
        finish: Finish::Reboot,
        ..Plan::default()
    };
    #[ignore = "as usb_uefi"]
    usb_bios: Plan {
        firmware: Firmware::Bios,
        way: Way::UsbStick,
        network: Network::StaticV4,
        packing: Packing::Raw,
        deploy: Deploy::InstallCoreos,
        bus: Bus::VirtioBlk,
        finish: Finish::PowerOff,
        ..Plan::default()
    };
}

/// Like image_on_the_iso, but from a USB stick, which is no CD drive. The stick is the
/// smallest disk that is large enough for a root disk, and the node gives no hints.
#[test]
fn image_on_the_stick() {
    host_test("image_on_the_stick", async |lab| {
        let plan = Plan {
            firmware: Firmware::Uefi,
            way: Way::UsbStick,
            kernel: Kernel::Generic,
            network: Network::StaticV4,
            packing: Packing::Zst,
            deploy: Deploy::InstallCoreos,
            bus: Bus::Nvme,
            disk_mib: 16 * 1024,
            finish: Finish::Reboot,
            image_on_medium: true,
            ..Plan::default()
        };
        let site = plan.site(lab).await?;
        let stick = site.machine.boot.medium().context("no stick")?;
        // QEMU writes to the file only when the guest writes to the stick.
        let before = stick.metadata()?.modified()?;
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await?;
        let after = stick.metadata()?.modified()?;
        ensure!(after == before, "the stick was written to");
        lab.journal.console_line(&[
            "/dev/sda (8.0 GiB, ",
            "is skipped: it is the medium that this host booted from (label LANDFALL, \
             named by landfall.medium=)",
        ])?;
        Ok(())
    });
}

/// The test does not check what the installed system's NetworkManager makes of the
/// bond arguments.
#[test]
fn over_a_bond() {
    host_test("over_a_bond", async |lab| {
        let plan = Plan {
            network: Network::Bond,
            ..Plan::default()
        };
        install(lab, plan).await?;
        for line in [
            "is a port of bond0",
            "bond0.7 (",
            "192.0.2.10/24 from kernel argument ip=",
        ] {
            lab.journal.console_line(&[line])?;
        }
        Ok(())
    });
}
