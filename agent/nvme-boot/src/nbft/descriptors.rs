//! The lists of descriptors: NICs, namespaces and discovery controllers.

use std::collections::BTreeSet;

use landfall_boot_params::MacAddr;
use uuid::Uuid;

use super::bytes::{InvalidField, Record, Table};
use super::{Discovery, Fault, Hfi, InvalidTable, Namespace, Nbft, Nid, VALID};

/// Sizes of descriptors, in bytes.
const NIC: usize = 32;
const NAMESPACE: usize = 128;
const DISCOVERY: usize = 32;
/// The size in bytes of a NIC's transport descriptor without the reserved bytes at its
/// end.
const TRANSPORT: usize = 110;

/// The transport type of NVMe/TCP, the only one that the specification has.
const TCP: u8 = 3;
/// `IpPrefixOriginDhcp` of Windows' `NL_PREFIX_ORIGIN`, which the specification refers to.
const FROM_DHCP: u8 = 3;

/// The longest NQN in bytes (NVM Express Base Specification, 4.7).
const LONGEST_NQN: usize = 223;
/// The longest host name in bytes (RFC 1035, 2.3.4, as text).
const LONGEST_HOST_NAME: usize = 253;

/// A list of descriptors. At `at`, the control structure has the list's offset, the
/// length of a descriptor and the count.
struct List {
    name: &'static str,
    at: usize,
    /// The number of the structure.
    id: u8,
    /// The minimum size of each descriptor, in bytes.
    least: usize,
}

/// Reads all lists into `nbft`.
pub(super) fn read(
    table: &Table<'_>,
    control: Record<'_>,
    nbft: &mut Nbft,
) -> Result<(), InvalidTable> {
    let nics = List {
        name: "list of NICs",
        at: 16,
        id: 3,
        least: NIC,
    };
    for record in list(table, control, &nics)? {
        let (index, valid) = (record.u8(1), u16::from(record.u8(2)) & VALID != 0);
        let name = || format!("NIC {index}");
        keep(valid, &mut nbft.nics, &mut nbft.faults, name, |faults| {
            nic(table, record, faults)
        });
    }
    let discoveries = List {
        name: "list of discovery controllers",
        at: 40,
        id: 6,
        least: DISCOVERY,
    };
    for record in list(table, control, &discoveries)? {
        let (index, valid) = (record.u8(2), u16::from(record.u8(1)) & VALID != 0);
        let name = || format!("discovery controller {index}");
        let (found, faults) = (&mut nbft.discoveries, &mut nbft.faults);
        keep(valid, found, faults, name, |_| {
            const FIELD: &str = "address";
            let uri = table.text(record, 6, FIELD)?;
            let uri = uri.ok_or(InvalidField::Missing { field: FIELD })?;
            Ok(Discovery { index, uri })
        });
    }
    let namespaces = List {
        name: "list of namespaces",
        at: 24,
        id: 4,
        least: NAMESPACE,
    };
    for record in list(table, control, &namespaces)? {
        let (index, valid) = (record.u16(1), record.u16(3) & VALID != 0);
        let name = || format!("namespace {index}");
        let (found, faults) = (&mut nbft.namespaces, &mut nbft.faults);
        keep(valid, found, faults, name, |_| namespace(table, record));
    }
    Ok(())
}

/// Adds a valid descriptor to its list, or its fault to the faults. Skips a descriptor
/// without the flag that it is valid.
fn keep<T>(
    valid: bool,
    found: &mut Vec<T>,
    faults: &mut Vec<Fault>,
    name: impl Fn() -> String,
    read: impl FnOnce(&mut Vec<InvalidField>) -> Result<T, InvalidField>,
) {
    if !valid {
        return;
    }
    let mut causes = Vec::new();
    match read(&mut causes) {
        Ok(descriptor) => found.push(descriptor),
        Err(cause) => causes.push(cause),
    }
    faults.extend(causes.into_iter().map(|cause| Fault {
        descriptor: name(),
        cause,
    }));
}

