//! Reacts to router advertisements: starts a DHCPv6 client, updates the resolver.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use landfall_network_plan::Method;
use tokio::time::Instant;

use super::configurator::Configurator;
use super::link_setup::add_planned;
use super::timers::Timer;
use crate::advertisements::{RouterFlags, UserOption};
use crate::automatic_ipv6::Kind;
use crate::ipv6_sysctl;
use crate::links::LinkAddress;
use crate::nic::metric;

impl Configurator {
    pub(super) fn on_router(&mut self, flags: RouterFlags) {
        let Some(nic) = self.nics.get_mut(&flags.index) else {
            return;
        };
        if nic.ipv6.routers.replace(flags) != Some(flags) {
            tracing::debug!(
                "{} router advertisement: managed {}, other {}",
                nic.link.name,
                flags.managed,
                flags.other
            );
        }
        self.update_client6(flags.index);
    }

    /// Gives a NIC its planned IPv6 addresses and routes, as soon as the NIC is
    /// configured and has its link-local address. That address appears with the
    /// carrier or a moment later. Duplicate address detection starts only then: it
    /// must not run for the link-local address (see `ipv6_sysctl`).
    pub(super) async fn begin_ipv6(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let interface = nic.interface_of(&self.setup.choice.plan);
        let is_there = nic.addresses.iter().any(|a| link_local(a).is_some());
        if let Some(interface) = interface
            && let Some(ip) = interface.ipv6.as_ref()
            && ip.method != Method::Disabled
            && nic.configured
            && !nic.ipv6.begun
            && is_there
        {
            nic.ipv6.begun = true;
            ipv6_sysctl::detect_duplicates(Path::new(ipv6_sysctl::ROOT), &nic.link.name);
            for error in add_planned(&self.changes, index, ip, metric(index, interface)).await {
                nic.complain(format!("{} {error}", nic.link.name));
            }
        }
        self.update_client6(index);
    }

    /// Starts the DHCPv6 client that the plan and the routers require, as soon as there
    /// is a link-local address to send from. A client of the required kind keeps
    /// running, even if the routers stop sending advertisements.
    pub(super) fn update_client6(&mut self, index: u32) {
        let Some(nic) = self.nics.get(&index).filter(|nic| nic.link.carrier) else {
            return;
        };
        let interface = nic.interface_of(self.plan());
        let Some(ip) = interface.and_then(|interface| interface.ipv6.as_ref()) else {
            return;
        };
        let routers = nic.ipv6.routers;
        let kind = match ip.method {
            Method::Dhcp => Kind::Stateful,
            Method::Auto if routers.is_some_and(|flags| flags.managed) => Kind::Stateful,
            Method::Auto if routers.is_some_and(|flags| flags.other) => Kind::Stateless,
            _ => return,
        };
        if nic
            .ipv6
            .client
            .as_ref()
            .is_some_and(|client| client.kind == kind)
        {
            return;
        }
        let link_local = nic.addresses.iter().find_map(usable_link_local);
        if let Some(link_local) = link_local {
            self.start_client6(index, kind, link_local);
        }
    }

    pub(super) fn on_user_options(&mut self, options: io::Result<Vec<UserOption>>) {
        match options {
            Ok(options) => options
                .into_iter()
                .for_each(|option| self.on_user_option(option)),
            Err(error) => {
                tracing::warn!("cannot read the options of router advertisements: {error}")
            }
        }
    }

    fn on_user_option(&mut self, option: UserOption) {
        let index = option.index;
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let now = Instant::now();
        if nic.ipv6.dns.take(option, now) {
            let list = |items: Vec<String>| match items.is_empty() {
                true => "none".to_owned(),
                false => items.join(" "),
            };
            let dns = &nic.ipv6.dns;
            tracing::info!(
                "{} DNS {}, search {} from router advertisement",
                nic.link.name,
                list(dns.servers().map(|server| server.to_string()).collect()),
                list(dns.domains().map(str::to_owned).collect()),
            );
        }
        self.expire_advertised_dns(index);
    }

    /// Removes expired servers and domains, and starts a timer for the next expiry.
    pub(super) fn expire_advertised_dns(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        if nic.ipv6.dns.expire(Instant::now()) {
            tracing::warn!(
                "{} DNS servers or domains have expired: the router has not renewed them",
                nic.link.name
            );
        }
        if let Some(at) = nic.ipv6.dns.next_end() {
            self.timers.start(Timer::AdvertisedDns(index), at);
        }
    }

    pub(super) async fn on_address_gone(&mut self, address: &LinkAddress) {
        if address.duplicate {
            // The kernel removes a duplicate address that has a lifetime. It keeps a
            // duplicate static address, and reports that address like any other address.
            self.report_duplicate(address);
            self.decline6(address).await;
        }
        if let Some(nic) = self.nics.get_mut(&address.index) {
            nic.forget_address(address.prefix.address);
        }
    }
}

fn link_local(address: &LinkAddress) -> Option<Ipv6Addr> {
    match address.prefix.address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(v6),
        _ => None,
    }
}

fn usable_link_local(address: &LinkAddress) -> Option<Ipv6Addr> {
    link_local(address).filter(|_| !address.tentative && !address.duplicate)
}
