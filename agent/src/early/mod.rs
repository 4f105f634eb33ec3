//! PID 1: from the kernel's hand-over to a running agent, and at the end the
//! reboot.
//!
//! Knows nothing of networks, Ironic or disks. It mounts what every program
//! expects, makes the kernel find its drivers, keeps the agent alive and
//! carries out the [`Ending`] that the agent asks for by its exit code.

mod modprobe;
mod modules;
mod mounts;
mod shutdown;
mod supervise;

pub use modprobe::{is_modprobe_call, modprobe};
pub use shutdown::Ending;

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::permission::RAMDISK_MARKER;
use crate::report::{self, Output};

/// Everything the ramdisk is for, from /init to reboot. Does not return: PID 1
/// must not.
pub fn run() -> ! {
    let mount_faults = mounts::mount_all();
    let debug = fs::read_to_string("/proc/cmdline").is_ok_and(|line| {
        line.split_whitespace()
            .any(|word| word == "landfall.debug=1")
    });
    let flush = report::start(Output::Consoles, debug);
    tracing::info!(
        "landfall {} on Linux {}",
        env!("CARGO_PKG_VERSION"),
        modules::kernel_release()
    );
    for fault in mount_faults {
        tracing::warn!("{fault}");
    }
    warn_if_half_unpacked();
    mark_as_ramdisk();

    modprobe::register();
    let devices_settled = modules::load_in_background();
    let ending = supervise::agent_until_its_end(devices_settled);
    shutdown::carry_out(ending, || flush.wait(Duration::from_secs(2)))
}

/// The builder writes this file last. A kernel short of memory stops unpacking
/// somewhere in the middle and boots all the same, with drivers missing.
const LAST_FILE: &str = "/etc/landfall/complete";

fn warn_if_half_unpacked() {
    if !Path::new(LAST_FILE).exists() {
        tracing::error!(
            "the ramdisk is not complete ({LAST_FILE} is missing): the kernel ran out of memory while unpacking it -- give this machine at least 512 MiB"
        );
    }
}

fn mark_as_ramdisk() {
    let marked = fs::create_dir_all("/run/landfall")
        .and_then(|()| fs::read("/proc/sys/kernel/random/boot_id"))
        .and_then(|boot_id| fs::write(RAMDISK_MARKER, boot_id));
    if let Err(error) = marked {
        tracing::error!(
            "{RAMDISK_MARKER}: {error} -- no disk will be written in this boot, reboot the machine"
        );
    }
}
