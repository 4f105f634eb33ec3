//! Builds the netlink messages for VLANs, bonds and bridges.
//!
//! The plan uses the words of the kernel and of NetworkManager; netlink requires numbers.
//! If the kernel refuses a value of the plan, its answer to the message reports this.

use std::collections::BTreeMap;

use landfall_network_plan::{BondValue, MacAddr, bond_number, bond_value};
use rtnetlink::packet_route::link::{
    InfoBond, InfoBridge, InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkMessage,
    VlanProtocol,
};
use rtnetlink::{LinkBond, LinkMessageBuilder, LinkUnspec};

use super::bridge_option::bridge_option;

/// Milliseconds between two checks of the ports' carriers (NetworkManager's default).
/// Used if the plan sets neither `miimon` nor ARP monitoring, because the bond would then
/// never notice a dead port.
const MIIMON: &str = "100";

/// The options of a bond that the kernel must get first: the mode, on which the validity
/// of the others depends, and `miimon`, without which the kernel refuses `updelay`,
/// `downdelay` and `peer_notif_delay` (`bond_option_miimon_set` and the functions after
/// it in drivers/net/bonding/bond_options.c).
const FIRST: [&str; 2] = ["mode", "miimon"];

/// A VLAN, bond or bridge as planned.
pub(super) struct VirtualLink {
    pub(super) name: String,
    kind: InfoKind,
    parent: Option<u32>,
    mac: Option<MacAddr>,
    /// The options. For a bond, those of [`FIRST`] come first.
    options: Vec<LinkOption>,
}

/// The tag of a VLAN's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VlanTag {
    pub(super) id: u16,
    /// The tag is an 802.1ad service tag instead of an 802.1Q tag.
    pub(super) service: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkOption {
    /// The option in the plan's words: `lacp_rate=fast`.
    pub(super) text: String,
    value: OptionValue,
}

/// The option in the kernel's form.
#[derive(Debug, PartialEq, Eq)]
enum OptionValue {
    Bond(InfoBond),
    Bridge(InfoBridge),
    Vlan(InfoVlan),
}

/// Why a device with the right name is not the one of the plan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OtherDevice {
    /// An interface with this name exists and has another type. The agent does not replace it;
    /// choose another name in the network configuration.
    #[error("expected a {expected}, found {found}")]
    Kind { expected: String, found: String },
    /// An interface with this name exists on top of another NIC. The agent does not replace it;
    /// choose another name in the network configuration.
    #[error("its parent is another device")]
    Parent,
}

impl VirtualLink {
    /// Builds a bond without ports. Leaves out options that name a port: see
    /// [`bond_port_option`].
    pub(super) fn bond(
        name: &str,
        options: &BTreeMap<String, String>,
        mac: Option<MacAddr>,
    ) -> VirtualLink {
        let first = FIRST.iter().filter_map(|name| options.get_key_value(*name));
        let others = options
            .iter()
            .filter(|(name, _)| !FIRST.contains(&name.as_str()));
        let option = |(name, value): (&String, &String)| LinkOption::bond(name, value);
        let mut options: Vec<_> = { first.chain(others) }.filter_map(option).collect();
        let is_monitor = |option: &LinkOption| match option.value {
            OptionValue::Bond(InfoBond::MiiMon(n) | InfoBond::ArpInterval(n)) => n != 0,
            _ => false,
        };
        if !options.iter().any(is_monitor) {
            let value = |option: &LinkOption| option.text.starts_with("miimon=");
            options.retain(|option| !value(option));
            let place = options.len().min(1);
            options.splice(place..place, LinkOption::bond("miimon", MIIMON));
        }
        VirtualLink {
            name: name.to_owned(),
            kind: InfoKind::Bond,
            parent: None,
            mac,
            options,
        }
    }

    pub(super) fn vlan(name: &str, parent: u32, tag: VlanTag, mac: Option<MacAddr>) -> VirtualLink {
        let VlanTag { id, service } = tag;
        let (text, protocol) = if service {
            ("protocol=802.1ad", VlanProtocol::Ieee8021Ad)
        } else {
            ("protocol=802.1Q", VlanProtocol::Ieee8021Q)
        };
        VirtualLink {
            name: name.to_owned(),
            kind: InfoKind::Vlan,
            parent: Some(parent),
            mac,
            options: vec![
                LinkOption {
                    text: text.to_owned(),
                    value: OptionValue::Vlan(InfoVlan::Protocol(protocol)),
                },
                LinkOption {
                    text: format!("id={id}"),
                    value: OptionValue::Vlan(InfoVlan::Id(id)),
                },
            ],
        }
    }

