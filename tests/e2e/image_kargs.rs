//! Boots CoreOS images whose kernel arguments and first-boot network the builder has
//! changed. No agent takes part.

use std::path::Path;

use anyhow::{Context as _, Result};
use landfall_tests::artifacts::{self, Packing};
use landfall_tests::config_drive;
use landfall_tests::ignition::INSTALLED_SYSTEM_OK;
use landfall_tests::installation::{FIRST_BOOT, POWER_OFF};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::program;
use landfall_tests::site::Plan;
use landfall_tests::vm::{Boot, Firmware, Guest, Machine};

use crate::host_test;

const KEYFILE: &str = "[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n\
    [ipv4]\nmethod=manual\naddress1=192.0.2.77/24,192.0.2.1\n";

#[test]
fn image_kargs() {
    host_test("image_kargs", async |lab| {
        let image = artifacts::coreos_image(Packing::Gz)?;
        changed_image_boots(lab, Firmware::Bios, "raw", &image).await
    });
}

/// The image of the bootstrap VM, which openshift-install takes as qcow2.gz.
#[test]
fn image_kargs_of_qcow2_uefi() {
    host_test("image_kargs_of_qcow2_uefi", async |lab| {
        let raw = artifacts::coreos_image(Packing::Raw)?.display().to_string();
        let qcow2 = lab.path("coreos.qcow2").display().to_string();
        let convert = ["convert", "-f", "raw", "-O", "qcow2", &raw, &qcow2];
        program::run("qemu-img", &convert).await?;
        program::run("gzip", &["-1", &qcow2]).await?;
        let packed = lab.path("coreos.qcow2.gz");
        changed_image_boots(lab, Firmware::Uefi, "qcow2", &packed).await
    });
}

/// Changes an image in gzip, checks the result and boots it. `format` is the format
/// inside the gzip file: raw or qcow2.
async fn changed_image_boots(
    lab: &Lab,
    firmware: Firmware,
    format: &str,
    image: &Path,
) -> Result<()> {
    let plan = Plan {
        firmware,
        ..Plan::default()
    };
    let site = plan.site(lab).await?;
    let keyfile = lab.path("eth0.nmconnection");
    std::fs::write(&keyfile, KEYFILE)?;
    let changed = lab.path("changed.gz").display().to_string();
    let arguments = [
        "kargs",
        &image.display().to_string(),
        "--append",
        "landfall.changed=1",
        "--delete",
        "console=tty0",
        "--firstboot-args",
        "rd.neednet=1",
        "--network-keyfile",
        &keyfile.display().to_string(),
        "-o",
        &changed,
    ];
    let builder = artifacts::builder()?.display().to_string();
    program::run(&builder, &arguments).await?;
    let unpacked = lab.path("changed").display().to_string();
    const UNPACK: &str = r#"gzip -dc "$1" > "$2""#;
    program::run("sh", &["-c", UNPACK, "sh", &changed, &unpacked]).await?;
    if format == "qcow2" {
        program::run("qemu-img", &["check", "-f", format, &unpacked]).await?;
    }
    let disk = site.machine.disks[0].path.display().to_string();
    let convert = ["convert", "-f", format, "-O", "raw", &unpacked, &disk];
    program::run("qemu-img", &convert).await?;
    check_disk(lab, &disk).await?;

    let machine = Machine {
        boot: Boot::Disk,
        data_medium: None,
        ..site.machine.clone()
    };
    let start = lab.journal.mark();
    let guest = Guest::start(lab, &machine).await?;
    guest.console(INSTALLED_SYSTEM_OK, FIRST_BOOT).await?;
    guest.powered_off(POWER_OFF).await?;
    for texts in [
        &[
            "TEST-ROOT: cmdline: ",
            " rd.neednet=1 ",
            "landfall.changed=1",
        ][..],
        &["TEST-INITRD: 755 root", "/boot/coreos-firstboot-network"],
        &[
            "TEST-INITRD: 600 root",
            "/boot/coreos-firstboot-network/eth0.nmconnection",
        ],
        &["net: keyfile eth0.nmconnection on eth0: 192.0.2.77/24"],
    ] {
        lab.journal.line(Source::Console, start, texts)?;
    }
    check_deleted(&lab.journal, start)
}

/// Checks that the partition table and the file systems of EFI-SYSTEM and boot have no
/// fault.
async fn check_disk(lab: &Lab, disk: &str) -> Result<()> {
    let partitions = config_drive::partitions(disk).await?;
    // EFI-SYSTEM and boot.
    for (number, judge, options) in [(2, "fsck.fat", "-n"), (3, "e2fsck", "-fn")] {
        let mut found = partitions.iter();
        let found = found.find(|partition| partition.number == number);
        let found = found.with_context(|| format!("no partition {number}"))?;
        let file = lab.path(&format!("partition-{number}"));
        let file = file.display().to_string();
        let (from, to) = (format!("if={disk}"), format!("of={file}"));
        let skip = format!("skip={}", found.first_byte);
        let count = format!("count={}", found.bytes);
        let how = ["bs=1M", "iflag=skip_bytes,count_bytes", "status=none"];
        program::run("dd", &[&how[..], &[&from, &to, &skip, &count]].concat()).await?;
        program::run(judge, &[options, &file]).await?;
    }
    Ok(())
}

/// Checks that the kernel did not get the deleted argument.
fn check_deleted(
    journal: &landfall_tests::journal::Journal,
    start: landfall_tests::journal::Mark,
) -> Result<()> {
    let found = journal.find(start, |event| {
        event.text.contains("TEST-ROOT: cmdline: ") && event.text.contains("console=tty0")
    });
    anyhow::ensure!(found.is_none(), "console=tty0 is still there: {found:?}");
    Ok(())
}
