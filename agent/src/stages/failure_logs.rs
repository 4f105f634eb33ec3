//! Keeps the logs of a fatal error in memory, and says where to download them.

use std::net::IpAddr;
use std::path::Path;

use landfall_network::{AddressOrigin, NetworkState};
use landfall_report::failure::Failure;

use super::Boot;
use crate::api;
use crate::commands::blocking;

/// Makes the archive now and keeps it until the machine restarts.
pub(super) async fn keep(state: &'static Path) {
    let kept = blocking(move || {
        landfall_logs::keep_for_anyone(state);
        Ok(())
    });
    // Ignore an error: the failure itself is already on the console.
    let _ = kept.await;
}

impl Boot {
    /// Adds to the hint where the logs can be downloaded. Adds nothing if the agent
    /// serves no status pages or this machine has no usable address.
    pub(super) fn with_address_of_logs(&self, mut failure: Failure) -> Failure {
        if let Some(url) = self.url_of_logs() {
            let hint = failure.hint.map(|hint| format!("{hint}; "));
            let hint = hint.unwrap_or_default();
            failure.hint = Some(format!("{hint}download the logs from {url}"));
        }
        failure
    }

    fn url_of_logs(&self) -> Option<String> {
        let port = self.pages.as_ref()?.address().port();
        let listens_on = self.settings.params.listen_host.value;
        let host = match listens_on.filter(|host| !host.is_unspecified()) {
            Some(host) => host,
            None => reachable_address(&self.network.borrow())?,
        };
        let host = match host {
            IpAddr::V4(host) => host.to_string(),
            IpAddr::V6(host) => format!("[{host}]"),
        };
        Some(format!("http://{host}:{port}{}", api::LOGS_PATH))
    }
}

/// An address at which other hosts reach this machine: the address of the NIC that
/// reaches the service, or else the address of the first NIC that is online.
fn reachable_address(network: &NetworkState) -> Option<IpAddr> {
    let online = || network.nics.iter().filter(|nic| nic.is_online());
    let preferred = online().find(|nic| network.preferred == Some(nic.index));
    let nic = preferred.or_else(|| online().next())?;
    let mut addresses = nic.addresses.iter();
    let far = addresses.find(|it| it.usable && it.origin != AddressOrigin::LinkLocal)?;
    Some(far.prefix.address)
}

#[cfg(test)]
mod tests {
    use landfall_network::lab;
    use landfall_network::state::NicState;

    use super::*;

    fn nic(index: u32, carrier: bool, address: &str, origin: AddressOrigin) -> NicState {
        NicState {
            carrier,
            addresses: vec![lab::address(address, origin)],
            ..lab::nic(index, false)
        }
    }

    #[test]
    fn the_address_is_that_of_the_nic_that_reaches_the_service() {
        let far = AddressOrigin::RouterAdvertisement;
        let mut network = NetworkState {
            nics: vec![
                nic(1, false, "192.0.2.1/24", far),
                nic(2, true, "fe80::2/64", AddressOrigin::LinkLocal),
                nic(3, true, "192.0.2.3/24", far),
                nic(4, true, "2001:db8::4/64", far),
            ],
            ..NetworkState::default()
        };
        let address = |network: &NetworkState| reachable_address(network).unwrap().to_string();
        assert_eq!(address(&network), "192.0.2.3");
        network.preferred = Some(4);
        assert_eq!(address(&network), "2001:db8::4");
        assert_eq!(reachable_address(&NetworkState::default()), None);
    }
}
