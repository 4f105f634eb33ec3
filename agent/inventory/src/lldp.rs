//! Receives LLDP frames, in which the switch at the other end of each cable describes
//! itself.

pub mod firmware_agent;
mod parser;
pub mod tlv;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use landfall_sys::backoff::Backoff;
use landfall_sys::lldp_socket::{Filter, LldpSocket};
use nix::errno::Errno;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub use self::parser::{Frame, LldpParser};
use self::tlv::Tlv;
use super::sysfs;
use super::system_path::SystemPath;

/// Size of the receive buffer in bytes. An LLDP frame without its Ethernet header fits
/// into it.
const LONGEST: usize = 1600;

/// The elements that each interface received; an empty list if it received none.
pub type Neighbours = BTreeMap<String, Vec<Tlv>>;

/// Listens on every Ethernet interface until each interface with a carrier has received a
/// frame, but not longer than `timeout`. Switches send a frame every 30 s. First disables
/// the LLDP agents in the firmware of the NICs ([`firmware_agent`]).
///
/// Unlike this function, Ironic's agent also waits for interfaces without a cable, so it
/// usually waits until the timeout.
pub async fn listen(root: &SystemPath, timeout: Duration) -> Neighbours {
    let until = Instant::now() + timeout;
    let interfaces = interfaces(root);
    let mut neighbours: Neighbours = interfaces
        .values()
        .map(|name| (name.clone(), Vec::new()))
        .collect();
    for name in neighbours.keys() {
        firmware_agent::silence(root, name);
    }
    let indices: Vec<u32> = interfaces.keys().copied().collect();
    let socket = match LldpSocket::open(&indices, Filter::Promiscuous) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!("cannot listen for LLDP: {error}; the inventory has no LLDP data");
            return neighbours;
        }
    };
    let mut frame = [0; LONGEST];
    let mut unreadable = BTreeSet::new();
    while waiting_for(root, &neighbours) {
        let received = match timeout_at(until, socket.receive(&mut frame)).await {
            Ok(Ok(received)) => received,
            // If an interface goes down, the socket reports this error once and then
            // works again.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NetworkDown => continue,
            Ok(Err(error)) => {
                tracing::warn!(
                    "cannot listen for LLDP any longer: {error}; the inventory has only what was received before"
                );
                break;
            }
            Err(_) => break,
        };
        let Some(name) = interfaces.get(&received.0) else {
            continue;
        };
        let Some(list) = neighbours.get_mut(name).filter(|list| list.is_empty()) else {
            continue;
        };
        match timeout_at(until, parser::parse(&frame[..received.1])).await {
            Ok(Ok(frame)) if !frame.elements.is_empty() => {
                *list = frame.elements;
                continue;
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) if unreadable.insert(name) => {
                tracing::warn!("LLDP frame on {name}: {error}; it is ignored");
            }
            Ok(Err(_)) => {}
            Err(_) => break,
        }
        sleep(parser::PAUSE).await;
    }
    let silent: Vec<&str> = neighbours
        .iter()
        .filter(|(_, list)| list.is_empty())
        .map(|(name, _)| name.as_str())
        .collect();
    if !silent.is_empty() {
        tracing::info!("no LLDP neighbour on {}", silent.join(", "));
    }
    neighbours
}

/// For each interface (the key), the switch and the port at the other end of its cable:
/// `switch3 port Ethernet1/7`.
pub type Switches = BTreeMap<String, String>;

/// How often [`follow`] looks for new interfaces.
const NEW_INTERFACES: Duration = Duration::from_secs(2);

