//! Reacts to events of DHCPv4 clients.

use std::time::Duration;

use landfall_network_plan::IpPlan;

use super::configurator::Configurator;
use super::link_setup::{note, route_change};
use super::mtu::leased_mtu;
use crate::apply::Lifetime;
use crate::client_tag::ClientTag;
use crate::device_route::leased_routes;
use crate::dhcp::{self, Lease};
use crate::nic::{DhcpClient, Nic, metric};

/// The length of a series of attempts of a DHCP client, if the plan sets no DHCP timeout.
pub(super) const SERIES: Duration = Duration::from_secs(90);

impl Configurator {
    /// Starts a DHCPv4 client for the NIC and ends the NIC's earlier client, if it has
    /// one.
    pub(super) fn start_client(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let interface = nic.interface_of(&self.setup.choice.plan);
        let Some(ip) = interface.and_then(|interface| interface.ipv4.as_ref()) else {
            return;
        };
        self.clients_started += 1;
        let generation = self.clients_started;
        let reporter = dhcp::Reporter {
            tag: (index, generation),
            events: self.clients.clone(),
        };
        let task = tokio::spawn(dhcp::run(settings(nic, ip), reporter));
        nic.client = Some(DhcpClient { generation, task });
    }

    pub(super) async fn on_client(&mut self, (index, generation): ClientTag, event: dhcp::Event) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        if nic
            .client
            .as_ref()
            .is_none_or(|client| client.generation != generation)
        {
            return;
        }
        let name = nic.link.name.clone();
        match event {
            dhcp::Event::Bound(lease) => self.on_lease(index, *lease).await,
            dhcp::Event::Lost => {
                tracing::warn!("{name} DHCP: the lease has ended; asking for another");
                self.drop_lease(index).await;
            }
            dhcp::Event::Silent(after) => {
                let seconds = after.as_secs_f64().round();
                let trouble = format!("{name} DHCP: no answer after {seconds} s");
                tracing::warn!("{trouble}, still trying; other interfaces are not delayed");
                nic.trouble = Some(trouble);
            }
            dhcp::Event::Refused(server) => {
                tracing::warn!("{name} DHCP: server {server} has taken its offer back");
            }
            dhcp::Event::Taken(address, owner) => {
                let trouble = format!("{name} DHCP: {address} is in use by {owner}");
                tracing::warn!("{trouble}; declined, asking for another");
                nic.trouble = Some(trouble);
            }
            dhcp::Event::Trouble(error) => {
                nic.complain(format!("{name} DHCP: {error}"));
            }
        }
    }

    async fn on_lease(&mut self, index: u32, lease: Lease) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let Some(interface) = nic.interface_of(&self.setup.choice.plan) else {
            return;
        };
        let Some(ip) = &interface.ipv4 else {
            return;
        };
        let name = nic.link.name.clone();
        let changed = nic.lease.as_ref().is_none_or(|old| {
            (old.address, old.server, &old.dns) != (lease.address, lease.server, &lease.dns)
        });
        if changed {
            tracing::info!("{name} {}", lease_text(&lease));
        } else {
            tracing::debug!("{name} {} renewed", lease.address);
        }
        nic.trouble = None;
        let before = nic.leased_before.replace(lease.address);
        if let Some(before) = before.filter(|before| *before != lease.address) {
            // A new address changes the callback URL, and Ironic rejects a heartbeat with
            // another URL.
            tracing::error!(
                "{name} address {before} has become {}: Ironic still calls the old one \
                 -- reserve the address for {} on the DHCP server",
                lease.address,
                nic.link.mac
            );
        }
        let metric = metric(index, interface);
        let routes = leased_routes(&lease, ip, metric);
        let mut errors = Vec::new();
        if let Some(old) = nic
            .lease
            .as_ref()
            .filter(|old| old.address != lease.address && !ip.addresses.contains(&old.address))
        {
            let result = self.changes.remove_address(index, old.address).await;
            note(&mut errors, &format!("remove {}", old.address), result);
        }
        for route in nic
            .lease_routes
            .iter()
            .filter(|route| !routes.contains(route))
        {
            let result = self.changes.remove_route(index, route).await;
            note(&mut errors, &route_change("remove", route), result);
        }
        let plan = &self.setup.choice.plan;
        let leased_mtu = |mtu| leased_mtu(plan, &nic.link, interface, mtu);
        if let Some(mtu) = lease.mtu.and_then(leased_mtu) {
            let result = self.changes.set_mtu(index, mtu).await;
            note(&mut errors, &format!("set MTU {mtu}"), result);
        }
        // An address that is also in the plan stays permanent.
        if !ip.addresses.contains(&lease.address) {
            let result = self
                .changes
                .add_address(index, lease.address, Lifetime::of(lease.lifetime), metric)
                .await;
            note(&mut errors, &format!("add {}", lease.address), result);
        }
        for route in &routes {
            let result = self.changes.add_route(index, route).await;
            note(&mut errors, &route_change("add", route), result);
        }
        for error in errors {
            nic.complain(format!("{name} DHCP: {error}"));
        }
        nic.lease_routes = routes;
        let host_name = lease.host_name.clone();
        nic.lease = Some(lease);
        if let Some(host_name) = host_name.filter(|_| !self.host_name_set) {
            self.set_host_name(&host_name);
        }
    }

    async fn drop_lease(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let mut errors = Vec::new();
        for route in nic.lease_routes.drain(..) {
            let result = self.changes.remove_route(index, &route).await;
            note(&mut errors, &route_change("remove", &route), result);
        }
        let interface = nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]);
        let ip = interface.and_then(|interface| interface.ipv4.as_ref());
        let is_given = |lease: &Lease| ip.is_some_and(|ip| ip.addresses.contains(&lease.address));
        if let Some(lease) = nic.lease.take().filter(|lease| !is_given(lease)) {
            let result = self.changes.remove_address(index, lease.address).await;
            note(&mut errors, &format!("remove {}", lease.address), result);
        }
        for error in errors {
            tracing::warn!("{} DHCP: {error}", nic.link.name);
        }
    }
}

fn settings(nic: &Nic, ip: &IpPlan) -> dhcp::Settings {
    let automatic = &ip.automatic;
    let timeout = automatic.timeout.map(|s| Duration::from_secs(s.into()));
    let previous = nic.lease.as_ref().map(|lease| lease.address.address);
    dhcp::Settings {
        index: nic.link.index,
        name: nic.link.name.clone(),
        mac: nic.link.mac,
        client_id: automatic.client_id.clone(),
        host_name: automatic.host_name.clone(),
        vendor_class: automatic.vendor_class.as_ref().map(|c| c.bytes().to_vec()),
        code_point: automatic.dscp.unwrap_or(0),
        series: timeout.unwrap_or(SERIES),
        previous: previous.and_then(|address| match address {
            std::net::IpAddr::V4(v4) => Some(v4),
            std::net::IpAddr::V6(_) => None,
        }),
    }
}

/// Describes a lease for the console.
fn lease_text(lease: &Lease) -> String {
    let mut text = format!("{} from DHCP server {}", lease.address, lease.server);
    match lease.lifetime {
        Some(lifetime) => text.push_str(&format!(" for {} s", lifetime.as_secs())),
        None => text.push_str(" forever"),
    }
    if let Some(gateway) = lease.gateway() {
        text.push_str(&format!(", gateway {gateway}"));
    }
    if !lease.dns.is_empty() {
        let servers: Vec<_> = lease.dns.iter().map(ToString::to_string).collect();
        text.push_str(&format!(", DNS {}", servers.join(" ")));
    }
    text
}
