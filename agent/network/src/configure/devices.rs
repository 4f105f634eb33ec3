//! Reacts to events of one device: matches it to an interface of the plan and configures
//! it.

use std::time::Duration;

use landfall_network_plan::{IpPlan, Method};
use tokio::time::Instant;

use super::configurator::Configurator;
use super::link_setup::{add_planned, prepare_link};
use super::mtu::needed_mtu;
use super::naming::give_names;
use super::timers::Timer;
use crate::links::{Link, LinkAddress, LinkKind};
use crate::nic::{Nic, choose, metric};
use crate::state::AddressOrigin;

/// How long the agent waits for a carrier by default, like NetworkManager and dracut.
const CARRIER_EXPECTED: Duration = Duration::from_secs(10);
/// How long the agent waits for a router advertisement that the plan requires: enough for
/// three router solicitations (RFC 4861, 6.3.7) and an answer.
const ADVERTISEMENT_EXPECTED: Duration = Duration::from_secs(30);

impl Configurator {
    pub(super) async fn on_link(&mut self, mut link: Link) {
        let index = link.index;
        match link.kind {
            LinkKind::Loopback if !link.up => {
                if let Err(error) = self.changes.up(index).await {
                    tracing::warn!("{}: cannot switch it on: {error}", link.name);
                }
                return;
            }
            LinkKind::Loopback | LinkKind::Other => return,
            LinkKind::Virtual if choose(self.plan(), &link, |_| false).is_none() => return,
            LinkKind::Nic | LinkKind::Virtual => {}
        }
        if let Some(known) = self.nics.get(&index) {
            // The device may have been renamed since the kernel sent the event.
            if known.link.name != link.name
                && let Ok(Some(name)) = self.changes.name_of(index).await
            {
                link.name = name;
            }
        } else {
            give_names(&self.changes, &mut link, &self.setup.naming).await;
        }
        let carrier = link.carrier;
        let known = self.nics.get_mut(&index);
        let before = known.map(|nic| std::mem::replace(&mut nic.link, link.clone()));
        let had_carrier = before.as_ref().is_some_and(|old| old.carrier);
        match before {
            None => {
                tracing::debug!("{} ({}) found", link.name, link.mac);
                self.nics.insert(index, Nic::new(link));
                self.prepare(index).await;
                self.start_carrier_timer(index);
            }
            Some(old) if old.name != link.name => self.prepare(index).await,
            Some(_) => self.watch_link(index),
        }
        if carrier && !had_carrier {
            self.on_carrier(index).await;
        } else if !carrier && had_carrier {
            self.on_carrier_lost(index);
        }
    }

    /// Matches the NIC to an interface of the plan and switches the NIC on, or off if the
    /// plan says so. A NIC that the plan does not mention is switched on as well, because
    /// the inventory reports its carrier and its neighbours.
    ///
    /// A second call does not change settings that are already as planned.
    pub(super) async fn prepare(&mut self, index: u32) {
        let Some(nic) = self.nics.get(&index) else {
            return;
        };
        if nic.interface.is_none() {
            let taken = |wanted| self.nics.values().any(|nic| nic.interface == Some(wanted));
            let choice = choose(&self.setup.choice.plan, &nic.link, taken);
            self.nics
                .entry(index)
                .and_modify(|nic| nic.interface = choice);
        }
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let plan = &mut self.setup.choice.plan;
        if nic.link.kind == LinkKind::Nic {
            plan.name_vlans(&nic.link.name, &nic.link.macs());
        }
        let interface = nic.interface_of(plan);
        if interface.is_some_and(|interface| interface.down) {
            if nic.link.up {
                tracing::info!("{} is switched off, as the plan says", nic.title());
                let result = self.changes.down(index).await;
                nic.trouble = result.err().map(|e| format!("cannot switch it off: {e}"));
            }
            return;
        }
        let mtu = needed_mtu(plan, &nic.link, interface);
        for error in prepare_link(&self.changes, &nic.link, interface, mtu).await {
            nic.complain_once(format!("{}: {error}", nic.title()));
        }
        self.connect(index).await;
        self.watch_link(index);
    }

