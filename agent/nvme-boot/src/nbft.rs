//! Parses the ACPI table NBFT, in which the firmware describes an NVMe/TCP boot: the
//! host, its NICs, and the namespaces to connect.
//!
//! The layout is that of the NVM Express Boot Specification, revisions 1.0 and 1.1
//! (chapter 3, the figures of the NBFT). If a table differs from the specification,
//! this parser interprets it as libnvme does (`nbft.c`, git of 2026-08), because the
//! installed system reads the same table with libnvme. If libnvme cannot use a
//! descriptor, it drops the descriptor silently; this parser drops it with a [`Fault`].

mod bytes;
mod descriptors;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use landfall_boot_params::MacAddr;
use uuid::Uuid;

pub use bytes::InvalidField;
use bytes::{Record, Table};

/// The maximum length of a table in bytes. The table of a real server with two NICs and
/// three namespaces has less than 2 KiB; the longest table that its one-byte counters
/// permit is far below this size.
pub const LARGEST: usize = 1 << 20;

/// Sizes of structures, in bytes.
const HEADER: usize = 64;
const CONTROL: usize = 64;
const HOST: usize = 32;

/// The first bit of the flags of every structure: the structure is valid.
const VALID: u16 = 1;

/// What the table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nbft {
    pub host: Host,
    /// The NICs (host fabric interfaces).
    pub nics: Vec<Hfi>,
    pub namespaces: Vec<Namespace>,
    pub discoveries: Vec<Discovery>,
    /// The descriptors that cannot be used.
    pub faults: Vec<Fault>,
}

/// The machine's identity for NVMe subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub nqn: String,
    /// `None` if the table has only zeros.
    pub id: Option<Uuid>,
}

/// A NIC with its network: a host fabric interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hfi {
    /// The number by which namespaces refer to it.
    pub index: u8,
    pub mac: MacAddr,
    pub vlan: Option<u16>,
    /// The address that the firmware used.
    pub address: Option<IpAddr>,
    pub prefix: u8,
    pub gateway: Option<IpAddr>,
    /// At most two servers.
    pub dns: Vec<IpAddr>,
    /// The family of the address, also if there is no address.
    pub is_ipv4: bool,
    /// The address came from DHCP, and must not be used without a lease.
    pub by_dhcp: bool,
    pub host_name: Option<String>,
}

/// A namespace, and the address of the subsystem that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub index: u16,
    pub subsystem: String,
    pub address: IpAddr,
    pub port: u16,
    /// 0 if only `nid` names the namespace.
    pub nsid: u32,
    pub nid: Option<Nid>,
    /// Indexes of the NICs over which to connect; the primary one is the first.
    pub nics: Vec<u8>,
    pub header_digest: bool,
    pub data_digest: bool,
    /// The firmware could not reach it.
    pub unavailable: bool,
    /// Index of the security profile that the connection needs.
    pub security: Option<u8>,
    /// Index of the discovery controller that named it.
    pub discovery: Option<u8>,
}

/// The world-wide name of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nid {
    Eui64([u8; 8]),
    Nguid([u8; 16]),
    Uuid(Uuid),
}

/// A discovery controller, which names subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    pub index: u8,
    /// Like `nvme+tcp://192.0.2.1:8009/`.
    pub uri: String,
}

/// Why the table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTable {
    /// The firmware's table of the NVMe boot is shorter than its header says or than
    /// the format requires. Update the firmware.
    #[error("expected {expected} bytes at least, found {found}")]
    Short { expected: usize, found: usize },
    /// The firmware's table is another one.
    #[error("expected the signature NBFT, found {0:?}")]
    Signature(String),
    /// The bytes of the firmware's table do not have the expected checksum. Update the
    /// firmware.
    #[error("expected a sum of all bytes of 0, found {0}")]
    Checksum(u8),
    /// The firmware's table has a form that this agent does not know. Use a newer
    /// version of Landfall, if there is one.
    #[error("expected the major revision 1, found {0}")]
    Revision(u8),
    /// A structure of the firmware's table is outside the table or is not the expected
    /// structure. Update the firmware.
    #[error("the {structure}: expected structure {expected} with its {length} bytes at {offset}")]
    Structure {
        structure: &'static str,
        expected: u8,
        length: usize,
        offset: usize,
    },
    /// The firmware's table has no valid description of this host. Enter the NVMe boot
    /// settings in the firmware's menu again.
    #[error("the host descriptor: {0}")]
    Host(InvalidField),
}

