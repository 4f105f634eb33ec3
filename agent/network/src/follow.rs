//! Observes a network that another program configures, such as NetworkManager in a live
//! system. Reports its state in the same form as the agent's own network. Changes
//! nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use landfall_network_plan::Choice;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::announce::announce;
use super::links::{Link, LinkAddress, LinkEvent, LinkKind, LinkWatch, Snapshot};
use super::nic::{Nic, choose};
use super::resolv_conf::DnsServer;
use super::state::{AddressOrigin, NetworkState};
use super::state_json::{StoredState, state_json};
use crate::reach::Reach;

/// How long a NIC may take to get its carrier, counted from the time when the agent lists
/// the NICs. A NIC that appears after this time has no limit.
const CARRIER_EXPECTED: Duration = Duration::from_secs(10);
/// The agent reads at most this many bytes of resolv.conf.
const RESOLV_CONF_LIMIT: u64 = 64 << 10;

/// Observes the network on the current runtime until the process ends. The agent
/// compares addresses with the plan in `choice`, to report which of them are planned.
/// It logs the plan only if the plan comes from a document: another program applies
/// only such a plan.
pub fn follow(choice: Choice) -> watch::Receiver<NetworkState> {
    announce(&choice, choice.source.is_document());
    let (state, receiver) = watch::channel(NetworkState::default());
    let observer = Observer {
        choice,
        state,
        nics: BTreeMap::new(),
        stored_state: StoredState::of_this_boot(),
    };
    tokio::spawn(observer.run());
    receiver
}

struct Observer {
    choice: Choice,
    state: watch::Sender<NetworkState>,
    /// The NICs by the kernel's index.
    nics: BTreeMap<u32, Nic>,
    stored_state: StoredState,
}

impl Observer {
    async fn run(mut self) {
        loop {
            let (watch, snapshot) = LinkWatch::open_with_retries().await;
            self.follow(watch, snapshot).await;
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
            self.on_link(link);
        }
        for address in snapshot.addresses {
            self.on_address(address);
        }
        let carrier_expected = Instant::now() + CARRIER_EXPECTED;
        let mut waits_for_carrier = true;
        loop {
            self.publish();
            tokio::select! {
                event = watch.next() => match event {
                    Some(event) => self.on_event(event),
                    None => return,
                },
                () = sleep_until(carrier_expected), if waits_for_carrier => {
                    waits_for_carrier = false;
                    for nic in self.nics.values_mut() {
                        nic.missed_carrier = !nic.link.carrier;
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Link(link) => self.on_link(link),
            LinkEvent::LinkGone(index) => {
                if let Some(nic) = self.nics.remove(&index) {
                    tracing::warn!("{} is gone", nic.title());
                }
            }
            LinkEvent::Address(address) => self.on_address(address),
            LinkEvent::AddressGone(address) => {
                if let Some(nic) = self.nics.get_mut(&address.index) {
                    nic.forget_address(address.prefix.address);
                }
            }
            // Ignore routers: the program that configures the network reacts to them.
            LinkEvent::Router(_) => {}
        }
    }

    fn on_link(&mut self, link: Link) {
        match link.kind {
            LinkKind::Loopback | LinkKind::Other => return,
            LinkKind::Nic | LinkKind::Virtual => {}
        }
        let index = link.index;
        let nic = self.nics.entry(index).or_insert_with(|| {
            tracing::debug!("{} ({}) found", link.name, link.mac);
            Nic::new(Link {
                carrier: false,
                ..link.clone()
            })
        });
        match (nic.link.carrier, link.carrier) {
            (false, true) => tracing::info!("{} ({}) carrier up", link.name, link.mac),
            (true, false) => tracing::warn!("{} carrier lost", nic.title()),
            _ => {}
        }
        nic.link = link;
        if nic.interface.is_none() {
            let link = nic.link.clone();
            let taken = |wanted| self.nics.values().any(|nic| nic.interface == Some(wanted));
            let chosen = choose(&self.choice.plan, &link, taken);
            if let Some(nic) = self.nics.get_mut(&index) {
                nic.interface = chosen;
            }
        }
    }

    fn on_address(&mut self, address: LinkAddress) {
        let Some(nic) = self.nics.get_mut(&address.index) else {
            return;
        };
        nic.note_address(address.clone());
        let interface = nic.interface_of(&self.choice.plan);
        let origin = nic.origin(&address, interface, self.choice.source);
        let (name, prefix) = (&nic.link.name, address.prefix);
        if address.duplicate {
            tracing::warn!("{name} {prefix}: another machine on this link has the address");
        } else if !address.tentative && !nic.logged_addresses.contains(&prefix.address) {
            match origin {
                AddressOrigin::LinkLocal => tracing::debug!("{name} {prefix} {origin}"),
                AddressOrigin::Foreign => tracing::info!("{name} {prefix}"),
                _ => tracing::info!("{name} {prefix} from {origin}"),
            }
            nic.logged_addresses.push(prefix.address);
        }
    }

    fn publish(&mut self) {
        let interface = |nic: &Nic| nic.interface_of(&self.choice.plan);
        let new = NetworkState {
            source: Some(self.choice.source),
            faults: self.choice.faults.clone(),
            nics: self
                .nics
                .values()
                .map(|nic| nic.state(interface(nic), self.choice.source))
                .collect(),
            dns: servers(Path::new("/etc/resolv.conf")),
            ..NetworkState::default()
        };
        // NetworkManager has its own rules for the preferred NIC, so the state file does
        // not say which NIC reaches the service.
        let shown = state_json(&self.choice, &new, &self.nics, &Reach::default());
        self.stored_state.store(&shown);
        self.state.send_if_modified(|old| {
            let changed = *old != new;
            *old = new;
            changed
        });
    }
}

/// The servers that the resolver asks (resolv.conf(5)).
fn servers(path: &Path) -> Vec<DnsServer> {
    let mut text = String::new();
    // Without the file there are no servers.
    let _ =
        File::open(path).and_then(|file| file.take(RESOLV_CONF_LIMIT).read_to_string(&mut text));
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|server| {
            let (address, interface) = match server.trim().split_once('%') {
                Some((address, interface)) => (address, Some(interface.to_owned())),
                None => (server.trim(), None),
            };
            let address = address.parse().ok()?;
            Some(DnsServer { address, interface })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn servers_of_the_resolver() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resolv.conf");
        assert_eq!(servers(&path), []);
        let text = "# nameserver 192.0.2.9\nsearch lab\nnameserver 192.0.2.1\n nameserver\tfe80::1%eth0\nnameserver x\n";
        fs::write(&path, text).unwrap();
        let found: Vec<String> = servers(&path).iter().map(DnsServer::to_string).collect();
        assert_eq!(found, ["192.0.2.1", "fe80::1%eth0"]);
    }
}
