//! Parses dracut's network arguments into [`NetArgs`].
//!
//! The grammar is that of NetworkManager's generator for the initramfs
//! (`nmi-cmdline-reader.c`, git of 2026-08), because that program reads the same
//! arguments on the installed CoreOS. This module checks only the form; the network
//! plan decides what the arguments mean together.
//!
//! The following arguments are silently ignored, because this machine has no use for
//! them: dracut's own timeouts (`rd.net.timeout.iflink` and others), `rd.znet`, and the
//! choice of a DNS daemon (`rd.net.dns-backend`, `rd.net.dns-resolve-mode`).
//! NetworkManager either does not read them or applies them only on other machines.

mod client_id_argument;
mod device;
mod global_dns;
mod host_name;
mod interface_argument;
mod ip_argument;
mod link_argument;
mod method;
mod name_argument;
mod route_argument;
mod switch;
mod times;
mod vendor_class;
mod virtual_argument;
mod words;

use std::net::IpAddr;

pub use client_id_argument::ClientIdArgument;
pub use device::{DeviceSpec, is_interface_name};
pub use host_name::is_host_name;
pub use interface_argument::InterfaceArgument;
pub use ip_argument::IpArgument;
pub use link_argument::{EthtoolArgument, PartitionArgument};
pub use method::IpMethod;
pub use name_argument::NameArgument;
pub use route_argument::{RouteArgument, RouteFields};
pub use vendor_class::{InvalidVendorClass, VendorClass};
pub use virtual_argument::{ControllerArgument, ControllerKind, VlanArgument};

use crate::cmdline::{CommandLine, Token};
use crate::firmware_nics::FirmwareNics;
use crate::mac::BootInterface;
use times::Times;

/// The maximum number of servers that are read from all `rd.net.dns=` arguments, and from
/// all `nameserver=` arguments. A resolver uses three.
const MOST_SERVERS: usize = 64;

/// The network arguments of a command line, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetArgs {
    /// Each usable argument that finds or creates interfaces.
    pub interfaces: Vec<InterfaceArgument>,
    /// Each `ifname=`: at most one per address and one per name.
    pub names: Vec<NameArgument>,
    /// Each `nameserver=`.
    pub nameservers: Vec<IpAddr>,
    /// Each `rd.net.dns=`.
    pub global_dns: Vec<IpAddr>,
    /// Each `rd.route=`.
    pub routes: Vec<RouteArgument>,
    /// The last `BOOTIF=` with a value. `None` if it is invalid or `rd.bootif=0` cancels
    /// it.
    pub boot_interface: Option<BootInterface>,
    /// The last `bootdev=`.
    pub boot_device: Option<DeviceSpec>,
    /// `rd.neednet`: the network has to come up, and NetworkManager waits for
    /// devices.
    pub need_network: bool,
    /// False after `rd.peerdns=0`: DNS servers from DHCP and router advertisements
    /// are ignored.
    pub accept_peer_dns: bool,
    /// Time limit of DHCP in seconds, already multiplied by `rd.net.dhcp.retry`.
    pub dhcp_timeout: u32,
    /// `rd.net.dhcp.vendor-class=`.
    pub dhcp_vendor_class: Option<VendorClass>,
    /// `rd.net.dhcp.dscp=` as a number: the differentiated services code point of
    /// the packets that the DHCP client sends.
    pub dhcp_dscp: Option<u8>,
    /// Seconds to wait for a carrier, if given.
    pub carrier_timeout: Option<u32>,
    /// Milliseconds to wait for the second address family.
    pub ip_required_timeout_ms: u32,
    /// The firmware's data about the NICs, which the command line does not contain. If
    /// [`NetArgs::needs_firmware`] or [`NetArgs::uses_nbft_network`] returns true, the
    /// caller reads the data and stores it here.
    pub firmware: FirmwareNics,
    /// `rd.nonvmf`, `rd.nvmf.nonbft`: the firmware's tables for an NVMe boot (NBFT) are
    /// ignored.
    pub ignores_nbft: bool,
    /// `rd.iscsi.firmware=0`: the agent does not log in to the iSCSI targets of the
    /// firmware's table (iBFT). Without the argument, the agent logs in, but dracut does
    /// not.
    pub ignores_ibft_targets: bool,
    /// True if an `ifname=` gives a name that begins with `nbft`. In that case dracut has
    /// already written the network of the firmware's NVMe tables (NBFT) as arguments, so
    /// the agent does not read it from the tables again.
    pub has_nbft_names: bool,
    /// What was ignored and why, one line each.
    pub warnings: Vec<String>,
}

impl Default for NetArgs {
    fn default() -> NetArgs {
        let times = Times::default();
        NetArgs {
            interfaces: Vec::new(),
            names: Vec::new(),
            nameservers: Vec::new(),
            global_dns: Vec::new(),
            routes: Vec::new(),
            boot_interface: None,
            boot_device: None,
            need_network: false,
            accept_peer_dns: true,
            dhcp_timeout: times.dhcp,
            dhcp_vendor_class: None,
            dhcp_dscp: None,
            carrier_timeout: times.carrier,
            ip_required_timeout_ms: times.ip_required_ms,
            firmware: FirmwareNics::default(),
            ignores_nbft: false,
            ignores_ibft_targets: false,
            has_nbft_names: false,
            warnings: Vec::new(),
        }
    }
}

impl NetArgs {
    /// Like [`from_command_line`](Self::from_command_line), for the text of a command
    /// line.
    pub fn parse(line: &str) -> NetArgs {
        NetArgs::from_command_line(&CommandLine::parse(line))
    }

