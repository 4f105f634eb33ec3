//! Creates the VLANs, bonds and bridges of the plan and connects them with their
//! ports and parents, in whatever order the devices appear.

use std::collections::BTreeMap;

use landfall_network_plan::{
    AnnouncedVlans, ClonedMac, InterfaceKind, MacAddr, NetworkPlan, vlans_by_lldp,
};

use super::SwitchVlans;
use super::configurator::Configurator;
use super::link_setup::note;
use super::make_link::make_link;
use crate::nic::Nic;
use crate::virtual_link::{self, VirtualLink, VlanTag};

impl Configurator {
    /// Creates the bonds and bridges that the plan does not keep down, and a bond for
    /// each such team. Their ports join as they appear.
    pub(super) async fn make_controllers(&self) {
        let no_options = BTreeMap::new();
        for interface in self.plan().interfaces.iter().filter(|i| !i.down) {
            let Some(name) = &interface.matches.name else {
                continue;
            };
            let mac = interface.set_mac.and_then(ClonedMac::address);
            let (module, link) = match &interface.kind {
                InterfaceKind::Bond { options } => {
                    ("bonding", VirtualLink::bond(name, options, mac))
                }
                InterfaceKind::Bridge { stp } => {
                    let options = interface.profile.settings.get("bridge");
                    let options = options.unwrap_or(&no_options);
                    let stp = stp.unwrap_or(false);
                    ("bridge", VirtualLink::bridge(name, stp, options, mac))
                }
                InterfaceKind::Team { bond_mode } => {
                    tracing::info!("{name}: created as a bond instead of a team");
                    let mode = ("mode".to_owned(), (*bond_mode).to_owned());
                    let options = BTreeMap::from([mode]);
                    ("bonding", VirtualLink::bond(name, &options, mac))
                }
                _ => continue,
            };
            self.make(&link, module).await;
        }
    }

    async fn make(&self, link: &VirtualLink, module: &str) {
        let name = &link.name;
        let errors = make_link(&self.changes, link).await;
        if errors.is_empty() {
            tracing::info!("{name}: the kernel has {}", link.options_text());
        }
        for error in errors {
            let module = match error.starts_with("cannot create it") {
                true => format!(" -- check that the ramdisk contains the module {module}"),
                false => String::new(),
            };
            tracing::warn!("{name}: {error}{module}");
        }
    }

    /// Connects a device that has just been set up with its controller or its
    /// ports, and creates the VLANs and other interfaces on top of it.
    pub(super) async fn connect(&mut self, index: u32) {
        let controller = self
            .controller_name(index)
            .and_then(|name| self.index_of(name));
        if let Some(controller) = controller {
            self.join_ports(controller).await;
        }
        self.join_ports(index).await;
        self.make_vlans(index).await;
        self.make_stacked_on(index).await;
    }

    fn controller_name(&self, index: u32) -> Option<&str> {
        let interface = self.nics.get(&index)?.interface?;
        self.plan().interfaces[interface].controller.as_deref()
    }

    pub(super) fn index_of(&self, name: &str) -> Option<u32> {
        let mut nics = self.nics.iter();
        let named = nics.find(|(_, nic)| nic.link.name == name);
        named.map(|(index, _)| *index)
    }

