//! The task that makes the network what the plan says, event by event.
//!
//! It is the only one that changes anything, so changes never meet each other.
//! It never waits for anything but the next event: what takes long (DHCP,
//! duplicate address detection) is done by others who report.

mod configurator;
mod leases;
mod link_setup;
mod outcome;
mod reminders;
mod timers;

use std::io;
use std::path::PathBuf;

use landfall_network_plan::NetworkPlan;
use tokio::sync::watch;

use super::state::NetworkState;
use configurator::Configurator;

/// What is to be done, and where the files are that go with it.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The plan.
    pub plan: NetworkPlan,
    /// How the console calls the source of the plan's addresses.
    pub source: &'static str,
    /// The resolver's file.
    pub resolv_conf: PathBuf,
    /// The file of local names.
    pub hosts: PathBuf,
    /// Whether the machine's name may be set.
    pub set_host_name: bool,
}

impl Setup {
    /// The plan of the kernel arguments, on a machine that runs our ramdisk.
    pub fn from_kernel_arguments(plan: NetworkPlan) -> Setup {
        Setup {
            plan,
            source: "kernel argument ip=",
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            set_host_name: true,
        }
    }
}

/// Starts the task on the current runtime, where it stays.
///
/// # Errors
/// If the kernel does not talk about its network at all.
pub fn start(setup: Setup) -> io::Result<watch::Receiver<NetworkState>> {
    let (sender, receiver) = watch::channel(NetworkState::default());
    let configurator = Configurator::new(setup, sender)?;
    tokio::spawn(configurator.run());
    Ok(receiver)
}
