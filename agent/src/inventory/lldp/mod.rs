//! LLDP: what the switch at the other end of each cable says of itself.

pub mod firmware_agent;
pub mod tlv;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use self::tlv::Tlv;
use super::sysfs;
use super::system_path::SystemPath;
use crate::sys::lldp_socket::LldpSocket;

/// An Ethernet frame without its header; longer ones are not LLDP.
const LONGEST: usize = 1600;

/// What each interface has heard; nothing is an empty list.
pub type Neighbours = BTreeMap<String, Vec<Tlv>>;

/// Listens on every interface but `lo` until each one with a carrier has heard
/// a neighbour, at most for `patience`. Switches speak every 30 s.
///
/// The original waits for interfaces without a cable too, and so always for the
/// whole time.
pub async fn listen(root: &SystemPath, patience: Duration) -> Neighbours {
    let until = Instant::now() + patience;
    let interfaces = interfaces(root);
    let mut heard: Neighbours = interfaces
        .values()
        .map(|name| (name.clone(), Vec::new()))
        .collect();
    for name in heard.keys() {
        firmware_agent::silence(root, name);
    }
    let indices: Vec<u32> = interfaces.keys().copied().collect();
    let socket = match LldpSocket::open(&indices) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!("listening for LLDP: {error}");
            return heard;
        }
    };
    let mut frame = [0; LONGEST];
    while waiting_for(root, &heard) {
        let received = match timeout_at(until, socket.receive(&mut frame)).await {
            Ok(Ok(received)) => received,
            // An interface that goes down is told once.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NetworkDown => continue,
            Ok(Err(error)) => {
                tracing::warn!("listening for LLDP: {error}");
                break;
            }
            Err(_) => break,
        };
        if let Some(list) = interfaces
            .get(&received.0)
            .and_then(|name| heard.get_mut(name))
            && list.is_empty()
        {
            *list = tlv::parse(&frame[..received.1]);
        }
    }
    let silent: Vec<&str> = heard
        .iter()
        .filter(|(_, list)| list.is_empty())
        .map(|(name, _)| name.as_str())
        .collect();
    if !silent.is_empty() {
        tracing::info!("no LLDP neighbour on {}", silent.join(", "));
    }
    heard
}

/// Whether an interface with a cable is still to hear something.
fn waiting_for(root: &SystemPath, heard: &Neighbours) -> bool {
    heard.iter().any(|(name, list)| {
        list.is_empty() && sysfs::flag(&root.join("sys/class/net").join(name).join("carrier"))
    })
}

/// The Ethernet interfaces by their index.
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
