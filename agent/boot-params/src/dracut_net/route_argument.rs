//! Parses `rd.route=`.

use std::net::IpAddr;

use super::device::DeviceSpec;
use super::words::Words;
use crate::cmdline::Token;
use crate::ip_prefix::IpPrefix;

/// One `rd.route=NET[/PREFIX]:GATEWAY[:IFACE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteArgument {
    /// The route; `None` if it cannot be parsed. As in NetworkManager, the interface
    /// is configured anyway.
    pub route: Option<RouteFields>,
    /// The interface of the route; `None`: the first interface that can use it.
    pub device: Option<DeviceSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteFields {
    /// The network as written: bits after the prefix may be set. If no prefix length is
    /// written, the route is for one host.
    pub destination: IpPrefix,
    /// The next hop; `None`: the network is on the link.
    pub gateway: Option<IpAddr>,
}

impl RouteArgument {
    /// Parses the argument; `None` if its device cannot exist.
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<RouteArgument> {
        let mut words = Words::new(token.value_or_empty());
        let network = words.next(':');
        let gateway = words.next(':');
        let device = words.next(':');
        let device = match device {
            "" => None,
            text => Some(DeviceSpec::parse_reporting(text, token, warnings)?),
        };
        let route = RouteFields::parse(network, gateway);
        if let Err(expected) = &route {
            warnings.push(token.ignored(expected));
        }
        Some(RouteArgument {
            route: route.ok(),
            device,
        })
    }
}

impl RouteFields {
    fn parse(network: &str, gateway: &str) -> Result<RouteFields, String> {
        let via = match gateway {
            "" => None,
            text => {
                let expected =
                    |_| format!("expected a gateway of the network's family, found {text:?}");
                Some(text.parse::<IpAddr>().map_err(expected)?)
            }
        };
        // If no network is written, NetworkManager uses the all-zero address with its
        // full prefix length.
        let nothing = match via {
            Some(IpAddr::V4(_)) => "0.0.0.0",
            Some(IpAddr::V6(_)) => "::",
            None => "",
        };
        let network = if network.is_empty() { nothing } else { network };
        let destination: IpPrefix = network.parse().map_err(|_| {
            format!(
                "expected NETWORK[/PREFIX]:GATEWAY[:INTERFACE] with IPv6 in brackets, \
                 found network {network:?}"
            )
        })?;
        if via.is_some_and(|via| via.is_ipv4() != destination.address.is_ipv4()) {
            return Err(format!(
                "expected a gateway of the network's family, found {gateway:?}"
            ));
        }
        Ok(RouteFields {
            destination,
            gateway: via.filter(|via| !via.is_unspecified()),
        })
    }
}