/// The shortest and the longest pause before the socket is opened again after an error.
const REOPEN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Listens as long as the process runs, and reports which switches the interfaces are
/// connected to. An entry ends when the time to live of the switch is over, when a later
/// frame names no switch and port or announces the shutdown of the switch, or when the
/// interface is gone or loses the carrier. Does nothing on a kernel without packet
/// sockets.
pub async fn follow(root: &SystemPath, switches: watch::Sender<Switches>) {
    let mut frame = [0; LONGEST];
    let mut ends = BTreeMap::new();
    // For each interface, the time until which further frames are dropped.
    let mut dropped_until: BTreeMap<u32, Instant> = BTreeMap::new();
    let mut backoff = Backoff::new(REOPEN[0], REOPEN[1]);
    loop {
        let interfaces = interfaces(root);
        let indices: Vec<u32> = interfaces.keys().copied().collect();
        let socket = match LldpSocket::open(&indices, Filter::NearestBridge) {
            Ok(socket) => socket,
            Err(error) if has_no_packet_sockets(&error) => return,
            // For example, too many open files.
            Err(error) => {
                tracing::debug!("cannot listen for LLDP, trying again: {error}");
                sleep(backoff.pause()).await;
                forget_gone(root, &ends, &switches);
                continue;
            }
        };
        // Switches repeat their frames. A repeated frame needs no second child process.
        let mut latest: BTreeMap<u32, (Vec<u8>, Frame)> = BTreeMap::new();
        while interfaces == self::interfaces(root) {
            match timeout(NEW_INTERFACES, socket.receive(&mut frame)).await {
                Ok(Ok((index, length))) => {
                    backoff.reset();
                    let now = Instant::now();
                    if { dropped_until.get(&index) }.is_some_and(|until| *until > now) {
                        continue;
                    }
                    dropped_until.insert(index, now + parser::PAUSE);
                    let frame = &frame[..length];
                    let is_known = { latest.get(&index) }.is_some_and(|(known, _)| known == frame);
                    if !is_known {
                        match parser::parse(frame).await {
                            Ok(parsed) => {
                                latest.insert(index, (frame.to_owned(), parsed));
                            }
                            Err(error) => {
                                tracing::debug!("LLDP frame: {error}");
                                latest.remove(&index);
                            }
                        }
                    }
                    if let (Some((_, parsed)), Some(name)) =
                        (latest.get(&index), interfaces.get(&index))
                    {
                        let end = Instant::now() + tlv::time_to_live(&parsed.elements);
                        ends.insert(name.clone(), end);
                        let switch = parsed.switch.clone();
                        switches.send_if_modified(|switches| set(switches, name, switch));
                    }
                }
                // An interface went down; see `listen`.
                Ok(Err(error)) if error.kind() == io::ErrorKind::NetworkDown => {}
                Ok(Err(error)) => {
                    tracing::debug!("cannot receive LLDP, trying again: {error}");
                    sleep(backoff.pause()).await;
                    break;
                }
                Err(_) => {}
            }
            forget_gone(root, &ends, &switches);
        }
        // Do this before the interfaces are listed again: a new interface may get the
        // name of an interface that is gone.
        forget_gone(root, &ends, &switches);
    }
}

/// Whether the error means that the kernel was built without packet sockets.
fn has_no_packet_sockets(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32)
}

/// Removes each switch whose time is over, or whose interface is gone or has no carrier.
fn forget_gone(
    root: &SystemPath,
    ends: &BTreeMap<String, Instant>,
    switches: &watch::Sender<Switches>,
) {
    let now = Instant::now();
    switches.send_if_modified(|switches| {
        let before = switches.len();
        switches.retain(|name, _| {
            ends.get(name).is_some_and(|end| *end > now) && has_carrier(root, name)
        });
        switches.len() != before
    });
}

fn has_carrier(root: &SystemPath, name: &str) -> bool {
    sysfs::flag(&root.join("sys/class/net").join(name).join("carrier"))
}

/// Sets the switch of an interface, or removes it if `switch` is `None`. Returns whether
/// this changes anything.
fn set(switches: &mut Switches, name: &str, switch: Option<String>) -> bool {
    let before = match &switch {
        Some(switch) => switches.insert(name.to_owned(), switch.clone()),
        None => switches.remove(name),
    };
    before != switch
}

/// Whether an interface with a carrier has not received anything yet.
fn waiting_for(root: &SystemPath, neighbours: &Neighbours) -> bool {
    { neighbours.iter() }.any(|(name, list)| list.is_empty() && has_carrier(root, name))
}

/// The Ethernet interfaces by interface index.
fn interfaces(root: &SystemPath) -> BTreeMap<u32, String> {
    /// `ARPHRD_ETHER`; `lo` has another type.
    const ETHERNET: u32 = 1;
    let directory = root.join("sys/class/net");
    sysfs::names(&directory)
        .into_iter()
        .filter(|name| sysfs::number(&directory.join(name).join("type")) == Some(ETHERNET))
        .filter_map(|name| Some((sysfs::number(&directory.join(&name).join("ifindex"))?, name)))
        .collect()
}

#[cfg(test)]
mod tests;
