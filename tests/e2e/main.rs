//! Virtual hosts through real firmware, kernel, agent, GRUB and Ignition.
//!
//! One test is one host in a network of its own. The journal of each is kept
//! in `out/logs/<test>.log`.

mod automatic_addresses;
mod boot_loader_faults;
mod boot_ways;
mod cleaning;
mod conductor;
mod coreos_installer;
mod disk_faults;
mod early;
mod embedded_plans;
mod fast_track;
mod first_boot_network;
mod https;
mod image_faults;
mod images;
mod live_disks;
mod live_system;
mod lldp_vlans;
mod machine_faults;
mod multipath;
mod original_inventory;
mod reaching_the_service;
mod secrets;
mod stacked_links;
mod two_guests;
mod unattended;

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use landfall_tests::lab::{self, Lab};

/// Runs a test's body in a lab, and says how long it took.
fn host_test(name: &str, body: impl AsyncFnOnce(&Lab) -> Result<()> + Send) {
    let began = Instant::now();
    let result = lab::run(name, body);
    // Past libtest's capture, which knows macros only: the times are of
    // interest when all is well, too.
    let took = began.elapsed().as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {took:.1} s with waiting for a slot"
    );
    if let Err(error) = result {
        panic!("{name}: {error:#}");
    }
}
