//! Creates VRFs, veth pairs and interfaces that share a NIC. Also creates objects that
//! belong to no device: rules, and routes that reject or drop packets.

use std::path::Path;

use landfall_network_plan::InterfaceKind;

use super::configurator::Configurator;
use super::link_setup::{note, route_change};
use crate::device_route::planned_routes;
use crate::stacked_link::{self, StackedLink};
use crate::{policy_rule, vrf_sysctl};

const NO_METRIC: u32 = 0;

impl Configurator {
    /// Creates the devices, rules and routes of this module that need no existing device.
    /// Logs the requests that the kernel refuses.
    pub(super) async fn make_links_without_parent(&self) {
        for link in stacked_link::without_parent(self.plan()) {
            self.make_stacked(link).await;
        }
        let mut errors = Vec::new();
        let mut rules = self.plan().rules.clone();
        for interface in self.plan().interfaces.iter().filter(|i| !i.down) {
            match &interface.kind {
                InterfaceKind::Vrf { table } => {
                    rules.extend(policy_rule::rules_of_vrf(*table));
                    let accept = vrf_sysctl::accept_in_every_vrf(Path::new("/proc/sys/net/ipv4"));
                    note(&mut errors, "accept connections in every VRF", accept);
                }
                InterfaceKind::Loopback => {
                    let families = [&interface.ipv4, &interface.ipv6].into_iter().flatten();
                    for route in families.flat_map(|ip| planned_routes(ip, NO_METRIC)) {
                        // NMState puts only routes that drop or reject packets here,
                        // which need no device (index 0).
                        let result = self.changes.add_route(0, &route).await;
                        note(&mut errors, &route_change("add", &route), result);
                    }
                }
                _ => {}
            }
        }
        for rule in &rules {
            let result = self.changes.add_rule(rule).await;
            note(&mut errors, &format!("add the rule {rule}"), result);
        }
        for error in errors {
            tracing::warn!("network: {error}");
        }
    }

    /// Creates the interfaces on top of a device.
    pub(super) async fn make_stacked_on(&self, parent: u32) {
        let Some(nic) = self.nics.get(&parent) else {
            return;
        };
        let names = nic.link.names();
        for link in stacked_link::on_parent(self.plan(), &names, parent) {
            self.make_stacked(link).await;
        }
    }

    async fn make_stacked(&self, link: StackedLink<'_>) {
        if let Err(error) = self.changes.make(link.message).await {
            let (name, module) = (link.name, link.module);
            tracing::warn!(
                "{name}: cannot create it: {error} -- check that the ramdisk contains the module {module}"
            );
        }
    }
}
