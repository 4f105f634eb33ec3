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
    interfaces: Vec<InterfaceForm<'a>>,
    // Left out if empty: only NMState has rules.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<VlanForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bond: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bridge: Option<BridgeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<TeamForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vrf: Option<VrfForm>,
    // Of a MAC-VLAN or an IPVLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    // Of a veth.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    infiniband: Option<InfinibandForm<'a>>,
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

#[derive(Serialize)]
struct VlanForm<'a> {
    id: u16,
    parent: Option<&'a str>,
}

#[derive(Serialize)]
struct BridgeForm {
    stp: bool,
}

#[derive(Serialize)]
struct TeamForm {}

#[derive(Serialize)]
struct VrfForm {
    table: u32,
}

#[derive(Serialize)]
struct InfinibandForm<'a> {
    transport_mode: &'static str,
    parent: Option<&'a str>,
    p_key: Option<u16>,
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
    // Outer `None`: not an automatic method. Inner `None`: no time limit is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp_timeout: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp_hostname: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp_client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor_class: Option<&'a str>,
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
            interfaces: self.interfaces.iter().map(interface_form).collect(),
            rules: self.rules.iter().map(ToString::to_string).collect(),
            warnings: &self.warnings,
        }
        .serialize(serializer)
    }
}

fn interface_form(interface: &Interface) -> InterfaceForm<'_> {
    let mut form = InterfaceForm {
        r#match: MatchForm {
            name: interface.matches.name.as_deref(),
            mac: interface.matches.mac.as_ref().map(MacAddr::to_string),
        },
        r#type: "ethernet",
        multi: interface.multi,
        controller: interface.controller.as_deref(),
        mtu: interface.mtu,
        set_mac: interface.set_mac.as_ref().map(ClonedMac::to_string),
        needed: interface.needed,
        down: interface.down,
        vlan: None,
        bond: None,
        bridge: None,
        team: None,
        vrf: None,
        parent: None,
        peer: None,
        infiniband: None,
        ethtool: interface.ethtool.map(|ethtool| EthtoolForm {
            autoneg: ethtool.autoneg,
            speed: ethtool.speed,
        }),
        ipv4: interface.ipv4.as_ref().map(ip_form),
        ipv6: interface.ipv6.as_ref().map(ip_form),
    };
    match &interface.kind {
        InterfaceKind::Ethernet => {}
        InterfaceKind::Vlan { id, parent, .. } => {
            form.r#type = "vlan";
            form.vlan = Some(VlanForm {
                id: *id,
                parent: parent.as_deref(),
            });
        }
        InterfaceKind::Bond { options } => {
            form.r#type = "bond";
            form.bond = Some(options);
        }
        InterfaceKind::Bridge { stp } => {
            form.r#type = "bridge";
            form.bridge = Some(BridgeForm {
                stp: stp.unwrap_or(false),
            });
        }
        InterfaceKind::Team { .. } => {
            form.r#type = "team";
            form.team = Some(TeamForm {});
        }
        InterfaceKind::Vrf { table } => {
            form.r#type = "vrf";
            form.vrf = Some(VrfForm { table: *table });
        }
        InterfaceKind::MacVlan { parent, tap, .. } => {
            form.r#type = if *tap { "mac-vtap" } else { "mac-vlan" };
            form.parent = parent.as_deref();
        }
        InterfaceKind::IpVlan { parent, .. } => {
            form.r#type = "ipvlan";
            form.parent = parent.as_deref();
        }
        InterfaceKind::Veth { peer } => {
            form.r#type = "veth";
            form.peer = Some(peer);
        }
        InterfaceKind::Loopback => form.r#type = "loopback",
        InterfaceKind::OpenVswitch { profile_type } => form.r#type = profile_type,
        InterfaceKind::Infiniband {
            mac,
            parent,
            p_key,
            mode,
        } => {
            form.r#type = "infiniband";
            if let Some(mac) = mac {
                form.r#match.mac = Some(mac.to_string());
            }
            form.infiniband = Some(InfinibandForm {
                transport_mode: mode.unwrap_or("datagram"),
                parent: parent.as_deref(),
                p_key: *p_key,
            });
        }
    }
    form
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
        // Left out if not set: only NMState can set these three.
        ignore_auto_routes: automatic.and_then(|a| a.ignore_routes.then_some(true)),
        never_default: automatic.and_then(|a| a.never_default.then_some(true)),
        auto_route_metric: automatic.and_then(|a| a.metric),
        dhcp_timeout: automatic.map(|a| a.timeout),
        dhcp_hostname: automatic.map(|a| a.host_name.as_deref()),
        dhcp_client_id: automatic.and_then(|a| a.client_id_text()),
        vendor_class: automatic.and_then(|a| a.vendor_class.as_ref().map(VendorClass::text)),
        mode: automatic.and_then(|a| a.mode),
    }
}

fn route_form(route: &Route) -> RouteForm {
    RouteForm {
        dst: route.destination.to_string(),
        via: route.via.map(|address| address.to_string()),
        metric: route.metric,
        options: route_options(route),
    }
}

/// The options as a keyfile writes them: `table=254,mtu=1400`.
fn route_options(route: &Route) -> Option<String> {
    let words = route.option_words();
    (!words.is_empty()).then(|| words.join(","))
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
