//! Reads the current network, for tools that change nothing.

use std::io;

use landfall_network_plan::Source;

use super::links::{LinkKind, LinkWatch};
use super::nic::Nic;
use super::state::NetworkState;

/// Returns the current state of the network. Works on any machine, without a
/// plan.
///
/// # Errors
/// If the kernel refuses the connection or a query.
pub async fn observe() -> io::Result<NetworkState> {
    let (_watch, snapshot) = LinkWatch::open().await?;
    let is_nic = |kind| matches!(kind, LinkKind::Nic | LinkKind::Virtual);
    let links = snapshot.links.into_iter().filter(|link| is_nic(link.kind));
    let mut nics: Vec<Nic> = links.map(Nic::new).collect();
    for address in snapshot.addresses {
        let owner = nics.iter_mut().find(|nic| nic.link.index == address.index);
        if let Some(nic) = owner {
            nic.note_address(address);
        }
    }
    Ok(NetworkState {
        nics: nics
            .iter()
            .map(|nic| nic.state(None, Source::Default))
            .collect(),
        ..NetworkState::default()
    })
}
