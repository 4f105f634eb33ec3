//! A small version of `make endurance`: each trouble once, without the day.

use landfall_tests::endurance::{Wanted, day, endure};
use landfall_tests::{artifacts, lab};

#[ignore = "no gate: make test-ironic"]
#[test]
fn endurance_of_eight_agents() {
    let run = || {
        let wanted = Wanted {
            agents: 8,
            day: false,
            agent: artifacts::agent()?,
        };
        let name = "endurance_of_eight_agents";
        let (_, faults) = lab::run(name, async |lab| endure(lab, &wanted).await)?;
        day::must_be_none(&faults)
    };
    if let Err(error) = run() {
        panic!("{error:#}");
    }
}
