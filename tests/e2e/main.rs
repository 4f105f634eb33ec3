//! Installs virtual hosts with real firmware, kernel, agent, GRUB and Ignition.
//!
//! Each test runs in its own network. Its journal is kept in `out/logs/<test>.log`.

mod agent_container;
mod automatic_addresses;
mod boot_loader_faults;
mod boot_ways;
mod cleaning;
mod conductor;
mod coreos_installer;
mod coreos_media;
mod disk_faults;
mod documented_pxe;
mod early;
mod embedded_plans;
mod fast_track;
mod first_boot_network;
mod https;
mod image_faults;
mod image_kargs;
mod image_service;
mod image_service_unit;
mod images;
mod live_disks;
mod live_system;
mod lldp_vlans;
mod machine_faults;
mod multipath;
mod network_form;
mod old_config_drive;
mod original_inventory;
mod reaching_the_service;
mod secrets;
mod secure_boot;
mod software_raid;
mod stacked_links;
mod status;
mod syslog;
mod three_hosts;
mod two_guests;
mod unattended;

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use landfall_tests::lab::{self, Lab};

/// The journal's text for a crash of QEMU itself. QEMU 10.0 of Debian 13 sometimes
/// fails its own assertion (`msix_table_mmio_write`) while the kernel scans the PCI
/// bus. No test expects a guest to end this way.
const EMULATOR_CRASHED: &str = "machine ended: signal: 6 (SIGABRT)";

/// Runs a test's body in a lab and prints how long it took. Runs it a second time
/// if QEMU crashed.
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

/// Bypasses libtest's capture, which covers only the print macros: the times are of
/// interest even if the tests pass.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
