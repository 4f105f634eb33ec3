//! Makes tables, for the tests of this crate and for virtual machines.

use std::net::{IpAddr, Ipv6Addr};

/// The size in bytes of the header that all ACPI tables have; QEMU makes the header
/// itself.
pub const ACPI_HEADER: usize = 36;

/// The host that every table has.
pub const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:d6f07002-7eb5-4841-a185-400e296afae4";
pub const HOST_ID: &str = "111919da-21ea-cc4e-bafe-216d8372dd31";

/// A NIC of a table.
#[derive(Clone, Debug)]
pub struct Nic {
    pub index: u8,
    pub mac: [u8; 6],
    pub vlan: u16,
    pub address: Option<IpAddr>,
    pub prefix: u8,
    pub gateway: Option<IpAddr>,
    pub dns: Option<IpAddr>,
    /// The DHCP server that gave the address.
    pub dhcp_server: Option<IpAddr>,
    pub host_name: &'static str,
}

/// A namespace of a table.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub index: u16,
    pub subsystem: String,
    pub address: IpAddr,
    pub port: &'static str,
    pub nics: Vec<u8>,
    /// In addition to the flag of a valid descriptor.
    pub flags: u16,
    pub transport_flags: u16,
}

impl Nic {
    /// A NIC with a static address.
    #[must_use]
    pub fn new(index: u8, mac: [u8; 6], address: &str, prefix: u8) -> Nic {
        Nic {
            index,
            mac,
            vlan: 0,
            address: address.parse().ok(),
            prefix,
            gateway: None,
            dns: None,
            dhcp_server: None,
            host_name: "",
        }
    }
}

impl Namespace {
    /// A namespace at port 4420, over these NICs.
    #[must_use]
    pub fn new(index: u16, subsystem: &str, address: IpAddr, nics: &[u8]) -> Namespace {
        Namespace {
            index,
            subsystem: subsystem.to_owned(),
            address,
            port: "4420",
            nics: nics.to_vec(),
            flags: 0,
            transport_flags: 0,
        }
    }
}

/// A valid table. Its first [`ACPI_HEADER`] bytes are the ACPI header.
#[must_use]
pub fn table(nics: &[Nic], namespaces: &[Namespace], discoveries: &[&str]) -> Vec<u8> {
    const LISTS: usize = 160;
    let namespaces_at = LISTS + 32 * nics.len();
    let discoveries_at = namespaces_at + 128 * namespaces.len();
    let mut heap = Heap {
        start: discoveries_at + 32 * discoveries.len(),
        bytes: Vec::new(),
    };
    let mut table = vec![0; heap.start];
    put(&mut table, 64, &[1, 1, 0, 0, 64, 0, 1]);
    put(&mut table, 72, &reference(128, 32));
    list(&mut table, 80, LISTS, 32, nics.len());
    list(&mut table, 88, namespaces_at, 128, namespaces.len());
    list(&mut table, 104, discoveries_at, 32, discoveries.len());
    put(&mut table, 128, &[2, 1]);
    let id: uuid::Uuid = HOST_ID.parse().unwrap_or_default();
    put(&mut table, 130, id.as_bytes());
    put(&mut table, 146, &heap.add_text(HOST_NQN));
    for (number, nic) in nics.iter().enumerate() {
        let at = LISTS + 32 * number;
        put(&mut table, at, &[3, nic.index, 1, 3]);
        let transport = transport(nic, &mut heap);
        put(&mut table, at + 16, &heap.add(&transport));
    }
    for (number, namespace) in namespaces.iter().enumerate() {
        let descriptor = descriptor(namespace, &mut heap);
        put(&mut table, namespaces_at + 128 * number, &descriptor);
    }
    for (number, uri) in discoveries.iter().enumerate() {
        let at = discoveries_at + 32 * number;
        put(&mut table, at, &[6, 1, number as u8 + 1, 1]);
        put(&mut table, at + 6, &heap.add_text(uri));
    }
    put(&mut table, 0, b"NBFT");
    put(&mut table, 8, &[1]);
    put(&mut table, 10, b"OEM   OEMTABLE");
    put(&mut table, 36, &(heap.start as u32).to_le_bytes());
    put(&mut table, 40, &(heap.bytes.len() as u32).to_le_bytes());
    table.extend(heap.bytes);
    let length = table.len() as u32;
    put(&mut table, 4, &length.to_le_bytes());
    correct_checksum(&mut table);
    table
}

/// Makes the sum of all bytes zero.
pub fn correct_checksum(table: &mut [u8]) {
    if table.len() > 9 {
        table[9] = 0;
        let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        table[9] = sum.wrapping_neg();
    }
}

struct Heap {
    start: usize,
    bytes: Vec<u8>,
}

impl Heap {
    /// The reference to a new object.
    fn add(&mut self, bytes: &[u8]) -> [u8; 6] {
        let offset = self.start + self.bytes.len();
        self.bytes.extend(bytes);
        reference(offset, bytes.len())
    }

    /// The length is without the NUL that ends the text.
    fn add_text(&mut self, text: &str) -> [u8; 6] {
        if text.is_empty() {
            return [0; 6];
        }
        let reference = self.add(text.as_bytes());
        self.bytes.push(0);
        reference
    }
}

fn transport(nic: &Nic, heap: &mut Heap) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    let flags = if nic.dhcp_server.is_some() { 5 } else { 1 };
    put(&mut bytes, 0, &[7, 1, 3, 1, nic.index, 0, flags]);
    put(&mut bytes, 11, &nic.mac);
    put(&mut bytes, 17, &nic.vlan.to_le_bytes());
    put(&mut bytes, 36, &[nic.prefix]);
    let addresses = [
        (20, nic.address),
        (37, nic.gateway),
        (56, nic.dns),
        (88, nic.dhcp_server),
    ];
    for (at, address) in addresses {
        if let Some(address) = address {
            put(&mut bytes, at, &mapped(address));
        }
    }
    put(&mut bytes, 104, &heap.add_text(nic.host_name));
    bytes
}

fn descriptor(namespace: &Namespace, heap: &mut Heap) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    put(&mut bytes, 0, &[4]);
    put(&mut bytes, 1, &namespace.index.to_le_bytes());
    put(&mut bytes, 3, &(namespace.flags | 1).to_le_bytes());
    put(&mut bytes, 5, &[3]);
    put(&mut bytes, 6, &namespace.transport_flags.to_le_bytes());
    put(&mut bytes, 10, &heap.add(&mapped(namespace.address)));
    put(&mut bytes, 16, &heap.add_text(namespace.port));
    put(&mut bytes, 24, &1u32.to_le_bytes());
    let (primary, secondary) = namespace.nics.split_first().unwrap_or((&0, &[]));
    put(&mut bytes, 46, &[*primary]);
    if !secondary.is_empty() {
        put(&mut bytes, 48, &heap.add(secondary));
    }
    put(&mut bytes, 54, &heap.add_text(&namespace.subsystem));
    bytes
}

fn mapped(address: IpAddr) -> [u8; 16] {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    address.octets()
}

fn list(table: &mut [u8], at: usize, offset: usize, length: usize, count: usize) {
    if count > 0 {
        put(table, at, &reference(offset, length));
        put(table, at + 6, &[1, count as u8]);
    }
}

fn reference(offset: usize, length: usize) -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&(offset as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&(length as u16).to_le_bytes());
    bytes
}

fn put(table: &mut [u8], at: usize, bytes: &[u8]) {
    table[at..at + bytes.len()].copy_from_slice(bytes);
}