/// The descriptors of a list. Leaves out a descriptor with the number of another
/// structure, because its content is unknown.
fn list<'a>(
    table: &Table<'a>,
    control: Record<'_>,
    list: &List,
) -> Result<Vec<Record<'a>>, InvalidTable> {
    let (offset, length) = control.reference(list.at);
    let count = usize::from(control.u8(list.at + 7));
    if count == 0 {
        return Ok(Vec::new());
    }
    let all = count.saturating_mul(length);
    let found = table.record(offset, all).filter(|_| length >= list.least);
    let Some(Record(bytes)) = found else {
        return Err(InvalidTable::Structure {
            structure: list.name,
            expected: list.id,
            length: all.max(count * list.least),
            offset,
        });
    };
    let records = bytes.chunks_exact(length).map(Record);
    Ok(records.filter(|record| record.u8(0) == list.id).collect())
}

fn nic(
    table: &Table<'_>,
    record: Record<'_>,
    faults: &mut Vec<InvalidField>,
) -> Result<Hfi, InvalidField> {
    tcp(record.u8(3))?;
    let transport = transport(table, record)?;
    let mac = MacAddr(transport.array(11));
    if mac == MacAddr([0; 6]) {
        return Err(InvalidField::Missing {
            field: "MAC address",
        });
    }
    let vlan = match transport.u16(17) {
        0 => None,
        id @ 1..=4094 => Some(id),
        id => return Err(InvalidField::value("VLAN", "a number up to 4094", id)),
    };
    const OVERRIDE: u8 = 1 << 2;
    let is_override = transport.u8(6) & OVERRIDE != 0;
    // Without the flag the field is reserved.
    let dhcp_server = transport.given_ip(88).filter(|_| is_override);
    let by_dhcp = is_override || transport.u8(19) == FROM_DHCP;
    let address = transport.given_ip(20);
    // An address with only zeros does not show its family (libnvme treats it as IPv6).
    // In that case, the address of the DHCP server shows the family.
    let family = address.or(dhcp_server).unwrap_or_else(|| transport.ip(20));
    let is_ipv4 = family.is_ipv4();
    let prefix = if by_dhcp {
        0
    } else {
        prefix(transport.u8(36), is_ipv4)?
    };
    if address.is_none() && !by_dhcp {
        return Err(InvalidField::Missing {
            field: "IP address",
        });
    }
    let of_family = |at: usize| {
        let found = transport.given_ip(at);
        found.filter(|found| found.is_ipv4() == is_ipv4 && !by_dhcp)
    };
    let host_name = table
        .text(transport, 104, "host name")
        .and_then(checked_host_name)
        .unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
    Ok(Hfi {
        index: record.u8(1),
        mac,
        vlan,
        address,
        prefix,
        gateway: of_family(37),
        dns: [56, 72].into_iter().filter_map(of_family).collect(),
        is_ipv4,
        by_dhcp,
        host_name,
    })
}

/// The structure with the network of a NIC, to which the NIC's own structure points.
fn transport<'t>(table: &Table<'t>, record: Record<'_>) -> Result<Record<'t>, InvalidField> {
    const FIELD: &str = "transport descriptor";
    let transport = table.object(record, 16, FIELD)?;
    let transport = transport.ok_or(InvalidField::Missing { field: FIELD })?;
    let is_transport = transport.0.len() >= TRANSPORT && transport.u8(0) == 7;
    if !is_transport || u16::from(transport.u8(6)) & VALID == 0 {
        let expected = "a valid structure 7 with at least 110 bytes";
        let found = format!(
            "structure {} with {} bytes",
            transport.u8(0),
            transport.0.len()
        );
        return Err(InvalidField::value(FIELD, expected, found));
    }
    Ok(transport)
}

