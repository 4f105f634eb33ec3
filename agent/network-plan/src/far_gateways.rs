//! Finds next hops outside of every network of their interface: usually a typo in
//! an address, a prefix length or a gateway.

use std::collections::BTreeSet;
use std::net::IpAddr;

use landfall_boot_params::IpPrefix;

use crate::plan::{Interface, IpPlan, NetworkPlan};

impl NetworkPlan {
    /// Adds a warning for each gateway, and for each next hop of a route, that is neither
    /// in the network of a static address nor reachable by a route on the link. IPv6
    /// link-local next hops are always reachable.
    ///
    /// Skips families with DHCP or router advertisements, which may add the missing
    /// network, and families without a static address.
    pub(crate) fn warn_of_far_gateways(&mut self) {
        let mut warnings = self.far_gateways();
        self.warnings.append(&mut warnings);
    }

    /// The warnings about gateways and next hops outside of every network of their
    /// interface.
    pub fn far_gateways(&self) -> Vec<String> {
        self.interfaces.iter().flat_map(of_interface).collect()
    }
}

fn of_interface(interface: &Interface) -> Vec<String> {
    let mut warnings = Vec::new();
    for ip in interface.families() {
        if ip.method.is_automatic() || ip.addresses.is_empty() {
            continue;
        }
        let of_routes = ip.routes.iter().filter_map(|route| route.via);
        let mut far: Vec<IpAddr> = ip.gateway.into_iter().chain(of_routes).collect();
        far.retain(|hop| !is_on_link(*hop, ip));
        let mut known = BTreeSet::new();
        far.retain(|hop| known.insert(*hop));
        let addresses: Vec<_> = ip.addresses.iter().map(IpPrefix::to_string).collect();
        for hop in far {
            warnings.push(format!(
                "{}: gateway {hop} is outside of the network of {}; it is used as if it were \
                 on the link -- check address, prefix length and gateway",
                interface.matches,
                addresses.join(" and ")
            ));
        }
    }
    warnings
}

fn is_on_link(hop: IpAddr, ip: &IpPlan) -> bool {
    let link_local = match hop {
        IpAddr::V4(_) => false,
        IpAddr::V6(hop) => hop.is_unicast_link_local(),
    };
    let on_link = ip.routes.iter().filter(|route| route.via.is_none());
    let networks = on_link.map(|route| route.destination);
    let mut networks = networks.chain(ip.addresses.iter().copied());
    link_local || networks.any(|network| holds(network, hop))
}

fn holds(network: IpPrefix, address: IpAddr) -> bool {
    let length = network.length;
    IpPrefix { address, length }.network() == network.network()
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::NetArgs;

    use super::*;

    fn warnings_of_arguments(line: &str) -> Vec<String> {
        let args = NetArgs::parse(line);
        NetworkPlan::for_boot(&args).warnings
    }

    #[test]
    fn a_gateway_outside_of_the_subnet_is_a_warning() {
        assert_eq!(
            warnings_of_arguments("ip=192.0.2.10::192.0.3.1:24::eth0:none"),
            [
                "eth0: gateway 192.0.3.1 is outside of the network of 192.0.2.10/24; it is used \
                 as if it were on the link -- check address, prefix length and gateway"
            ]
        );
        for (line, warnings) in [
            ("ip=192.0.2.10::192.0.2.1:24::eth0:none", 0),
            ("ip=192.0.2.10::192.0.3.1:23::eth0:none", 0),
            ("ip=192.0.2.10::192.0.2.1:32::eth0:none", 1),
            ("ip=[2001:db8::10]::[2001:db8:1::1]:64::eth0:none", 1),
            ("ip=[2001:db8::10]::[fe80::1]:64::eth0:none", 0),
            // DHCP may provide the network that contains the gateway.
            ("ip=192.0.2.10::192.0.3.1:24::eth0:dhcp", 0),
            // A route on the link leads to the gateway.
            (
                "ip=192.0.2.10::192.0.3.1:32::eth0:none rd.route=192.0.3.1::eth0",
                0,
            ),
            // The second address is in the gateway's network.
            (
                "ip=192.0.2.10::192.0.3.1:24::eth0:none ip=192.0.3.10:::24::eth0:none",
                0,
            ),
            (
                "ip=192.0.2.10:::24::eth0:none rd.route=10.0.0.0/8:192.0.3.1:eth0",
                1,
            ),
            // One warning for each gateway, in whatever order the routes name them.
            (
                "ip=192.0.2.10:::24::eth0:none rd.route=10.0.0.0/8:192.0.3.1:eth0 \
                 rd.route=10.1.0.0/16:192.0.3.2:eth0 rd.route=10.2.0.0/16:192.0.3.1:eth0",
                2,
            ),
        ] {
            assert_eq!(warnings_of_arguments(line).len(), warnings, "{line}");
        }
    }

    #[test]
    fn documents_are_checked_too() {
        let data = r#"{"links": [{"id": "a", "type": "phy",
            "ethernet_mac_address": "52:54:00:00:00:01"}],
            "networks": [{"id": "n", "type": "ipv4", "link": "a", "ip_address": "192.0.2.10",
            "netmask": "255.255.255.0",
            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.3.1"}]}]}"#;
        let state = "interfaces: [{name: eth0, type: ethernet, ipv4: {enabled: true, \
            address: [{ip: 192.0.2.10, prefix-length: 24}]}}]\n\
            routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.3.1, \
            next-hop-interface: eth0}]}\n";
        for plan in [
            NetworkPlan::from_network_data(data).unwrap(),
            NetworkPlan::from_nmstate(state).unwrap(),
        ] {
            assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
            assert!(plan.warnings[0].contains("gateway 192.0.3.1 is outside"));
        }
    }
}
