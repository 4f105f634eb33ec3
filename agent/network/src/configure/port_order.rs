//! The order in which ports join their controller.
//!
//! The kernel gives a bond the MAC of the port that joins first, and the order in
//! which drivers load is random. DHCP reservations and the ports that Ironic has
//! enrolled need the same MAC in every boot. As in dracut and NetworkManager, this
//! is the MAC of the first port in the plan's list.

use landfall_network_plan::InterfaceKind;

use super::configurator::Configurator;

impl Configurator {
    /// Adds the ports that exist to the controller, in the order of the list. Does
    /// nothing while the ports of a bond still wait for the first port.
    pub(super) async fn join_ports(&mut self, controller: u32) {
        if self.awaits_first_port(controller) {
            return;
        }
        self.give_mac_of_first_port(controller).await;
        for port in self.ports_present(controller) {
            self.join(port, controller).await;
        }
    }

    /// Adds the ports of bonds whose first port has not appeared in time.
    pub(super) async fn join_waiting_ports(&mut self) {
        let controllers: Vec<u32> = self.nics.keys().copied().collect();
        for controller in controllers {
            let is_late = self.needs_mac(controller)
                && self.first_port(controller).is_none()
                && !self.ports_present(controller).is_empty();
            if !is_late {
                continue;
            }
            if let Some(bond) = self.nics.get(&controller) {
                let name = &bond.link.name;
                tracing::warn!("{name}: the first port is missing; using the MAC of another port");
            }
            self.join_ports(controller).await;
        }
    }

    /// Whether the ports of this bond still wait for the first port in the plan's list.
    pub(super) fn awaits_first_port(&self, controller: u32) -> bool {
        !self.missing_devices_reported
            && self.needs_mac(controller)
            && self.first_port(controller).is_none()
    }

    /// Whether this is a bond or team that still has the random MAC of the kernel: it has
    /// no port yet, and the plan sets no MAC.
    fn needs_mac(&self, controller: u32) -> bool {
        let Some(bond) = self.nics.get(&controller) else {
            return false;
        };
        let has_port = { self.nics.values() }.any(|nic| nic.link.controller == Some(controller));
        let interface = bond.interface_of(self.plan());
        let is_bond = |kind: &InterfaceKind| {
            matches!(
                kind,
                InterfaceKind::Bond { .. } | InterfaceKind::Team { .. }
            )
        };
        !has_port && interface.is_some_and(|it| it.set_mac.is_none() && is_bond(&it.kind))
    }

    async fn give_mac_of_first_port(&mut self, controller: u32) {
        if !self.needs_mac(controller) {
            return;
        }
        let first = self.first_port(controller);
        let Some(first) = first.and_then(|index| self.nics.get(&index)) else {
            return;
        };
        let mac = first.link.permanent_mac.unwrap_or(first.link.mac);
        let result = self.changes.set_mac(controller, mac).await;
        if let Err(error) = result
            && let Some(bond) = self.nics.get_mut(&controller)
        {
            bond.complain(format!("{}: cannot set MAC {mac}: {error}", bond.title()));
        }
    }

    /// The device of the first port in the list, if it exists.
    fn first_port(&self, controller: u32) -> Option<u32> {
        let first = *self.planned_ports(controller).first()?;
        self.nic_of(first)
    }

    /// The devices of the ports that exist, in the order of the list.
    fn ports_present(&self, controller: u32) -> Vec<u32> {
        let ports = self.planned_ports(controller).into_iter();
        ports.filter_map(|port| self.nic_of(port)).collect()
    }

    /// The ports in the plan, without those that the plan keeps off.
    fn planned_ports(&self, controller: u32) -> Vec<usize> {
        let Some(nic) = self.nics.get(&controller) else {
            return Vec::new();
        };
        let mut ports = self.plan().ports_of(&nic.link.name);
        ports.retain(|port| !self.plan().interfaces[*port].down);
        ports
    }

    /// The device that was matched to this interface of the plan.
    fn nic_of(&self, interface: usize) -> Option<u32> {
        let mut nics = self.nics.iter();
        let matched = nics.find(|(_, nic)| nic.interface == Some(interface));
        matched.map(|(index, _)| *index)
    }
}
