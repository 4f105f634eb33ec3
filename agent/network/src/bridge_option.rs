//! Translates bridge options from NetworkManager's names and units to the kernel's.

use landfall_network_plan::MacAddr;
use rtnetlink::packet_route::link::{BridgeMulticastRouterType, InfoBridge, VlanProtocol};

/// Parses a decimal number, or a hexadecimal number after `0x`, as NetworkManager does.
fn number<T: TryFrom<u64>>(value: &str) -> Result<T, &'static str> {
    let found = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    };
    let found = found.and_then(|number| T::try_from(number).ok());
    found.ok_or("a number in the range of the option")
}

/// Parses the boolean words of GLib's key files. NetworkManager ignores other words,
/// such as `off`.
fn flag(value: &str) -> Result<bool, &'static str> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("true or false"),
    }
}

/// Translates one setting from the `bridge` section of a keyfile. Returns `None` for a
/// setting that is not translated here.
///
/// # Errors
/// If a number, a boolean or an address is invalid. The error describes a valid value. An
/// unknown `multicast-router` or `vlan-protocol` means the default.
pub(super) fn bridge_option(name: &str, value: &str) -> Result<Option<InfoBridge>, &'static str> {
    // NetworkManager gives times in seconds and the kernel in hundredths of a
    // second. For multicast options both use hundredths.
    let hundredths = || {
        let seconds = number::<u32>(value)?.checked_mul(100);
        seconds.ok_or("a number of seconds in the range of the option")
    };
    let flag = || flag(value);
    let count = || number::<u32>(value);
    let time = || number::<u64>(value);
    let short = || number::<u16>(value);
    let mac = || value.parse::<MacAddr>().map_err(|_| "a hardware address");
    Ok(Some(match name {
        "ageing-time" => InfoBridge::AgeingTime(hundredths()?),
        "forward-delay" => InfoBridge::ForwardDelay(hundredths()?),
        "group-address" => InfoBridge::GroupAddr(mac()?.0),
        "group-forward-mask" => InfoBridge::GroupFwdMask(short()?),
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
        "priority" => InfoBridge::Priority(short()?),
        "vlan-default-pvid" => InfoBridge::VlanDefaultPvid(short()?),
        "vlan-protocol" => InfoBridge::VlanProtocol(match value {
            "802.1ad" => VlanProtocol::Ieee8021Ad,
            _ => VlanProtocol::Ieee8021Q,
        }),
        // `vlan-filtering` is left out on purpose: without a VLAN table on the ports
        // the bridge would drop all tagged frames. Only the installed system sets up
        // that table.
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_kernels() {
        const NUMBER: &str = "a number in the range of the option";
        for (name, value, expected) in [
            (
                "ageing-time",
                "300",
                Ok(Some(InfoBridge::AgeingTime(30000))),
            ),
            (
                "ageing-time",
                "4294967295",
                Err("a number of seconds in the range of the option"),
            ),
            ("hello-time", "2", Ok(Some(InfoBridge::HelloTime(200)))),
            ("max-age", "0x10", Ok(Some(InfoBridge::MaxAge(1600)))),
            (
                "multicast-query-interval",
                "12500",
                Ok(Some(InfoBridge::MulticastQueryInterval(12500))),
            ),
            (
                "multicast-snooping",
                "false",
                Ok(Some(InfoBridge::MulticastSnooping(false))),
            ),
            (
                "multicast-snooping",
                "0",
                Ok(Some(InfoBridge::MulticastSnooping(false))),
            ),
            (
                "multicast-querier",
                "1",
                Ok(Some(InfoBridge::MulticastQuerier(true))),
            ),
            ("multicast-snooping", "off", Err("true or false")),
            (
                "group-address",
                "1;128;194;0;0;0",
                Err("a hardware address"),
            ),
            ("priority", "32768", Ok(Some(InfoBridge::Priority(32768)))),
            ("priority", "65536", Err(NUMBER)),
            ("priority", "x", Err(NUMBER)),
            ("vlan-filtering", "true", Ok(None)),
        ] {
            assert_eq!(bridge_option(name, value), expected, "{name}={value}");
        }
    }
}
