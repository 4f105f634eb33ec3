//! A host without any disk but an iSCSI target, from the power button on. iPXE is its
//! firmware: it connects the target and leaves a table of it (iBFT) for the operating system,
//! in the memory of a BIOS or among the ACPI tables of UEFI.
//!
//! The agent installs an image on the target. Then iPXE reads the disk, and GRUB reads the
//! disk through the firmware. The initramfs has dracut's scripts and open-iscsi, and gets
//! only the arguments that the agent has given to the installed system.

use anyhow::{Result, ensure};
use axum::body::Bytes;
use landfall_tests::dhcp_server::{self, DhcpServer, NetworkBoot, TftpFile};
use landfall_tests::ignition::{INSTALLED_SYSTEM_LATER_BOOT, INSTALLED_SYSTEM_OK};
use landfall_tests::image_server::{self, Behaviour, ServedFile};
use landfall_tests::installation::{BOOT, DEPLOYMENT, FIRST_BOOT, POWER_OFF, check_applied};
use landfall_tests::iscsi_target::{IscsiTarget, LUN, PORT, TARGET};
use landfall_tests::journal::Source;
use landfall_tests::lab::{Family, HOST_V4, Lab};
use landfall_tests::site::{MAC, Plan, Site};
use landfall_tests::vm::{Boot, Firmware, Machine};
use landfall_tests::{artifacts, media};

use crate::host_test;
use crate::iscsi_boot::{CHAP, INITIATOR, plan};

/// The names of iPXE's two scripts and of the files that the first one loads.
const INSTALL: &str = "install.ipxe";
const START: &str = "start.ipxe";
const KERNEL: &str = "vmlinuz";
const RAMDISK: &str = "initrd.img";

/// An iPXE script with the settings from which iPXE makes the iBFT, followed by
/// `commands`.
fn script(name: &str, commands: &str) -> ServedFile {
    let (user, secret) = CHAP;
    let text = format!(
        "#!ipxe\n\
         set initiator-iqn {INITIATOR}\n\
         set username {user}\n\
         set password {secret}\n\
         set disk iscsi:{HOST_V4}::{PORT}:{LUN}:{TARGET}\n\
         {commands}\n"
    );
    ServedFile {
        name: name.to_owned(),
        content: text.into(),
        behaviour: Behaviour::default(),
    }
}

/// The parts of the site, with the scripts and the image that starts from iSCSI.
async fn site(lab: &Lab, plan: &Plan) -> Result<Site> {
    let mut site = plan.site(lab).await?;
    let (image, hash) = artifacts::iscsi_image()?;
    site.files[0].content = Bytes::from(std::fs::read(image)?);
    site.script.image.hash = hash;
    // The DHCP server overrides the name in the meta data.
    site.proof = site.proof.with_host_name(dhcp_server::GIVEN_NAME);
    let arguments = plan.kernel_arguments();
    let install = format!(
        "sanhook ${{disk}}\n\
         kernel {KERNEL} initrd={RAMDISK} {arguments}\n\
         initrd {RAMDISK}\n\
         boot"
    );
    site.files.extend([
        script(INSTALL, &install),
        script(START, "sanboot ${disk}"),
        ServedFile::read(KERNEL, &artifacts::kernel()?)?,
        ServedFile::read(RAMDISK, &artifacts::ramdisk()?)?,
    ]);
    Ok(site)
}

/// A DHCP server that names this script to iPXE, and iPXE to UEFI. A BIOS has iPXE in the
/// ROM of the NIC.
async fn dhcp(lab: &Lab, tftp: Option<&TftpFile>, script: &str) -> Result<DhcpServer> {
    let boot = NetworkBoot {
        ipxe_script: Some(image_server::url(Family::V4, script)),
        efi_file: tftp.cloned(),
        ..NetworkBoot::default()
    };
    DhcpServer::start(lab, MAC, &boot).await
}

/// The machine without its disk.
fn diskless(machine: &Machine) -> Machine {
    Machine {
        disks: Vec::new(),
        processors: 2,
        boot: match machine.firmware {
            Firmware::Bios => Boot::IpxeRom,
            Firmware::Uefi => Boot::FirmwarePxe,
        },
        ..machine.clone()
    }
}

/// Installs the image on the target, and starts it from there twice: the first boot runs
/// Ignition and also has the arguments for the first boot, the second boot has only the
/// permanent arguments.
async fn install_and_start(lab: &Lab, firmware: Firmware) -> Result<()> {
    let plan = Plan { firmware, ..plan() };
    let mut site = site(lab, &plan).await?;
    let _target = IscsiTarget::start(&site.machine.disks[0].path, Some(CHAP)).await?;
    site.machine = diskless(&site.machine);
    let tftp = match firmware {
        Firmware::Bios => None,
        Firmware::Uefi => Some(media::ipxe_over_tftp(lab)?),
    };
    let services = site.serve(lab).await?;
    let server = dhcp(lab, tftp.as_ref(), INSTALL).await?;
    let guest = site.power_on(lab).await?;
    services.conductor.deployed(BOOT + DEPLOYMENT).await?;
    guest.powered_off(POWER_OFF).await?;
    lab.journal.console_line(&[
        "iscsi: /dev/sda is ",
        &format!("LUN {LUN} of {TARGET} at {HOST_V4}:{PORT} over "),
    ])?;
    drop(server);

    let _server = dhcp(lab, tftp.as_ref(), START).await?;
    for end in [INSTALLED_SYSTEM_OK, INSTALLED_SYSTEM_LATER_BOOT] {
        let on = lab.journal.mark();
        let guest = site.power_on(lab).await?;
        guest.console_after(on, end, FIRST_BOOT).await?;
        guest.powered_off(POWER_OFF).await?;
        let shown = |texts: &[&str]| lab.journal.line(Source::Console, on, texts);
        shown(&["TEST-INITRD: iscsi: ", TARGET])?;
        shown(&["TEST-INITRD: disks: ", "boot=../../sda3 root=../../sda4"])?;
        let arguments = shown(&["TEST-ROOT: cmdline: ", "rd.iscsi.firmware=1 ip=ibft"])?;
        for other in ["netroot=", "rd.iscsi.initiator", "root="] {
            let mut words = arguments.text.split(' ');
            let has_it = words.any(|word| word.starts_with(other));
            ensure!(!has_it, "expected no {other} in {}", arguments.text);
        }
        if end == INSTALLED_SYSTEM_OK {
            check_applied(&lab.journal, on, &site.proof)?;
        }
        shown(&[end, &site.proof.line()])?;
    }
    Ok(())
}

#[test]
fn coreos_starts_from_iscsi_bios() {
    host_test("coreos_starts_from_iscsi_bios", async |lab| {
        install_and_start(lab, Firmware::Bios).await
    });
}

#[test]
fn coreos_starts_from_iscsi_uefi() {
    host_test("coreos_starts_from_iscsi_uefi", async |lab| {
        install_and_start(lab, Firmware::Uefi).await
    });
}
