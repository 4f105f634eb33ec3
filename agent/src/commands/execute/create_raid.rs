//! The steps `create_configuration` and `apply_configuration`, which create software RAID
//! volumes, and the start of these volumes for a deployment.

use std::collections::BTreeSet;
use std::path::PathBuf;

use landfall_devices::identity::ChosenDisk;
use landfall_devices::permission::WritePermission;
use landfall_disk::erase::guard;
use landfall_disk::software_raid::create::{check, create};
use landfall_disk::software_raid::layout::Volume;
use landfall_disk::software_raid::member::MOST_MEMBERS;
use landfall_disk::software_raid::start::start_volumes;
use landfall_handover::efi_entry;
use landfall_inventory::block_devices;
use landfall_inventory::disks;
use landfall_inventory::report_types::Disk;
use landfall_inventory::root_device_hints::RootDeviceHints;
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::system_path::SystemPath;
use serde_json::{Value, json};

use super::erasable::{self, Obstacle};
use super::raid_config::{RaidConfig, WantedVolume};
use super::software_raid;
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

/// Creates the volumes of `target_raid_config`. Returns this configuration, because
/// Ironic stores it. Returns an empty one if the node has no software RAID.
pub(super) async fn execute(
    machine: &Machine,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    let config = node.0.get("target_raid_config").unwrap_or(&Value::Null);
    create_volumes(machine, node, config, permission).await
}

/// Creates the volumes of the argument `raid_config`. Unless `delete_existing` is false
/// or null, it first deletes the existing volumes.
pub(super) async fn apply(
    machine: &Machine,
    node: &Node,
    arguments: &Value,
    permission: WritePermission,
) -> Result<Value> {
    let config = &arguments["raid_config"];
    // Read the configuration before anything is deleted.
    let Some(wanted) = RaidConfig::parse(config)? else {
        return Err(Failure::invalid_params(format!(
            "raid_config: expected logical_disks with the controller \"software\", found {config}"
        ))
        .hint("give the step the content of target_raid_config"));
    };
    refuse_bios(node, efi_entry::booted_by_uefi())?;
    if deletes_existing(arguments)? {
        machine.all_disks().await?;
        check_without_arrays(node, &wanted, erasable::is_guarded(machine, node)).await?;
        software_raid::delete(node, permission).await?;
    }
    create_volumes(machine, node, config, permission).await
}

/// As with Ironic's agent, a null value means false, and a missing argument means true
/// (the default of `apply_configuration` in ironic_python_agent/hardware.py).
fn deletes_existing(arguments: &Value) -> Result<bool> {
    match arguments.get("delete_existing") {
        None => Ok(true),
        Some(Value::Null) => Ok(false),
        Some(Value::Bool(deletes)) => Ok(*deletes),
        Some(found) => Err(Failure::invalid_params(format!(
            "delete_existing: expected true or false, found {found}"
        ))
        .hint("correct the argument of the step apply_configuration")),
    }
}

/// Checks that the volumes can be created after the deletion of the arrays: that there
/// are enough disks, that they are large enough, and, if `guarded` is set, that they hold
/// no file system that other machines use.
async fn check_without_arrays(node: &Node, wanted: &RaidConfig, guarded: bool) -> Result<()> {
    let (node, wanted) = (node.clone(), wanted.clone());
    blocking(move || {
        let emptied = software_raid::emptied(&node)?;
        let usable = usable_disks(&node, &emptied)?;
        let volumes = volumes(&wanted, &usable)?;
        let chosen = used_disks(&usable, &volumes)?;
        if guarded {
            refuse_shared(&chosen.disks)?;
        }
        check(&chosen.disks, &chosen.volumes, &emptied)
    })
    .await
}

/// Rejects a node that boots by BIOS: a BIOS starts the boot code of a single disk, but
/// the image's boot code is inside the array. Ironic's agent runs the image's programs
/// to install other boot code; this agent does not.
fn refuse_bios(node: &Node, booted_by_uefi: bool) -> Result<()> {
    let details = if node.boots_by_bios() {
        "expected a node that boots by UEFI, found the boot mode bios: a BIOS cannot start an image on software RAID, because the boot code is inside the array"
    } else if !booted_by_uefi {
        "expected a machine that was booted by UEFI, found one that was booted by BIOS: a BIOS cannot start an image on software RAID, because the boot code is inside the array"
    } else {
        return Ok(());
    };
    Err(Failure::new(Class::SoftwareRaidError, details)
        .hint("set boot_mode:uefi in the node's capabilities, or use a RAID controller"))
}

async fn create_volumes(
    machine: &Machine,
    node: &Node,
    config: &Value,
    permission: WritePermission,
) -> Result<Value> {
    let Some(wanted) = RaidConfig::parse(config)? else {
        tracing::info!("the node has no software RAID in target_raid_config: nothing to create");
        return Ok(json!({}));
    };
    refuse_bios(node, efi_entry::booted_by_uefi())?;
    machine.all_disks().await?;
    let guarded = erasable::is_guarded(machine, node);
    let node = node.clone();
    blocking(move || {
        let usable = usable_disks(&node, &BTreeSet::new())?;
        let volumes = volumes(&wanted, &usable)?;
        let chosen = used_disks(&usable, &volumes)?;
        if guarded {
            refuse_shared(&chosen.disks)?;
        }
        // This does nothing if the kernel already has the module.
        landfall_init::modprobe(&"md_mod".into());
        create(&chosen.disks, &chosen.volumes, &permission).map(drop)
    })
    .await?;
    Ok(config.clone())
}

