//! [`NetworkPlan`] → JSON in its normal form, which `plan-network --json` prints
//! for every kind of input.

use std::collections::BTreeMap;

use landfall_boot_params::dracut_net::VendorClass;
use landfall_boot_params::{ClonedMac, MacAddr};
use serde::{Serialize, Serializer};

use crate::plan::{Interface, InterfaceKind, IpPlan, Method, NetworkPlan, Route};

#[derive(Serialize)]
struct PlanForm<'a> {
    hostname: Option<&'a str>,
    carrier_timeout: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    global_dns: Vec<String>,
    interfaces: Vec<InterfaceForm<'a>>,
    // Left out if there are none: only NMState, keyfiles and the firmware's NVMe boot
    // table lead to rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<String>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct InterfaceForm<'a> {
    r#match: MatchForm<'a>,
    r#type: &'static str,
    multi: bool,
    controller: Option<&'a str>,
    mtu: Option<u32>,
    set_mac: Option<String>,
    needed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    down: bool,
    #[serde(flatten)]
    details: Option<KindForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ethtool: Option<EthtoolForm>,
    ipv4: Option<IpForm<'a>>,
    ipv6: Option<IpForm<'a>>,
}

#[derive(Serialize)]
struct MatchForm<'a> {
    name: Option<&'a str>,
    mac: Option<String>,
}

/// The settings that only one kind of interface has, in a JSON member with the name of
/// the variant.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum KindForm<'a> {
    Vlan {
        id: u16,
        parent: Option<&'a str>,
    },
    Bond(&'a BTreeMap<String, String>),
    Bridge {
        stp: bool,
    },
    Team {},
    Vrf {
        table: u32,
    },
    /// The parent of a MAC-VLAN or an IPVLAN.
    Parent(&'a str),
    /// The other end of a veth.
    Peer(&'a str),
    Infiniband {
        transport_mode: &'static str,
        parent: Option<&'a str>,
        p_key: Option<u16>,
    },
}

#[derive(Serialize)]
struct EthtoolForm {
    autoneg: bool,
    speed: Option<u32>,
}

#[derive(Serialize)]
struct IpForm<'a> {
    method: &'static str,
    addresses: Vec<String>,
    gateway: Option<String>,
    dns: Vec<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    search: &'a [String],
    routes: Vec<RouteForm>,
    required: bool,
    required_timeout_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_auto_dns: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_auto_routes: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    never_default: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_route_metric: Option<u32>,
    // The outer `None` means that the method is not automatic. The inner `None`
    // means that no time limit is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp_timeout: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp_hostname: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp_client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp_dscp: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
}

#[derive(Serialize)]
struct RouteForm {
    dst: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<String>,
}

impl Serialize for NetworkPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PlanForm {
            hostname: self.host_name.as_deref(),
            carrier_timeout: self.carrier_timeout,
            global_dns: self.global_dns.iter().map(ToString::to_string).collect(),
            interfaces: self.interfaces.iter().map(interface_form).collect(),
            rules: self.rules.iter().map(ToString::to_string).collect(),
            warnings: &self.warnings,
        }
        .serialize(serializer)
    }
}

fn interface_form(interface: &Interface) -> InterfaceForm<'_> {
    let matches = &interface.matches;
    let mac = match interface.kind {
        InterfaceKind::Infiniband { mac: Some(mac), .. } => Some(mac.to_string()),
        _ => matches.mac.as_ref().map(MacAddr::to_string),
    };
    let (r#type, details) = kind_form(&interface.kind);
    InterfaceForm {
        r#match: MatchForm {
            name: matches.name.as_deref(),
            mac,
        },
        r#type,
        multi: interface.multi,
        controller: interface.controller.as_deref(),
        mtu: interface.mtu,
        set_mac: interface.set_mac.as_ref().map(ClonedMac::to_string),
        needed: interface.needed,
        down: interface.down,
        details,
        ethtool: interface.ethtool.map(|ethtool| EthtoolForm {
            autoneg: ethtool.autoneg,
            speed: ethtool.speed,
        }),
        ipv4: interface.ipv4.as_ref().map(ip_form),
        ipv6: interface.ipv6.as_ref().map(ip_form),
    }
}

