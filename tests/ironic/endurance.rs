//! Small versions of `make endurance`, without the day.

use landfall_tests::endurance::{Wanted, day, endure};
use landfall_tests::{artifacts, lab};

fn must_end_as_planned(name: &str, agents: u16, cached: bool) {
    let run = || {
        let wanted = Wanted {
            agents,
            day: false,
            cached,
            agent: artifacts::agent()?,
        };
        let (_, faults) = lab::run(name, async |lab| endure(lab, &wanted).await)?;
        day::must_be_none(&faults)
    };
    if let Err(error) = run() {
        panic!("{error:#}");
    }
}

/// Each trouble once.
#[ignore = "no gate: make test-ironic"]
#[test]
fn endurance_of_eight_agents() {
    must_end_as_planned("endurance_of_eight_agents", 8, false);
}

/// squid, set as `image_http_proxy` of all nodes, fetches their image once.
#[ignore = "no gate: make test-ironic"]
#[test]
fn ten_agents_through_a_cache() {
    must_end_as_planned("ten_agents_through_a_cache", 10, true);
}
