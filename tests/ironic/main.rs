//! Whole lives of virtual hosts under the real Ironic.
//!
//! One test is one host with an Ironic, a BMC and a network of its own. Those
//! that are not ignored gate a change; `make test-ironic` runs all. What is left
//! of each is in `out/logs/<test>*.log`.

mod lives;

use std::io::Write;
use std::time::Instant;

use landfall_tests::ironic::life::whole_life;
use landfall_tests::ironic::plan::Plan;
use landfall_tests::lab::{self, Lab};

/// Lets a host live by `plan`, and says how long it took.
fn life(name: &str, plan: &Plan) {
    let began = Instant::now();
    let result = lab::run(name, async |lab: &Lab| whole_life(lab, plan).await);
    // Past libtest's capture, which knows macros only.
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {:.1} s with waiting for a slot",
        began.elapsed().as_secs_f64()
    );
    if let Err(error) = result {
        panic!("{name}: {error:#}");
    }
}
