//! Names of NICs in a description that differ from the names on the machine.
//!
//! OpenShift's agent-based installer lets an operator write `eth0` in the network
//! of every host and list its hardware address separately. Its script on the host
//! then replaces each `eth0` and `eth0.100` in the profiles by the real name
//! (assisted-service, pre-network-manager-config). Here the plan identifies the NIC
//! by its address. VLANs and bond options get the real name once the NIC has
//! appeared.

use std::collections::BTreeMap;

use landfall_boot_params::MacAddr;

use crate::bond_option::{BondValue, bond_value};
use crate::from_nmstate::set_mac;
use crate::plan::{InterfaceKind, InterfaceMatch, NetworkPlan};

impl NetworkPlan {
    /// Makes the plan identify the NICs in `nics` by their hardware addresses instead of
    /// their names, also as parents of virtual interfaces and in bond options.
    pub(super) fn match_nics_by_mac(&mut self, nics: &BTreeMap<String, MacAddr>) {
        for interface in &mut self.interfaces {
            let name = interface.matches.name.clone();
            match &mut interface.kind {
                InterfaceKind::Ethernet => {
                    let known = name.as_ref().and_then(|name| nics.get(name));
                    if let Some(mac) = known
                        && interface.matches.mac.is_none()
                    {
                        interface.matches.name = None;
                        interface.matches.mac = Some(*mac);
                    }
                }
                InterfaceKind::Vlan {
                    id,
                    parent,
                    parent_mac,
                    ..
                } => {
                    let known = parent.as_ref().and_then(|parent| nics.get(parent));
                    if let (Some(mac), Some(label)) = (known, parent.as_ref()) {
                        *parent_mac = Some(*mac);
                        // A VLAN called `eth0.100` is renamed together with its NIC. A
                        // VLAN called `storage` keeps its name.
                        if name != Some(format!("{label}.{id}")) {
                            *parent = None;
                        }
                    }
                }
                InterfaceKind::Bond { options } => {
                    for (option, value) in options {
                        let known = nics.get(value.as_str());
                        if let Some(mac) = known
                            && bond_value(option) == Some(BondValue::Port)
                        {
                            *value = mac.to_string();
                        }
                    }
                }
                kind => {
                    if let Some((parent, parent_mac)) = kind.parent_mut()
                        && let Some(mac) = parent.as_ref().and_then(|parent| nics.get(parent))
                    {
                        *parent_mac = Some(*mac);
                        *parent = None;
                    }
                }
            }
        }
        for interface in &mut self.installed {
            let name = interface.matches.name.as_ref();
            let known = name.and_then(|name| nics.get(name));
            if let (InterfaceKind::Ethernet, Some(mac)) = (&interface.kind, known) {
                interface.matches = InterfaceMatch::with_mac(*mac);
            }
        }
        // The plan now finds these NICs by address, so the warning that an entry finds
        // its NIC only by name does not apply any more.
        for name in nics.keys() {
            let known = set_mac::warning(name);
            self.warnings.retain(|warning| !warning.ends_with(&known));
        }
        self.sort();
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::NetArgs;

    use super::*;
    use crate::plan::Interface;

    const ONE: MacAddr = MacAddr([0x52, 0x54, 0, 0, 0, 1]);
    const TWO: MacAddr = MacAddr([0x52, 0x54, 0, 0, 0, 2]);

    fn plan(line: &str) -> NetworkPlan {
        let mut plan = NetworkPlan::from_boot_args(&NetArgs::parse(line));
        let nics = [("eth0".to_owned(), ONE), ("eth1".to_owned(), TWO)];
        plan.match_nics_by_mac(&BTreeMap::from(nics));
        plan
    }

    fn kind<'a>(plan: &'a NetworkPlan, name: &str) -> &'a InterfaceKind {
        let is_it = |i: &&Interface| i.matches.name.as_deref() == Some(name);
        &plan.interfaces.iter().find(is_it).unwrap().kind
    }

    #[test]
    fn nics_are_known_by_address() {
        let plan = plan("ip=192.0.2.9:::24::eth0:none ip=eth2:dhcp");
        let matches: Vec<_> = plan
            .interfaces
            .iter()
            .map(|interface| interface.matches.to_string())
            .collect();
        assert_eq!(matches, ["the NIC with MAC 52:54:00:00:00:01", "eth2"]);
    }

    #[test]
    fn a_name_with_an_address_needs_no_identifier() {
        let text = "interfaces: [{name: port1, type: ethernet, mac-address: '52:54:00:00:00:01'}]";
        let mut plan = NetworkPlan::from_nmstate(text).unwrap();
        assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
        plan.match_nics_by_mac(&BTreeMap::from([("port1".to_owned(), ONE)]));
        assert_eq!(plan.warnings, [""; 0]);
    }

    #[test]
    fn vlans_go_with_the_name_that_they_were_made_of() {
        let mut plan = plan("vlan=eth0.7:eth0 vlan=storage.8:eth1 vlan=eth9.9:eth9");
        plan.name_vlans("enp2s0", &[ONE]);
        plan.name_vlans("enp3s0", &[TWO]);
        for (name, on) in [
            ("enp2s0.7", "enp2s0"),
            ("storage.8", "enp3s0"),
            ("eth9.9", "eth9"),
        ] {
            let InterfaceKind::Vlan {
                parent, parent_mac, ..
            } = kind(&plan, name)
            else {
                panic!("{name} is no VLAN")
            };
            assert_eq!(parent.as_deref(), Some(on));
            assert_eq!(*parent_mac, None);
        }
    }

    #[test]
    fn names_that_change_places_do_not_get_mixed_up() {
        let mut plan = plan("bond=bond0:eth0,eth1:mode=active-backup,primary=eth0");
        let primary = |plan: &NetworkPlan| match kind(plan, "bond0") {
            InterfaceKind::Bond { options } => options["primary"].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(primary(&plan), ONE.to_string());
        // On this machine the two names are swapped.
        plan.name_vlans("eth1", &[ONE]);
        plan.name_vlans("eth0", &[TWO]);
        assert_eq!(primary(&plan), "eth1");
        let ports = plan
            .interfaces
            .iter()
            .filter(|i| i.controller.as_deref() == Some("bond0"));
        let macs: Vec<_> = ports.filter_map(|port| port.matches.mac).collect();
        assert_eq!(macs, [ONE, TWO]);
    }
}
