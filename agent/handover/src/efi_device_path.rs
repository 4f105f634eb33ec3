//! Formats a device path of the firmware as efibootmgr prints it, because operators
//! write patterns for that notation (UEFI 2.10, section 10.3).

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use landfall_media_formats::little_endian::{all_u16, u16_at, u32_at, u64_at};
use uuid::Uuid;

/// Formats all nodes of a path, joined by `/`. The text ends at the first broken node.
pub fn to_text(path: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = path;
    let mut separator = "";
    while let &[kind, subtype, low, high, ..] = rest {
        let length = usize::from(u16::from_le_bytes([low, high]));
        let Some((node, next)) = rest.split_at_checked(length).filter(|_| length >= 4) else {
            break;
        };
        rest = next;
        match (kind, subtype) {
            // Subtype 0x01 ends one of several paths; any other subtype ends the whole
            // list.
            (0x7f, 0x01) => separator = ",",
            (0x7f, _) => break,
            _ => {
                text.push_str(separator);
                text.push_str(&node_text(kind, subtype, &node[4..]));
                separator = "/";
            }
        }
    }
    text
}

fn node_text(kind: u8, subtype: u8, data: &[u8]) -> String {
    let known = match kind {
        1 => hardware(subtype, data),
        2 => acpi(subtype, data),
        3 => messaging(subtype, data),
        4 => media(subtype, data),
        5 => bbs(data),
        _ => None,
    };
    known.unwrap_or_else(|| format!("Path({kind},{subtype},{})", hex(data)))
}

fn hardware(subtype: u8, data: &[u8]) -> Option<String> {
    Some(match subtype {
        1 => format!("Pci(0x{:x},0x{:x})", data.get(1)?, data.first()?),
        2 => format!("PcCard(0x{:x})", data.first()?),
        3 => format!(
            "MemoryMapped({},0x{:x},0x{:x})",
            u32_at(data, 0)?,
            u64_at(data, 4)?,
            u64_at(data, 12)?
        ),
        4 => vendor("VenHw", data)?,
        5 => format!("Ctrl(0x{:x})", u32_at(data, 0)?),
        _ => return None,
    })
}

fn acpi(subtype: u8, data: &[u8]) -> Option<String> {
    if subtype != 1 {
        return None;
    }
    let (hid, uid) = (u32_at(data, 0)?, u32_at(data, 4)?);
    // In a PNP id, the low half is the vendor "PNP" in compressed EISA form.
    Some(match (hid & 0xffff, hid >> 16) {
        (0x41d0, 0x0a03) => format!("PciRoot(0x{uid:x})"),
        (0x41d0, 0x0a08) => format!("PcieRoot(0x{uid:x})"),
        (0x41d0, 0x0604) => format!("Floppy(0x{uid:x})"),
        (0x41d0, product) => format!("Acpi(PNP{product:04X},0x{uid:x})"),
        _ => format!("Acpi(0x{hid:08x},0x{uid:x})"),
    })
}

fn messaging(subtype: u8, data: &[u8]) -> Option<String> {
    Some(match subtype {
        1 => format!(
            "Ata({},{},{})",
            data.first()?,
            data.get(1)?,
            u16_at(data, 2)?
        ),
        2 => format!("SCSI({},{})", u16_at(data, 0)?, u16_at(data, 2)?),
        5 => format!("USB({},{})", data.first()?, data.get(1)?),
        10 => vendor("VenMsg", data)?,
        11 => {
            // The address field has 32 bytes, of which Ethernet uses six.
            let kind = *data.get(32)?;
            let length = if kind <= 1 { 6 } else { 32 };
            format!("MAC({},{kind})", hex(&data[..length]))
        }
        12 => {
            let address = |at: usize| {
                let bytes: [u8; 4] = data.get(at..at + 4)?.try_into().ok()?;
                Some(Ipv4Addr::from(bytes))
            };
            // The fields are: local address, remote address, ports, protocol,
            // origin.
            let protocol = u16_at(data, 12)?;
            let origin = data.get(14)?;
            format!("IPv4({},{},{protocol},{origin})", address(4)?, address(0)?)
        }
        13 => {
            let address = |at: usize| {
                let bytes: [u8; 16] = data.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(bytes))
            };
            let protocol = u16_at(data, 36)?;
            let origin = data.get(38)?;
            format!("IPv6({},{},{protocol},{origin})", address(16)?, address(0)?)
        }
        17 => format!("Unit({})", data.first()?),
        18 => format!(
            "Sata({},{},{})",
            u16_at(data, 0)?,
            u16_at(data, 2)?,
            u16_at(data, 4)?
        ),
        20 => format!("Vlan({})", u16_at(data, 0)?),
        23 => {
            let identifier: Vec<String> = data
                .get(4..12)?
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect();
            format!("NVMe(0x{:x},{})", u32_at(data, 0)?, identifier.join("-"))
        }
        24 => format!("Uri({})", String::from_utf8_lossy(data)),
        26 => format!("SD({})", data.first()?),
        29 => format!("eMMC({})", data.first()?),
        _ => return None,
    })
}

