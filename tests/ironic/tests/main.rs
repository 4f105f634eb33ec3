//! Runs scenarios: virtual hosts under the real Ironic.
//!
//! Each scenario has one host with its own Ironic, BMC and network. The tests that are
//! not ignored must pass before a change is merged; `make test-ironic` also runs the
//! ignored ones, except `registry` and `controller`. Each test with a lab leaves its
//! logs in `out/logs/<test>*.log`.

mod endurance;
mod kernel_arguments;
mod scenarios;

use std::io::Write;
use std::time::Instant;

use landfall_ironic_tests::plan::Plan;
use landfall_ironic_tests::scenario;
use landfall_tests::lab::{self, Lab};

/// Runs the scenario of `plan` and prints how long it took.
fn run_scenario(name: &str, plan: &Plan) {
    let began = Instant::now();
    let result = lab::run(name, async |lab: &Lab| scenario::run(lab, plan).await);
    // Bypasses libtest's capture, which covers only the print macros.
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {:.1} s with waiting for a slot",
        began.elapsed().as_secs_f64()
    );
    if let Err(error) = result {
        panic!("{name}: {error:#}");
    }
}
