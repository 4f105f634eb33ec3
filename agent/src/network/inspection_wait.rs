//! Waiting for addresses before the hardware is reported.
//!
//! Ironic's agent waits for an IPv4 address, on the NIC that the host was
//! booted over or on all of them, which costs a host with IPv6 alone, or with
//! a NIC without a cable, the whole time. Here any address will do that
//! reaches further than its link, and only NICs are waited for that have a
//! carrier (or may still get one) and shall have an address.

use std::time::Duration;

use landfall_network_plan::MacAddr;
use tokio::sync::watch;

use super::state::{NetworkState, NicState};

/// When those NICs have an address that must have one: how long the others, and
/// the second address family, may take. Ironic makes ports of the NICs that have
/// an address (`add_ports = active`), a cable of 1 Gbit/s is negotiated in 2 to
/// 3 s, and a DHCP server takes a moment longer than a router. Not the whole
/// limit: in a network of IPv6 alone, or without DHCP, nobody answers.
const THE_REST: Duration = Duration::from_secs(3);

/// Which NICs must have an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// None of them.
    Nothing,
    /// The one that the host was booted over.
    BootNic(MacAddr),
    /// All of them.
    AllNics,
}

/// Waits until they have, and no longer than the limit, then a moment for all
/// others. False: not all have that must.
pub async fn inspection_addresses(
    network: &mut watch::Receiver<NetworkState>,
    wanted: WaitFor,
    limit: Duration,
) -> bool {
    let is_ready = |state: &NetworkState| state.has_addresses(wanted);
    // An error means that the network's task has ended: nothing will come.
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
    /// Whether it may still get an address besides those that it has.
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
    use super::super::state::{AddressOrigin, AddressState};
    use super::*;
    use std::net::IpAddr;

    const BOOT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn nic(mac: MacAddr, carrier: bool, addresses: Option<(&str, AddressOrigin)>) -> NicState {
        let address = |(text, origin): (&str, AddressOrigin)| AddressState {
            prefix: landfall_network_plan::IpPrefix {
                address: text.parse().unwrap(),
                length: 64,
            },
            origin,
            usable: true,
        };
        NicState {
            index: 1,
            name: "eth0".to_owned(),
            mac,
            permanent_mac: None,
            is_virtual: false,
            leads_to_bmc: false,
            carrier,
            awaits_carrier: false,
            shall_have_address: true,
            awaits_ipv4: false,
            addresses: addresses.into_iter().map(address).collect(),
            trouble: None,
        }
    }

    #[test]
    fn any_address_beyond_the_link_will_do() {
        use AddressOrigin::{Dhcp, LinkLocal, RouterAdvertisement};
        let v4 = Some(("192.0.2.7", Dhcp(IpAddr::from([192, 0, 2, 1]))));
        let v6 = Some(("2001:db8::7", RouterAdvertisement));
        let local = Some(("fe80::7", LinkLocal));
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
        let dhcp = Some(("192.0.2.7", Dhcp(IpAddr::from([192, 0, 2, 1]))));
        let online = nic(BOOT, true, dhcp);
        let by_ipv6_alone = NicState {
            awaits_ipv4: true,
            ..nic(BOOT, true, Some(("2001:db8::7", RouterAdvertisement)))
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
