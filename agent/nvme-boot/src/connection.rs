//! The connections that the tables describe, and the options that the kernel gets for
//! each. Has no side effects.

use std::fmt;
use std::net::IpAddr;

use landfall_network::NetworkState;
use landfall_network::state::{MadeOf, NicState};
use uuid::Uuid;

use crate::host_id::host_id;
use crate::nbft::{Hfi, Namespace};
use crate::tables::FirmwareTable;

/// The name under which every discovery controller answers (NVM Express Base
/// Specification, 3.1.3.3).
const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The maximum number of connections. A table has room for 255 namespaces, each over
/// several NICs, but a machine boots from a few of them.
const MOST_CONNECTIONS: usize = 64;

/// A connection to a subsystem over one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub subsystem: String,
    pub address: IpAddr,
    pub port: u16,
    pub host_nqn: String,
    pub host_id: Uuid,
    pub header_digest: bool,
    pub data_digest: bool,
    /// The firmware could not reach the subsystem, so the agent does not log a failure as
    /// an error.
    pub unavailable: bool,
    /// The NIC that the table names for the connection.
    pub nic: Hfi,
}

/// How a connection leaves the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    pub source: Option<IpAddr>,
    pub nic: Option<String>,
}

/// The connections of all tables, without duplicates. Also returns a line for each
/// namespace and each discovery controller that leads to no connection, and one if there
/// are too many.
pub fn connections(tables: &[FirmwareTable]) -> (Vec<Connection>, Vec<String>) {
    let (mut found, mut faults) = (Vec::<Connection>::new(), Vec::new());
    let mut left_out = 0usize;
    for table in tables {
        for namespace in &table.content.namespaces {
            match of_namespace(table, namespace, host_id(&table.content.host, tables)) {
                Ok(connections) => {
                    // Two namespaces of one subsystem need one connection.
                    for connection in connections {
                        match found.iter().position(|known| known.is_same(&connection)) {
                            Some(at) => found[at].unavailable &= connection.unavailable,
                            None if found.len() < MOST_CONNECTIONS => found.push(connection),
                            None => left_out += 1,
                        }
                    }
                }
                Err(why) => faults.push(format!(
                    "{} of the firmware's table {}: {why}; it is not connected",
                    in_words(namespace),
                    table.name
                )),
            }
        }
        let named = |index: u8| {
            let mut namespaces = table.content.namespaces.iter();
            namespaces.any(|n| n.discovery == Some(index) && n.subsystem != DISCOVERY_NQN)
        };
        for controller in &table.content.discoveries {
            if !named(controller.index) {
                faults.push(format!(
                    "discovery controller {} of the firmware's table {}: the agent asks no discovery controller -- give the firmware the address and the NQN of the subsystem",
                    controller.uri, table.name
                ));
            }
        }
    }
    if left_out > 0 {
        faults.push(format!(
            "the firmware's tables ask for {left_out} connections too many: the agent makes the first {MOST_CONNECTIONS} -- remove subsystems or paths from the firmware's NVMe settings"
        ));
    }
    (found, faults)
}

fn of_namespace(
    table: &FirmwareTable,
    namespace: &Namespace,
    host_id: Uuid,
) -> Result<Vec<Connection>, String> {
    if namespace.subsystem == DISCOVERY_NQN {
        return Err("it names a discovery controller and no subsystem".to_owned());
    }
    if let Some(profile) = namespace.security {
        return Err(format!(
            "it needs security profile {profile}, and the agent has no keys for NVMe/TCP"
        ));
    }
    let content = &table.content;
    let nics = namespace
        .nics
        .iter()
        .filter_map(|index| content.nic(*index));
    let connections: Vec<Connection> = nics
        .map(|nic| Connection {
            subsystem: namespace.subsystem.clone(),
            address: namespace.address,
            port: namespace.port,
            host_nqn: content.host.nqn.clone(),
            host_id,
            header_digest: namespace.header_digest,
            data_digest: namespace.data_digest,
            unavailable: namespace.unavailable,
            nic: nic.clone(),
        })
        .collect();
    match connections.is_empty() {
        true => Err("the table has no valid NIC for it".to_owned()),
        false => Ok(connections),
    }
}