/// Rejects a disk with a file system that other machines use, for example a volume in a
/// storage network. Partitions need no check, because `create` rejects disks with
/// partitions.
fn refuse_shared(disks: &[ChosenDisk]) -> Result<()> {
    let no_partitions: [PathBuf; 0] = [];
    disks
        .iter()
        .try_for_each(|disk| guard::refuse_shared(&disk.path, &no_partitions))
}

/// The disks that may get volumes, in the order of their names: disks without an
/// obstacle, and RAID members whose arrays will be deleted (`emptied`). Arrays themselves
/// are left out.
fn usable_disks(node: &Node, emptied: &BTreeSet<PathBuf>) -> Result<Vec<Disk>> {
    let erasable = erasable::list(node)?;
    let mut usable = disks::collect(&SystemPath::live());
    usable.retain(|disk| {
        let is_free = { erasable.iter() }.any(|free| {
            let becomes_free =
                free.obstacle == Some(Obstacle::RaidMember) && emptied.contains(&free.disk);
            free.name() == disk.name && (free.obstacle.is_none() || becomes_free)
        });
        is_free && !disk.name.starts_with("/dev/md")
    });
    usable.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(usable)
}

/// The volumes with their disks, as indices of `usable`.
fn volumes(config: &RaidConfig, usable: &[Disk]) -> Result<Vec<Volume>> {
    let volumes = config.volumes.iter().map(|wanted| {
        let disks: Vec<usize> = match wanted.disks.as_slice() {
            [] => (0..usable.len()).collect(),
            hints => matching(hints, usable)?,
        };
        let fewest = wanted.level.fewest_disks();
        if disks.len() < fewest {
            return Err(too_few(wanted, fewest, disks.len()));
        }
        if disks.len() > MOST_MEMBERS {
            let (name, found) = (&wanted.name, disks.len());
            let details =
                format!("volume {name}: expected at most {MOST_MEMBERS} disks, found {found}");
            return Err(Failure::new(Class::SoftwareRaidError, details)
                .hint("choose fewer disks by physical_disks"));
        }
        Ok(Volume {
            name: wanted.name.clone(),
            level: wanted.level,
            share: wanted.share,
            disks,
        })
    });
    volumes.collect()
}

fn too_few(wanted: &WantedVolume, fewest: usize, found: usize) -> Failure {
    let (name, level) = (&wanted.name, wanted.level);
    let details =
        format!("volume {name}: expected at least {fewest} free disks for {level}, found {found}");
    Failure::new(Class::SoftwareRaidError, details)
        .hint("add disks, or free some: disks in skip_block_devices, in use or in an array are not free, and the step delete_configuration deletes arrays")
}

/// Finds one disk for each entry of `hints`: the first matching disk that no earlier
/// entry has taken.
fn matching(hints: &[RootDeviceHints], usable: &[Disk]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for entry in hints {
        let mut disk = None;
        for (index, candidate) in usable.iter().enumerate() {
            if !found.contains(&index) && entry.mismatch(candidate)?.is_none() {
                disk = Some(index);
                break;
            }
        }
        found.push(disk.ok_or_else(|| {
            let details = format!("physical_disks: no free disk matches {entry}");
            Failure::new(Class::SoftwareRaidError, details)
                .hint("correct physical_disks of the node, or free the disk: disks in skip_block_devices, in use or in an array are not free")
        })?);
    }
    Ok(found)
}

/// The disks that the volumes use, and the volumes with indices of these disks.
struct Chosen {
    disks: Vec<ChosenDisk>,
    volumes: Vec<Volume>,
}

fn used_disks(usable: &[Disk], volumes: &[Volume]) -> Result<Chosen> {
    let is_used = |index: &usize| volumes.iter().any(|volume| volume.disks.contains(index));
    let used: Vec<usize> = (0..usable.len()).filter(is_used).collect();
    let disks = used.iter().map(|index| usable[*index].chosen());
    let place = |index: &usize| used.iter().position(|it| it == index);
    Ok(Chosen {
        disks: disks.collect::<Result<_>>()?,
        volumes: { volumes.iter() }
            .map(|volume| Volume {
                disks: volume.disks.iter().filter_map(place).collect(),
                ..volume.clone()
            })
            .collect(),
    })
}

