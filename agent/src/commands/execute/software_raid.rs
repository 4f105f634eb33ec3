//! The step `delete_configuration`, which deletes software RAID.

use std::collections::BTreeSet;
use std::path::PathBuf;

use landfall_devices::permission::WritePermission;
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

/// Deletes every software RAID of the machine, except for the volumes that the node
/// says to skip and the arrays that have a member on a disk that must not change.
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
/// If a disk cannot be read.
pub(super) fn emptied(node: &Node) -> Result<BTreeSet<PathBuf>> {
    let Scope {
        candidates,
        keep,
        failures,
    } = scope(node)?;
    let emptied = delete::emptied(&candidates, &keep)?;
    erasable::joined(&failures).map_or(Ok(emptied), Err)
}

/// What a deletion may change.
struct Scope {
    candidates: Vec<Candidate>,
    keep: Keep,
    failures: Vec<(String, Failure)>,
}

fn scope(node: &Node) -> Result<Scope> {
    let (mut candidates, mut failures) = (Vec::new(), Vec::new());
    let Arrays { disks, mut spared } = erasable::list_for_arrays(node)?;
    for disk in disks {
        match &disk.obstacle {
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
    let keep = Keep {
        volumes: erasable::skip_list(node)?.volumes().to_vec(),
        devices: spared,
    };
    Ok(Scope {
        candidates,
        keep,
        failures,
    })
}
