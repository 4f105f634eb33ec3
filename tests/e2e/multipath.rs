use landfall_tests::installation::{BOOT, deploy_and_boot, install};
use landfall_tests::journal::Source;
use landfall_tests::site::Plan;
use landfall_tests::vm::Bus;

use crate::host_test;

/// The kernel arguments that the CoreOS documentation gives for a root disk with
/// several paths.
const ARGUMENTS: &str = "rd.multipath=default root=/dev/disk/by-label/dm-mpath-root rw";

/// Both paths lead to one disk. The ramdisk has no multipathd, so the agent
/// uses one of the paths.
#[test]
fn two_paths_to_one_disk() {
    host_test("two_paths_to_one_disk", async |lab| {
        let plan = Plan {
            bus: Bus::TwoPaths,
            ..Plan::default()
        };
        install(lab, plan).await?;
        lab.journal
            .console_line(&[" are paths of one disk (WWN 0x5000c50015ea71ac), "])?;
        lab.journal.console_line(&[
            "the disk has several paths: the installed system gets ",
            ARGUMENTS,
        ])?;
        let start = lab.journal.start();
        lab.journal
            .line(Source::Console, start, &["TEST-ROOT: cmdline: ", ARGUMENTS])?;
        Ok(())
    });
}

/// One path is unplugged while the agent writes the image. The system on the disk must
/// still be complete: it boots, with its Ignition config.
#[test]
fn a_path_fails_while_writing() {
    host_test("a_path_fails_while_writing", async |lab| {
        let plan = Plan {
            bus: Bus::TwoPaths,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        // The download is slow, so that the path is in use when it is unplugged.
        site.files[0].behaviour.bytes_per_second = Some(4 << 20);
        let services = site.serve(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest.console("disk: writing the image: ", BOOT).await?;
        // Linux probes both paths at the same time, so either can be /dev/sda, which
        // the agent uses.
        match lab.journal.console_line(&["sd 0:0:0:0: [sda] "]) {
            Ok(_) => guest.unplug(0).await?,
            Err(_) => guest.unplug_second_path(0).await?,
        }
        deploy_and_boot(lab, &plan, &site, &services, guest).await?;
        lab.journal.console_line(&[
            "/dev/sda: this path to the disk failed (",
            "), continuing on /dev/sdb",
        ])?;
        Ok(())
    });
}