fn prefix(length: u8, is_ipv4: bool) -> Result<u8, InvalidField> {
    match (length, is_ipv4) {
        // Some firmware does not fill in this field. NetworkManager (nmi-nbft-reader.c)
        // also uses 64 for such a table.
        (0, false) => Ok(64),
        (1..=32, true) | (1..=128, false) => Ok(length),
        _ => Err(InvalidField::value(
            "subnet prefix",
            "a length of the address's family",
            length,
        )),
    }
}

fn namespace(table: &Table<'_>, record: Record<'_>) -> Result<Namespace, InvalidField> {
    tcp(record.u8(5))?;
    let (flags, transport_flags) = (record.u16(3), record.u16(6));
    const ADDRESS: &str = "subsystem address";
    let address = table.object(record, 10, ADDRESS)?;
    let address = address
        .filter(|object| object.0.len() >= 16)
        .and_then(|object| object.given_ip(0));
    let address = address.ok_or(InvalidField::Missing { field: ADDRESS })?;
    const PORT: &str = "subsystem port";
    let port = table.text(record, 16, PORT)?;
    let port = port.ok_or(InvalidField::Missing { field: PORT })?;
    let port = match port.parse() {
        Ok(number @ 1..) => number,
        _ => return Err(InvalidField::value(PORT, "a number from 1 to 65535", port)),
    };
    const NQN: &str = "subsystem NQN";
    let nqn = table.text(record, 54, NQN)?;
    let subsystem = checked_nqn(nqn.ok_or(InvalidField::Missing { field: NQN })?, NQN)?;
    let secondary = table.object(record, 48, "list of secondary NICs")?;
    let mut seen = BTreeSet::new();
    let nics = [record.u8(46)].into_iter();
    let nics = nics.chain(secondary.iter().flat_map(|object| object.0.iter().copied()));
    let nics: Vec<u8> = nics
        .filter(|index| *index != 0 && seen.insert(*index))
        .collect();
    Ok(Namespace {
        index: record.u16(1),
        subsystem,
        address,
        port,
        nsid: record.u32(24),
        nid: nid(record),
        nics,
        // As in libnvme, these two flags count even if the descriptor says that they are
        // not valid.
        header_digest: transport_flags & 1 << 1 != 0,
        data_digest: transport_flags & 1 << 2 != 0,
        unavailable: flags & 0x0100 != 0,
        security: Some(record.u8(45)).filter(|_| flags & 1 << 2 != 0),
        discovery: Some(record.u8(8)).filter(|index| *index != 0),
    })
}

/// The types are those of the Namespace Identification Descriptor (NVM Express Base
/// Specification, Identify with CNS 03h).
fn nid(record: Record<'_>) -> Option<Nid> {
    let bytes: [u8; 16] = record.array(29);
    if bytes == [0; 16] {
        return None;
    }
    match record.u8(28) {
        1 => Some(Nid::Eui64(record.array(29))),
        2 => Some(Nid::Nguid(bytes)),
        3 => Some(Nid::Uuid(Uuid::from_bytes(bytes))),
        _ => None,
    }
}

fn tcp(transport: u8) -> Result<(), InvalidField> {
    match transport {
        TCP => Ok(()),
        other => Err(InvalidField::value("transport", "3 (NVMe/TCP)", other)),
    }
}

/// Checks that the kernel can get the name in a list of options that commas separate.
pub(super) fn checked_nqn(text: String, field: &'static str) -> Result<String, InvalidField> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ',';
    match text.len() <= LONGEST_NQN && text.chars().all(is_plain) {
        true => Ok(text),
        false => Err(InvalidField::value(
            field,
            "at most 223 bytes without commas and blanks",
            text,
        )),
    }
}

fn checked_host_name(text: Option<String>) -> Result<Option<String>, InvalidField> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match text {
        Some(text) if text.len() > LONGEST_HOST_NAME || !text.chars().all(is_letter) => {
            Err(InvalidField::value(
                "host name",
                "at most 253 letters, digits, hyphens and dots",
                text,
            ))
        }
        text => Ok(text),
    }
}
