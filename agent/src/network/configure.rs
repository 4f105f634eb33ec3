//! The task that makes the network what the plan says, event by event.
//!
//! It is the only one that changes anything, so changes never meet each other.
//! It never waits for anything but the next event: what takes long (DHCP,
//! duplicate address detection) is done by others who report.

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

use landfall_network_plan::Choice;
use tokio::sync::{mpsc, oneshot, watch};

use super::reach::Reach;
use super::state::NetworkState;
use super::state_json::StoredState;
use crate::interface_names::NamingPolicy;

use configurator::Configurator;
pub(super) use link_retries::pauses;

/// What is to be done, and where the files are that go with it.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The plan, where it is from, and what was wrong with better sources.
    pub choice: Choice,
    /// The resolver's file.
    pub resolv_conf: PathBuf,
    /// The file of local names.
    pub hosts: PathBuf,
    /// Where the state is told in JSON, for operators and log collection.
    pub state_file: StoredState,
    /// How NICs are called.
    pub naming: NamingPolicy,
    /// Whether the machine's name may be set.
    pub set_host_name: bool,
}

/// The network at work, as long as the process lives.
#[derive(Debug)]
pub struct Network {
    /// What it has become.
    pub state: watch::Receiver<NetworkState>,
    /// Where discovery tells what it finds out about the way to the service.
    pub reach: watch::Sender<Reach>,
    /// Takes the VLANs that switches have named.
    pub heard_vlans: mpsc::Sender<HeardVlans>,
}

/// What the switches have said, for the network to make of it what is wanted.
#[derive(Debug)]
pub struct HeardVlans {
    /// `ipa-enable-vlan-interfaces`
    pub wanted: Vec<String>,
    /// The tags that a switch has named, by the NIC that heard it.
    pub tags: BTreeMap<String, Vec<u16>>,
    /// Told when all that is wanted has been made.
    pub made: oneshot::Sender<()>,
}

impl Setup {
    /// This choice, on a machine that runs our ramdisk.
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

/// Starts the task on the current runtime, where it stays.
///
/// # Errors
/// If the kernel does not talk about its network at all.
pub fn start(setup: Setup) -> io::Result<Network> {
    let (sender, state) = watch::channel(NetworkState::default());
    let (reach, found_out) = watch::channel(Reach::default());
    let (heard_vlans, heard) = mpsc::channel(1);
    let configurator = Configurator::new(setup, sender, found_out, heard)?;
    tokio::spawn(configurator.run());
    Ok(Network {
        state,
        reach,
        heard_vlans,
    })
}
