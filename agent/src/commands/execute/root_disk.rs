//! Finds the root disk, and waits for it if necessary.

use std::path::{Path, PathBuf};

use landfall_devices::disk_sets::{DiskSets, Membership};
use landfall_devices::identity::ChosenDisk;
use landfall_disk::software_raid::start::refuse_degraded;
use landfall_inventory::disks;
use landfall_inventory::given_hints::{GivenHints, HintSource};
use landfall_inventory::report_types::Disk;
use landfall_inventory::root_device::{
    MIN_DEFAULT_SIZE, choose_for_node, no_disk, report_untouchable, sets_below,
};
use landfall_network_plan::Embedded;
use landfall_report::failure::{Failure, Result};
use landfall_report::status::{RejectedDisk, RootDisk, chose_root_disk};
use landfall_sys::system_path::SystemPath;

use super::raid_config::RaidConfig;
use super::{create_raid, erasable};
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

/// Whether the hints identify a single disk. If they do, a disk that appears later cannot
/// match better, so the agent need not wait for all disks.
fn names_one_disk(node: &Node, embedded: &Embedded) -> bool {
    // Ignore invalid hints here: the function that chooses the disk reports them.
    GivenHints::for_node(Some(&node.0), embedded)
        .is_ok_and(|given| given.is_some_and(|given| given.hints.name_a_disk()))
}

/// Logs which hints choose the root disk, and their source. Otherwise an operator who
/// wrote hints in two places could not see which of them took effect.
fn report_hints(node: &Node, embedded: &Embedded) -> Result<()> {
    let Some(given) = GivenHints::for_node(Some(&node.0), embedded)? else {
        return Ok(());
    };
    tracing::info!("{given}");
    if !matches!(given.source, HintSource::Ramdisk { .. })
        && let Ok(Some((host, hints))) = embedded.root_device_hints()
    {
        tracing::info!("the root device hints in the ramdisk for {host} are ignored: {hints}");
    }
    Ok(())
}

/// The root disk of this node: the root volume in its software RAID configuration, or
/// else the disk that the hints select, or else the smallest disk that is large enough.
/// Waits for missing disks for as long as the settings allow.
///
/// # Errors
/// If no disk qualifies; the details say for each disk why it was not chosen. Also if the
/// hints are invalid, and if the root volume is degraded, is not running, or has a name
/// that two arrays have.
pub(super) async fn find(machine: &Machine, node: &Node) -> Result<ChosenDisk> {
    let raid = RaidConfig::of_node(&node.0);
    if let Some(raid) = &raid {
        create_raid::start_volumes_of(machine, raid).await?;
        if let Some(volume) = raid.root_volume() {
            return root_volume(volume.to_owned()).await;
        }
    }
    report_hints(node, &machine.settings.embedded)?;
    let other_volumes = raid.map(|raid| raid.data_volumes()).unwrap_or_default();
    let sets = sets_below(&SystemPath::live());
    let sets = move |disk: &Disk| without_data_volumes(sets(disk), &other_volumes);
    let (disk, rejected) = choose_when_there(machine, node, sets, report_untouchable).await?;
    tracing::info!(
        "root disk is {} ({}, {})",
        disk.name,
        disk.model.as_deref().unwrap_or("no model"),
        disk.serial.as_deref().unwrap_or("no serial number")
    );
    let given = GivenHints::for_node(Some(&node.0), &machine.settings.embedded)?;
    let (why, remedy) = reason(given.as_ref());
    chose_root_disk(RootDisk {
        path: disk.name.clone(),
        why,
        rejected,
        remedy: Some(format!("to choose another disk, {remedy}")),
    });
    disk.chosen()
}

/// The software RAID volume that the node's configuration names for the image. This
/// volume takes precedence over all hints, as with Ironic's agent.
async fn root_volume(volume: String) -> Result<ChosenDisk> {
    blocking(move || {
        let root = SystemPath::live();
        let sets = sets_below(&root);
        let mut running = disks::collect(&root);
        running.retain(|disk| sets(disk).volume.as_ref() == Some(&volume));
        let disk = only(running, &volume)?;
        // The agent starts only complete arrays, but this array may already have been
        // running without a disk.
        refuse_degraded(Path::new(&disk.name))?;
        tracing::info!(
            "root disk is {}, the software RAID volume {volume}",
            disk.name
        );
        chose_root_disk(RootDisk {
            path: disk.name.clone(),
            why: format!("the software RAID volume {volume} is the root volume"),
            ..RootDisk::default()
        });
        disk.chosen()
    })
    .await
}