/// The name of the kind, and its settings.
fn kind_form(kind: &InterfaceKind) -> (&'static str, Option<KindForm<'_>>) {
    match kind {
        InterfaceKind::Ethernet => ("ethernet", None),
        InterfaceKind::Vlan { id, parent, .. } => {
            let (id, parent) = (*id, parent.as_deref());
            ("vlan", Some(KindForm::Vlan { id, parent }))
        }
        InterfaceKind::Bond { options } => ("bond", Some(KindForm::Bond(options))),
        InterfaceKind::Bridge { stp } => {
            let stp = stp.unwrap_or(false);
            ("bridge", Some(KindForm::Bridge { stp }))
        }
        InterfaceKind::Team { .. } => ("team", Some(KindForm::Team {})),
        InterfaceKind::Vrf { table } => ("vrf", Some(KindForm::Vrf { table: *table })),
        InterfaceKind::MacVlan { parent, tap, .. } => {
            let name = if *tap { "mac-vtap" } else { "mac-vlan" };
            (name, parent.as_deref().map(KindForm::Parent))
        }
        InterfaceKind::IpVlan { parent, .. } => ("ipvlan", parent.as_deref().map(KindForm::Parent)),
        InterfaceKind::Veth { peer } => ("veth", Some(KindForm::Peer(peer))),
        InterfaceKind::Loopback => ("loopback", None),
        InterfaceKind::OpenVswitch { profile_type } => (profile_type, None),
        InterfaceKind::Infiniband {
            parent,
            p_key,
            mode,
            ..
        } => {
            let details = KindForm::Infiniband {
                transport_mode: mode.unwrap_or("datagram"),
                parent: parent.as_deref(),
                p_key: *p_key,
            };
            ("infiniband", Some(details))
        }
    }
}

fn ip_form(ip: &IpPlan) -> IpForm<'_> {
    let automatic = ip.method.is_automatic().then_some(&ip.automatic);
    IpForm {
        method: method_name(ip.method),
        addresses: ip.addresses.iter().map(ToString::to_string).collect(),
        gateway: ip.gateway.map(|address| address.to_string()),
        dns: ip.dns.iter().map(ToString::to_string).collect(),
        search: &ip.search,
        routes: ip.routes.iter().map(route_form).collect(),
        required: ip.required,
        required_timeout_ms: automatic.and(ip.required_timeout_ms),
        ignore_auto_dns: automatic.map(|a| a.ignore_dns),
        // These three are left out if they are not set: only NMState and keyfiles can set
        // them.
        ignore_auto_routes: automatic.and_then(|a| a.ignore_routes.then_some(true)),
        never_default: automatic.and_then(|a| a.never_default.then_some(true)),
        auto_route_metric: automatic.and_then(|a| a.metric),
        dhcp_timeout: automatic.map(|a| a.timeout),
        dhcp_hostname: automatic.map(|a| a.host_name.as_deref()),
        dhcp_client_id: automatic.and_then(|a| a.client_id_text()),
        vendor_class: automatic.and_then(|a| a.vendor_class.as_ref().map(VendorClass::text)),
        dhcp_dscp: automatic.and_then(|a| a.dscp),
        mode: automatic.and_then(|a| a.mode),
    }
}

fn route_form(route: &Route) -> RouteForm {
    let options = route.options_text();
    RouteForm {
        dst: route.destination.to_string(),
        via: route.via.map(|address| address.to_string()),
        metric: route.metric,
        options: (!options.is_empty()).then_some(options),
    }
}

fn method_name(method: Method) -> &'static str {
    match method {
        Method::Auto => "auto",
        Method::Manual => "manual",
        Method::LinkLocal => "link-local",
        Method::Disabled => "disabled",
        Method::Dhcp => "dhcp",
    }
}
