//! Another machine has a static IPv4 address → it is not used.

use landfall_network_plan::IpPrefix;

use super::configurator::Configurator;
use super::link_setup::add_planned;
use crate::network::dhcp::conflict::Asker;
use crate::network::nic::{ClientTag, metric};
use crate::network::static_ipv4::{self, Verdict};

impl Configurator {
    /// Asks who else has the static addresses that a NIC is about to get.
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
        let asker = Asker {
            index,
            mac: nic.link.mac,
            own,
        };
        // The questions of before end.
        nic.questions = tokio::task::JoinSet::new();
        nic.question = tag;
        for address in &ip.addresses {
            nic.questions.spawn(static_ipv4::ask(
                asker.clone(),
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
                    tracing::warn!("{name}: removing {address}: {error}");
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
                // With the address the kernel has taken its routes away.
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
