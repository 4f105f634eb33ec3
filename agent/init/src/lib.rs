//! PID 1 of the ramdisk: prepares the machine, starts the agent, and ends the boot.
//!
//! Only the agent configures networks, talks to Ironic and writes to disks. Init mounts
//! the file systems that every program expects, loads the drivers, keeps the agent alive,
//! and carries out the [`Ending`] that the agent requests with its exit code.

mod coldplug;
mod complete;
mod ctrl_alt_del;
mod driver_loader;
mod modprobe;
mod module_file;
mod modules;
mod mounts;
mod power_button;
mod progress;
mod shutdown;
mod supervise;
mod watchdog;
mod zombie;

pub use modprobe::{is_modprobe_call, modprobe};
pub use progress::give_signs_of_life;
pub use shutdown::{Ending, carry_out};

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use landfall_boot_params::argument_value::ConsoleMode;
use landfall_boot_params::cmdline::MAX_LENGTH;
use landfall_boot_params::{BootParams, CommandLine};
use landfall_devices::permission::{self, FIRST_PID_NAMESPACE};
use landfall_report::Output;
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};
use supervise::{Pipes, Supervisor};

/// Whether this process is the init of our ramdisk, and not PID 1 of a container.
///
/// The kernel starts init with an empty /proc, on a root file system in memory. A
/// container has its /proc mounted, or another kind of root. An init that mistook a
/// container for the machine would let Ironic write to the host's disks.
pub fn is_init() -> bool {
    const RAMFS: FsType = FsType(0x8584_58f6);
    let in_memory = statfs("/").is_ok_and(|root| {
        let kind = root.filesystem_type();
        kind == TMPFS_MAGIC || kind == RAMFS
    });
    std::process::id() == 1 && in_memory && !Path::new("/proc/self").exists()
}

/// Does everything that PID 1 of the ramdisk does, until the boot ends with a reboot,
/// kexec, power off or lockdown. Never returns, because the kernel panics when PID 1
/// ends.
pub fn run() -> ! {
    let mount_faults = mounts::mount_all();
    let params = params("/proc/cmdline");
    let incomplete = complete::fault();
    let mode = match *params.console {
        ConsoleMode::Quiet => ConsoleMode::Quiet,
        // The agent draws the status. If no agent will run, init does.
        ConsoleMode::Status if incomplete.is_some() => ConsoleMode::Status,
        ConsoleMode::Status | ConsoleMode::Lines => ConsoleMode::Lines,
    };
    // Only the agent shows the network form on the console.
    let output = Output::Consoles { mode, form: false };
    let flush = landfall_report::start(output, params.wants_debug());
    landfall_report::log_panics(&flush);
    tracing::info!(
        "landfall {} on Linux {}",
        env!("CARGO_PKG_VERSION"),
        module_file::kernel_release()
    );
    for fault in mount_faults {
        tracing::warn!("{fault}");
    }
    if let Some(fault) = incomplete {
        complete::stop(&fault);
    }
    // Check that this is the first PID namespace, and not a container. `is_init` could
    // not check it, because /proc was not mounted yet.
    match fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) if namespace == Path::new(FIRST_PID_NAMESPACE) => {
            if let Err(error) = permission::mark_as_ramdisk() {
                tracing::error!("{error}; the agent will not run -- reboot the machine");
            }
        }
        Ok(namespace) => tracing::error!(
            "expected PID namespace {FIRST_PID_NAMESPACE}, found {}; the agent will not run -- boot a machine with the ramdisk, not a container",
            namespace.display()
        ),
        Err(error) => tracing::error!(
            "cannot read /proc/self/ns/pid: {error}; the agent will not run -- reboot the machine"
        ),
    }

    modprobe::register();
    // Mount efivarfs before the drivers are loaded. The agent waits at most 30 s for a
    // slow driver, then continues, and may need efivarfs to make boot entries.
    mounts::mount_efivarfs();
    let supervisor = Arc::new(Supervisor::new(move |ending| {
        shutdown::carry_out(ending, || flush.wait(Duration::from_secs(2)))
    }));
    power_button::watch_in_background(&supervisor);
    ctrl_alt_del::watch_in_background(&supervisor);
    watchdog::feed_in_background(
        Arc::clone(&supervisor.progress),
        Arc::clone(&supervisor.fed_watchdogs),
    );
    // From here on, a boot that makes no progress counts as hung, even before the agent
    // runs.
    supervisor.progress.sign_of_life();
    let pipes = Pipes {
        devices_settled: driver_loader::load_in_background(),
        signs_of_life: progress::receive_in_background(Arc::clone(&supervisor.progress)),
    };
    supervisor.watch_for_stuck_agent();
    supervisor.agent_until_its_end(&pipes);
    shutdown::stay()
}

/// The settings on the kernel command line in the file `path`. If the file cannot be
/// read, the defaults apply, and the agent reports the error.
fn params(path: &str) -> BootParams {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        let mut file = file.take(MAX_LENGTH as u64);
        file.read_to_end(&mut bytes)
    });
    if read.is_err() {
        bytes.clear();
    }
    BootParams::from_command_line(&CommandLine::parse_bytes(&bytes))
}

/// Like `thread::spawn`, but logs an error instead of panicking if there is no memory for
/// a thread. A panic would end PID 1, and then the kernel panics.
fn spawn(name: &str, consequence: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(work) {
        tracing::error!("cannot start the thread {name}: {error}; {consequence}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_asks_for_debug_messages() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cmdline");
        let path = path.to_str().unwrap();
        assert!(!params(path).wants_debug(), "there is no such file");
        for (line, expected) in [
            ("quiet\n", false),
            ("ipa-debug=1\n", true),
            ("quiet landfall.debug=1 ro\n", true),
            ("ipa-debug=0\n", false),
            ("ipa-debug\u{fffd}=1\n", false),
        ] {
            fs::write(path, line).unwrap();
            assert_eq!(params(path).wants_debug(), expected, "{line}");
        }
    }

    /// The settings also come from configuration files and from config.ign. A parser that
    /// panics or takes too much memory would end PID 1, and then the kernel panics. In
    /// the agent's process, such a parser causes only a restart of the agent.
    #[test]
    fn pid_1_reads_no_configuration_file() {
        let manifest = include_str!("../Cargo.toml");
        assert!(!manifest.contains("landfall-settings"), "{manifest}");
    }
}
