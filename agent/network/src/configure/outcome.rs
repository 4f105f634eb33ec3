//! Publishes the outcome: state, resolver file, host name.

use landfall_network_plan::PresentNic;

use super::configurator::Configurator;
use crate::links::LinkKind;
use crate::nic::Nic;
use crate::resolv_conf;
use crate::state::NetworkState;
use crate::state_json::state_json;

impl Configurator {
    /// Writes the resolver file and the state file, and notifies the watchers, each
    /// only if something changed.
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
        let shown = state_json(&self.setup.choice, &new, &self.nics, &self.reach.borrow());
        self.setup.state_file.store(&shown);
        // Notify the watchers last, so that they find the new resolver file.
        self.state.send_if_modified(|old| {
            let changed = *old != new;
            *old = new;
            changed
        });
    }

    pub(super) fn current_state(&self) -> NetworkState {
        let interface = |nic: &Nic| nic.interface_of(&self.setup.choice.plan);
        let mut state = NetworkState {
            nics: self
                .nics
                .values()
                .map(|nic| nic.state(interface(nic), self.setup.choice.source))
                .collect(),
            source: Some(self.setup.choice.source),
            faults: self.setup.choice.faults.clone(),
            no_nic: self.no_nic.clone(),
            preferred: self.preference.over,
            ..NetworkState::default()
        };
        self.add_resolver(&mut state);
        // Until the agent reports missing devices, a driver may still be loading.
        if self.missing_devices_reported {
            self.add_absent_nics(&mut state);
        }
        state
    }

    /// Adds to the state the absent NICs of the plan, and the bonds, bridges, teams and
    /// VRFs without a port. Does nothing on a machine without a NIC, because `no_nic` has
    /// the reason then.
    fn add_absent_nics(&self, state: &mut NetworkState) {
        let present = self.present_nics();
        if present.is_empty() {
            return;
        }
        state.faults.extend(self.plan().absent_nics(&present));
        for nic in state.nics.iter_mut().filter(|nic| !nic.carrier) {
            let lacking = self.plan().without_ports(&nic.name, &present);
            nic.without_ports = lacking.map(str::to_owned);
        }
    }

    /// The NICs of the machine, by all their names and hardware addresses.
    pub(super) fn present_nics(&self) -> Vec<PresentNic> {
        let nics = self.nics.values().map(|nic| &nic.link);
        nics.filter(|link| link.kind == LinkKind::Nic)
            .map(|link| PresentNic {
                names: link.names().into_iter().map(str::to_owned).collect(),
                macs: link.macs(),
            })
            .collect()
    }

    /// Sets the machine's host name. The first source that knows a name calls this.
    pub(super) fn set_host_name(&mut self, name: &str) {
        self.host_name_set = true;
        if !self.setup.set_host_name {
            return;
        }
        match nix::unistd::sethostname(name) {
            Ok(()) => tracing::info!("host name is {name}"),
            Err(error) => tracing::warn!("cannot set the host name {name}: {error}"),
        }
    }
}
