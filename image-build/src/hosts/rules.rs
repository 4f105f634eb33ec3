//! Checks that the hosts of one image differ where they must.

use std::collections::BTreeMap;
use std::net::IpAddr;

use landfall_host_manifests::Identity;
use landfall_network_plan::Document;

use super::Checked;

/// Gives each host the hardware addresses that identify it, and reports the hosts that
/// cannot be told apart. Hosts that are not `together` in one image need no address,
/// except those with [`Identity::OnlyInNetwork`].
pub(super) fn identify(checked: &mut [Checked], together: bool, faults: &mut Vec<String>) {
    let several = together && checked.len() > 1;
    for Checked {
        host,
        network,
        identity,
        ..
    } in checked.iter_mut()
    {
        let (false, Some(network)) = (*identity == Identity::Listed, network) else {
            continue;
        };
        if host.macs.is_empty() {
            host.macs.clone_from(&network.known_macs);
        }
        // A hardware address that the plan gives to a NIC is usually the one that the
        // NIC already has. So the address identifies the machine if there are several
        // hosts. A single host needs no address: its plan matches any machine, and the
        // address in the plan may be a new one.
        let must_differ = several || *identity == Identity::OnlyInNetwork;
        if host.macs.is_empty() && must_differ {
            host.macs.clone_from(&network.given_macs);
        }
    }
    let mut owners = BTreeMap::new();
    let mut files = BTreeMap::new();
    for checked in checked.iter() {
        let Checked { title, host, .. } = checked;
        let must_have_one = match checked.identity {
            // If the network cannot be used, its addresses are not known. Its fault has
            // already been reported.
            _ if checked.network.is_none() => false,
            Identity::Listed => false,
            Identity::InNetwork => several,
            Identity::OnlyInNetwork => true,
        };
        if host.macs.is_empty() && must_have_one {
            let how = match host.document {
                _ if checked.identity == Identity::OnlyInNetwork => {
                    "give the BareMetalHost its bootMACAddress"
                }
                Document::NetworkData(_) => "give its links an ethernet_mac_address",
                _ => {
                    "give an interface `identifier: mac-address` with its mac-address, \
                     or the host its interfaces in an agent-config.yaml"
                }
            };
            faults.push(format!(
                "{title}: no MAC address identifies the machine -- {how}"
            ));
        }
        for mac in &host.macs {
            match owners.insert(*mac, title) {
                Some(other) if other != title => {
                    faults.push(format!("{title}: {mac} is a NIC of {other} as well"));
                }
                _ => {}
            }
        }
        if let Some(other) = files.insert(host.path(), title) {
            faults.push(format!("{title}: has the same host name as {other}"));
        }
    }
}

/// Warns about static addresses that two hosts share, which is nearly always a
/// mistake.
pub(super) fn same_addresses(checked: &[Checked], warnings: &mut Vec<String>) {
    let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
    for Checked { title, network, .. } in checked {
        let addresses = network.iter().flat_map(|network| &network.addresses);
        for &address in addresses {
            let is_link_local = match address {
                IpAddr::V4(v4) => v4.is_link_local(),
                IpAddr::V6(v6) => v6.is_unicast_link_local(),
            };
            match owners.insert(address, title) {
                Some(other) if other != title && !is_link_local => {
                    warnings.push(format!(
                        "{title}: {address} is an address of {other} as well"
                    ));
                }
                _ => {}
            }
        }
    }
}
