//! dracut's network arguments → [`NetArgs`].
//!
//! The grammar is the one that NetworkManager's generator for the initramfs
//! implements (`nmi-cmdline-reader.c`, git of 2026-08), because that is what
//! reads the very same arguments on the installed CoreOS. Only form is looked
//! at here; what the arguments mean together is for the network plan.

mod device;
mod host_name;
mod ip_argument;
mod method;
mod name_argument;
mod route_argument;
mod virtual_argument;
mod words;

use std::net::IpAddr;

pub use device::{DeviceSpec, is_interface_name};
pub use host_name::is_host_name;
pub use ip_argument::IpArgument;
pub use method::IpMethod;
pub use name_argument::NameArgument;
pub use route_argument::{RouteArgument, RouteFields};
pub use virtual_argument::{ControllerArgument, ControllerKind, VlanArgument};

use crate::boolean;
use crate::cmdline::{CommandLine, Token};
use crate::mac::BootInterface;

/// What NetworkManager allows one DHCP transaction, in seconds.
const DHCP_TIMEOUT: u32 = 90;

/// How long the second family is waited for when the first is up.
const IP_REQUIRED_TIMEOUT_MS: u32 = 20_000;

/// Longest time that NetworkManager stores, in its own unit; "infinity" too.
const MAX_TIME: u32 = i32::MAX as u32;

/// Arguments of the same vocabulary that are read by later parts of the
/// project. Each use is one warning, so that nobody wonders why nothing happens.
const NOT_YET: &[&str] = &[
    "ib.pkey",
    "rd.ethtool",
    "rd.iscsi.ibft",
    "rd.net.dhcp.client-id",
    "rd.net.dhcp.dscp",
    "rd.net.dns",
    "rd.znet",
];

/// All that the command line says about the network, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetArgs {
    /// Each usable `ip=`, `vlan=`, `bond=`, `bridge=` and `team=`.
    pub interfaces: Vec<InterfaceArgument>,
    /// Each `ifname=`: at most one for an address and one for a name.
    pub names: Vec<NameArgument>,
    /// Each `nameserver=`.
    pub nameservers: Vec<IpAddr>,
    /// Each `rd.route=`.
    pub routes: Vec<RouteArgument>,
    /// The last `BOOTIF=`, unless `rd.bootif=0` takes it back.
    pub boot_interface: Option<BootInterface>,
    /// The last `bootdev=`.
    pub boot_device: Option<DeviceSpec>,
    /// `rd.neednet`: the network is to be up, and devices are waited for.
    pub need_network: bool,
    /// False after `rd.peerdns=0`: DNS servers of DHCP and RA are not taken.
    pub accept_peer_dns: bool,
    /// Seconds that DHCP may take, `rd.net.dhcp.retry` multiplied in.
    pub dhcp_timeout: u32,
    /// `rd.net.dhcp.vendor-class=`.
    pub dhcp_vendor_class: Option<String>,
    /// Seconds that a carrier is waited for, where given.
    pub carrier_timeout: Option<u32>,
    /// Milliseconds that the second family is waited for.
    pub ip_required_timeout_ms: u32,
    /// What was ignored and why, one line each.
    pub warnings: Vec<String>,
}

/// One argument about one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceArgument {
    /// `ip=`
    Ip(IpArgument),
    /// `bond=`, `bridge=` or `team=`
    Controller(ControllerArgument),
    /// `vlan=`
    Vlan(VlanArgument),
}

impl InterfaceArgument {
    fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<InterfaceArgument> {
        let kind = match token.key.as_str() {
            "bond" => ControllerKind::Bond,
            "bridge" => ControllerKind::Bridge,
            "team" => ControllerKind::Team,
            "vlan" => return VlanArgument::parse(token, warnings).map(InterfaceArgument::Vlan),
            _ => return IpArgument::parse(token, warnings).map(InterfaceArgument::Ip),
        };
        ControllerArgument::parse(kind, token, warnings).map(InterfaceArgument::Controller)
    }

    /// The argument as it stood on the command line.
    pub fn text(&self) -> &str {
        match self {
            InterfaceArgument::Ip(argument) => &argument.text,
            InterfaceArgument::Controller(argument) => &argument.text,
            InterfaceArgument::Vlan(argument) => &argument.text,
        }
    }
}

impl Default for NetArgs {
    fn default() -> NetArgs {
        NetArgs {
            interfaces: Vec::new(),
            names: Vec::new(),
            nameservers: Vec::new(),
            routes: Vec::new(),
            boot_interface: None,
            boot_device: None,
            need_network: false,
            accept_peer_dns: true,
            dhcp_timeout: DHCP_TIMEOUT,
            dhcp_vendor_class: None,
            carrier_timeout: None,
            ip_required_timeout_ms: IP_REQUIRED_TIMEOUT_MS,
            warnings: Vec::new(),
        }
    }
}

