//! The task that configures the network as the plan says, event by event.
//!
//! No other task changes the network, so no two changes interfere. The task waits only
//! for the next event: slow work (DHCP, duplicate address detection) runs in other tasks,
//! which report the result as an event.

mod advertised;
mod configurator;
mod conflicts;
mod devices;
mod leases;
mod leases6;
mod link_retries;
mod link_setup;
mod make_link;
mod mtu;
mod naming;
mod outcome;
mod port_order;
mod preference;
mod reminders;
mod resolver;
mod stacked_links;
mod timers;
mod virtual_links;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use configurator::Configurator;
use landfall_devices::interface_names::NamingPolicy;
use landfall_network_plan::Choice;
use tokio::sync::{mpsc, oneshot, watch};

use super::reach::Reach;
use super::state::NetworkState;
use super::state_json::StoredState;

/// What to configure, and the paths of the files that the task writes.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The plan, its source, and the faults of sources that are not used.
    pub choice: Choice,
    pub resolv_conf: PathBuf,
    /// The file of local host names.
    pub hosts: PathBuf,
    /// The state as JSON, for operators and log collection.
    pub state_file: StoredState,
    pub naming: NamingPolicy,
    /// Whether the task may set the machine's host name.
    pub set_host_name: bool,
}

/// The channels to the running network task.
#[derive(Debug)]
pub struct Network {
    pub state: watch::Receiver<NetworkState>,
    /// Discovery publishes here how far it has come from each NIC towards the service.
    pub reach: watch::Sender<Reach>,
    /// The agent's inspection sends here the VLANs that switches announce.
    pub switch_vlans: mpsc::Sender<SwitchVlans>,
}

/// The VLANs that switches announce, and which of them the operator wants.
#[derive(Debug)]
pub struct SwitchVlans {
    /// The value of `ipa-enable-vlan-interfaces`.
    pub wanted: Vec<String>,
    /// VLAN tags by the name of the NIC that received them.
    pub tags: BTreeMap<String, Vec<u16>>,
    /// Notified when the task has requested all wanted VLANs, even if the kernel refused
    /// some.
    pub made: oneshot::Sender<()>,
}

impl Setup {
    /// The setup for a machine that runs the ramdisk.
    pub fn in_ramdisk(choice: Choice, naming: NamingPolicy) -> Setup {
        Setup {
            choice,
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            state_file: StoredState::of_this_boot(),
            naming,
            set_host_name: true,
        }
    }
}

/// Starts the task on the current runtime. It runs until the process ends.
///
/// # Errors
/// If the kernel refuses the netlink connections.
pub fn start(setup: Setup) -> io::Result<Network> {
    let (sender, state) = watch::channel(NetworkState::default());
    let (reach, found_out) = watch::channel(Reach::default());
    let (switch_vlans, announced) = mpsc::channel(1);
    let configurator = Configurator::new(setup, sender, found_out, announced)?;
    tokio::spawn(configurator.run());
    Ok(Network {
        state,
        reach,
        switch_vlans,
    })
}
