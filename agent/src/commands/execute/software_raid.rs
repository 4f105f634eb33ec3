//! The step `delete_configuration`.

use serde_json::Value;

use super::erasable::{self, Obstacle};
use super::erase_metadata::unreadable;
use crate::commands::command::Node;
use crate::commands::machine::blocking;
use crate::disk::software_raid::{self, Candidate};
use crate::failure::Result;
use crate::permission::WritePermission;

/// Deletes all software RAID of the machine but the volumes that the node says
/// to skip.
pub(super) async fn delete(node: &Node, permission: WritePermission) -> Result<Value> {
    let node = node.clone();
    blocking(move || {
        let (mut candidates, mut failures) = (Vec::new(), Vec::new());
        for disk in erasable::list_with_kept_volumes(&node)? {
            match &disk.obstacle {
                None | Some(Obstacle::RaidMember) => candidates.push(Candidate {
                    disk: disk.disk,
                    partitions: disk.partitions,
                }),
                Some(Obstacle::Unreadable(reason)) => {
                    failures.push((disk.name(), unreadable(reason)));
                }
                Some(obstacle) => {
                    tracing::warn!("{}: left alone, it is {obstacle}", disk.disk.display());
                }
            }
        }
        software_raid::delete(
            &candidates,
            erasable::skip_list(&node)?.volumes(),
            &permission,
        )?;
        erasable::joined(&failures).map_or(Ok(Value::Null), Err)
    })
    .await
}
