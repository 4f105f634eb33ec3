//! Events of devices and addresses → changes.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use landfall_network_plan::describe::describe;
use landfall_network_plan::{IpPlan, Method, NetworkPlan};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::Setup;
use super::link_setup::{add_planned, prepare_link};
use super::naming::give_names;
use super::timers::{Timer, Timers};
use crate::network::apply::Changes;
use crate::network::links::{Link, LinkAddress, LinkEvent, LinkKind, LinkWatch, Snapshot};
use crate::network::nic::{ClientTag, Nic, choose, metric};
use crate::network::state::{AddressOrigin, NetworkState};
use crate::network::{dhcp, resolv_conf};

/// By then every driver that is in the ramdisk has looked at its devices.
const DEVICES_EXPECTED: Duration = Duration::from_secs(10);
/// Longer than anything takes that is going to work, spanning tree included.
const ONLINE_EXPECTED: Duration = Duration::from_secs(45);
/// NetworkManager's and dracut's time for a carrier.
const CARRIER_EXPECTED: Duration = Duration::from_secs(10);
/// Three router solicitations (RFC 4861, 6.3.7) and some time to answer.
const ADVERTISEMENT_EXPECTED: Duration = Duration::from_secs(30);
/// Between two attempts to talk to the kernel after it has refused.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// Events of DHCP clients that may wait; a client waits when it is full.
const CLIENT_EVENTS: usize = 64;

/// Everything the task knows. The other files of this directory add what it
/// does on events of their kind.
pub(super) struct Configurator {
    pub(super) setup: Setup,
    pub(super) changes: Changes,
    pub(super) state: watch::Sender<NetworkState>,
    /// By the kernel's index.
    pub(super) nics: BTreeMap<u32, Nic>,
    pub(super) timers: Timers,
    pub(super) clients: mpsc::Sender<(ClientTag, dhcp::Event)>,
    client_events: mpsc::Receiver<(ClientTag, dhcp::Event)>,
    pub(super) clients_started: u64,
    pub(super) host_name_set: bool,
    /// The text of the state file.
    pub(super) stored_state: String,
}

impl Configurator {
    pub(super) fn new(setup: Setup, state: watch::Sender<NetworkState>) -> io::Result<Self> {
        let (clients, client_events) = mpsc::channel(CLIENT_EVENTS);
        Ok(Configurator {
            changes: Changes::open()?,
            setup,
            state,
            nics: BTreeMap::new(),
            timers: Timers::default(),
            clients,
            client_events,
            clients_started: 0,
            host_name_set: false,
            stored_state: String::new(),
        })
    }

    pub(super) async fn run(mut self) {
        self.begin();
        self.make_controllers().await;
        loop {
            match LinkWatch::open().await {
                Ok((watch, snapshot)) => self.follow(watch, snapshot).await,
                Err(error) => {
                    tracing::error!("asking the kernel for its network devices: {error}");
                    sleep(REOPEN_PAUSE).await;
                }
            }
        }
    }

    fn begin(&mut self) {
        for fault in &self.setup.choice.faults {
            tracing::error!("{fault}");
        }
        tracing::info!("source: {}", self.setup.choice.source);
        for line in describe(&self.setup.choice.plan) {
            tracing::info!("plan: {line}");
        }
        for warning in &self.setup.choice.plan.warnings {
            tracing::warn!("{warning}");
        }
        if let Err(error) = resolv_conf::write_hosts(&self.setup.hosts) {
            tracing::warn!("{error}");
        }
        if let Some(name) = self.setup.choice.plan.host_name.clone() {
            self.set_host_name(&name);
        }
        let now = Instant::now();
        self.timers.start(Timer::Devices, now + DEVICES_EXPECTED);
        self.timers.start(Timer::Online, now + ONLINE_EXPECTED);
    }

    /// Takes over what there is, then follows the events until some get lost.
    async fn follow(&mut self, mut watch: LinkWatch, snapshot: Snapshot) {
        let is_there = |index: &u32| snapshot.links.iter().any(|link| link.index == *index);
        self.nics.retain(|index, _| is_there(index));
        for nic in self.nics.values_mut() {
            nic.addresses.clear();
        }
        for link in snapshot.links {
            self.on_link(link).await;
        }
        for address in snapshot.addresses {
            self.on_address(address);
        }
        loop {
            self.publish();
            tokio::select! {
                event = watch.next() => match event {
                    Some(event) => self.on_event(event).await,
                    None => return,
                },
                // Not `None`: we hold a sender ourselves.
                Some((tag, event)) = self.client_events.recv() => self.on_client(tag, event).await,
                timer = self.timers.next() => self.on_timer(timer),
            }
        }
    }