    /// Makes a NIC a port of the controller, unless it is one already.
    pub(super) async fn join(&mut self, port: u32, controller: u32) {
        let (Some(nic), Some(bond)) = (self.nics.get(&port), self.nics.get(&controller)) else {
            return;
        };
        if nic.link.controller == Some(controller) {
            return;
        }
        let (name, title) = (nic.link.name.clone(), bond.link.name.clone());
        let interface = bond.interface.map(|index| &self.plan().interfaces[index]);
        let mut errors = Vec::new();
        let result = self.changes.down(port).await;
        note(&mut errors, "switch it off", result);
        let result = self
            .changes
            .change(virtual_link::port(port, controller))
            .await;
        note(&mut errors, &format!("make it a port of {title}"), result);
        let result = self.changes.up(port).await;
        note(&mut errors, "switch it on", result);
        if let Some(InterfaceKind::Bond { options }) = interface.map(|i| &i.kind) {
            let names = nic.link.names();
            let for_port = options
                .iter()
                .filter(|(_, value)| names.contains(&value.as_str()));
            for (option, _) in for_port {
                if let Some(message) = virtual_link::bond_port_option(option, controller, port) {
                    let result = self.changes.change(message).await;
                    note(&mut errors, &format!("make it {option} of {title}"), result);
                }
            }
        }
        let Some(nic) = self.nics.get_mut(&port) else {
            return;
        };
        if errors.is_empty() {
            tracing::info!("{name} is a port of {title}");
            nic.trouble = None;
        }
        for error in errors {
            nic.complain_once(format!("{name}: {error}; trying again"));
        }
    }

    /// Creates the VLANs that switches announce and the operator wants.
    pub(super) async fn on_switch_vlans(&mut self, announced: SwitchVlans) {
        let named = |nic: &Nic| {
            let (name, also) = (nic.link.name.clone(), nic.link.names());
            let macs = nic.link.macs();
            AnnouncedVlans {
                tags: announced.tags.get(&name).cloned().unwrap_or_default(),
                nic: name,
                other_names: { also.into_iter().map(str::to_owned) }
                    .chain(macs.iter().map(MacAddr::to_string))
                    .collect(),
            }
        };
        let nics: Vec<_> = self.nics.values().map(named).collect();
        let words = vlans_by_lldp(&announced.wanted, &nics);
        self.setup.choice.plan.add_found_vlans(&words);
        let indices: Vec<_> = self.nics.keys().copied().collect();
        for index in indices {
            self.make_vlans(index).await;
        }
        // The receiver may have stopped waiting.
        let _ = announced.made.send(());
    }

    async fn make_vlans(&self, parent: u32) {
        let Some(nic) = self.nics.get(&parent) else {
            return;
        };
        for (name, tag, mac) in vlans_on(self.plan(), &nic.link.names()) {
            let link = VirtualLink::vlan(name, parent, tag, mac);
            self.make(&link, "8021q").await;
        }
    }
}

/// Name, tag and hardware address of each VLAN whose parent has one of these names.
fn vlans_on<'a>(
    plan: &'a NetworkPlan,
    names: &[&str],
) -> impl Iterator<Item = (&'a str, VlanTag, Option<MacAddr>)> {
    let wanted = plan.interfaces.iter().filter(|interface| !interface.down);
    wanted.filter_map(|interface| {
        let InterfaceKind::Vlan {
            id,
            parent: Some(parent),
            parent_mac: None,
            service,
        } = &interface.kind
        else {
            return None;
        };
        let tag = VlanTag {
            id: *id,
            service: *service,
        };
        let name = interface.matches.name.as_deref()?;
        names.contains(&parent.as_str()).then_some((
            name,
            tag,
            interface.set_mac.and_then(ClonedMac::address),
        ))
    })
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::{CommandLine, NetArgs};

    use super::*;

    #[test]
    fn a_parent_may_be_called_by_any_of_its_names() {
        let line = "vlan=eth0.5:eth0 vlan=storage7:enp2s0 vlan=x8:eth1 vlan=y9:52-54-00-00-00-01";
        let args = NetArgs::from_command_line(&CommandLine::parse(line));
        let mut plan = NetworkPlan::for_boot(&args);
        let found = |plan: &NetworkPlan| -> Vec<_> {
            let vlans = vlans_on(plan, &["enp2s0", "eth0"]);
            vlans
                .map(|(name, tag, _)| (name.to_owned(), tag.id))
                .collect()
        };
        let mut expected = vec![("eth0.5".to_owned(), 5), ("storage7".to_owned(), 7)];
        assert_eq!(found(&plan), expected);
        plan.name_vlans("enp2s0", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
        expected.push(("y9".to_owned(), 9));
        assert_eq!(found(&plan), expected);
    }
}
