//! Reacts to another machine that has one of this host's static addresses: the
//! address is not used until that machine is gone.
//!
//! For IPv4 the agent checks again and again. For IPv6 the kernel checks, but only once.
//! After one answer the host would stay without its address forever, even if the other
//! machine is moved a minute later. So the agent makes the kernel check again.

use landfall_network_plan::IpPrefix;
use landfall_sys::backoff::between;
use tokio::time::Instant;

use super::configurator::Configurator;
use super::link_setup::add_planned;
use super::timers::Timer;
use crate::client_tag::ClientTag;
use crate::dhcp::conflict::ArpProber;
use crate::links::LinkAddress;
use crate::nic::metric;
use crate::static_ipv4::{self, Verdict};

impl Configurator {
    /// Reports that the kernel has found this IPv6 address on another machine, and starts
    /// the timer for the next check.
    pub(super) fn report_duplicate(&mut self, address: &LinkAddress) {
        let Some(nic) = self.nics.get_mut(&address.index) else {
            return;
        };
        let trouble = duplicate_trouble(&nic.link.name, address);
        if nic.trouble.as_ref() != Some(&trouble) {
            tracing::warn!("{trouble}; it is not used");
        }
        nic.trouble = Some(trouble);
        let wait = static_ipv4::PAUSE.mul_f64(between(0.75, 1.25));
        let timer = Timer::Duplicate(address.index);
        self.timers.start(timer, Instant::now() + wait);
    }

    /// Makes the kernel check again the static IPv6 addresses that were duplicates at
    /// the last check.
    pub(super) async fn ask_again_for_static6(&mut self, index: u32) {
        let Some(nic) = self.nics.get(&index) else {
            return;
        };
        let interface = nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]);
        let Some((interface, ip)) = interface.and_then(|i| Some((i, i.ipv6.as_ref()?))) else {
            return;
        };
        let is_lost = |a: &&LinkAddress| a.duplicate && ip.addresses.contains(&a.prefix);
        let lost = nic.addresses.iter().filter(is_lost);
        for address in lost.map(|address| address.prefix) {
            let removed = self.changes.remove_address(index, address).await;
            let metric = metric(index, interface);
            let added = self.changes.try_address(index, address, metric).await;
            if let Err(error) = removed.and(added) {
                tracing::warn!("{}: cannot try {address} again: {error}", nic.link.name);
            }
        }
    }

    /// If another machine had the address, reports that no other machine has it any more.
    pub(super) fn report_free(&mut self, address: &LinkAddress) {
        let Some(nic) = self.nics.get_mut(&address.index) else {
            return;
        };
        let (name, prefix) = (&nic.link.name, address.prefix);
        if nic.trouble == Some(duplicate_trouble(name, address)) {
            tracing::info!("{name} {prefix}: nobody else on this link has the address now");
            nic.trouble = None;
        }
    }

    /// Starts conflict detection for the static IPv4 addresses that a NIC is about
    /// to get.
    pub(super) fn ask_for_static(&mut self, index: u32) {
        let own = self.nics.values().flat_map(|nic| {
            let permanent = nic.link.permanent_mac;
            [Some(nic.link.mac), permanent].into_iter().flatten()
        });
        let own = own.collect();
        self.clients_started += 1;
        let tag = (index, self.clients_started);
        let verdicts = self.verdicts.clone();
        let Some(nic) = self.nics.get_mut(&index) else {
            return;
        };
        let interface = nic.interface_of(&self.setup.choice.plan);
        let Some(ip) = interface.and_then(|interface| interface.ipv4.as_ref()) else {
            return;
        };
        let prober = ArpProber {
            index,
            mac: nic.link.mac,
            own,
        };
        // Dropping the old set ends the earlier tasks.
        nic.questions = tokio::task::JoinSet::new();
        nic.question = tag;
        for address in &ip.addresses {
            nic.questions.spawn(static_ipv4::ask(
                prober.clone(),
                *address,
                tag,
                verdicts.clone(),
            ));
        }
    }

    pub(super) async fn on_verdict(&mut self, tag: ClientTag, address: IpPrefix, verdict: Verdict) {
        let (index, _) = tag;
        let Some(nic) = self.nics.get_mut(&index).filter(|nic| nic.question == tag) else {
            return;
        };
        let name = nic.link.name.clone();
        match verdict {
            Verdict::Taken(owner) => {
                let trouble = format!("{name} {address}: {owner} on this link has the address");
                tracing::error!(
                    "{trouble}; it is not used until that machine is gone \
                     -- give one of them another address"
                );
                nic.trouble = Some(trouble);
                if let Err(error) = self.changes.remove_address(index, address).await {
                    tracing::warn!("{name}: cannot remove {address}: {error}");
                }
            }
            Verdict::Free => {
                tracing::info!("{name} {address}: nobody else on this link has the address now");
                nic.trouble = None;
                let interface = nic.interface_of(&self.setup.choice.plan);
                let Some(interface) = interface else {
                    return;
                };
                let Some(ip) = &interface.ipv4 else {
                    return;
                };
                // The kernel removed the routes together with the address.
                let mut ip = ip.clone();
                let is_free = |other: &IpPrefix| *other == address;
                ip.addresses.retain(is_free);
                for error in add_planned(&self.changes, index, &ip, metric(index, interface)).await
                {
                    tracing::warn!("{name} {error}");
                }
            }
        }
    }
}

fn duplicate_trouble(name: &str, address: &LinkAddress) -> String {
    let prefix = address.prefix;
    format!("{name} {prefix}: another machine on this link has the address")
}
