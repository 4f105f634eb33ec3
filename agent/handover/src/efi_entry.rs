//! Makes the firmware's boot entry for the written disk, and puts it first in the
//! boot order.
//!
//! The agent makes an entry only on hosts that were booted by UEFI. Without an entry,
//! most firmware still finds the loader in `\EFI\BOOT`, but tries the network and other
//! disks first.

use std::fs;
use std::path::Path;

use landfall_devices::permission::WritePermission;
use landfall_disk::software_raid::system_partitions;
use landfall_report::failure::{Failure, Result};
use nix::mount::MsFlags;

use crate::efi_load_option::{self, LoaderPath, PartitionId};
use crate::efi_loader::{self, Loader, Machine, NoLoader};
use crate::efi_system_partition::{self, EfiSystemPartition};
use crate::efi_variables::{Entry, Variables};
use crate::written_disk;

const FIRMWARE: &str = "/sys/firmware/efi";
/// The file with the number of bits of the firmware, 32 or 64. Kernels before 4.0 have
/// no such file; the agent then assumes 64 bits.
const FIRMWARE_BITS: &str = "/sys/firmware/efi/fw_platform_size";

pub fn booted_by_uefi() -> bool {
    Path::new(FIRMWARE).exists()
}

/// Why a complete disk has no boot entry.
#[derive(Debug)]
pub struct NoEntry {
    pub failure: Failure,
    /// True if the agent found no fallback loader. Firmware starts that loader (for
    /// example `\EFI\BOOT\BOOTX64.EFI`) from a disk that has no boot entry.
    pub lacks_fallback: bool,
}

/// If a fault keeps the agent from reading the EFI system partition, the firmware may
/// not be able to read it either. So such a fault counts as a missing fallback loader.
impl From<Failure> for NoEntry {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            lacks_fallback: true,
        }
    }
}

/// Makes an entry for the disk's loader and puts it first. If the disk is a software
/// RAID array, makes one entry for each disk of the array, for the copy of the loader
/// on that disk. Replaces entries with the same label from earlier deployments. Returns
/// `None` if the host was not booted by UEFI. `kept` has the numbers of the kept
/// partitions: a loader on these partitions boots another system.
///
/// # Errors
/// If the image has no EFI system partition or no loader for this machine, if the
/// partition cannot be read, or if the firmware rejects the entry.
pub fn make_boot_entry(
    disk: &Path,
    kept: &[u32],
    _permission: &WritePermission,
) -> std::result::Result<Option<Entry>, NoEntry> {
    if !booted_by_uefi() {
        return Ok(None);
    }
    let esp = efi_system_partition::find(disk, kept)?.map_err(|reason| NoEntry {
        failure: Failure::device_not_found(format!("{}: {reason}", disk.display())).hint(
            "this host booted by UEFI, and the image is for BIOS hosts: use an image for UEFI",
        ),
        lacks_fallback: true,
    })?;
    let (loader, has_fallback) = look_for_loader(disk, &esp)?;
    let loader = loader.map_err(|reason| NoEntry {
        failure: Failure::deployment(format!(
            "{} partition {}: {reason}",
            disk.display(),
            esp.number
        ))
        .hint("use an image for the architecture of this machine"),
        lacks_fallback: !has_fallback,
    })?;
    let places = places(disk, esp)?;
    let make_all = |variables: Variables| {
        let mut first = None;
        // The entry that is made last becomes the first one of the boot order, so the
        // entries are made in reverse order.
        for (esp, suffix) in places.into_iter().rev() {
            let loader = Loader {
                label: loader.label.clone() + &suffix,
                file: loader.file.clone(),
            };
            let path = LoaderPath {
                partition: esp.number,
                first_lba: esp.first_lba,
                sectors: esp.sectors,
                id: esp.id,
                file: loader.file.clone(),
            };
            first = Some(make_known(&variables, &loader, &path)?);
        }
        Ok(first)
    };
    Variables::of_firmware()
        .and_then(make_all)
        .map_err(|failure| NoEntry {
            failure,
            lacks_fallback: !has_fallback,
        })
}

