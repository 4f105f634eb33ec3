//! VLANs, bonds and bridges as netlink messages.
//!
//! The words of the plan are the kernel's and NetworkManager's; netlink wants
//! numbers. A value that the plan has let pass and the kernel refuses is told
//! when the message is answered.

use std::collections::BTreeMap;

use landfall_network_plan::{BondValue, MacAddr, bond_number, bond_value};
use rtnetlink::packet_route::link::{InfoBond, InfoBridge, InfoKind, LinkMessage};
use rtnetlink::{LinkBond, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVlan};

/// Milliseconds between two looks at the ports' carriers where the plan has
/// neither this nor ARP monitoring: without either a bond never notices a dead
/// port. NetworkManager's value.
const MIIMON: u32 = 100;

/// A bond without ports.
pub(super) fn bond(
    name: &str,
    options: &BTreeMap<String, String>,
    mac: Option<MacAddr>,
) -> LinkMessage {
    let mut builder = LinkBond::new(name);
    for info in bond_options(options) {
        builder = builder.append_info_data(info);
    }
    with_mac(builder, mac).build()
}

/// The option that names a port, which can be set only when there is the port.
pub(super) fn bond_port_option(option: &str, bond: u32, port: u32) -> Option<LinkMessage> {
    let info = match option {
        "primary" => InfoBond::Primary(port),
        "active_slave" => InfoBond::ActivePort(port),
        _ => return None,
    };
    let builder = LinkMessageBuilder::<LinkBond>::new_with_info_kind(InfoKind::Bond);
    Some(builder.index(bond).append_info_data(info).build())
}

/// A VLAN on a device.
pub(super) fn vlan(name: &str, parent: u32, id: u16, mac: Option<MacAddr>) -> LinkMessage {
    with_mac(LinkVlan::new(name, parent, id), mac).build()
}

/// A bridge without ports.
pub(super) fn bridge(name: &str, stp: bool, mac: Option<MacAddr>) -> LinkMessage {
    let builder =
        LinkBridge::new(name).append_info_data(InfoBridge::StpState(u32::from(stp).into()));
    with_mac(builder, mac).build()
}

/// Makes a device a port.
pub(super) fn port(index: u32, controller: u32) -> LinkMessage {
    let builder = LinkUnspec::new_with_index(index);
    builder.controller(controller).build()
}

fn with_mac<T>(builder: LinkMessageBuilder<T>, mac: Option<MacAddr>) -> LinkMessageBuilder<T> {
    match mac {
        Some(mac) => builder.address(mac.0.to_vec()),
        None => builder,
    }
}

/// All options but those that name a port. The mode is first: others are
/// judged by it.
fn bond_options(options: &BTreeMap<String, String>) -> Vec<InfoBond> {
    let mode = options.get_key_value("mode");
    let others = options.iter().filter(|(name, _)| *name != "mode");
    let mut list: Vec<_> = mode
        .into_iter()
        .chain(others)
        .filter_map(|(name, value)| bond_option(name, value))
        .collect();
    let is_monitor =
        |info: &InfoBond| matches!(info, InfoBond::MiiMon(n) | InfoBond::ArpInterval(n) if *n != 0);
    if !list.iter().any(is_monitor) {
        list.retain(|info| !matches!(info, InfoBond::MiiMon(_)));
        list.insert(list.len().min(1), InfoBond::MiiMon(MIIMON));
    }
    list
}

