//! Installs virtual hosts with real firmware, kernel, agent, GRUB and Ignition.
//!
//! Each test runs in its own network namespace. Its journal is kept in
//! `out/logs/<test>.log`.

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
mod iscsi_boot;
mod iscsi_root;
mod live_disks;
mod live_system;
mod lldp_vlans;
mod machine_faults;
mod multipath;
mod network_form;
mod nvme_tcp;
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

use anyhow::Result;
use landfall_tests::lab::Lab;

/// Runs a test's body in a lab.
fn host_test(name: &str, body: impl AsyncFn(&Lab) -> Result<()> + Send + Sync) {
    if let Err(error) = landfall_tests::host_test::run(name, body) {
        panic!("{name}: {error:#}");
    }
}
