//! Reacts to events of DHCPv6 clients.

use std::net::Ipv6Addr;
use std::time::Duration;

use landfall_network_plan::{Interface, IpPrefix};
use tokio::sync::mpsc;

use super::configurator::Configurator;
use super::leases::SERIES;
use super::link_setup::note;
use crate::apply::Lifetime;
use crate::automatic_ipv6::{Client, Kind};
use crate::client_tag::ClientTag;
use crate::dhcp::Reporter;
use crate::dhcp6::{self, Lease, LeasedAddress};
use crate::links::LinkAddress;
use crate::nic::metric;

impl Configurator {
    /// Starts a DHCPv6 client for the NIC and ends the NIC's earlier client, if it has
    /// one.
    pub(super) fn start_client6(&mut self, index: u32, kind: Kind, link_local: Ipv6Addr) {
        self.clients_started += 1;
        let generation = self.clients_started;
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let interface = nic.interface_of(&self.setup.choice.plan);
        let Some(ip) = interface.and_then(|interface| interface.ipv6.as_ref()) else {
            return;
        };
        let timeout = ip.automatic.timeout.map(|s| Duration::from_secs(s.into()));
        let settings = dhcp6::Settings {
            index,
            name: nic.link.name.clone(),
            mac: nic.link.mac,
            link_local,
            want: nic.ipv6.want(kind),
            host_name: ip.automatic.host_name.clone(),
            series: timeout.unwrap_or(SERIES),
        };
        let reporter = Reporter {
            tag: (index, generation),
            events: self.clients6.clone(),
        };
        let (commands, receiver) = mpsc::channel(1);
        nic.ipv6.client = Some(Client {
            generation,
            kind,
            commands,
            task: tokio::spawn(dhcp6::run(settings, reporter, receiver)),
        });
    }

    pub(super) async fn on_client6(&mut self, (index, generation): ClientTag, event: dhcp6::Event) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let client = nic.ipv6.client.as_ref();
        if client.is_none_or(|client| client.generation != generation) {
            return;
        }
        let name = nic.link.name.clone();
        let trouble = match event {
            dhcp6::Event::Bound(lease) => return self.on_lease6(index, *lease).await,
            dhcp6::Event::Lost => {
                tracing::warn!("{name} DHCPv6: the lease has ended; asking for another");
                return self.drop_lease6(index).await;
            }
            dhcp6::Event::Silent(after) => {
                let seconds = after.as_secs_f64().round();
                let trouble = format!("{name} DHCPv6: no answer after {seconds} s");
                tracing::warn!("{trouble}, still trying; other interfaces are not delayed");
                trouble
            }
            dhcp6::Event::Refused(reason) => {
                let trouble =
                    format!("{name} DHCPv6: the server has no address for this machine: {reason}");
                tracing::warn!("{trouble}; still trying");
                trouble
            }
            dhcp6::Event::Trouble(error) => {
                let trouble = format!("{name} DHCPv6: {error}");
                tracing::warn!("{trouble}");
                trouble
            }
        };
        nic.trouble = Some(trouble);
    }

    async fn on_lease6(&mut self, index: u32, lease: Lease) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let Some(interface) = nic.interface_of(&self.setup.choice.plan) else {
            return;
        };
        let metric = metric(index, interface);
        let name = nic.link.name.clone();
        let mut errors = Vec::new();
        let address = lease.address;
        let text = lease_text(&lease);
        let before = nic.ipv6.take_lease(lease);
        if before.as_ref().map(lease_text) == Some(text.clone()) {
            tracing::debug!("{name} {text}, renewed");
        } else {
            tracing::info!("{name} {text}");
        }
        nic.trouble = None;
        // An address that is also in the plan stays permanent.
        let own = |leased: &LeasedAddress| !is_given(interface, leased);
        let is_other = |old: &LeasedAddress| Some(old.address) != address.map(|new| new.address);
        let before = before.and_then(|old| old.address).filter(own);
        if let Some(old) = before.filter(is_other) {
            let old = alone(old.address);
            let result = self.changes.remove_address(index, old).await;
            note(&mut errors, &format!("remove {old}"), result);
        }
        if let Some(address) = address.filter(own) {
            let lifetime = Lifetime {
                preferred: address.preferred,
                valid: address.valid,
            };
            let prefix = alone(address.address);
            let result = self
                .changes
                .add_address(index, prefix, lifetime, metric)
                .await;
            note(&mut errors, &format!("add {prefix}"), result);
        }
        for error in errors {
            nic.complain(format!("{name} DHCPv6: {error}"));
        }
    }

    async fn drop_lease6(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let interface = nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]);
        let own = |leased: &LeasedAddress| !interface.is_some_and(|i| is_given(i, leased));
        let leased = nic.ipv6.drop_lease().and_then(|lease| lease.address);
        if let Some(address) = leased.filter(own) {
            let address = alone(address.address);
            if let Err(error) = self.changes.remove_address(index, address).await {
                tracing::warn!("{} DHCPv6: cannot remove {address}: {error}", nic.link.name);
            }
        }
    }

    /// Declines the leased address if it is the address that another machine has.
    pub(super) async fn decline6(&mut self, duplicate: &LinkAddress) {
        let index = duplicate.index;
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        if nic.ipv6.server_of(duplicate.prefix.address).is_none() {
            return;
        }
        if let Some(client) = &nic.ipv6.client {
            // If the channel is full, a decline is already waiting in it.
            let _ = client.commands.try_send(dhcp6::Command::Decline);
        }
        self.drop_lease6(index).await;
    }
}

/// Whether the plan contains the address, with any prefix length: the kernel keeps
/// an IPv6 address only once per device.
fn is_given(interface: &Interface, leased: &LeasedAddress) -> bool {
    let ip = interface.ipv6.as_ref();
    let mut given = ip.into_iter().flat_map(|ip| &ip.addresses);
    given.any(|given| given.address == leased.address)
}

/// The address with prefix length 128, because only routers know which other addresses
/// are on the link.
fn alone(address: Ipv6Addr) -> IpPrefix {
    IpPrefix {
        address: address.into(),
        length: 128,
    }
}

/// Describes a lease for the console.
fn lease_text(lease: &Lease) -> String {
    let mut parts = Vec::new();
    if let Some(address) = &lease.address {
        let time = match address.valid {
            Some(valid) => format!("for {} s", valid.as_secs()),
            None => "forever".to_owned(),
        };
        parts.push(format!(
            "{} from DHCP server {} {time}",
            alone(address.address),
            lease.from
        ));
    } else {
        parts.push(format!("configuration from DHCP server {}", lease.from));
    }
    if !lease.dns.is_empty() {
        let servers: Vec<_> = lease.dns.iter().map(ToString::to_string).collect();
        parts.push(format!("DNS {}", servers.join(" ")));
    }
    parts.join(", ")
}