/// The partitions that get a boot entry, each with a suffix for the label of its entry.
fn places(disk: &Path, esp: EfiSystemPartition) -> Result<Vec<(EfiSystemPartition, String)>> {
    let copies = system_partitions::find(disk)?;
    if copies.is_empty() {
        return Ok(vec![(esp, String::new())]);
    }
    let places = copies.iter().zip(1..).map(|(copy, number)| {
        let place = EfiSystemPartition {
            number: copy.partition.number,
            first_lba: copy.partition.offset / copy.sector,
            sectors: copy.partition.len / copy.sector,
            id: PartitionId::Guid(copy.partition.guid),
        };
        // The words of Ironic's agent.
        (place, format!(" (RAID, part{number})"))
    });
    Ok(places.collect())
}

fn make_known(variables: &Variables, loader: &Loader, path: &LoaderPath) -> Result<Entry> {
    tracing::info!("boot order was {}", order_text(variables)?);
    let entry = put_first(variables, &loader.label, path)?;
    tracing::info!(
        "boot entry {:04X} {:?} made for {}",
        entry.number,
        entry.label,
        loader.file
    );
    tracing::info!("boot order is {}", order_text(variables)?);
    Ok(entry)
}

/// The loader, or the reason why there is none. The bool is true if the partition has
/// the fallback loader, which firmware starts without an entry.
fn look_for_loader(
    disk: &Path,
    esp: &EfiSystemPartition,
) -> Result<(std::result::Result<Loader, NoLoader>, bool)> {
    let node = written_disk::node(disk, esp.number)?;
    let failed = |what: &str, e: std::io::Error| {
        Failure::deployment(format!("{}: {what}: {e}", node.display()))
    };
    let mount_point = Path::new(written_disk::ESP_MOUNT_POINT);
    let mounted = written_disk::mount(&node, mount_point, "vfat", MsFlags::MS_RDONLY)?;
    let machine = Machine::this(&fs::read_to_string(FIRMWARE_BITS).unwrap_or_default());
    let loaders = efi_loader::find(mount_point, machine)
        .and_then(|loader| Ok((loader, efi_loader::has_fallback(mount_point, machine)?)))
        .map_err(|e| failed("cannot look for a loader", e))?;
    if let Err(error) = mounted.unmount() {
        // A failed unmount is only a warning: the loader is known, so the entry can
        // still be made.
        tracing::warn!("{}: cannot unmount it: {error}", node.display());
    }
    Ok(loaders)
}

/// Reuses the first entry that has the label, or uses the first free number. After
/// that, sets the order, and finally removes the other entries with the label. With
/// this sequence the order never names a missing entry, and a redeployment needs no
/// additional space in the variable store.
fn put_first(variables: &Variables, label: &str, path: &LoaderPath) -> Result<Entry> {
    let entries = variables.entries()?;
    let mut same = entries.iter().filter(|entry| entry.label == label);
    let number = match same.next() {
        Some(entry) => entry.number,
        None => free_number(&entries)?,
    };
    let content = efi_load_option::build(label, path);
    if variables.entry(number)?.as_deref() != Some(&content[..]) {
        variables.set_entry(number, &content)?;
    }
    let stale: Vec<u16> = same.map(|entry| entry.number).collect();
    let before = variables.order()?;
    let mut order = vec![number];
    order.extend(
        before
            .iter()
            .copied()
            .filter(|n| *n != number && !stale.contains(n)),
    );
    if order != before {
        variables.set_order(&order)?;
    }
    for number in stale {
        variables.remove_entry(number)?;
    }
    // Read the entry back, because some firmware accepts a variable but does not
    // keep it.
    if variables.entry(number)?.as_deref() != Some(&content[..])
        || variables.order()?.first() != Some(&number)
    {
        return Err(Failure::deployment(format!(
            "the firmware did not keep boot entry {number:04X} {label:?} as first"
        )));
    }
    Ok(Entry {
        number,
        label: label.to_owned(),
    })
}

fn free_number(entries: &[Entry]) -> Result<u16> {
    (0..=u16::MAX)
        .find(|number| entries.iter().all(|entry| entry.number != *number))
        .ok_or_else(|| Failure::deployment("the firmware has no free boot entry"))
}

