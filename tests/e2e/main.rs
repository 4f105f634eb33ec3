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

/// How a journal tells that the emulator crashed, which ends no guest as it should:
/// the QEMU 10.0 of Debian 13 sometimes fails an assertion of its own
/// (`msix_table_mmio_write`) while the kernel looks at the PCI bus.
const EMULATOR_CRASHED: &str = "machine ended: signal: 6 (SIGABRT)";

/// Runs a test's body in a lab, and says how long it took. Runs it a second time
/// if the emulator crashed.
fn host_test(name: &str, body: impl AsyncFn(&Lab) -> Result<()> + Send + Sync) {
    let began = Instant::now();
    let mut result = lab::run(name, &body);
    if let Err(error) = &result
        && format!("{error:#}").contains(EMULATOR_CRASHED)
    {
        say(&format!(
            "{name}: the emulator crashed, once more: {error:#}"
        ));
        result = lab::run(name, &body);
    }
    let took = began.elapsed().as_secs_f64();
    say(&format!("{name}: {took:.1} s with waiting for a slot"));
    if let Err(error) = result {
        panic!("{name}: {error:#}");
    }
}

/// Past libtest's capture, which knows macros only: the times are of interest
/// when all is well, too.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
