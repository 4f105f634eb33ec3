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
        for disk in erasable::list(&node)? {
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
        software_raid::delete(&candidates, &kept_volumes(&node), &permission)?;
        erasable::joined(&failures).map_or(Ok(Value::Null), Err)
    })
    .await
}

/// The `volume_name` entries of `skip_block_devices`.
fn kept_volumes(node: &Node) -> Vec<String> {
    node.property("skip_block_devices")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("volume_name")?.as_str())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn named_volumes_are_kept() {
        let node = Node(json!({"properties": {"skip_block_devices": [
            {"name": "/dev/sda"}, {"volume_name": "root"}, {"volume_name": 1}]}}));
        assert_eq!(kept_volumes(&node), ["root"]);
        assert!(kept_volumes(&Node::default()).is_empty());
    }
}