fn in_words(namespace: &Namespace) -> String {
    match namespace.nid {
        Some(nid) => format!("namespace {nid}"),
        None => format!("namespace {} of {}", namespace.nsid, namespace.subsystem),
    }
}

impl Connection {
    fn is_same(&self, other: &Connection) -> bool {
        let unavailable = self.unavailable;
        *self
            == Connection {
                unavailable,
                ..other.clone()
            }
    }

    /// How to connect over the network in its current state. `None` while no NIC has the
    /// table's address, and the NIC of the table has no address of the required family
    /// except link-local ones.
    pub fn way(&self, network: &NetworkState) -> Option<Way> {
        let usable = |nic: &NicState, wanted: &dyn Fn(IpAddr) -> bool| {
            let mut addresses = nic.addresses.iter();
            addresses.any(|address| address.usable && wanted(address.prefix.address))
        };
        // Look for the NIC by the table's IP address first: if the NIC of the table is a
        // port of a bond, the bond has the address.
        if let Some(source) = self.nic.address {
            let mut nics = network.nics.iter();
            let nic = nics.find(|nic| usable(nic, &|address| address == source));
            if let Some(nic) = nic {
                return Some(Way {
                    source: Some(source),
                    nic: Some(nic.name.clone()),
                });
            }
        }
        // Otherwise the NIC of the table may have another address, by DHCP or from the
        // operator.
        let reaches = |address: IpAddr| {
            let is_local = match address {
                IpAddr::V4(address) => address.is_link_local(),
                IpAddr::V6(address) => address.is_unicast_link_local(),
            };
            address.is_ipv4() == self.address.is_ipv4() && !is_local
        };
        let mut nics = network.nics.iter();
        let nic = nics.find(|nic| self.is_over(nic) && usable(nic, &reaches))?;
        Some(Way {
            source: None,
            nic: Some(nic.name.clone()),
        })
    }

    fn is_over(&self, nic: &NicState) -> bool {
        let vlan = match nic.made_of {
            Some(MadeOf::Vlan { id, .. }) => Some(id),
            _ => None,
        };
        let macs = [Some(nic.mac), nic.permanent_mac];
        macs.contains(&Some(self.nic.mac)) && vlan == self.nic.vlan
    }

    /// The options as the kernel parses them (`opt_tokens` in drivers/nvme/host/fabrics.c).
    pub fn options(&self, way: &Way) -> String {
        let mut options = vec![
            "transport=tcp".to_owned(),
            format!("traddr={}", self.address),
            format!("trsvcid={}", self.port),
            format!("nqn={}", self.subsystem),
            format!("hostnqn={}", self.host_nqn),
            format!("hostid={}", self.host_id),
        ];
        options.extend(way.source.map(|source| format!("host_traddr={source}")));
        options.extend(way.nic.as_ref().map(|name| format!("host_iface={name}")));
        if self.header_digest {
            options.push("hdr_digest".to_owned());
        }
        if self.data_digest {
            options.push("data_digest".to_owned());
        }
        options.join(",")
    }

    /// Where the subsystem is.
    pub fn target(&self) -> String {
        match self.address {
            IpAddr::V4(address) => format!("{address}:{}", self.port),
            IpAddr::V6(address) => format!("[{address}]:{}", self.port),
        }
    }

    /// The NIC, as the table describes it.
    pub fn nic_in_words(&self) -> String {
        match self.nic.vlan {
            Some(id) => format!("VLAN {id} on the NIC with MAC {}", self.nic.mac),
            None => format!("the NIC with MAC {}", self.nic.mac),
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVMe subsystem {} at {}", self.subsystem, self.target())
    }
}

#[cfg(test)]
mod tests;
