//! What the rest of the machine gets to know: state, resolver, host name.

use super::configurator::Configurator;
use crate::network::nic::{Nic, metric};
use crate::network::resolv_conf;
use crate::network::state::NetworkState;

impl Configurator {
    /// Tells everybody who watches, if anything is different.
    pub(super) fn publish(&mut self) {
        let new = self.current_state();
        let resolver_changed = {
            let old = self.state.borrow();
            (&old.dns, &old.search) != (&new.dns, &new.search)
        };
        if resolver_changed
            && let Err(error) = resolv_conf::write(&self.setup.resolv_conf, &new.dns, &new.search)
        {
            tracing::warn!("{error}");
        }
        self.store_state(&new);
        // Last, so that whoever wakes up finds the resolver's file written.
        self.state.send_if_modified(|old| {
            let changed = *old != new;
            *old = new;
            changed
        });
    }

    pub(super) fn current_state(&self) -> NetworkState {
        let interface = |nic: &Nic| nic.interface.map(|i| &self.setup.choice.plan.interfaces[i]);
        let mut state = NetworkState {
            nics: self
                .nics
                .values()
                .map(|nic| nic.state(interface(nic), self.setup.choice.source))
                .collect(),
            preferred: self.preference.over,
            ..NetworkState::default()
        };
        let mut configured: Vec<_> = self
            .nics
            .iter()
            .filter(|(_, nic)| nic.configured)
            .filter_map(|(index, nic)| {
                let preferred = self.preference.over == Some(*index);
                let metric = metric(*index, interface(nic)?);
                Some(((!preferred, metric), nic))
            })
            .collect();
        configured.sort_by_key(|(place, _)| *place);

        // What was given goes before what was found.
        for (_, nic) in &configured {
            for ip in planned_families(nic, self) {
                add_all(&mut state.dns, &ip.dns);
            }
        }
        for (_, nic) in &configured {
            let ignored = planned_families(nic, self).any(|ip| ip.automatic.ignore_dns);
            if let Some(lease) = &nic.lease {
                if !ignored {
                    add_all(&mut state.dns, &lease.dns);
                }
                add_all(&mut state.search, &lease.search);
                add_all(&mut state.ntp, &lease.ntp);
            }
        }
        state
    }

    /// The machine's name, from whoever is first to know one.
    pub(super) fn set_host_name(&mut self, name: &str) {
        self.host_name_set = true;
        if !self.setup.set_host_name {
            return;
        }
        match nix::unistd::sethostname(name) {
            Ok(()) => tracing::info!("host name is {name}"),
            Err(error) => tracing::warn!("setting the host name {name}: {error}"),
        }
    }
}

fn planned_families<'a>(
    nic: &Nic,
    configurator: &'a Configurator,
) -> impl Iterator<Item = &'a landfall_network_plan::IpPlan> {
    let interface = nic
        .interface
        .map(|i| &configurator.setup.choice.plan.interfaces[i]);
    interface
        .into_iter()
        .flat_map(|interface| [&interface.ipv4, &interface.ipv6])
        .flatten()
}

fn add_all<T: Clone + PartialEq>(list: &mut Vec<T>, more: &[T]) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}
