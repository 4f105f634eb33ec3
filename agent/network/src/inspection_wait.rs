//! Waits for addresses before the agent reports the hardware.
//!
//! Ironic's agent waits for an IPv4 address, on the boot NIC or on all NICs. A host
//! without IPv4, or with a NIC without a cable, then waits for the whole time limit. Here
//! every address that reaches further than its link is sufficient. The agent waits only
//! for NICs that should have an address and that have a carrier, or may still get one.

use std::time::Duration;

use landfall_network_plan::MacAddr;
use tokio::sync::watch;

use super::state::{NetworkState, NicState};

/// How long the other NICs and the second address family may take, once every required
/// NIC has an address. With `add_ports = active`, Ironic creates ports for the NICs that
/// have an address. A 1 Gbit/s link negotiates for 2 to 3 s, and a DHCP server is
/// slightly slower than a router. The agent does not wait for the whole limit, because
/// some networks have no DHCP server or no IPv4.
const THE_REST: Duration = Duration::from_secs(3);

/// Which NICs must have an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    Nothing,
    /// The NIC that the host booted from.
    BootNic(MacAddr),
    /// All NICs that should have an address and that have a carrier, or may still get
    /// one.
    AllNics,
}

/// Waits up to `limit` until the wanted NICs have an address, then up to 3 s for the
/// other NICs and the second address family. Returns false if a wanted NIC is missing, or
/// should have an address and has none. [`WaitFor::AllNics`] requires at least one NIC.
pub async fn inspection_addresses(
    network: &mut watch::Receiver<NetworkState>,
    wanted: WaitFor,
    limit: Duration,
) -> bool {
    let is_ready = |state: &NetworkState| state.has_addresses(wanted);
    // An error means that the network task has ended, so no address will come.
    let waited = tokio::time::timeout(limit, network.wait_for(is_ready));
    let is_ready = matches!(waited.await, Ok(Ok(_)));
    if is_ready {
        let is_complete = |state: &NetworkState| !state.nics.iter().any(NicState::may_get_more);
        let rest = limit.min(THE_REST);
        let _ = tokio::time::timeout(rest, network.wait_for(is_complete)).await;
    }
    is_ready
}

impl NicState {
    /// Whether the NIC may still get another address.
    fn may_get_more(&self) -> bool {
        let asks = self.carrier && (self.awaits_ipv4 || !self.is_online());
        self.trouble.is_none() && self.shall_have_address && (asks || self.awaits_carrier)
    }
}

impl NetworkState {
    fn has_addresses(&self, wanted: WaitFor) -> bool {
        match wanted {
            WaitFor::Nothing => true,
            WaitFor::BootNic(mac) => self.nics.iter().any(|nic| {
                let is_it = nic.mac == mac || nic.permanent_mac == Some(mac);
                is_it && (nic.is_online() || !nic.shall_have_address)
            }),
            WaitFor::AllNics => {
                let is_done = |nic: &NicState| {
                    let waits = nic.carrier || nic.awaits_carrier;
                    nic.is_online() || !(waits && nic.shall_have_address)
                };
                !self.nics.is_empty() && self.nics.iter().all(is_done)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab;
    use crate::state::AddressOrigin;
    use std::net::IpAddr;

    const BOOT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn nic(mac: MacAddr, carrier: bool, addresses: Option<(&str, AddressOrigin)>) -> NicState {
        let addresses = addresses.map(|(text, origin)| lab::address(text, origin));
        NicState {
            mac,
            carrier,
            addresses: addresses.into_iter().collect(),
            ..lab::nic(1, false)
        }
    }

    #[test]
    fn any_address_beyond_the_link_will_do() {
        use AddressOrigin::{Dhcp, LinkLocal, RouterAdvertisement};
        let v4 = Some(("192.0.2.7/24", Dhcp(IpAddr::from([192, 0, 2, 1]))));
        let v6 = Some(("2001:db8::7/64", RouterAdvertisement));
        let local = Some(("fe80::7/64", LinkLocal));
        let unplugged = nic(OTHER, false, None);
        let negotiating = NicState {
            awaits_carrier: true,
            ..unplugged.clone()
        };
        let off = NicState {
            shall_have_address: false,
            ..nic(OTHER, true, None)
        };
        for (nics, boot, all) in [
            (vec![], false, false),
            (vec![nic(BOOT, true, None)], false, false),
            (vec![nic(BOOT, true, local)], false, false),
            (vec![nic(BOOT, true, v4)], true, true),
            (vec![nic(BOOT, true, v6)], true, true),
            (vec![nic(OTHER, true, v6)], false, true),
            (
                vec![nic(BOOT, true, v4), nic(OTHER, true, None)],
                true,
                false,
            ),
            (vec![nic(BOOT, true, v4), unplugged.clone()], true, true),
            (vec![nic(BOOT, true, v4), negotiating], true, false),
            (vec![nic(BOOT, true, v4), off], true, true),
            (vec![nic(BOOT, false, None), unplugged], false, true),
        ] {
            let shown = format!("{nics:?}");
            let state = NetworkState {
                nics,
                ..NetworkState::default()
            };
            assert_eq!(state.has_addresses(WaitFor::BootNic(BOOT)), boot, "{shown}");
            assert_eq!(state.has_addresses(WaitFor::AllNics), all, "{shown}");
            assert!(state.has_addresses(WaitFor::Nothing));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_nics_and_the_second_family_have_a_moment() {
        use AddressOrigin::{Dhcp, RouterAdvertisement};
        let dhcp = Some(("192.0.2.7/24", Dhcp(IpAddr::from([192, 0, 2, 1]))));
        let online = nic(BOOT, true, dhcp);
        let by_ipv6_alone = NicState {
            awaits_ipv4: true,
            ..nic(BOOT, true, Some(("2001:db8::7/64", RouterAdvertisement)))
        };
        let asking = NicState {
            awaits_ipv4: true,
            ..nic(OTHER, true, None)
        };
        let negotiating = NicState {
            awaits_carrier: true,
            ..nic(OTHER, false, None)
        };
        let unplugged = nic(OTHER, false, None);
        let unanswered = NicState {
            trouble: Some("eth1 DHCP: no answer after 28 s".to_owned()),
            ..nic(OTHER, true, None)
        };
        let unused = NicState {
            shall_have_address: false,
            ..nic(OTHER, true, None)
        };
        let limit = Duration::from_secs(60);
        for (nics, waits) in [
            (vec![by_ipv6_alone], true),
            (vec![online.clone(), asking], true),
            (vec![online.clone(), negotiating], true),
            (vec![online.clone(), unplugged], false),
            (vec![online.clone(), unanswered], false),
            (vec![online.clone(), unused], false),
            (vec![online.clone(), nic(OTHER, true, dhcp)], false),
        ] {
            for wanted in [WaitFor::BootNic(BOOT), WaitFor::Nothing] {
                let state = NetworkState {
                    nics: nics.clone(),
                    ..NetworkState::default()
                };
                let (_sender, mut network) = watch::channel(state);
                let began = tokio::time::Instant::now();
                assert!(inspection_addresses(&mut network, wanted, limit).await);
                let waited = if waits { THE_REST } else { Duration::ZERO };
                assert_eq!(began.elapsed(), waited, "{wanted:?} {nics:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_has_an_end() {
        let (_sender, mut network) = watch::channel(NetworkState::default());
        let limit = Duration::from_secs(60);
        assert!(!inspection_addresses(&mut network, WaitFor::AllNics, limit).await);
        assert!(inspection_addresses(&mut network, WaitFor::Nothing, limit).await);
    }
}
