//! Collects DNS servers, search domains and NTP servers from all sources.

use std::net::IpAddr;

use landfall_network_plan::{Interface, IpPlan};

use super::configurator::Configurator;
use crate::nic::{Nic, metric};
use crate::resolv_conf::DnsServer;
use crate::state::NetworkState;

impl Configurator {
    /// Adds the servers and domains to the state: first those of the plan, then those
    /// from the network. In both groups the interface whose routes are preferred comes
    /// first. If the plan has global DNS servers, they replace all other DNS servers.
    pub(super) fn add_resolver(&self, state: &mut NetworkState) {
        let mut configured: Vec<_> = self
            .nics
            .iter()
            .filter(|(_, nic)| nic.configured)
            .filter_map(|(index, nic)| {
                let interface = &self.plan().interfaces[nic.interface?];
                let preferred = self.preference.over == Some(*index);
                Some(((!preferred, metric(*index, interface)), nic, interface))
            })
            .collect();
        configured.sort_by_key(|(place, ..)| *place);

        for (_, nic, interface) in &configured {
            for ip in [&interface.ipv4, &interface.ipv6].into_iter().flatten() {
                let by = |address: &IpAddr| DnsServer::by(&nic.link.name, *address);
                add_all(&mut state.dns, ip.dns.iter().map(by));
                add_all(&mut state.search, ip.search.iter().cloned());
            }
        }
        for (_, nic, interface) in configured {
            add_found(nic, interface, state);
        }
        if !self.plan().global_dns.is_empty() {
            let global = self.plan().global_dns.iter();
            state.dns = global
                .map(|address| DnsServer {
                    address: *address,
                    interface: None,
                })
                .collect();
        }
    }
}

/// Adds the servers and domains that the network gave to one interface.
fn add_found(nic: &Nic, interface: &Interface, state: &mut NetworkState) {
    let lease = nic.lease.as_ref();
    let lease6 = nic.ipv6.lease();
    if let Some(lease) = lease {
        add_all(&mut state.ntp, lease.ntp.iter().copied());
    }
    if let Some(lease) = lease6 {
        add_all(&mut state.ntp, lease.ntp.iter().copied().map(IpAddr::V6));
    }
    let wanted = |ip: &Option<IpPlan>| {
        let automatic = |ip: &IpPlan| ip.method.is_automatic() && !ip.automatic.ignore_dns;
        ip.as_ref().is_some_and(automatic)
    };
    let mut servers: [Vec<IpAddr>; 2] = [Vec::new(), Vec::new()];
    if wanted(&interface.ipv4)
        && let Some(lease) = lease
    {
        servers[0].extend(&lease.dns);
        add_all(&mut state.search, lease.search.iter().cloned());
    }
    if wanted(&interface.ipv6) {
        let routers = &nic.ipv6.dns;
        servers[1].extend(routers.servers().map(IpAddr::V6));
        add_all(&mut state.search, routers.domains().map(str::to_owned));
        if let Some(lease) = lease6 {
            servers[1].extend(lease.dns.iter().copied().map(IpAddr::V6));
            add_all(&mut state.search, lease.search.iter().cloned());
        }
    }
    let by = |address| DnsServer::by(&nic.link.name, address);
    add_all(&mut state.dns, in_turn(servers).map(by));
}

/// Alternates between the address families: the C library reads only three servers,
/// and one family may have no route.
fn in_turn([first, second]: [Vec<IpAddr>; 2]) -> impl Iterator<Item = IpAddr> {
    let longest = first.len().max(second.len());
    (0..longest).flat_map(move |i| {
        let pair = [first.get(i).copied(), second.get(i).copied()];
        pair.into_iter().flatten()
    })
}

fn add_all<T: PartialEq>(list: &mut Vec<T>, more: impl Iterator<Item = T>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