fn order_text(variables: &Variables) -> Result<String> {
    let entries = variables.entries()?;
    let words: Vec<String> = variables
        .order()?
        .into_iter()
        .map(|number| {
            let label = entries
                .iter()
                .find(|entry| entry.number == number)
                .map_or("missing", |entry| &entry.label);
            format!("{number:04X} {label}")
        })
        .collect();
    Ok(if words.is_empty() {
        "empty".to_owned()
    } else {
        words.join(", ")
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn path(file: &str) -> LoaderPath {
        LoaderPath {
            partition: 2,
            first_lba: 4096,
            sectors: 8192,
            id: PartitionId::Guid(Uuid::from_u128(1)),
            file: file.into(),
        }
    }

    /// A firmware with these entries; the boot order lists all of them.
    fn firmware(labels: &[&str]) -> (tempfile::TempDir, Variables) {
        let dir = tempfile::tempdir().unwrap();
        let variables = Variables::for_test(dir.path());
        for (number, label) in (0u16..).zip(labels) {
            let content = efi_load_option::build(label, &path("\\old.efi"));
            variables.set_entry(number, &content).unwrap();
        }
        let order: Vec<u16> = (0u16..).take(labels.len()).collect();
        variables.set_order(&order).unwrap();
        (dir, variables)
    }

    #[test]
    fn an_unreadable_loader_is_no_fallback() {
        let unread = Failure::deployment("the partition cannot be read");
        assert!(NoEntry::from(unread).lacks_fallback);
    }

    fn labels(variables: &Variables) -> Vec<String> {
        let entries = variables.entries().unwrap();
        entries.into_iter().map(|entry| entry.label).collect()
    }

    #[test]
    fn a_new_entry_is_first_and_the_rest_keeps_its_order() {
        let (_dir, variables) = firmware(&["PXE", "DVD"]);
        variables.set_order(&[1, 0]).unwrap();
        let entry = put_first(&variables, "RHEL", &path("\\shim.efi")).unwrap();
        assert_eq!(entry.number, 2);
        assert_eq!(variables.order().unwrap(), [2, 1, 0]);
        assert_eq!(
            variables.entry(2).unwrap().unwrap(),
            efi_load_option::build("RHEL", &path("\\shim.efi"))
        );
        assert_eq!(
            order_text(&variables).unwrap(),
            "0002 RHEL, 0001 DVD, 0000 PXE"
        );
    }

    #[test]
    fn old_entries_of_the_label_give_way() {
        let (_dir, variables) = firmware(&["PXE", "RHEL", "DVD", "RHEL"]);
        let entry = put_first(&variables, "RHEL", &path("\\new.efi")).unwrap();
        assert_eq!(entry.number, 1);
        assert_eq!(variables.order().unwrap(), [1, 0, 2]);
        assert_eq!(labels(&variables), ["PXE", "RHEL", "DVD"]);
        let content = variables.entry(1).unwrap().unwrap();
        assert_eq!(content, efi_load_option::build("RHEL", &path("\\new.efi")));
    }

    #[test]
    fn a_second_deployment_changes_nothing() {
        let (dir, variables) = firmware(&[]);
        put_first(&variables, "RHEL", &path("\\shim.efi")).unwrap();
        let times = || {
            let mut times: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|file| file.unwrap().metadata().unwrap().modified().unwrap())
                .collect();
            times.sort();
            times
        };
        let before = times();
        put_first(&variables, "RHEL", &path("\\shim.efi")).unwrap();
        assert_eq!(times(), before, "nothing was written");
        assert_eq!(variables.order().unwrap(), [0]);
    }

    #[test]
    fn numbers_with_gaps_are_filled() {
        let (_dir, variables) = firmware(&["a", "b", "c"]);
        variables.remove_entry(1).unwrap();
        let entry = put_first(&variables, "RHEL", &path("\\shim.efi")).unwrap();
        assert_eq!(entry.number, 1);
        assert_eq!(variables.order().unwrap(), [1, 0, 2]);
    }
}