/// A descriptor that cannot be used, and the reason. The agent still uses the rest of
/// the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{descriptor}: {cause}")]
pub struct Fault {
    /// Its kind and number, such as `NIC 1` and `namespace 2`.
    pub descriptor: String,
    #[source]
    pub cause: InvalidField,
}

impl Nbft {
    /// Parses the table. `None` if the firmware says that it has configured nothing.
    ///
    /// # Errors
    /// If the table is damaged, has another revision, or describes no host.
    pub fn parse(bytes: &[u8]) -> Result<Option<Nbft>, InvalidTable> {
        let table = table(bytes)?;
        let control = structure(&table, "control structure", 1, HEADER, CONTROL)?;
        if u16::from(control.u8(6)) & VALID == 0 {
            return Ok(None);
        }
        let host = host(&table, control)?;
        let mut nbft = Nbft {
            host,
            nics: Vec::new(),
            namespaces: Vec::new(),
            discoveries: Vec::new(),
            faults: Vec::new(),
        };
        descriptors::read(&table, control, &mut nbft)?;
        Ok(Some(nbft))
    }

    /// The NIC with this index.
    pub fn nic(&self, index: u8) -> Option<&Hfi> {
        self.nics.iter().find(|nic| nic.index == index)
    }
}

/// Checks the header.
fn table(bytes: &[u8]) -> Result<Table<'_>, InvalidTable> {
    let short = |expected| InvalidTable::Short {
        expected,
        found: bytes.len(),
    };
    let header = Record(bytes);
    let least = HEADER + CONTROL;
    if bytes.len() < least {
        return Err(short(least));
    }
    let signature: [u8; 4] = header.array(0);
    if &signature != b"NBFT" {
        let found = String::from_utf8_lossy(&signature).into_owned();
        return Err(InvalidTable::Signature(found));
    }
    let length = header.u32(4) as usize;
    let Some(bytes) = bytes.get(..length.max(least)) else {
        return Err(short(length));
    };
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    if sum != 0 {
        return Err(InvalidTable::Checksum(sum));
    }
    // The same major revision means a compatible table, whatever the minor one is.
    let revision = header.u8(8);
    if revision != 1 {
        return Err(InvalidTable::Revision(revision));
    }
    let (start, length) = (header.u32(36) as usize, header.u32(40) as usize);
    let end = start.saturating_add(length);
    if end > bytes.len() {
        return Err(InvalidTable::Short {
            expected: end,
            found: bytes.len(),
        });
    }
    Ok(Table {
        bytes,
        heap: start..end,
    })
}

fn structure<'a>(
    table: &Table<'a>,
    name: &'static str,
    id: u8,
    offset: usize,
    length: usize,
) -> Result<Record<'a>, InvalidTable> {
    let found = table.record(offset, length);
    found
        .filter(|record| record.u8(0) == id)
        .ok_or(InvalidTable::Structure {
            structure: name,
            expected: id,
            length,
            offset,
        })
}

fn host(table: &Table<'_>, control: Record<'_>) -> Result<Host, InvalidTable> {
    let (offset, _) = control.reference(8);
    let host = structure(table, "host descriptor", 2, offset, HOST)?;
    if u16::from(host.u8(1)) & VALID == 0 {
        let fault = InvalidField::value("flags", "the flag of a valid descriptor", host.u8(1));
        return Err(InvalidTable::Host(fault));
    }
    const FIELD: &str = "host NQN";
    let nqn = table.text(host, 18, FIELD);
    let nqn = nqn
        .and_then(|text| text.ok_or(InvalidField::Missing { field: FIELD }))
        .and_then(|text| descriptors::checked_nqn(text, FIELD))
        .map_err(InvalidTable::Host)?;
    let id = Uuid::from_bytes(host.array(2));
    Ok(Host {
        nqn,
        id: Some(id).filter(|id| !id.is_nil()),
    })
}

impl fmt::Display for Nid {
    /// The form of the kernel's attribute `wwid`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hexadecimal = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            f.write_str("eui.")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Nid::Eui64(bytes) => hexadecimal(f, bytes),
            Nid::Nguid(bytes) => hexadecimal(f, bytes),
            Nid::Uuid(uuid) => write!(f, "uuid.{uuid}"),
        }
    }
}