    /// Reads a command line. An argument that cannot be used becomes a warning.
    pub fn from_command_line(line: &CommandLine) -> NetArgs {
        let mut args = NetArgs::default();
        let mut use_boot_interface = true;
        for token in line.tokens() {
            let value = token.value_or_empty();
            let warnings = &mut args.warnings;
            match token.key.as_str() {
                "rd.nonvmf" | "rd.nvmf.nonbft" => {
                    args.ignores_nbft = switch::on_unless_off(token, warnings);
                }
                "rd.iscsi.firmware" => {
                    args.ignores_ibft_targets = !switch::on_unless_off(token, warnings);
                }
                "ifname" => {
                    args.has_nbft_names |= value.starts_with("nbft");
                    if let Some(name) = NameArgument::parse(token, warnings) {
                        name.add_to(&mut args.names, warnings);
                    }
                }
                "nameserver" => args.read_nameserver(token),
                "rd.net.dns" => args.read_global_dns(token),
                "rd.route" => args.routes.extend(RouteArgument::parse(token, warnings)),
                "bootdev" => args.read_boot_device(token),
                "rd.bootif" => use_boot_interface = switch::on_unless_off(token, warnings),
                "rd.neednet" => args.need_network = switch::on_unless_off(token, warnings),
                "rd.peerdns" => args.accept_peer_dns = switch::on_unless_off(token, warnings),
                "rd.net.dhcp.vendor-class" => args.read_vendor_class(token),
                "rd.net.dhcp.dscp" => match code_point(value) {
                    Some(code) => args.dhcp_dscp = Some(code),
                    None => warnings.push(token.expected("CS0, CS4 or CS6", value)),
                },
                key if key.eq_ignore_ascii_case("BOOTIF") => args.read_boot_interface(token),
                _ => args
                    .interfaces
                    .extend(InterfaceArgument::parse(token, warnings)),
            }
        }
        if !use_boot_interface {
            args.boot_interface = None;
        }
        let times = Times::read(line, &mut args.warnings);
        args.dhcp_timeout = times.dhcp;
        args.carrier_timeout = times.carrier;
        args.ip_required_timeout_ms = times.ip_required_ms;
        args
    }

    pub fn ip(&self) -> impl Iterator<Item = &IpArgument> {
        self.interfaces
            .iter()
            .filter_map(|argument| match argument {
                InterfaceArgument::Ip(ip) => Some(ip),
                _ => None,
            })
    }

    /// True if an argument configures interfaces: one of [`Self::interfaces`],
    /// `rd.route=`, `nameserver=`, `bootdev=` or `rd.neednet`. `BOOTIF=`, `ifname=`,
    /// `rd.net.dns=` and the timeouts do not count.
    pub fn configures_interfaces(&self) -> bool {
        !self.interfaces.is_empty()
            || !self.routes.is_empty()
            || !self.nameservers.is_empty()
            || self.boot_device.is_some()
            || self.need_network
    }

    /// True if the NICs in the firmware's tables for an NVMe boot (NBFT) get the
    /// network settings of these tables.
    pub fn uses_nbft_network(&self) -> bool {
        !self.ignores_nbft && !self.has_nbft_names
    }

    /// True if an argument needs [`NetArgs::firmware`].
    pub fn needs_firmware(&self) -> bool {
        self.interfaces.iter().any(|argument| match argument {
            InterfaceArgument::Firmware(_) => true,
            InterfaceArgument::Ip(ip) => ip.method == IpMethod::Firmware,
            _ => false,
        })
    }

    fn read_nameserver(&mut self, token: &Token) {
        let text = words::without_brackets(token.value_or_empty());
        match text.parse() {
            Ok(_) if self.nameservers.len() == MOST_SERVERS => self.warn_of_many(token),
            Ok(address) => self.nameservers.push(address),
            Err(_) if text.is_empty() => {}
            Err(_) => self.warnings.push(token.ignored("expected an IP address")),
        }
    }

    fn read_global_dns(&mut self, token: &Token) {
        let value = token.value_or_empty();
        match global_dns::parse(value) {
            Ok(_) if self.global_dns.len() == MOST_SERVERS => self.warn_of_many(token),
            Ok(address) => self.global_dns.push(address),
            Err(expected) => self.warnings.push(token.expected(expected, value)),
        }
    }

    fn warn_of_many(&mut self, token: &Token) {
        let words = format_args!("expected at most {MOST_SERVERS} arguments of this name");
        self.warnings.push(token.ignored(words));
    }

    /// Reads `bootdev=`. If its text is not a device name or an address, NetworkManager
    /// uses the first interface.
    fn read_boot_device(&mut self, token: &Token) {
        let text = token.value_or_empty();
        self.boot_device = DeviceSpec::parse_reporting(text, token, &mut self.warnings);
    }

    fn read_boot_interface(&mut self, token: &Token) {
        let text = token.value_or_empty();
        let found = BootInterface::parse(text);
        if let Err(expected) = &found {
            self.warnings
                .push(token.ignored(format_args!("{expected}, found {text:?}")));
        }
        // An empty value comes from a template and says nothing about the NIC.
        if !text.is_empty() {
            self.boot_interface = found.ok();
        }
    }

    fn read_vendor_class(&mut self, token: &Token) {
        match VendorClass::parse(token.value_or_empty()) {
            Ok(class) => self.dhcp_vendor_class = Some(class),
            Err(expected) => self.warnings.push(token.ignored(expected)),
        }
    }
}

/// The class selectors (RFC 2474, 4.2.2) that NetworkManager accepts for DHCP.
fn code_point(text: &str) -> Option<u8> {
    match text {
        "CS0" => Some(0),
        "CS4" => Some(32),
        "CS6" => Some(48),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