    /// Builds a bridge without ports, with these settings of a keyfile.
    pub(super) fn bridge(
        name: &str,
        stp: bool,
        settings: &BTreeMap<String, String>,
        mac: Option<MacAddr>,
    ) -> VirtualLink {
        let given = settings.iter().filter_map(|(option, value)| {
            let text = format!("{option}={value}");
            let found = bridge_option(option, value).unwrap_or_else(|expected| {
                tracing::warn!("{name}: {text}: expected {expected}; the ramdisk ignores it");
                None
            });
            let value = OptionValue::Bridge(found?);
            Some(LinkOption { text, value })
        });
        let stp = LinkOption {
            text: format!("stp={stp}"),
            value: OptionValue::Bridge(InfoBridge::StpState(u32::from(stp).into())),
        };
        VirtualLink {
            name: name.to_owned(),
            kind: InfoKind::Bridge,
            parent: None,
            mac,
            options: std::iter::once(stp).chain(given).collect(),
        }
    }

    /// The request to create the device with all options.
    pub(super) fn request(&self) -> LinkMessage {
        self.message(self.options.iter())
    }

    /// The request to create the device with only those options that cannot be
    /// changed later.
    pub(super) fn bare_request(&self) -> LinkMessage {
        let lasting = self.options.iter().filter(|option| match option.value {
            OptionValue::Bond(InfoBond::Mode(_)) | OptionValue::Vlan(_) => true,
            OptionValue::Bond(_) | OptionValue::Bridge(_) => false,
        });
        self.message(lasting)
    }

    /// The request to change one option of the existing device.
    pub(super) fn change_request(&self, option: &LinkOption) -> LinkMessage {
        let bare = VirtualLink {
            name: self.name.clone(),
            kind: self.kind.clone(),
            parent: None,
            mac: None,
            options: Vec::new(),
        };
        bare.message(std::iter::once(option))
    }

