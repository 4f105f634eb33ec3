//! Boots a CoreOS image whose kernel arguments and first-boot network the builder
//! has changed. No agent takes part.

use anyhow::Result;
use landfall_tests::artifacts::{self, Packing};
use landfall_tests::ignition::INSTALLED_SYSTEM_OK;
use landfall_tests::installation::{FIRST_BOOT, POWER_OFF};
use landfall_tests::journal::Source;
use landfall_tests::program;
use landfall_tests::site::Plan;
use landfall_tests::vm::{Boot, Guest, Machine};

use crate::host_test;

const KEYFILE: &str = "[connection]\nid=eth0\ntype=ethernet\ninterface-name=eth0\n\
    [ipv4]\nmethod=manual\naddress1=192.0.2.77/24,192.0.2.1\n";

#[test]
fn image_kargs() {
    host_test("image_kargs", async |lab| {
        let plan = Plan::default();
        let site = plan.site(lab).await?;
        let keyfile = lab.path("eth0.nmconnection");
        std::fs::write(&keyfile, KEYFILE)?;
        let changed = lab.path("changed.raw.gz").display().to_string();
        let arguments = [
            "kargs",
            &artifacts::coreos_image(Packing::Gz)?.display().to_string(),
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
        let disk = site.machine.disks[0].path.display().to_string();
        const UNPACK: &str = r#"gzip -dc "$1" > "$2""#;
        program::run("sh", &["-c", UNPACK, "sh", &changed, &disk]).await?;

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
    });
}

/// The kernel did not get the deleted argument.
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
