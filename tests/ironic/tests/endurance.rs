//! Small versions of `make endurance`.

use std::time::Duration;

use landfall_ironic_tests::endurance::day::must_be_none;
use landfall_ironic_tests::endurance::{Wanted, endure};
use landfall_tests::{artifacts, lab};

/// Half of the day of `make endurance`: the conductor is killed twice in it, and a clock
/// jumps into the future and back.
const DAY: Duration = Duration::from_secs(150);

fn must_end_as_planned(name: &str, agents: u16, cached: bool, day: Option<Duration>) {
    let run = || {
        let wanted = Wanted {
            agents,
            day,
            cached,
            agent: artifacts::agent()?,
        };
        let (_, faults) = lab::run(name, async |lab| endure(lab, &wanted).await)?;
        must_be_none(&faults)
    };
    if let Err(error) = run() {
        panic!("{error:#}");
    }
}

/// Each trouble at least once, and then a day of the four agents without one.
#[ignore = "no gate: make test-ironic"]
#[test]
fn endurance_of_ten_agents() {
    must_end_as_planned("endurance_of_ten_agents", 10, false, Some(DAY));
}

/// squid, set as `image_http_proxy` of all nodes, fetches their image once.
#[ignore = "no gate: make test-ironic"]
#[test]
fn ten_agents_through_a_cache() {
    must_end_as_planned("ten_agents_through_a_cache", 10, true, None);
}