    async fn on_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Link(link) => self.on_link(link).await,
            LinkEvent::LinkGone(index) => {
                if let Some(nic) = self.nics.remove(&index) {
                    tracing::warn!("{} is gone", nic.title());
                }
            }
            LinkEvent::Address(address) => self.on_address(address),
            LinkEvent::AddressGone(index, address) => {
                if let Some(nic) = self.nics.get_mut(&index) {
                    nic.forget_address(address);
                }
            }
        }
    }

    async fn on_link(&mut self, mut link: Link) {
        let index = link.index;
        match link.kind {
            LinkKind::Loopback if !link.up => {
                if let Err(error) = self.changes.up(index).await {
                    tracing::warn!("{}: switching on: {error}", link.name);
                }
                return;
            }
            LinkKind::Loopback | LinkKind::Other => return,
            LinkKind::Virtual if choose(self.plan(), &link, |_| false).is_none() => return,
            LinkKind::Nic | LinkKind::Virtual => {}
        }
        if !self.nics.contains_key(&index) {
            give_names(&self.changes, &mut link, self.setup.naming).await;
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
            Some(_) => {}
        }
        if carrier && !had_carrier {
            self.on_carrier(index).await;
        } else if !carrier && had_carrier {
            self.on_carrier_lost(index);
        }
    }

    /// Gives a NIC its place in the plan and switches it on. One without a
    /// place is switched on as well: the inventory tells which have a carrier
    /// and who their neighbours are.
    async fn prepare(&mut self, index: u32) {
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
        let interface = nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]);
        for error in prepare_link(&self.changes, &nic.link, interface).await {
            let trouble = format!("{}: {error}", nic.title());
            tracing::warn!("{trouble}");
            nic.trouble = Some(trouble);
        }
        self.connect(index).await;
    }

    pub(super) fn plan(&self) -> &NetworkPlan {
        &self.setup.choice.plan
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
        if nic.interface.is_none() {
            // The first carrier may decide who is meant.
            self.prepare(index).await;
        }
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let Some(interface) = nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]) else {
            return;
        };
        let metric = metric(index, interface);
        for ip in [&interface.ipv4, &interface.ipv6].into_iter().flatten() {
            if ip.method == Method::Disabled {
                continue;
            }
            for error in add_planned(&self.changes, index, ip, metric).await {
                let trouble = format!("{} {error}", nic.link.name);
                tracing::warn!("{trouble}");
                nic.trouble = Some(trouble);
            }
        }
        nic.configured = true;
        let is_automatic = |ip: &&IpPlan| ip.method.is_automatic();
        let waits_for_router = interface
            .ipv6
            .as_ref()
            .is_some_and(|ip| is_automatic(&ip) && ip.required);
        if waits_for_router {
            let at = Instant::now() + ADVERTISEMENT_EXPECTED;
            self.timers.start(Timer::Advertisement(index), at);
        }
        if interface.ipv4.as_ref().is_some_and(|ip| is_automatic(&ip)) {
            self.start_client(index);
        }
    }

    /// Addresses stay: the cable may have been moved to another port of the
    /// same switch. A new client asks for the same lease when it is back.
    fn on_carrier_lost(&mut self, index: u32) {
        if let Some(nic) = self.nics.get_mut(&index) {
            let trouble = format!("{} carrier lost", nic.title());
            tracing::warn!("{trouble}");
            nic.trouble = Some(trouble);
            nic.client = None;
        }
    }

    fn on_address(&mut self, address: LinkAddress) {
        let Some(nic) = self.nics.get_mut(&address.index) else {
            return;
        };
        nic.note_address(address.clone());
        let interface = nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]);
        let origin = nic.origin(&address, interface, self.setup.choice.source);
        let (name, prefix) = (&nic.link.name, address.prefix);
        if address.duplicate {
            let trouble = format!("{name} {prefix}: another machine on this link has the address");
            tracing::warn!("{trouble}; it is not used");
            nic.trouble = Some(trouble);
        } else if !address.tentative && !nic.told.contains(&prefix.address) {
            match origin {
                // The lease has been told.
                AddressOrigin::Dhcp(_) => {}
                AddressOrigin::LinkLocal => tracing::debug!("{name} {prefix} {origin}"),
                _ => tracing::info!("{name} {prefix} from {origin}"),
            }
            nic.told.push(prefix.address);
        }
    }
}