impl NetArgs {
    /// Reads a command line. No text is an error.
    pub fn from_command_line(line: &CommandLine) -> NetArgs {
        let mut args = NetArgs::default();
        let mut use_boot_interface = true;
        for token in line.tokens() {
            let value = token.value_or_empty();
            match token.key.as_str() {
                "ip" | "vlan" | "bond" | "bridge" | "team" => args
                    .interfaces
                    .extend(InterfaceArgument::parse(token, &mut args.warnings)),
                "ifname" => {
                    if let Some(name) = NameArgument::parse(token, &mut args.warnings) {
                        name.add_to(&mut args.names, &mut args.warnings);
                    }
                }
                "nameserver" => args.read_nameserver(token),
                "rd.route" => args
                    .routes
                    .push(RouteArgument::parse(token, &mut args.warnings)),
                "bootdev" if !value.is_empty() => args.boot_device = Some(DeviceSpec::parse(value)),
                "rd.bootif" => use_boot_interface = boolean_or(value, true),
                "rd.neednet" => args.need_network = boolean_or(value, true),
                "rd.peerdns" => args.accept_peer_dns = boolean_or(value, true),
                "rd.net.dhcp.vendor-class" => args.read_vendor_class(token),
                key if key.eq_ignore_ascii_case("BOOTIF") => args.read_boot_interface(token),
                key if NOT_YET.contains(&key) => args
                    .warnings
                    .push(format!("{}: not supported yet; ignored", token.text)),
                _ => {}
            }
        }
        if !use_boot_interface {
            args.boot_interface = None;
        }
        args.read_times(line);
        args
    }

    /// Each usable `ip=`, in order.
    pub fn ip(&self) -> impl Iterator<Item = &IpArgument> {
        self.interfaces
            .iter()
            .filter_map(|argument| match argument {
                InterfaceArgument::Ip(ip) => Some(ip),
                _ => None,
            })
    }

    /// True when some argument tells what an interface is to have. Which NIC
    /// the boot loader used, and how long to wait, tells none.
    pub fn says_something(&self) -> bool {
        !self.interfaces.is_empty()
            || !self.routes.is_empty()
            || !self.nameservers.is_empty()
            || self.boot_device.is_some()
            || self.need_network
    }

    fn read_nameserver(&mut self, token: &Token) {
        let text = words::without_brackets(token.value_or_empty());
        match text.parse() {
            Ok(address) => self.nameservers.push(address),
            Err(_) if text.is_empty() => {}
            Err(_) => self
                .warnings
                .push(format!("{}: expected an IP address; ignored", token.text)),
        }
    }

    fn read_boot_interface(&mut self, token: &Token) {
        let text = token.value_or_empty();
        if text.is_empty() {
            return;
        }
        match BootInterface::parse(text) {
            Ok(interface) => self.boot_interface = Some(interface),
            // BootParams reads the same argument and has told about it.
            Err(_) => self.boot_interface = None,
        }
    }

    /// An option of DHCP holds 255 bytes.
    fn read_vendor_class(&mut self, token: &Token) {
        let text = token.value_or_empty();
        if text.is_empty() || text.len() > 255 {
            self.warnings.push(format!(
                "{}: expected 1 to 255 bytes, found {}; ignored",
                token.text,
                text.len()
            ));
        } else {
            self.dhcp_vendor_class = Some(text.to_owned());
        }
    }

    fn read_times(&mut self, line: &CommandLine) {
        let mut retries = 1;
        for token in line.tokens() {
            let value = token.value_or_empty();
            let number = |least, most| {
                let found = value.trim().parse::<u32>().ok();
                found.filter(|n| (least..=most).contains(n))
            };
            let found = match token.key.as_str() {
                "rd.net.timeout.dhcp" if value == "infinity" => {
                    self.dhcp_timeout = MAX_TIME;
                    continue;
                }
                "rd.net.timeout.dhcp" => number(1, MAX_TIME).map(|n| self.dhcp_timeout = n),
                "rd.net.dhcp.retry" => number(1, MAX_TIME).map(|n| retries = n),
                "rd.net.timeout.carrier" => {
                    number(0, MAX_TIME).map(|n| self.carrier_timeout = (n != 0).then_some(n))
                }
                "rd.net.timeout.ip-required" if value == "infinity" => {
                    self.ip_required_timeout_ms = MAX_TIME;
                    continue;
                }
                "rd.net.timeout.ip-required" => {
                    number(0, MAX_TIME / 1000).map(|n| self.ip_required_timeout_ms = n * 1000)
                }
                _ => continue,
            };
            if found.is_none() {
                let text = &token.text;
                self.warnings
                    .push(format!("{text}: expected a number of seconds; ignored"));
            }
        }
        self.dhcp_timeout = self.dhcp_timeout.saturating_mul(retries).min(MAX_TIME);
    }
}

fn boolean_or(text: &str, default: bool) -> bool {
    boolean::parse(text).unwrap_or(default)
}

#[cfg(test)]
mod tests;
