//! Small versions of `make endurance`.

use std::time::Duration;

use landfall_ironic_tests::endurance::day::must_be_none;
use landfall_ironic_tests::endurance::{Wanted, endure};
use landfall_tests::{artifacts, lab};

/// About half of the day of `make endurance`: long enough to kill the conductor twice,
/// and for a clock to jump into the future and into the past.
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

/// Runs ten agents with each trouble at least once, and then a day with the four agents
/// that have none.
#[ignore = "no gate: make test-ironic"]
#[test]
fn endurance_of_ten_agents() {
    must_end_as_planned("endurance_of_ten_agents", 10, false, Some(DAY));
}

/// All nodes have squid as `image_http_proxy`. squid fetches their image once.
#[ignore = "no gate: make test-ironic"]
#[test]
fn ten_agents_through_a_cache() {
    must_end_as_planned("ten_agents_through_a_cache", 10, true, None);
}
