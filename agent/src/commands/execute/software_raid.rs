//! The step `delete_configuration`, which deletes software RAID.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use landfall_devices::permission::WritePermission;
use landfall_disk::device::busy::KernelView;
use landfall_disk::software_raid::delete::{self, Candidate, Keep};
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::erasable::{self, Arrays, Obstacle};
use super::erase_metadata::unreadable;
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

pub(super) async fn execute(
    machine: &Machine,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    machine.all_disks().await?;
    delete(node, permission).await
}

/// Deletes every software RAID of the machine, except the volumes in the node's skip list
/// and the arrays that have a member on a disk that must not change.
pub(super) async fn delete(node: &Node, permission: WritePermission) -> Result<Value> {
    let node = node.clone();
    blocking(move || {
        let Scope {
            candidates,
            keep,
            failures,
        } = scope(&node)?;
        delete::delete(&candidates, &keep, &permission)?;
        erasable::joined(&failures).map_or(Ok(Value::Null), Err)
    })
    .await
}

/// The disks that [`delete`] would leave without a partition table.
///
/// # Errors
/// If a disk cannot be read or has no identity. Also see [`erasable::list_for_arrays`].
pub(super) fn emptied(node: &Node) -> Result<BTreeSet<PathBuf>> {
    let Scope {
        candidates,
        keep,
        failures,
    } = scope(node)?;
    let emptied = delete::emptied(&candidates, &keep)?;
    erasable::joined(&failures).map_or(Ok(emptied), Err)
}

/// The disks that a deletion may change, what it must keep, and the failures of disks
/// that cannot be read or identified.
struct Scope {
    candidates: Vec<Candidate>,
    keep: Keep,
    failures: Vec<(String, Failure)>,
}

fn scope(node: &Node) -> Result<Scope> {
    let kernel = KernelView::default();
    let is_array = |disk: &Path| { kernel.device_at(disk) }.is_ok_and(|disk| disk.is_array());
    let mut scope = Scope::of(erasable::list_for_arrays(node)?, is_array);
    scope.keep.volumes = erasable::skip_list(node)?.volumes().to_vec();
    Ok(scope)
}

impl Scope {
    fn of(Arrays { disks, mut spared }: Arrays, is_array: impl Fn(&Path) -> bool) -> Self {
        let (mut candidates, mut failures) = (Vec::new(), Vec::new());
        for disk in disks {
            match &disk.obstacle {
                // Ignore what is on an array: the deletion of the array removes it. The
                // list has each running array as a disk, which disappears when the array
                // is stopped.
                obstacle
                    if !matches!(obstacle, Some(Obstacle::InUse(_))) && is_array(&disk.disk) => {}
                None | Some(Obstacle::RaidMember) => match disk.identity() {
                    Ok(identity) => candidates.push(Candidate {
                        disk: disk.disk,
                        identity,
                        partitions: disk.partitions,
                    }),
                    Err(failure) => failures.push((disk.name(), failure)),
                },
                Some(Obstacle::Unreadable(reason)) => {
                    failures.push((disk.name(), unreadable(reason)));
                }
                Some(obstacle) => {
                    tracing::warn!("{} is not changed: it is {obstacle}", disk.disk.display());
                    spared.extend(disk.partitions);
                    spared.insert(disk.disk);
                }
            }
        }
        Self {
            candidates,
            keep: Keep {
                devices: spared,
                ..Keep::default()
            },
            failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::erasable::Erasable;
    use super::*;

    /// A running array is no candidate: the deletion stops the array, and then finds no
    /// disk with its name.
    #[test]
    fn a_running_array_is_no_disk_to_search() {
        let disks = |obstacle: Option<Obstacle>| {
            let mut array = Erasable::for_test("/dev/md127");
            array.obstacle = obstacle;
            Arrays {
                disks: vec![array],
                spared: BTreeSet::new(),
            }
        };
        for obstacle in [
            None,
            Some(Obstacle::RaidMember),
            Some(Obstacle::ReadOnly),
            Some(Obstacle::Unreadable("no members".to_owned())),
        ] {
            let scope = Scope::of(disks(obstacle), |_| true);
            assert!(scope.candidates.is_empty() && scope.failures.is_empty());
            assert!(scope.keep.devices.is_empty());
        }
        let in_use = || disks(Some(Obstacle::InUse("it is mounted on /".to_owned())));
        let scope = Scope::of(in_use(), |_| true);
        assert!(scope.keep.devices.contains(Path::new("/dev/md127")));
        let unreadable = disks(Some(Obstacle::Unreadable("it is locked".to_owned())));
        assert_eq!(Scope::of(unreadable, |_| false).failures.len(), 1);
    }
}
