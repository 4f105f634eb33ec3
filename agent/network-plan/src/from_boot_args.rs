//! dracut's network arguments → [`NetworkPlan`].
//!
//! The meaning is that of NetworkManager's generator for the initramfs (git of 2026-08),
//! which reads the same arguments on the installed system. That program drops a whole
//! profile if one field does not fit (a DNS server of a family that is off, a gateway
//! without an address). Here only the field is dropped.

mod firmware;
mod nvme_boot;
mod profiles;
mod storage_gateway;
mod virtual_interfaces;

use std::net::IpAddr;

use landfall_boot_params::dracut_net::{
    EthtoolArgument, InterfaceArgument, IpArgument, IpMethod, RouteFields,
};
use landfall_boot_params::{ClonedMac, NetArgs};

use crate::plan::{
    Ethtool, Interface, InterfaceKind, IpPlan, Method, NetworkPlan, Route, RouteKind,
};
pub(crate) use profiles::automatic;
use profiles::{Profiles, add_once};
use virtual_interfaces::{add_controller, add_partition, add_vlan};

impl NetworkPlan {
    /// The plan that only the arguments describe. Without arguments it has only the NICs
    /// of the firmware's NVMe boot table (NBFT), if there are any.
    pub fn from_boot_args(args: &NetArgs) -> NetworkPlan {
        build(args, false)
    }

    /// The plan to boot with. If no argument says which interfaces to configure, it
    /// configures all of them by DHCP and router advertisements. The NIC of `BOOTIF=`,
    /// from which the host booted, is then a separate interface, so that its routes take
    /// precedence.
    pub fn for_boot(args: &NetArgs) -> NetworkPlan {
        build(args, true)
    }
}

fn build(args: &NetArgs, is_boot: bool) -> NetworkPlan {
    let mut plan = NetworkPlan {
        carrier_timeout: args.carrier_timeout,
        global_dns: args.global_dns.clone(),
        warnings: args.warnings.clone(),
        ..NetworkPlan::default()
    };
    let mut profiles = Profiles::new(args);
    for argument in &args.interfaces {
        add_interface(argument, args, &mut profiles, &mut plan);
    }
    // `profiles` is also empty for `ip=ibft` if the firmware has no table of NICs (iBFT).
    let cover_all = is_boot && profiles.is_empty() && args.boot_device.is_none();
    profiles.disable_vlan_parents();
    if let Some(boot_interface) = &args.boot_interface {
        profiles.bind_to_boot_interface(boot_interface.mac);
    }
    let boot_device = args.boot_device.as_ref().map(|device| {
        let index = profiles.of_device(device);
        need(profiles.at(index));
        index
    });
    if args.need_network {
        if profiles.is_empty() {
            profiles.of_any_device();
        }
        profiles.for_each(need);
    }
    for argument in &args.routes {
        let index = match (&argument.device, boot_device) {
            (Some(device), _) => profiles.of_device(device),
            (None, Some(index)) => index,
            (None, None) => profiles.first_or_any(),
        };
        if let Some(fields) = &argument.route {
            add_route(profiles.at(index), fields);
        }
    }
    // `cover_all` must follow the routes: a route without an interface applies to the
    // first interface of the arguments, and to every NIC only if the arguments name no
    // interface.
    if cover_all {
        profiles.cover_all(args.need_network);
    }
    nvme_boot::add_nics(&mut profiles, args, &mut plan);
    for server in &args.nameservers {
        profiles.for_each(|interface| {
            let ip = family(interface, *server);
            if matches!(ip.method, Method::Auto | Method::Manual) {
                add_once(&mut ip.dns, *server);
            }
        });
    }
    plan.interfaces = profiles.finish(&mut plan.warnings);
    plan.sort();
    plan.warn_of_far_gateways();
    plan
}

/// Adds the interface that the argument is for, or changes it.
fn add_interface(
    argument: &InterfaceArgument,
    args: &NetArgs,
    profiles: &mut Profiles,
    plan: &mut NetworkPlan,
) {
    let warnings = &mut plan.warnings;
    match argument {
        InterfaceArgument::Ip(argument) => {
            if let Some(name) = &argument.host_name {
                plan.host_name = Some(name.clone());
            }
            let index = match &argument.device {
                Some(device) if device.cannot_exist() => return,
                Some(device) => profiles.of_device(device),
                None if argument.method == IpMethod::Firmware => {
                    firmware::add_all(profiles, &argument.text, &args.firmware, warnings);
                    return;
                }
                None => profiles.of_any_device(),
            };
            profiles.has_ip(index);
            profiles.note(index, &argument.text);
            apply_ip(profiles.at(index), argument, args, warnings);
        }
        InterfaceArgument::Controller(argument) => {
            add_controller(profiles, argument, warnings);
        }
        InterfaceArgument::Vlan(argument) => add_vlan(profiles, argument, warnings),
        InterfaceArgument::Partition(argument) => add_partition(profiles, argument),
        InterfaceArgument::Ethtool(argument) => {
            let index = profiles.of_ethernet_device(&argument.device);
            apply_ethtool(profiles.at(index), argument);
        }
        InterfaceArgument::ClientId(argument) => {
            let index = profiles.of_device(&argument.device);
            let ipv4 = profiles.at(index).ipv4.get_or_insert_with(automatic);
            ipv4.automatic.client_id = Some(argument.id.clone());
        }
        InterfaceArgument::Firmware(text) => {
            firmware::add_all(profiles, text, &args.firmware, warnings);
        }
    }
}

