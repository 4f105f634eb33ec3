//! The firmware's table of an iSCSI boot (iBFT), for `-acpitable` of QEMU: the structures of
//! Microsoft's "iSCSI Boot Firmware Table (iBFT)", version 1.02, as Linux reads them
//! (drivers/firmware/iscsi_ibft.c).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Lengths in bytes, and the offset of the control structure in the table. QEMU writes
/// the header that all ACPI tables have.
const ACPI_HEADER: usize = 36;
const CONTROL: usize = 48;
const CONTROL_LENGTH: usize = 18;
const INITIATOR_LENGTH: usize = 74;
const NIC_LENGTH: usize = 102;
const TARGET_LENGTH: usize = 54;

/// The flags of a structure: it is valid, and the firmware has selected it for this
/// boot.
const FLAGS: u8 = 3;

/// One target of the table.
#[derive(Debug, Clone)]
pub struct IbftTarget<'a> {
    pub name: &'a str,
    pub portal: SocketAddr,
    pub lun: u8,
    /// Name and secret of CHAP.
    pub chap: Option<(&'a str, &'a str)>,
}

/// The NIC of the table.
#[derive(Debug, Clone)]
pub struct IbftNic {
    pub address: IpAddr,
    pub prefix: u8,
    pub gateway: IpAddr,
    pub mac: [u8; 6],
}

/// The table without the ACPI header. It has room for two targets: further ones are
/// left out.
#[must_use]
pub fn table(initiator: &str, nic: &IbftNic, targets: &[IbftTarget]) -> Vec<u8> {
    let targets = &targets[..targets.len().min(2)];
    let initiator_at = CONTROL + CONTROL_LENGTH;
    let nic_at = initiator_at + INITIATOR_LENGTH;
    let target_at = |index: usize| nic_at + NIC_LENGTH + index * TARGET_LENGTH;
    let mut table = Table(vec![0; target_at(targets.len())]);
    table.header(CONTROL, 1, CONTROL_LENGTH, 0, 0);
    table.number(CONTROL + 8, initiator_at);
    table.number(CONTROL + 10, nic_at);
    table.header(initiator_at, 2, INITIATOR_LENGTH, 0, FLAGS);
    table.text(initiator_at + 70, initiator);
    table.header(nic_at, 3, NIC_LENGTH, 0, FLAGS);
    table.address(nic_at + 6, nic.address);
    table.put(nic_at + 22, &[nic.prefix, 1]);
    table.address(nic_at + 24, nic.gateway);
    table.put(nic_at + 90, &nic.mac);
    for (index, target) in targets.iter().enumerate() {
        let at = target_at(index);
        // The control structure has the offsets of NIC 0, target 0, NIC 1 and target 1,
        // in two bytes each.
        table.number(CONTROL + 12 + 4 * index, at);
        table.header(at, 4, TARGET_LENGTH, index, FLAGS);
        table.address(at + 6, target.portal.ip());
        table.number(at + 22, usize::from(target.portal.port()));
        table.put(at + 24, &[0, target.lun]);
        table.put(at + 32, &[u8::from(target.chap.is_some()), 0]);
        table.text(at + 34, target.name);
        if let Some((name, secret)) = target.chap {
            table.text(at + 38, name);
            table.text(at + 42, secret);
        }
    }
    table.0.split_off(ACPI_HEADER)
}

struct Table(Vec<u8>);

impl Table {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn number(&mut self, at: usize, number: usize) {
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        self.put(at, &number.to_le_bytes());
    }

    fn header(&mut self, at: usize, id: u8, length: usize, index: usize, flags: u8) {
        self.put(at, &[id, 1]);
        self.number(at + 2, length);
        self.put(at + 4, &[u8::try_from(index).unwrap_or(u8::MAX), flags]);
    }

    /// An IPv4 address is written as the IPv6 address that is mapped to it.
    fn address(&mut self, at: usize, address: IpAddr) {
        let address: Ipv6Addr = match address {
            IpAddr::V4(four) => four.to_ipv6_mapped(),
            IpAddr::V6(six) => six,
        };
        self.put(at, &address.octets());
    }

    /// Writes the length and the offset of a text at `at`, and appends the text with a
    /// NUL to the table.
    fn text(&mut self, at: usize, text: &str) {
        let place = self.0.len();
        self.number(at, text.len());
        self.number(at + 2, place);
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_microsofts_layout() {
        let nic = IbftNic {
            address: [192, 0, 2, 10].into(),
            prefix: 24,
            gateway: [192, 0, 2, 1].into(),
            mac: [0x52, 0x54, 0, 1, 2, 3],
        };
        let target = IbftTarget {
            name: "iqn.x",
            portal: ([192, 0, 2, 1], 3260).into(),
            lun: 1,
            chap: Some(("n", "s")),
        };
        let mut bytes = vec![0; ACPI_HEADER];
        bytes.extend(table("iqn.h", &nic, &[target]));
        let number = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let place = number(CONTROL + 12);
        assert_eq!(bytes[place], 4);
        assert_eq!(bytes[place + 16..place + 22], [0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(number(place + 22), 3260);
        let (length, at) = (number(place + 34), number(place + 36));
        assert_eq!(bytes[at..=at + length], *b"iqn.x\0");
        assert_eq!(bytes[number(place + 44)], b's');
        assert_eq!(number(CONTROL + 10), CONTROL + 18 + 74);
    }
}
