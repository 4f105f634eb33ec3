//! Builds and reads the bytes of a firmware boot entry: an EFI_LOAD_OPTION with the
//! device path of a file on a partition (UEFI 2.10, sections 3.1.3 and 10.3.5).

use landfall_media_formats::little_endian::{all_u16, u16_at};
use uuid::Uuid;

/// LOAD_OPTION_ACTIVE: the boot manager tries the entry.
const ACTIVE: u32 = 1;

/// How the firmware identifies a partition (UEFI 2.10, table 10.49: partition
/// signature and format).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionId {
    /// The GUID of the partition, in a GPT.
    Guid(Uuid),
    /// The signature of the whole disk, in an MBR.
    DiskSignature(u32),
}

/// The path of a loader on a partition. The partition is identified by its GUID or
/// signature, so the firmware finds the loader even if the order of the disks changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoaderPath {
    /// Partition number.
    pub partition: u32,
    pub first_lba: u64,
    pub sectors: u64,
    pub id: PartitionId,
    /// Path from the root of the file system, with backslashes.
    pub file: String,
}

/// The bytes of an active entry.
pub fn build(label: &str, path: &LoaderPath) -> Vec<u8> {
    let device_path = device_path(path);
    let mut bytes = ACTIVE.to_le_bytes().to_vec();
    bytes.extend_from_slice(&length(device_path.len()));
    bytes.extend(utf16(label));
    bytes.extend(device_path);
    bytes
}

fn device_path(path: &LoaderPath) -> Vec<u8> {
    // A device path node of the type media and the subtype hard drive (table
    // 10.49).
    let mut hard_drive = Vec::with_capacity(38);
    hard_drive.extend_from_slice(&path.partition.to_le_bytes());
    hard_drive.extend_from_slice(&path.first_lba.to_le_bytes());
    hard_drive.extend_from_slice(&path.sectors.to_le_bytes());
    // The signature, then the format of the table and the type of the signature.
    match path.id {
        PartitionId::Guid(guid) => {
            hard_drive.extend_from_slice(&guid.to_bytes_le());
            hard_drive.extend_from_slice(&[2, 2]);
        }
        PartitionId::DiskSignature(signature) => {
            hard_drive.extend_from_slice(&signature.to_le_bytes());
            hard_drive.extend_from_slice(&[0; 12]);
            hard_drive.extend_from_slice(&[1, 1]);
        }
    }
    let mut bytes = node(4, 1, &hard_drive);
    bytes.extend(node(4, 4, &utf16(&path.file)));
    // This node ends the entire device path.
    bytes.extend(node(0x7f, 0xff, &[]));
    bytes
}

fn node(kind: u8, subtype: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, subtype];
    bytes.extend_from_slice(&length(content.len() + 4));
    bytes.extend_from_slice(content);
    bytes
}

/// The length always stays far below 64 KiB: the names in a path come from a FAT file
/// system, where a name has at most 255 characters, and `parse_csv` accepts only labels
/// of less than 256 bytes.
fn length(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

/// The label of an entry; `None` if the bytes are not an entry.
pub fn label(entry: &[u8]) -> Option<String> {
    let units: Vec<u16> = all_u16(entry.get(6..)?).collect();
    let end = units.iter().position(|&unit| unit == 0)?;
    Some(String::from_utf16_lossy(&units[..end]))
}

/// The device path of an entry; `None` if the bytes are not an entry.
pub fn device_path_of(entry: &[u8]) -> Option<&[u8]> {
    let length = u16_at(entry, 4)?;
    let label = entry.get(6..)?;
    let end = label.chunks_exact(2).position(|pair| pair == [0, 0])?;
    label.get((end + 1) * 2..)?.get(..length.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_as_efibootmgr_makes_them() {
        let path = LoaderPath {
            partition: 2,
            first_lba: 0x1000,
            sectors: 0x3f800,
            id: PartitionId::Guid("c12a7328-f81f-11d2-ba4b-00a0c93ec93b".parse().unwrap()),
            file: "\\a".into(),
        };
        let bytes = build("X", &path);
        let expected = [
            &[1, 0, 0, 0][..],
            &[56, 0],
            b"X\0\0\0",
            &[4, 1, 42, 0],
            &[2, 0, 0, 0],
            &[0, 0x10, 0, 0, 0, 0, 0, 0],
            &[0, 0xf8, 3, 0, 0, 0, 0, 0],
            &[
                0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e,
                0xc9, 0x3b,
            ],
            &[2, 2],
            &[4, 4, 10, 0],
            b"\\\0a\0\0\0",
            &[0x7f, 0xff, 4, 0],
        ]
        .concat();
        assert_eq!(bytes, expected);
        assert_eq!(label(&bytes).as_deref(), Some("X"));
        assert_eq!(device_path_of(&bytes), Some(&expected[10..]));
    }

    #[test]
    fn a_partition_of_an_mbr_has_the_signature_of_its_disk() {
        let path = LoaderPath {
            partition: 1,
            first_lba: 0x800,
            sectors: 0x1000,
            id: PartitionId::DiskSignature(0x0bad_f00d),
            file: String::new(),
        };
        let expected = [
            &[4, 1, 42, 0][..],
            &[1, 0, 0, 0],
            &[0, 8, 0, 0, 0, 0, 0, 0],
            &[0, 0x10, 0, 0, 0, 0, 0, 0],
            &[0x0d, 0xf0, 0xad, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 1],
        ]
        .concat();
        assert!(device_path(&path).starts_with(&expected));
    }

    #[test]
    fn an_invalid_entry_has_no_label() {
        for bytes in [&b""[..], &[1, 0, 0, 0, 4, 0], &[1, 0, 0, 0, 4, 0, b'X', 0]] {
            assert_eq!(label(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn any_label_survives(text in "[^\0]{0,60}") {
            let path = LoaderPath {
                partition: 1,
                first_lba: 1,
                sectors: 1,
                id: PartitionId::Guid(Uuid::nil()),
                file: String::new(),
            };
            prop_assert_eq!(label(&build(&text, &path)), Some(text));
        }
    }
}