    fn message<'a>(&self, options: impl Iterator<Item = &'a LinkOption>) -> LinkMessage {
        let mut builder = LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(self.kind.clone())
            .name(self.name.clone());
        if let Some(parent) = self.parent {
            builder = builder.link(parent);
        }
        if let Some(mac) = self.mac {
            builder = builder.address(mac.0.to_vec());
        }
        let (mut bond, mut bridge, mut vlan) = (Vec::new(), Vec::new(), Vec::new());
        for option in options {
            match &option.value {
                OptionValue::Bond(info) => bond.push(info.clone()),
                OptionValue::Bridge(info) => bridge.push(info.clone()),
                OptionValue::Vlan(info) => vlan.push(info.clone()),
            }
        }
        let data = match self.kind {
            InfoKind::Bond => InfoData::Bond(bond),
            InfoKind::Bridge => InfoData::Bridge(bridge),
            _ => InfoData::Vlan(vlan),
        };
        builder.set_info_data(data).build()
    }

    /// The options that differ in the existing device.
    ///
    /// # Errors
    /// If the existing device is of another kind or has another parent.
    pub(super) fn differences(&self, there: &LinkMessage) -> Result<Vec<&LinkOption>, OtherDevice> {
        let (mut kind, mut data, mut parent) = (None, None, None);
        for attribute in &there.attributes {
            match attribute {
                LinkAttribute::Link(index) => parent = Some(*index),
                LinkAttribute::LinkInfo(list) => {
                    for info in list {
                        match info {
                            LinkInfo::Kind(found) => kind = Some(found),
                            LinkInfo::Data(found) => data = Some(found),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        if kind != Some(&self.kind) {
            let found = kind.map_or_else(|| "a NIC".to_owned(), |kind| format!("a {kind}"));
            return Err(OtherDevice::Kind {
                expected: self.kind.to_string(),
                found,
            });
        }
        if self.parent.is_some() && parent != self.parent {
            return Err(OtherDevice::Parent);
        }
        let has = |wanted: &&LinkOption| match (&wanted.value, data) {
            (OptionValue::Bond(info), Some(InfoData::Bond(list))) => list.contains(info),
            (OptionValue::Bridge(info), Some(InfoData::Bridge(list))) => list.contains(info),
            (OptionValue::Vlan(info), Some(InfoData::Vlan(list))) => list.contains(info),
            _ => false,
        };
        Ok(self.options.iter().filter(|option| !has(option)).collect())
    }

    /// The requested options in one line: `mode=802.3ad, lacp_rate=fast,
    /// miimon=100`.
    pub(super) fn options_text(&self) -> String {
        let texts: Vec<_> = self.options.iter().map(|o| o.text.as_str()).collect();
        texts.join(", ")
    }
}

/// The request to set a bond option that names a port. The port must exist. `None` for
/// any other option.
pub(super) fn bond_port_option(option: &str, bond: u32, port: u32) -> Option<LinkMessage> {
    let info = match option {
        "primary" => InfoBond::Primary(port),
        "active_slave" => InfoBond::ActivePort(port),
        _ => return None,
    };
    let builder = LinkMessageBuilder::<LinkBond>::new_with_info_kind(InfoKind::Bond);
    Some(builder.index(bond).append_info_data(info).build())
}

/// The request to make a device a port.
pub(super) fn port(index: u32, controller: u32) -> LinkMessage {
    let builder = LinkUnspec::new_with_index(index);
    builder.controller(controller).build()
}

impl LinkOption {
    fn bond(name: &str, value: &str) -> Option<LinkOption> {
        Some(LinkOption {
            text: format!("{name}={value}"),
            value: OptionValue::Bond(bond_option(name, value)?),
        })
    }
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
    // The bounds in the plan's table are within those of the attribute, so the
    // fallback is never used.
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
        // Both names set the same option of the kernel.
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
        let bond = VirtualLink::bond("bond0", &pairs.collect(), None);
        let infos = bond.options.into_iter().map(|option| match option.value {
            OptionValue::Bond(info) => info,
            other => panic!("expected an option of a bond, found {other:?}"),
        });
        infos.collect()
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
                InfoBond::MiiMon(50),
                InfoBond::AdLacpRate(BondLacpRate::Fast),
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

    /// The kernel refuses the delays of a bond without `miimon`. The agent may set the
    /// options one by one, so their order matters.
    #[test]
    fn an_option_comes_after_the_one_that_it_needs() {
        assert_eq!(
            options(&[
                ("downdelay", "200"),
                ("miimon", "100"),
                ("mode", "active-backup"),
                ("all_slaves_active", "1"),
            ]),
            [
                InfoBond::Mode(BondMode::ActiveBackup),
                InfoBond::MiiMon(100),
                InfoBond::AllPortsActive(1.into()),
                InfoBond::DownDelay(200),
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

    #[test]
    fn an_existing_link_is_compared() {
        let asked = [
            ("mode", "802.3ad"),
            ("lacp_rate", "fast"),
            ("min_links", "1"),
        ];
        let bond = |list: &[(&str, &str)]| {
            let pairs = list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            VirtualLink::bond("bond0", &pairs.collect(), None)
        };
        let wanted = bond(&asked);
        let texts = |there: &VirtualLink| {
            let found = wanted.differences(&there.request());
            let found = found.map_err(|error| error.to_string())?;
            Ok(found.iter().map(|o| o.text.clone()).collect::<Vec<_>>())
        };
        assert_eq!(texts(&bond(&asked)), Ok(vec![]));
        assert_eq!(
            texts(&bond(&[("mode", "802.3ad"), ("miimon", "100")])),
            Ok(vec!["lacp_rate=fast".to_owned(), "min_links=1".to_owned()])
        );
        assert_eq!(
            texts(&VirtualLink::bridge("bond0", false, &BTreeMap::new(), None)),
            Err("expected a bond, found a bridge".to_owned())
        );
        let vlan =
            |parent, id| VirtualLink::vlan("vlan7", parent, VlanTag { id, service: false }, None);
        let found = vlan(3, 7)
            .differences(&vlan(3, 8).request())
            .map(|o| o.len());
        assert_eq!(found, Ok(1));
        let other = vlan(4, 7).request();
        assert!(vlan(3, 7).differences(&other).is_err());
    }

    /// Every option of the plan's table reaches the kernel, or names a port.
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
            // Encodes the message for the kernel, and decodes it again.
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
