//! Arguments that find or create interfaces. Their order matters, because a later
//! argument can refer to an interface of an earlier one.

use super::client_id_argument::ClientIdArgument;
use super::ip_argument::IpArgument;
use super::link_argument::{EthtoolArgument, PartitionArgument};
use super::switch;
use super::virtual_argument::{ControllerArgument, ControllerKind, VlanArgument};
use crate::cmdline::Token;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceArgument {
    /// `ip=`
    Ip(IpArgument),
    /// `bond=`, `bridge=` or `team=`
    Controller(ControllerArgument),
    /// `vlan=`
    Vlan(VlanArgument),
    /// `ib.pkey=`
    Partition(PartitionArgument),
    /// `rd.ethtool=`
    Ethtool(EthtoolArgument),
    /// `rd.net.dhcp.client-id=`
    ClientId(ClientIdArgument),
    /// `rd.iscsi.ibft`, as written on the command line: every NIC in the firmware's
    /// table.
    Firmware(String),
}

impl InterfaceArgument {
    /// Parses the argument; `None` if it is of another kind or cannot be used.
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<InterfaceArgument> {
        let controller = |kind, warnings: &mut Vec<String>| {
            ControllerArgument::parse(kind, token, warnings).map(InterfaceArgument::Controller)
        };
        match token.key.as_str() {
            "ip" => IpArgument::parse(token, warnings).map(InterfaceArgument::Ip),
            "bond" => controller(ControllerKind::Bond, warnings),
            "bridge" => controller(ControllerKind::Bridge, warnings),
            "team" => controller(ControllerKind::Team, warnings),
            "vlan" => VlanArgument::parse(token, warnings).map(InterfaceArgument::Vlan),
            "ib.pkey" => {
                PartitionArgument::parse(token, warnings).map(InterfaceArgument::Partition)
            }
            "rd.ethtool" => EthtoolArgument::parse(token, warnings).map(InterfaceArgument::Ethtool),
            "rd.net.dhcp.client-id" => {
                ClientIdArgument::parse(token, warnings).map(InterfaceArgument::ClientId)
            }
            "rd.iscsi.ibft" => switch::on_unless_off(token, warnings)
                .then(|| InterfaceArgument::Firmware(token.text.clone())),
            _ => None,
        }
    }

    /// The argument as written on the command line.
    pub fn text(&self) -> &str {
        match self {
            InterfaceArgument::Ip(argument) => &argument.text,
            InterfaceArgument::Controller(argument) => &argument.text,
            InterfaceArgument::Vlan(argument) => &argument.text,
            InterfaceArgument::Partition(argument) => &argument.text,
            InterfaceArgument::Ethtool(argument) => &argument.text,
            InterfaceArgument::ClientId(argument) => &argument.text,
            InterfaceArgument::Firmware(text) => text,
        }
    }
}