fn apply_ip(
    interface: &mut Interface,
    argument: &IpArgument,
    args: &NetArgs,
    warnings: &mut Vec<String>,
) {
    if let Some(prefix) = argument.address {
        // Two devices must not get the same static address.
        interface.multi = false;
        let ip = family(interface, prefix.address);
        ip.method = Method::Manual;
        ip.required = true;
        add_once(&mut ip.addresses, prefix);
    }
    if argument.method == IpMethod::Firmware {
        firmware::apply(interface, &argument.text, &args.firmware, warnings);
    }
    apply_method(interface, argument, args, warnings);
    if let Some(gateway) = argument.gateway {
        family(interface, gateway).gateway = Some(gateway);
    }
    for server in &argument.dns {
        add_once(&mut family(interface, *server).dns, *server);
    }
    if let Some(name) = &argument.host_name {
        for ip in interface.families_mut() {
            ip.automatic.host_name = Some(name.clone());
        }
    }
    if let Some(mtu) = argument.mtu {
        interface.mtu = Some(mtu).filter(|mtu| *mtu != 0);
    }
    if let Some(mac) = argument.set_mac {
        interface.set_mac = Some(mac);
        if matches!(mac, ClonedMac::Random | ClonedMac::Stable) {
            warnings.push(format!(
                "{}: the installed system sets a {mac} MAC address; the ramdisk keeps the one \
                 that Ironic knows",
                argument.text
            ));
        }
    }
}

fn apply_method(
    interface: &mut Interface,
    argument: &IpArgument,
    args: &NetArgs,
    warnings: &mut Vec<String>,
) {
    let (Some(ipv4), Some(ipv6)) = (&mut interface.ipv4, &mut interface.ipv6) else {
        return;
    };
    match argument.method {
        // `auto` changes neither family, so the boot still waits for IPv4, which is the
        // default.
        IpMethod::Auto => return,
        IpMethod::DhcpAndDhcp6 => {
            ipv6.required_timeout_ms = Some(args.ip_required_timeout_ms);
            return;
        }
        IpMethod::None => {
            set_unless_static(ipv4, Method::Disabled);
            set_unless_static(ipv6, Method::Disabled);
        }
        IpMethod::Dhcp => {
            require(ipv4, Method::Auto);
            set_unless_static(ipv6, Method::Auto);
        }
        IpMethod::Dhcp6 => {
            require(ipv6, Method::Auto);
            set_unless_static(ipv4, Method::Disabled);
        }
        IpMethod::LinkLocal6 => {
            if ipv6.addresses.is_empty() {
                require(ipv6, Method::LinkLocal);
            } else {
                // NetworkManager rejects the whole profile if it has `link6` and a static
                // IPv6 address. Here only `link6` is ignored.
                let text = &argument.text;
                warnings.push(format!(
                    "{text}: the static IPv6 address is kept; link6 ignored"
                ));
            }
            set_unless_static(ipv4, Method::Disabled);
        }
        IpMethod::Firmware => {}
    }
    ipv4.required_timeout_ms = None;
}

/// An argument without any usable field leaves an earlier `rd.ethtool=` in effect.
fn apply_ethtool(interface: &mut Interface, argument: &EthtoolArgument) {
    if argument.autoneg.is_some() || argument.speed.is_some() {
        interface.ethtool = Some(Ethtool {
            autoneg: argument.autoneg.unwrap_or(false),
            speed: argument.speed,
        });
    }
}

fn require(ip: &mut IpPlan, method: Method) {
    ip.method = method;
    ip.required = true;
}

fn set_unless_static(ip: &mut IpPlan, method: Method) {
    if ip.addresses.is_empty() {
        ip.method = method;
    }
}

fn add_route(interface: &mut Interface, fields: &RouteFields) {
    let route = Route {
        destination: fields.destination,
        via: fields.gateway,
        kind: RouteKind::Unicast,
        metric: None,
        table: None,
        options: Vec::new(),
    };
    let family = family(interface, fields.destination.address);
    add_once(&mut family.routes, route);
}

/// Makes the boot wait for the interface, but only if it is an Ethernet NIC.
fn need(interface: &mut Interface) {
    interface.needed = interface.kind == InterfaceKind::Ethernet;
}

/// The settings of the interface for the IP family of the address. If the interface has
/// none for this family, adds automatic ones.
fn family(interface: &mut Interface, address: IpAddr) -> &mut IpPlan {
    let family = interface.family_mut(address.is_ipv4());
    family.get_or_insert_with(automatic)
}

#[cfg(test)]
mod tests;