/// Fails unless exactly one array has the name of the root volume. A disk from another
/// machine may add a second array with this name, and the agent cannot determine which
/// of the two holds data that is still needed.
fn only(mut running: Vec<Disk>, volume: &str) -> Result<Disk> {
    if running.len() > 1 {
        let names: Vec<&str> = running.iter().map(|disk| &*disk.name).collect();
        let details = format!(
            "the software RAID volume {volume}, which has is_root_volume: true: expected one array of this name, found {}",
            names.join(", ")
        );
        return Err(Failure::device_not_found(details)
            .hint("remove the disks of the array that is not of this node, or delete both by the step delete_configuration"));
    }
    running.pop().ok_or_else(|| {
        Failure::device_not_found(format!(
            "the software RAID volume {volume}, which has is_root_volume: true, is not running"
        ))
        .hint("see the console for the reason; the step create_configuration creates it")
    })
}

/// Marks a volume with `is_root_volume: false` as a member of an array, so that the
/// default rule (the smallest disk) does not choose it.
fn without_data_volumes(mut sets: DiskSets, volumes: &[String]) -> DiskSets {
    if let Some(volume) = sets.volume.as_ref().filter(|it| volumes.contains(it)) {
        let name = format!("{volume}, which is_root_volume excludes");
        sets.member_of
            .push(Membership::Array { name, volume: None });
    }
    sets
}

/// Why a disk was chosen, and how the operator can change the choice.
fn reason(hints: Option<&GivenHints>) -> (String, String) {
    match hints {
        Some(given) => (format!("matches the {given}"), given.source.remedy()),
        None => (
            format!(
                "the smallest disk of at least {} GiB",
                MIN_DEFAULT_SIZE >> 30
            ),
            "set root_device in the node's properties".to_owned(),
        ),
    }
}

/// The disk that would be chosen if all software RAID were deleted, except the volumes in
/// the node's skip list. Call this before the deletion.
///
/// # Errors
/// See [`find`]. If this fails, the caller must not delete anything, because there
/// would be no root disk after the deletion either.
pub(super) async fn find_without_arrays(machine: &Machine, node: &Node) -> Result<PathBuf> {
    let volumes = erasable::skip_list(node)?.volumes().to_vec();
    let sets = sets_below(&SystemPath::live());
    let sets = move |disk: &Disk| without_arrays(sets(disk), &volumes);
    let (disk, _) = choose_when_there(machine, node, sets, |_| {}).await?;
    Ok(PathBuf::from(&disk.name))
}

/// The sets to which a disk still belongs after the deletion. A disk that loses all its
/// arrays also loses its partition table. Without the table it belongs to no other set
/// except its multipath set. If one of its arrays is kept, the disk keeps its table.
fn without_arrays(mut sets: DiskSets, keep: &[String]) -> DiskSets {
    let is_kept = |volume: &Option<String>| volume.as_ref().is_some_and(|it| keep.contains(it));
    let of_arrays = { sets.member_of.iter() }.filter_map(|member| match member {
        Membership::Array { volume, .. } => Some(is_kept(volume)),
        _ => None,
    });
    let kept: Vec<bool> = of_arrays.collect();
    let loses_table = !kept.is_empty() && !kept.contains(&true);
    sets.member_of.retain(|member| match member {
        Membership::Array { volume, .. } => is_kept(volume),
        Membership::Multipath(_) => true,
        Membership::VolumeGroup(_)
        | Membership::UnknownVolumeGroup
        | Membership::FirmwareRaid(_) => !loses_table,
    });
    sets
}

