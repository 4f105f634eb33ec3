//! Limits the gateway of a storage network, so that it does not override other gateways.
//!
//! A default route through the storage network would take precedence over the gateway of
//! a lease, or over the gateway of a NIC with a higher index. Ironic may be reachable
//! only through one of these other gateways. But without its own gateway, the storage may
//! be unreachable. So the default route through the storage gateway is in a routing table
//! of its own. A policy rule selects this table for packets from the static addresses,
//! which the connections to the storage use as their source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use landfall_boot_params::IpPrefix;

use crate::plan::{IpPlan, Route, RouteKind};
use crate::route_rule::{RouteRule, RuleAction};

/// The number of the first routing table of a storage gateway. No distribution uses this
/// number, or those after it, for a table of its own.
const TABLES: u32 = 4420;
/// The priority of the first policy rule. It is between the priorities of the kernel's
/// rules for the tables `local` (0) and `main` (32766).
const PRIORITY: u32 = 30_000;
const MAIN_TABLE: u32 = 254;
/// The metric of the default route through a storage gateway in the main table. It is
/// larger than the metrics of all other default routes, so this route has an effect only
/// if there is no other gateway.
const LAST_METRIC: u32 = 20_000;

/// Replaces the gateway by two default routes: one in a table of its own for packets from
/// the static addresses, and one in the main table, which other gateways override. Adds
/// the policy rules that select the tables.
pub(super) fn limit_to_static_addresses(ip: &mut IpPlan, rules: &mut Vec<RouteRule>) {
    let Some(gateway) = ip.gateway.take_if(|_| !ip.addresses.is_empty()) else {
        return;
    };
    let number = u32::try_from(rules.len()).unwrap_or(0);
    let any = match gateway {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let route = |table, metric| Route {
        destination: IpPrefix {
            address: any,
            length: 0,
        },
        via: Some(gateway),
        kind: RouteKind::Unicast,
        metric,
        table,
        options: Vec::new(),
    };
    let table = TABLES + number;
    ip.routes.push(route(Some(table), None));
    // The kernel needs distinct metrics for routes to the same destination in one table.
    ip.routes.push(route(None, Some(LAST_METRIC + number)));
    for address in &ip.addresses {
        let rule = |priority, table, suppress_prefix_length| RouteRule {
            is_ipv4: gateway.is_ipv4(),
            priority,
            from: Some(IpPrefix {
                address: address.address,
                length: if gateway.is_ipv4() { 32 } else { 128 },
            }),
            to: None,
            incoming: None,
            mark: None,
            action: RuleAction::Lookup,
            table,
            suppress_prefix_length,
        };
        // First the main table, without its default routes: packets to all other
        // destinations take the same routes as packets from other addresses.
        rules.push(rule(PRIORITY, MAIN_TABLE, Some(0)));
        rules.push(rule(PRIORITY + 1, table, None));
    }
}

#[cfg(test)]
mod tests {
    use super::super::profiles::automatic;
    use super::*;
    use crate::plan::Method;

    fn with_gateway(method: Method, address: &str, gateway: &str) -> IpPlan {
        let mut ip = automatic();
        ip.method = method;
        ip.addresses = vec![address.parse().unwrap()];
        ip.gateway = Some(gateway.parse().unwrap());
        ip
    }

    #[test]
    fn a_lease_and_the_storage_have_a_gateway_each() {
        let mut rules = Vec::new();
        let mut ipv4 = with_gateway(Method::Auto, "192.0.2.15/24", "192.0.2.1");
        let mut ipv6 = with_gateway(Method::Auto, "2001:db8::15/64", "2001:db8::1");
        limit_to_static_addresses(&mut ipv4, &mut rules);
        limit_to_static_addresses(&mut ipv6, &mut rules);
        let places = |ip: &IpPlan| -> Vec<(Option<u32>, Option<u32>)> {
            let routes = ip.routes.iter();
            routes.map(|route| (route.table, route.metric)).collect()
        };
        assert_eq!((ipv4.gateway, ipv6.gateway), (None, None));
        assert_eq!(places(&ipv4), [(Some(4420), None), (None, Some(20_000))]);
        assert_eq!(places(&ipv6), [(Some(4422), None), (None, Some(20_002))]);
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        assert_eq!(
            rules,
            [
                "priority 30000 from 192.0.2.15/32 suppress_prefixlength 0 table 254",
                "priority 30001 from 192.0.2.15/32 table 4420",
                "priority 30000 from 2001:db8::15/128 suppress_prefixlength 0 table 254",
                "priority 30001 from 2001:db8::15/128 table 4422",
            ]
        );
    }
}
