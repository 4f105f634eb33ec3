//! Translates bridge options from NetworkManager's names and units to the kernel's.

use landfall_network_plan::MacAddr;
use rtnetlink::packet_route::link::{BridgeMulticastRouterType, InfoBridge, VlanProtocol};

/// Translates one setting from the `bridge` section of a keyfile. Returns `None` if
/// the setting does not belong to the bridge itself, or if its value is invalid.
pub(super) fn bridge_option(name: &str, value: &str) -> Option<InfoBridge> {
    // NetworkManager gives times in seconds and the kernel in hundredths of a
    // second. For multicast options both use hundredths.
    let hundredths = || {
        value
            .parse()
            .ok()
            .and_then(|seconds: u32| seconds.checked_mul(100))
    };
    let flag = || value.parse::<bool>().ok();
    let count = || value.parse::<u32>().ok();
    let time = || value.parse::<u64>().ok();
    Some(match name {
        "ageing-time" => InfoBridge::AgeingTime(hundredths()?),
        "forward-delay" => InfoBridge::ForwardDelay(hundredths()?),
        "group-address" => InfoBridge::GroupAddr(value.parse::<MacAddr>().ok()?.0),
        "group-forward-mask" => InfoBridge::GroupFwdMask(value.parse().ok()?),
        "hello-time" => InfoBridge::HelloTime(hundredths()?),
        "max-age" => InfoBridge::MaxAge(hundredths()?),
        "multicast-hash-max" => InfoBridge::MulticastHashMax(count()?),
        "multicast-last-member-count" => InfoBridge::MulticastLastMemberCount(count()?),
        "multicast-last-member-interval" => InfoBridge::MulticastLastMemberInterval(time()?),
        "multicast-membership-interval" => InfoBridge::MulticastMembershipInterval(time()?),
        "multicast-querier" => InfoBridge::MulticastQuerier(flag()?),
        "multicast-querier-interval" => InfoBridge::MulticastQuerierInterval(time()?),
        "multicast-query-interval" => InfoBridge::MulticastQueryInterval(time()?),
        "multicast-query-response-interval" => InfoBridge::MulticastQueryResponseInterval(time()?),
        "multicast-query-use-ifaddr" => InfoBridge::MulticastQueryUseIfaddr(flag()?),
        "multicast-router" => InfoBridge::MulticastRouter(match value {
            "disabled" => BridgeMulticastRouterType::Disabled,
            "enabled" => BridgeMulticastRouterType::Permanent,
            _ => BridgeMulticastRouterType::TempQuery,
        }),
        "multicast-snooping" => InfoBridge::MulticastSnooping(flag()?),
        "multicast-startup-query-count" => InfoBridge::MulticastStartupQueryCount(count()?),
        "multicast-startup-query-interval" => InfoBridge::MulticastStartupQueryInterval(time()?),
        "priority" => InfoBridge::Priority(value.parse().ok()?),
        "vlan-default-pvid" => InfoBridge::VlanDefaultPvid(value.parse().ok()?),
        "vlan-protocol" => InfoBridge::VlanProtocol(match value {
            "802.1ad" => VlanProtocol::Ieee8021Ad,
            _ => VlanProtocol::Ieee8021Q,
        }),
        // `vlan-filtering` is left out on purpose: without a VLAN table on the ports
        // the bridge would drop all tagged frames. Only the installed system sets up
        // that table.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_kernels() {
        for (name, value, expected) in [
            ("ageing-time", "300", Some(InfoBridge::AgeingTime(30000))),
            ("ageing-time", "4294967295", None),
            ("hello-time", "2", Some(InfoBridge::HelloTime(200))),
            (
                "multicast-query-interval",
                "12500",
                Some(InfoBridge::MulticastQueryInterval(12500)),
            ),
            (
                "multicast-snooping",
                "false",
                Some(InfoBridge::MulticastSnooping(false)),
            ),
            ("priority", "32768", Some(InfoBridge::Priority(32768))),
            ("priority", "x", None),
            ("vlan-filtering", "true", None),
        ] {
            assert_eq!(bridge_option(name, value), expected, "{name}={value}");
        }
    }
}
