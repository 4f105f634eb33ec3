//! The network task: its state and its event loop.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use landfall_network_plan::{IpPrefix, NetworkPlan};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::timers::{Timer, Timers};
use super::{Setup, SwitchVlans};
use crate::advertisements::UserOptions;
use crate::announce::announce;
use crate::apply::Changes;
use crate::client_tag::ClientTag;
use crate::links::{LinkEvent, LinkWatch, Snapshot};
use crate::nic::Nic;
use crate::reach::Reach;
use crate::routes::Route;
use crate::state::NetworkState;
use crate::static_ipv4::Verdict;
use crate::{arp_sysctl, dhcp, dhcp6, linkdown, resolv_conf};

/// The time after the start of the task by which the drivers in the ramdisk have normally
/// probed their devices.
const DEVICES_EXPECTED: Duration = Duration::from_secs(10);
/// If the machine has no address after this time, the agent reports it. Most
/// configurations take less time, even with spanning tree.
const ONLINE_EXPECTED: Duration = Duration::from_secs(45);
/// Capacity of each event channel. A sender waits while its channel is full.
const CLIENT_EVENTS: usize = 64;

/// The state of the task. The other files of this directory implement its reactions to
/// events.
pub(super) struct Configurator {
    pub(super) setup: Setup,
    pub(super) changes: Changes,
    pub(super) state: watch::Sender<NetworkState>,
    /// The NICs by the kernel's index.
    pub(super) nics: BTreeMap<u32, Nic>,
    pub(super) timers: Timers,
    pub(super) clients: mpsc::Sender<(ClientTag, dhcp::Event)>,
    client_events: mpsc::Receiver<(ClientTag, dhcp::Event)>,
    pub(super) clients6: mpsc::Sender<(ClientTag, dhcp6::Event)>,
    client6_events: mpsc::Receiver<(ClientTag, dhcp6::Event)>,
    /// Results of conflict detection for static IPv4 addresses.
    pub(super) verdicts: mpsc::Sender<(ClientTag, IpPrefix, Verdict)>,
    verdicts_given: mpsc::Receiver<(ClientTag, IpPrefix, Verdict)>,
    pub(super) clients_started: u64,
    /// The socket is opened before the first link is up, because a router may not
    /// repeat its advertisement for many minutes.
    user_options: UserOptions,
    pub(super) host_name_set: bool,
    pub(super) missing_devices_reported: bool,
    /// Why the machine has no NIC, once the reason is known.
    pub(super) no_nic: Option<String>,
    pub(super) reach: watch::Receiver<Reach>,
    switch_vlans: mpsc::Receiver<SwitchVlans>,
    pub(super) preference: Preference,
}

/// The NIC whose routes take precedence, and the copies of its routes that give it
/// precedence (see `preference`).
#[derive(Debug, Default)]
pub(super) struct Preference {
    /// The kernel's index of the preferred NIC; `None` if no NIC takes precedence.
    pub(super) over: Option<u32>,
    /// The NIC's routes may have changed.
    pub(super) is_stale: bool,
    pub(super) copies: Vec<Route>,
}

impl Configurator {
    pub(super) fn new(
        setup: Setup,
        state: watch::Sender<NetworkState>,
        reach: watch::Receiver<Reach>,
        switch_vlans: mpsc::Receiver<SwitchVlans>,
    ) -> io::Result<Self> {
        let (clients, client_events) = mpsc::channel(CLIENT_EVENTS);
        let (clients6, client6_events) = mpsc::channel(CLIENT_EVENTS);
        let (verdicts, verdicts_given) = mpsc::channel(CLIENT_EVENTS);
        Ok(Configurator {
            changes: Changes::open()?,
            setup,
            state,
            nics: BTreeMap::new(),
            timers: Timers::default(),
            clients,
            client_events,
            clients6,
            client6_events,
            verdicts,
            verdicts_given,
            clients_started: 0,
            user_options: UserOptions::open()?,
            host_name_set: false,
            missing_devices_reported: false,
            no_nic: None,
            reach,
            switch_vlans,
            preference: Preference::default(),
        })
    }

    pub(super) async fn run(mut self) {
        self.begin();
        self.make_links_without_parent().await;
        self.make_controllers().await;
        loop {
            let (watch, snapshot) = LinkWatch::open_with_retries().await;
            self.follow(watch, snapshot).await;
        }
    }

    pub(super) fn plan(&self) -> &NetworkPlan {
        &self.setup.choice.plan
    }

    fn begin(&mut self) {
        announce(&self.setup.choice, true);
        if let Err(error) = resolv_conf::write_hosts(&self.setup.hosts) {
            tracing::warn!("{error}");
        }
        if let Some(name) = self.setup.choice.plan.host_name.clone() {
            self.set_host_name(&name);
        }
        let now = Instant::now();
        self.timers.start(Timer::Devices, now + DEVICES_EXPECTED);
        self.timers.start(Timer::Online, now + ONLINE_EXPECTED);
        let switches = Path::new("/proc/sys/net");
        for result in [
            linkdown::ignore_routes(switches),
            arp_sysctl::answer_for_own_addresses(switches),
        ] {
            if let Err(error) = result {
                tracing::warn!("{error}");
            }
        }
    }

    /// Applies the snapshot, then handles events until the kernel reports that
    /// events were lost.
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
            self.on_address(address).await;
        }
        for flags in snapshot.routers {
            self.on_router(flags);
        }
        loop {
            self.renew_preference().await;
            self.publish();
            tokio::select! {
                event = watch.next() => match event {
                    Some(event) => self.on_event(event).await,
                    None => return,
                },
                // Never `None`: `self` holds a sender.
                Some((tag, event)) = self.client_events.recv() => self.on_client(tag, event).await,
                Some((tag, event)) = self.client6_events.recv() => self.on_client6(tag, event).await,
                Some((tag, address, verdict)) = self.verdicts_given.recv() => {
                    self.on_verdict(tag, address, verdict).await;
                }
                options = self.user_options.next() => self.on_user_options(options),
                timer = self.timers.next() => self.on_timer(timer).await,
                // An error means that discovery has ended. `select!` then ignores this
                // branch.
                Ok(()) = self.reach.changed() => self.on_reach(),
                Some(announced) = self.switch_vlans.recv() => self.on_switch_vlans(announced).await,
            }
        }
    }

    async fn on_event(&mut self, event: LinkEvent) {
        self.preference.is_stale = true;
        match event {
            LinkEvent::Link(link) => self.on_link(link).await,
            LinkEvent::LinkGone(index) => {
                if let Some(nic) = self.nics.remove(&index) {
                    tracing::warn!("{} is gone", nic.title());
                }
            }
            LinkEvent::Address(address) => self.on_address(address).await,
            LinkEvent::AddressGone(address) => self.on_address_gone(&address).await,
            LinkEvent::Router(flags) => self.on_router(flags),
        }
    }
}
