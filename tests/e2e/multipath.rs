use landfall_tests::installation::install;
use landfall_tests::site::Plan;
use landfall_tests::vm::Bus;

use crate::host_test;

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
            .said(&[" are paths of one disk (WWN 0x5000c50015ea71ac), "])?;
        Ok(())
    });
}