/// Starts the volumes of the node's configuration, so that the root disk can be chosen
/// among them. The kernel does not start them by itself.
pub(super) async fn start_volumes_of(machine: &Machine, config: &RaidConfig) -> Result<()> {
    machine.all_disks().await?;
    let names = config.names();
    blocking(move || {
        let devices = block_devices::collect(&SystemPath::live()).into_iter();
        let devices: Vec<PathBuf> = devices
            .filter(|device| !device.disk.name.starts_with("/dev/md"))
            .flat_map(|device| {
                let partitions = device.partitions.into_iter().map(|it| it.name);
                partitions.chain([device.disk.name])
            })
            .map(PathBuf::from)
            .collect();
        landfall_init::modprobe(&"md_mod".into());
        start_volumes(&devices, &names);
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use landfall_disk::fixtures::loop_device;
    use landfall_sys::sys_tree::plant;

    use super::*;

    /// Four disks of 4, 8, 12 and 16 GiB.
    fn four_disks() -> Vec<Disk> {
        let lines: String = (1..5)
            .zip(["sda", "sdb", "sdc", "sdd"])
            .map(|(size, name)| {
                format!(
                    "sys/block/{name}/dev = 8:{}\\n\nsys/block/{name}/size = {}\\n\n",
                    size * 16,
                    size * (4 << 21)
                )
            })
            .collect();
        disks::collect(plant(&lines).path())
    }

    fn config(physical_disks: Value) -> RaidConfig {
        let config = json!({"logical_disks": [
            {"size_gb": 1, "raid_level": "1", "controller": "software",
             "physical_disks": physical_disks},
            {"size_gb": "MAX", "raid_level": "5", "controller": "software",
             "physical_disks": [{"name": "/dev/sdb"}, {"size": ">= 12"}, {"size": ">= 12"}]},
        ]});
        RaidConfig::parse(&config).unwrap().unwrap()
    }

    #[test]
    fn each_entry_gets_a_disk_of_its_own() {
        let usable = four_disks();
        let found = volumes(
            &config(json!([{"size": ">= 8"}, {"size": ">= 8"}])),
            &usable,
        )
        .unwrap();
        assert_eq!(found[0].disks, [1, 2]);
        assert_eq!(found[1].disks, [1, 2, 3]);
        let chosen = used_disks(&usable, &found).unwrap();
        let paths: Vec<PathBuf> = chosen.disks.iter().map(|disk| disk.path.clone()).collect();
        assert_eq!(
            paths,
            ["/dev/sdb", "/dev/sdc", "/dev/sdd"].map(PathBuf::from)
        );
        assert_eq!(chosen.volumes[0].disks, [0, 1]);
        assert_eq!(chosen.volumes[1].disks, [0, 1, 2]);
        let all = volumes(&config(Value::Null), &usable).unwrap();
        assert_eq!(all[0].disks, [0, 1, 2, 3]);
        let none = volumes(&config(json!([{"size": 100}, {"size": ">= 8"}])), &usable);
        let failure = none.unwrap_err();
        assert!(
            failure.details.contains("no free disk matches size: 100"),
            "{failure}"
        );
        let failure = volumes(&config(Value::Null), &usable[..1]).unwrap_err();
        assert!(
            failure
                .details
                .contains("at least 2 free disks for RAID 1, found 1")
        );
    }

    #[test]
    fn a_volume_on_too_many_disks_is_refused() {
        let usable = vec![four_disks().remove(0); MOST_MEMBERS + 1];
        let failure = volumes(&config(Value::Null), &usable).unwrap_err();
        assert!(
            failure.details.contains("at most 128 disks, found 129"),
            "{failure}"
        );
    }

    /// A volume in a storage network with the superblock of GFS2.
    #[test]
    fn a_file_system_of_other_machines_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let Some(device) = loop_device(file.path(), 512) else {
            return;
        };
        let disks = [ChosenDisk::by_path(device.path()).unwrap()];
        refuse_shared(&disks).unwrap();
        let mut superblock = [0; 512];
        superblock[..4].copy_from_slice(&0x0116_1970u32.to_be_bytes());
        superblock[7] = 1;
        superblock[24..28].copy_from_slice(&1801u32.to_be_bytes());
        file.as_file().write_all_at(&superblock, 64 << 10).unwrap();
        let failure = refuse_shared(&disks).unwrap_err();
        assert_eq!(failure.class, Class::ProtectedDeviceError);
    }

    #[test]
    fn only_a_bool_decides_whether_arrays_are_deleted() {
        let deletes = |arguments: Value| deletes_existing(&arguments);
        assert!(deletes(json!({})).unwrap());
        assert!(deletes(json!({"delete_existing": true})).unwrap());
        assert!(!deletes(json!({"delete_existing": false})).unwrap());
        assert!(!deletes(json!({"delete_existing": null})).unwrap());
        for other in [json!("false"), json!(0), json!([])] {
            let failure = deletes(json!({"delete_existing": other})).unwrap_err();
            assert_eq!(failure.class, Class::InvalidCommandParamsError);
        }
    }

    #[test]
    fn a_node_that_boots_by_bios_is_refused() {
        let silent = Node(json!({}));
        assert!(refuse_bios(&silent, true).is_ok());
        let bios = Node(json!({"properties": {"capabilities": "boot_mode:bios"}}));
        for (node, booted_by_uefi) in [(&bios, true), (&silent, false)] {
            let failure = refuse_bios(node, booted_by_uefi).unwrap_err();
            assert_eq!(failure.class, Class::SoftwareRaidError);
        }
    }
}
