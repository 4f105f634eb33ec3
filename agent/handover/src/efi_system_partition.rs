//! Finds the EFI system partition of the written disk, in its GPT or MBR (UEFI
//! 2.10, 5.3.3 and 5.2.2).

use std::path::Path;

use landfall_disk::tables::gpt::{self, Table};
use landfall_disk::tables::mbr;
use landfall_disk::tables::table_error::TableError;
use landfall_report::failure::Result;

use crate::efi_load_option::PartitionId;
use crate::written_disk;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EfiSystemPartition {
    /// Partition number.
    pub number: u32,
    /// In logical sectors.
    pub first_lba: u64,
    /// Length of the partition in logical sectors.
    pub sectors: u64,
    pub id: PartitionId,
}

/// Why the image has no EFI system partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSystemPartition {
    /// The disk has no partition that UEFI firmware boots from. Use an image for UEFI, or set
    /// the node's boot mode to BIOS.
    #[error("no EFI system partition")]
    Missing,
    /// The only partition that UEFI firmware could boot from is a kept partition, which
    /// is not part of the image. Use an image for UEFI.
    #[error(
        "no EFI system partition except number {0}, which is a kept partition and boots another system"
    )]
    OnlyKept(u32),
    /// The disk has no GPT, and its MBR names no EFI system partition.
    #[error(transparent)]
    NoTable(TableError),
}

/// The first EFI system partition of the image, or the reason why there is none. `kept`
/// has the numbers of the kept partitions, which are not part of the image.
///
/// # Errors
/// If the disk cannot be read.
pub fn find(
    disk: &Path,
    kept: &[u32],
) -> Result<std::result::Result<EfiSystemPartition, NoSystemPartition>> {
    let head = written_disk::read_head(disk)?;
    Ok(match head.table() {
        Ok(table) => in_gpt(&table, kept),
        Err(reason) => in_mbr(&head.bytes).ok_or(NoSystemPartition::NoTable(reason)),
    })
}

fn in_gpt(
    table: &Table,
    kept: &[u32],
) -> std::result::Result<EfiSystemPartition, NoSystemPartition> {
    let mut all = { table.partitions().iter() }.filter(|part| part.kind == gpt::EFI_SYSTEM);
    let of_image = all.clone().find(|esp| !kept.contains(&esp.number));
    let esp = of_image.ok_or_else(|| match all.next() {
        None => NoSystemPartition::Missing,
        Some(esp) => NoSystemPartition::OnlyKept(esp.number),
    })?;
    Ok(EfiSystemPartition {
        number: esp.number,
        first_lba: esp.offset / table.sector_size(),
        sectors: esp.len / table.sector_size(),
        id: PartitionId::Guid(esp.guid),
    })
}

/// Only a GPT can have kept partitions, so every partition of an MBR is part of the
/// image.
fn in_mbr(head: &[u8]) -> Option<EfiSystemPartition> {
    let (number, esp) = { (1..).zip(mbr::entries(head)?) }
        .find(|(_, entry)| entry.kind == mbr::EFI_SYSTEM && entry.count > 0)?;
    Some(EfiSystemPartition {
        number,
        first_lba: esp.first,
        sectors: esp.count,
        id: PartitionId::DiskSignature(mbr::signature_in(head)?),
    })
}

#[cfg(test)]
mod tests {
    use landfall_disk::fixtures::used_disk;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_kept_system_partition_is_not_the_images() {
        const DATA: Uuid = Uuid::from_u128(1);
        let (own, other) = (
            (2, "EFI-SYSTEM", gpt::EFI_SYSTEM, 2, 1),
            (5, "ESP", gpt::EFI_SYSTEM, 4, 1),
        );
        for (partitions, kept, expected) in [
            (&[own, other][..], &[5][..], Ok(2)),
            (&[own, other], &[2], Ok(5)),
            (&[own], &[], Ok(2)),
            (&[own, (5, "data", DATA, 4, 1)], &[5], Ok(2)),
            (
                &[other],
                &[5],
                Err("except number 5, which is a kept partition"),
            ),
            (
                &[(5, "data", DATA, 4, 1)],
                &[5],
                Err("no EFI system partition"),
            ),
        ] {
            let disk = used_disk(16 << 20, 512, partitions);
            let table = Table::parse(&disk[..1 << 20], 512).unwrap();
            match (in_gpt(&table, kept), expected) {
                (Ok(esp), Ok(number)) => assert_eq!(esp.number, number),
                (Err(reason), Err(expected)) => {
                    assert!(reason.to_string().contains(expected), "{reason}");
                }
                (found, expected) => panic!("expected {expected:?}, found {found:?}"),
            }
        }
    }

    /// A disk with an MBR of these partitions: type, first sector and length in
    /// sectors.
    fn disk_with_mbr(entries: &[(u8, u32, u32)]) -> tempfile::NamedTempFile {
        let mut head = vec![0; 2 << 20];
        head[440..444].copy_from_slice(&0x0bad_f00d_u32.to_le_bytes());
        for (entry, (kind, first, count)) in head[446..510].chunks_exact_mut(16).zip(entries) {
            entry[4] = *kind;
            entry[8..12].copy_from_slice(&first.to_le_bytes());
            entry[12..16].copy_from_slice(&count.to_le_bytes());
        }
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        let disk = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(disk.path(), head).unwrap();
        disk
    }

    #[test]
    fn an_mbr_may_have_one() {
        let disk = disk_with_mbr(&[(0x83, 2048, 1024), (0xef, 3072, 512)]);
        let expected = EfiSystemPartition {
            number: 2,
            first_lba: 3072,
            sectors: 512,
            id: PartitionId::DiskSignature(0x0bad_f00d),
        };
        assert_eq!(find(disk.path(), &[]).unwrap(), Ok(expected));
        for without in [&[(0x83, 2048, 1024)][..], &[(0xef, 2048, 0)], &[]] {
            let disk = disk_with_mbr(without);
            assert!(find(disk.path(), &[]).unwrap().is_err());
        }
    }
}
