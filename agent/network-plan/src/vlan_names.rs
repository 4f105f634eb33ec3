//! Names VLANs after the NICs that carry them.
//!
//! Some sources identify NICs only by hardware address (network_data). The name
//! `PARENT.ID` of a VLAN is then known only once its NIC has appeared.

use landfall_boot_params::MacAddr;
use landfall_boot_params::dracut_net::is_interface_name;

use crate::bond_option::{BondValue, bond_value};
use crate::plan::{Interface, InterfaceKind, NetworkPlan};

impl NetworkPlan {
    /// Stores in the plan that the NIC with these addresses is called `nic`. This does
    /// not sort the interfaces again, so call [`NetworkPlan::sort`] afterwards.
    pub fn name_vlans(&mut self, nic: &str, macs: &[MacAddr]) {
        self.name_bond_ports(nic, macs);
        for index in 0..self.interfaces.len() {
            let Some((parent, parent_mac)) = self.interfaces[index].kind.parent_mut() else {
                continue;
            };
            if parent_mac.is_none_or(|mac| !macs.contains(&mac)) {
                continue;
            }
            *parent_mac = None;
            // A name from the source is kept. A name made from a label changes, and a
            // VLAN without a name gets one.
            let had_label = parent.replace(nic.to_owned()).is_some();
            if had_label || self.interfaces[index].matches.name.is_none() {
                self.rename_vlan(index);
            }
        }
    }

    /// Some options of a bond name a port. If the name of the NIC was not known, such
    /// an option contains its hardware address. This function replaces the address with
    /// the name.
    fn name_bond_ports(&mut self, nic: &str, macs: &[MacAddr]) {
        for interface in &mut self.interfaces {
            if let InterfaceKind::Bond { options } = &mut interface.kind {
                for (option, value) in options {
                    let is_it = value.parse().is_ok_and(|mac| macs.contains(&mac));
                    if is_it && bond_value(option) == Some(BondValue::Port) {
                        nic.clone_into(value);
                    }
                }
            }
        }
    }

    /// Names a VLAN after its parent, and then the VLANs on top of it. Keeps the old name
    /// if the new name would be too long or is already in use.
    fn rename_vlan(&mut self, index: usize) {
        let interface = &self.interfaces[index];
        let InterfaceKind::Vlan {
            id,
            parent: Some(parent),
            ..
        } = &interface.kind
        else {
            return;
        };
        let name = format!("{parent}.{id}");
        let is_taken = |other: &Interface| other.matches.name.as_ref() == Some(&name);
        if !is_interface_name(&name) || self.interfaces.iter().any(is_taken) {
            return;
        }
        let old = self.interfaces[index].matches.name.replace(name.clone());
        let mut on_it = Vec::new();
        for (index, interface) in self.interfaces.iter_mut().enumerate() {
            if let InterfaceKind::Vlan {
                parent,
                parent_mac: None,
                ..
            } = &mut interface.kind
                && parent.is_some()
                && *parent == old
            {
                *parent = Some(name.clone());
                on_it.push(index);
            }
        }
        // The recursion ends: it goes from a VLAN on a NIC to the VLANs on top of it, and
        // every VLAN has only one parent.
        for index in on_it {
            self.rename_vlan(index);
        }
    }

    /// The NICs of the plan that are not among `nics` by name or hardware address, one
    /// line each.
    pub fn missing_nics(&self, nics: &[(String, Vec<MacAddr>)]) -> Vec<String> {
        let found = listed(nics);
        let is_missing = |interface: &&Interface| {
            interface.kind == InterfaceKind::Ethernet
                && !interface.matches.is_any()
                && !nics
                    .iter()
                    .any(|(name, macs)| interface.matches.fits(name, macs))
        };
        let missing = self.interfaces.iter().filter(is_missing);
        missing
            .map(|interface| format!("no device for {} (found: {found})", interface.matches))
            .collect()
    }
}

/// A list such as `eth0 52:54:00:00:00:01, eth1 52:54:00:00:00:02`.
pub(crate) fn listed(nics: &[(String, Vec<MacAddr>)]) -> String {
    let nics: Vec<_> = nics.iter().map(|(name, macs)| shown(name, macs)).collect();
    match nics.join(", ") {
        text if text.is_empty() => "none".to_owned(),
        text => text,
    }
}

fn shown(name: &str, macs: &[MacAddr]) -> String {
    let macs: Vec<_> = macs.iter().map(MacAddr::to_string).collect();
    format!("{name} {}", macs.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MacAddr = MacAddr([0x52, 0x54, 0, 0, 0, 1]);

    fn names(plan: &NetworkPlan) -> Vec<&str> {
        let names = plan.interfaces.iter();
        names.filter_map(|i| i.matches.name.as_deref()).collect()
    }

    #[test]
    fn vlans_are_called_after_the_nic_when_it_is_known() {
        let text = r#"{"links": [
            {"id": "port-1", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"},
            {"id": "v", "type": "vlan", "vlan_link": "port-1", "vlan_id": 7},
            {"id": "w", "type": "vlan", "vlan_link": "v", "vlan_id": 8}]}"#;
        let mut plan = NetworkPlan::from_network_data(text).unwrap();
        assert_eq!(names(&plan), ["port-1.7", "port-1.7.8"]);
        plan.name_vlans("eth9", &[MacAddr([9; 6])]);
        assert_eq!(names(&plan), ["port-1.7", "port-1.7.8"]);
        plan.name_vlans("enp2s0", &[ONE]);
        assert_eq!(names(&plan), ["enp2s0.7", "enp2s0.7.8"]);
        // The VLAN keeps the name of the first NIC that matched.
        plan.name_vlans("eth1", &[ONE]);
        assert_eq!(names(&plan), ["enp2s0.7", "enp2s0.7.8"]);

        let mut plan = NetworkPlan::from_network_data(text).unwrap();
        plan.name_vlans("enp123s10f1np", &[ONE]);
        assert_eq!(names(&plan), ["enp123s10f1np.7", "port-1.7.8"]);
    }

    #[test]
    fn a_missing_nic_is_reported_with_the_existing_ones() {
        let text = r#"{"links": [
            {"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"},
            {"id": "b", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:02"}]}"#;
        let plan = NetworkPlan::from_network_data(text).unwrap();
        let nics = [("eth0".to_owned(), vec![ONE])];
        assert_eq!(
            plan.missing_nics(&nics),
            ["no device for the NIC with MAC 52:54:00:00:00:02 (found: eth0 52:54:00:00:00:01)"]
        );
    }
}