fn bond_option(name: &str, value: &str) -> Option<InfoBond> {
    match bond_value(name)? {
        BondValue::Ipv4List => {
            let list: Result<_, _> = value.split(',').map(str::parse).collect();
            return list.ok().map(InfoBond::ArpIpTarget);
        }
        BondValue::Ipv6List => {
            let list: Result<_, _> = value.split(',').map(str::parse).collect();
            return list.ok().map(InfoBond::NsIp6Target);
        }
        BondValue::Mac => {
            let mac: MacAddr = value.parse().ok()?;
            return Some(InfoBond::AdActorSystem(mac.0));
        }
        BondValue::Port => return None,
        BondValue::Number(..) | BondValue::Word(_) => {}
    }
    let number = bond_number(name, value)?;
    // The bounds of the table are within those of the attribute.
    let byte = || u8::try_from(number).unwrap_or(u8::MAX);
    let short = || u16::try_from(number).unwrap_or(u16::MAX);
    Some(match name {
        "ad_actor_sys_prio" => InfoBond::AdActorSysPrio(short()),
        "ad_select" => InfoBond::AdSelect(byte().into()),
        "ad_user_port_key" => InfoBond::AdUserPortKey(short()),
        "all_slaves_active" => InfoBond::AllPortsActive(byte().into()),
        "arp_all_targets" => InfoBond::ArpAllTargets(number.into()),
        "arp_interval" => InfoBond::ArpInterval(number),
        "arp_missed_max" => InfoBond::MissedMax(byte()),
        "arp_validate" => InfoBond::ArpValidate(number.into()),
        "broadcast_neighbor" => InfoBond::BroadcastNeigh(number != 0),
        "downdelay" => InfoBond::DownDelay(number),
        "fail_over_mac" => InfoBond::FailOverMac(byte().into()),
        "lacp_active" => InfoBond::AdLacpActive(number != 0),
        "lacp_rate" => InfoBond::AdLacpRate(byte().into()),
        "lp_interval" => InfoBond::LpInterval(number),
        "miimon" => InfoBond::MiiMon(number),
        "min_links" => InfoBond::MinLinks(number),
        "mode" => InfoBond::Mode(byte().into()),
        // Two names of one thing.
        "num_grat_arp" | "num_unsol_na" => InfoBond::NumPeerNotif(byte()),
        "packets_per_slave" => InfoBond::PacketsPerPort(number),
        "peer_notif_delay" => InfoBond::PeerNotifDelay(number),
        "primary_reselect" => InfoBond::PrimaryReselect(byte().into()),
        "resend_igmp" => InfoBond::ResendIgmp(number),
        "tlb_dynamic_lb" => InfoBond::TlbDynamicLb(number != 0),
        "updelay" => InfoBond::UpDelay(number),
        "use_carrier" => InfoBond::UseCarrier(number != 0),
        "xmit_hash_policy" => InfoBond::XmitHashPolicy(byte().into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtnetlink::packet_core::NetlinkMessage;
    use rtnetlink::packet_route::RouteNetlinkMessage;
    use rtnetlink::packet_route::link::{BondLacpRate, BondMode, BondXmitHashPolicy};

    fn options(list: &[(&str, &str)]) -> Vec<InfoBond> {
        let pairs = list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        bond_options(&pairs.collect())
    }

    #[test]
    fn words_become_the_kernels_numbers() {
        assert_eq!(
            options(&[
                ("lacp_rate", "fast"),
                ("mode", "802.3ad"),
                ("miimon", "50"),
                ("xmit_hash_policy", "layer3+4"),
                ("primary", "eth0"),
            ]),
            [
                InfoBond::Mode(BondMode::Ieee8023Ad),
                InfoBond::AdLacpRate(BondLacpRate::Fast),
                InfoBond::MiiMon(50),
                InfoBond::XmitHashPolicy(BondXmitHashPolicy::Layer34),
            ]
        );
        assert_eq!(
            options(&[
                ("mode", "active-backup"),
                ("arp_interval", "1000"),
                ("arp_ip_target", "192.0.2.1,192.0.2.2")
            ]),
            [
                InfoBond::Mode(BondMode::ActiveBackup),
                InfoBond::ArpInterval(1000),
                InfoBond::ArpIpTarget(vec![[192, 0, 2, 1].into(), [192, 0, 2, 2].into()]),
            ]
        );
    }

    #[test]
    fn a_bond_without_monitoring_gets_it() {
        for given in [
            vec![("mode", "balance-rr")],
            vec![("mode", "balance-rr"), ("miimon", "0")],
        ] {
            assert_eq!(
                options(&given),
                [InfoBond::Mode(BondMode::BalanceRr), InfoBond::MiiMon(100)]
            );
        }
    }

    /// Every option of the table reaches the kernel, or is one of a port.
    #[test]
    fn no_option_is_forgotten() {
        for (name, value) in [
            ("ad_actor_sys_prio", "7"),
            ("ad_actor_system", "02:00:00:00:00:01"),
            ("ad_select", "count"),
            ("ad_user_port_key", "3"),
            ("all_slaves_active", "1"),
            ("arp_all_targets", "all"),
            ("arp_interval", "5"),
            ("arp_ip_target", "192.0.2.1"),
            ("arp_missed_max", "3"),
            ("arp_validate", "filter"),
            ("broadcast_neighbor", "on"),
            ("downdelay", "1"),
            ("fail_over_mac", "follow"),
            ("lacp_active", "off"),
            ("lacp_rate", "slow"),
            ("lp_interval", "2"),
            ("miimon", "3"),
            ("min_links", "2"),
            ("mode", "6"),
            ("ns_ip6_target", "2001:db8::1"),
            ("num_grat_arp", "2"),
            ("num_unsol_na", "2"),
            ("packets_per_slave", "9"),
            ("peer_notif_delay", "100"),
            ("primary_reselect", "better"),
            ("resend_igmp", "4"),
            ("tlb_dynamic_lb", "0"),
            ("updelay", "200"),
            ("use_carrier", "1"),
            ("xmit_hash_policy", "vlan+srcmac"),
        ] {
            let info = bond_option(name, value).unwrap_or_else(|| panic!("{name}"));
            // As the kernel gets it, and back.
            let message = LinkBond::new("bond0").append_info_data(info).build();
            let mut message = NetlinkMessage::from(RouteNetlinkMessage::NewLink(message));
            message.finalize();
            let mut bytes = vec![0; message.buffer_len()];
            message.serialize(&mut bytes);
            assert_eq!(
                NetlinkMessage::deserialize(&bytes).unwrap(),
                message,
                "{name}"
            );
        }
    }
}