    fn start_carrier_timer(&mut self, index: u32) {
        let given = self.setup.choice.plan.carrier_timeout;
        let wait = given.map_or(CARRIER_EXPECTED, |s| Duration::from_secs(s.into()));
        self.timers
            .start(Timer::Carrier(index), Instant::now() + wait);
    }

    async fn on_carrier(&mut self, index: u32) {
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        tracing::info!("{} carrier up", nic.title());
        nic.trouble = None;
        self.configure(index).await;
    }

    /// Gives a NIC that has a carrier the addresses and routes of the plan, and
    /// starts its clients.
    pub(super) async fn configure(&mut self, index: u32) {
        let Some(nic) = self.nics.get(&index) else {
            return;
        };
        if nic.interface.is_none() {
            // An interface of the plan that matches any NIC applies to the first NIC
            // with a carrier.
            self.prepare(index).await;
        }
        self.ask_for_static(index);
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let Some(interface) = nic.interface_of(&self.setup.choice.plan) else {
            return;
        };
        if interface.down {
            return;
        }
        let metric = metric(index, interface);
        let ipv4 = interface.ipv4.as_ref();
        if let Some(ip) = ipv4.filter(|ip| ip.method != Method::Disabled) {
            for error in add_planned(&self.changes, index, ip, metric).await {
                nic.complain(format!("{} {error}", nic.link.name));
            }
        }
        nic.configured = true;
        nic.ipv6.begun = false;
        let is_automatic = |ip: &&IpPlan| ip.method.is_automatic();
        // The agent does not wait for the second address family: discovery begins with
        // the first address and runs again with each later address. If the plan requires
        // IPv6 or gives a time to wait for it, the agent reports a missing router.
        let ipv6 = interface.ipv6.as_ref().filter(is_automatic);
        let timeout = ipv6.and_then(|ip| match ip.required_timeout_ms {
            Some(time) => Some(Duration::from_millis(time.into())),
            None => ip.required.then_some(ADVERTISEMENT_EXPECTED),
        });
        if let Some(timeout) = timeout {
            let at = Instant::now() + timeout;
            self.timers.start(Timer::Advertisement(index), at);
        }
        if interface.ipv4.as_ref().is_some_and(|ip| is_automatic(&ip)) {
            self.start_client(index);
        }
        self.begin_ipv6(index).await;
    }

    /// Keeps the addresses, because the operator may be moving the cable to another port
    /// of the same switch. When the carrier returns, a new client requests the same
    /// lease.
    fn on_carrier_lost(&mut self, index: u32) {
        if let Some(nic) = self.nics.get_mut(&index) {
            nic.complain(format!("{} carrier lost", nic.title()));
            nic.client = None;
            nic.ipv6.stop_client();
            nic.questions.abort_all();
        }
    }

    pub(super) async fn on_address(&mut self, address: LinkAddress) {
        let Some(nic) = self.nics.get_mut(&address.index) else {
            return;
        };
        nic.note_address(address.clone());
        let interface = nic.interface_of(&self.setup.choice.plan);
        let origin = nic.origin(&address, interface, self.setup.choice.source);
        if address.duplicate {
            return self.report_duplicate(&address);
        }
        if !address.tentative {
            self.report_free(&address);
        }
        let Some(nic) = self.nics.get_mut(&address.index) else {
            return;
        };
        let (name, prefix) = (&nic.link.name, address.prefix);
        if !address.tentative && !nic.logged_addresses.contains(&prefix.address) {
            match origin {
                // The event of the DHCP client has logged the lease already.
                AddressOrigin::Dhcp(_) => {}
                AddressOrigin::LinkLocal => tracing::debug!("{name} {prefix} {origin}"),
                _ => tracing::info!("{name} {prefix} from {origin}"),
            }
            nic.logged_addresses.push(prefix.address);
        }
        self.begin_ipv6(address.index).await;
    }
}