fn media(subtype: u8, data: &[u8]) -> Option<String> {
    Some(match subtype {
        1 => {
            let signature = data.get(20..36)?;
            let (format, signature) = match data.get(37)? {
                1 => ("MBR", format!("0x{:x}", u32_at(signature, 0)?)),
                2 => ("GPT", guid(signature)?),
                _ => ("None", hex(signature)),
            };
            format!(
                "HD({},{format},{signature},0x{:x},0x{:x})",
                u32_at(data, 0)?,
                u64_at(data, 4)?,
                u64_at(data, 12)?
            )
        }
        2 => format!(
            "CDROM({},0x{:x},0x{:x})",
            u32_at(data, 0)?,
            u64_at(data, 4)?,
            u64_at(data, 12)?
        ),
        3 => vendor("VenMedia", data)?,
        4 => format!("File({})", utf16(data)),
        5 => format!("Media({})", guid(data)?),
        6 => format!("FvFile({})", guid(data)?),
        7 => format!("FvVol({})", guid(data)?),
        _ => return None,
    })
}

fn bbs(data: &[u8]) -> Option<String> {
    let name = data.get(4..)?;
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    let name = String::from_utf8_lossy(&name[..end]);
    Some(match u16_at(data, 0)? {
        1 => format!("BBS(Floppy,{name},0x{:x})", u16_at(data, 2)?),
        2 => format!("BBS(HD,{name},0x{:x})", u16_at(data, 2)?),
        3 => format!("BBS(CDROM,{name},0x{:x})", u16_at(data, 2)?),
        4 => format!("BBS(PCMCIA,{name},0x{:x})", u16_at(data, 2)?),
        5 => format!("BBS(USB,{name},0x{:x})", u16_at(data, 2)?),
        6 => format!("BBS(Network,{name},0x{:x})", u16_at(data, 2)?),
        other => format!("BBS({other},{name},0x{:x})", u16_at(data, 2)?),
    })
}

fn vendor(word: &str, data: &[u8]) -> Option<String> {
    let guid = guid(data)?;
    Some(match &data[16..] {
        [] => format!("{word}({guid})"),
        more => format!("{word}({guid},{})", hex(more)),
    })
}

fn guid(data: &[u8]) -> Option<String> {
    let bytes: [u8; 16] = data.get(..16)?.try_into().ok()?;
    Some(Uuid::from_bytes_le(bytes).to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn utf16(data: &[u8]) -> String {
    let units = all_u16(data).take_while(|&unit| unit != 0);
    char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn node(kind: u8, subtype: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind, subtype];
        bytes.extend_from_slice(&u16::try_from(data.len() + 4).unwrap().to_le_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    const END: [u8; 4] = [0x7f, 0xff, 4, 0];

    #[test]
    fn paths_as_efibootmgr_prints_them() {
        let root = node(2, 1, &[0xd0, 0x41, 0x03, 0x0a, 0, 0, 0, 0]);
        let mut mac = vec![0x52, 0x54, 0, 1, 2, 3];
        mac.resize(33, 0);
        let mut ipv4 = vec![0; 23];
        ipv4[14] = 1;
        let mut disk = vec![1, 0, 0, 0];
        disk.extend_from_slice(&0x800u64.to_le_bytes());
        disk.extend_from_slice(&0x64000u64.to_le_bytes());
        disk.extend_from_slice(
            &"34178504-2340-4fe0-8001-264372cf9b2d"
                .parse::<Uuid>()
                .unwrap()
                .to_bytes_le(),
        );
        disk.extend_from_slice(&[2, 2]);
        let file: Vec<u8> = "\\EFI\\redhat\\shimx64.efi\0"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let firmware = Uuid::from_u128(0x3593_a0d5_bd52_43a0_808e_cbff_5ece_2477).to_bytes_le();
        let mut network = vec![0x80, 0, 0, 0];
        network.extend_from_slice(b"IBA GE Slot\0");
        for (nodes, expected) in [
            (
                vec![node(4, 1, &disk), node(4, 4, &file)],
                "HD(1,GPT,34178504-2340-4fe0-8001-264372cf9b2d,0x800,0x64000)/File(\\EFI\\redhat\\shimx64.efi)",
            ),
            (
                vec![root.clone(), node(1, 1, &[0, 0x14]), node(3, 5, &[11, 1])],
                "PciRoot(0x0)/Pci(0x14,0x0)/USB(11,1)",
            ),
            (
                vec![
                    root.clone(),
                    node(1, 1, &[0, 3]),
                    node(3, 11, &mac),
                    node(3, 12, &ipv4),
                ],
                "PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400010203,0)/IPv4(0.0.0.0,0.0.0.0,0,1)",
            ),
            (
                vec![root, node(3, 18, &[1, 0, 0xff, 0xff, 0, 0])],
                "PciRoot(0x0)/Sata(1,65535,0)",
            ),
            (
                vec![node(4, 6, &firmware)],
                "FvFile(3593a0d5-bd52-43a0-808e-cbff5ece2477)",
            ),
            (vec![node(5, 1, &network)], "BBS(128,IBA GE Slot,0x0)"),
            (
                vec![
                    node(9, 9, &[1]),
                    [0x7f, 1, 4, 0].to_vec(),
                    node(3, 17, &[2]),
                ],
                "Path(9,9,01),Unit(2)",
            ),
        ] {
            let mut path = nodes.concat();
            path.extend_from_slice(&END);
            path.extend_from_slice(b"optional data");
            assert_eq!(to_text(&path), expected);
        }
        assert_eq!(to_text(&[4, 4, 3, 0]), "", "a node shorter than its head");
        assert_eq!(
            to_text(&[4, 4, 200, 0, 1]),
            "",
            "a node longer than the path"
        );
    }
}
