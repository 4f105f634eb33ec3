use anyhow::ensure;
use landfall_tests::installation::install;
use landfall_tests::journal::Source;
use landfall_tests::site::Plan;
use landfall_tests::vm::Bus;

use crate::host_test;

/// The ramdisk has no multipathd, so the agent uses one of the two paths.
#[test]
fn two_paths_to_one_disk() {
    host_test("two_paths_to_one_disk", async |lab| {
        let plan = Plan {
            bus: Bus::TwoPaths,
            ..Plan::default()
        };
        install(lab, plan).await?;
        let said = lab.journal.find(lab.journal.start(), |event| {
            event.source == Source::Console
                && event
                    .text
                    .contains(" are paths of one disk (WWN 0x5000c50015ea71ac), ")
        });
        ensure!(said.is_some(), "the console does not name the two paths");
        Ok(())
    });
}