/// Waits until a disk qualifies and, unless the hints name a single disk, until no
/// further disk is expected; at most for as long as the settings allow. Calls `report`
/// with all disks before it chooses. Also returns the other disks, with the reason why
/// each was not chosen.
async fn choose_when_there(
    machine: &Machine,
    node: &Node,
    sets: impl Fn(&Disk) -> DiskSets + Send + 'static,
    report: fn(&[Disk]),
) -> Result<(Disk, Vec<RejectedDisk>)> {
    let mut arrival = machine.disk_arrival().await;
    if !names_one_disk(node, &machine.settings.embedded) {
        arrival = arrival.of_all_disks();
    }
    let (node, embedded) = (node.0.clone(), machine.settings.embedded.clone());
    blocking(move || {
        let root = SystemPath::live();
        let disks = arrival
            .wait(&root, |disks| {
                choose_for_node(Some(&node), &embedded, disks, &sets).is_ok()
            })
            .map_err(|error| Failure::other(format!("cannot wait for a disk: {error}")))?;
        report(&disks);
        if disks.is_empty() {
            return Err(no_disk(&root));
        }
        let choice = choose_for_node(Some(&node), &embedded, &disks, &sets)?;
        Ok((choice.disk.clone(), choice.rejected))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_identity_ends_the_look_for_more_disks() {
        let node = |hints| Node(json!({"instance_info": {"root_device": hints}}));
        let names_one_disk = |node: &Node| names_one_disk(node, &Embedded::default());
        assert!(names_one_disk(&node(json!({"serial": "A"}))));
        assert!(names_one_disk(&node(
            json!({"size": ">= 10", "wwn": "0x5"})
        )));
        assert!(!names_one_disk(&node(
            json!({"size": ">= 10", "rotational": "false"})
        )));
        for loose in ["s!= A", "<in> A", "s>= A"] {
            assert!(!names_one_disk(&node(json!({"serial": loose}))), "{loose}");
        }
        for exact in ["s== A", "<or> A <or> B"] {
            assert!(names_one_disk(&node(json!({"serial": exact}))), "{exact}");
        }
        assert!(!names_one_disk(&node(json!(null))));
        let properties = Node(json!({"properties": {"root_device": {"name": "/dev/sda"}}}));
        assert!(names_one_disk(&properties));
    }

    #[test]
    fn two_arrays_with_the_name_of_the_root_volume_are_refused() {
        let root = landfall_sys::sys_tree::plant(
            "sys/block/sda/dev = 8:0\\n\nsys/block/sda/size = 8388608\\n\n\
             sys/block/sdb/dev = 8:16\\n\nsys/block/sdb/size = 8388608\\n",
        );
        let disks = disks::collect(root.path());
        assert_eq!(disks.len(), 2);
        assert_eq!(only(disks[..1].to_vec(), "root").unwrap(), disks[0]);
        let failure = only(disks.clone(), "root").unwrap_err();
        assert!(
            failure.details.ends_with(", found /dev/sda, /dev/sdb"),
            "{failure}"
        );
        let failure = only(Vec::new(), "root").unwrap_err();
        assert!(failure.details.ends_with("is not running"), "{failure}");
    }

    #[test]
    fn a_data_volume_is_not_chosen_by_default() {
        let volume = |name: &str| DiskSets {
            volume: Some(name.to_owned()),
            ..DiskSets::default()
        };
        let data = ["data".to_owned()];
        assert_eq!(
            without_data_volumes(volume("data"), &data).member_of.len(),
            1
        );
        assert_eq!(without_data_volumes(volume("root"), &data), volume("root"));
    }

    /// An array that will be deleted must not rule out a disk. An array that is kept
    /// must rule it out, before anything is deleted.
    #[test]
    fn arrays_that_are_to_be_deleted_do_not_count() {
        let array = |volume: &str| Membership::Array {
            name: format!("host:{volume}"),
            volume: Some(volume.to_owned()),
        };
        let group = Membership::VolumeGroup("vg".into());
        let sets = DiskSets {
            member_of: vec![array("old"), array("keep"), group.clone()],
            ..DiskSets::default()
        };
        let left = without_arrays(sets.clone(), &["keep".to_owned()]);
        assert_eq!(left.member_of, [array("keep"), group.clone()]);
        assert_eq!(without_arrays(sets, &[]).member_of, []);
        let sets = DiskSets {
            member_of: vec![group.clone()],
            ..DiskSets::default()
        };
        assert_eq!(without_arrays(sets, &[]).member_of, [group]);
    }
}
