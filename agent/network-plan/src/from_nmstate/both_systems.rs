//! Turns the entries of the document into the interfaces of the ramdisk and of the
//! installed system.

use super::described::{Described, Interfaces, State};
use super::fields::Findings;
use super::ovs::OvsBridge;
use super::ovs_profiles;
use crate::plan::{Interface, InterfaceKind};

impl Interfaces {
    /// The interfaces of the plan, and those that only the installed system has.
    pub(super) fn into_interfaces(
        mut self,
        bridges: Vec<OvsBridge>,
        findings: &Findings,
    ) -> (Vec<Interface>, Vec<Interface>) {
        let mut installed = ovs_profiles::split(bridges, &mut self, findings);
        let vrf = |d: &Described| match d.interface.kind {
            InterfaceKind::Vrf { table } => Some((d.name.clone(), table)),
            _ => None,
        };
        let vrfs: Vec<_> = self.list.iter().filter_map(vrf).collect();
        let mut ids: Vec<String> = installed
            .iter()
            .filter_map(|i| i.profile.id.clone())
            .collect();
        let mut interfaces = Vec::new();
        for mut described in self.list {
            if described.state == State::Absent {
                continue;
            }
            if described.is_ovs_interface() {
                let suffix = format!("{}-if", described.name);
                described.interface.profile.id.get_or_insert(suffix);
                described.interface.profile.label = Some(described.name.clone());
            }
            let profile = &described.interface.profile;
            // Report equal names: two profiles with the same name would overwrite each
            // other's file.
            let id = profile.id.clone().unwrap_or(described.name.clone());
            if !profile.is_ramdisk_only && ids.contains(&id) {
                findings.fault(
                    &described.path,
                    format!("expected a unique profile name, found {id:?} twice"),
                );
            }
            ids.push(id);
            if described.is_ovs_interface() || described.ovs_port.is_some() {
                installed.push(described.installed_port());
            }
            if !described.is_ovs_interface() {
                interfaces.push(described.into_interface(&vrfs));
            }
        }
        (interfaces, installed)
    }
}

impl Described {
    /// The installed system's profile of an interface that belongs to an Open vSwitch
    /// bridge.
    fn installed_port(&self) -> Interface {
        let mut interface = self.interface.clone();
        if let Some(port) = &self.ovs_port {
            interface.controller = Some(port.clone());
            interface.profile.port_type = Some("ovs-port");
            interface
                .profile
                .settings
                .extend(self.ovs_db.iter().cloned());
        }
        if self.is_ovs_interface() {
            interface.ipv4 = Some(self.ipv4.plan.clone());
            interface.ipv6 = Some(self.ipv6.plan.clone());
        }
        interface
    }

    /// The interface of the ramdisk. The installed system gets the same profile, unless
    /// the interface is a port of Open vSwitch. A port loses its addresses, unless its
    /// controller is a VRF.
    fn into_interface(self, vrfs: &[(String, u32)]) -> Interface {
        let mut interface = self.interface;
        let (mut ipv4, mut ipv6) = (self.ipv4, self.ipv6);
        if self.ovs_port.is_some() {
            interface.profile.is_ramdisk_only = true;
            interface.controller = self.in_ramdisk.controller;
        }
        if let Some(ip) = self.in_ramdisk.ip {
            (ipv4, ipv6) = ip;
            interface.set_mac = self.in_ramdisk.set_mac.or(interface.set_mac);
        }
        let controller = interface.controller.as_ref();
        let vrf = vrfs.iter().find(|(name, _)| Some(name) == controller);
        for family in [&mut ipv4, &mut ipv6] {
            let table = &mut family.plan.automatic.table;
            *table = table.or(vrf.map(|(_, table)| *table));
        }
        if controller.is_none() || vrf.is_some() {
            interface.ipv4 = Some(ipv4.plan);
            interface.ipv6 = Some(ipv6.plan);
        }
        interface
    }
}
