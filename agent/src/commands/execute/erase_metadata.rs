//! The step `erase_devices_metadata`: after it no disk is recognised as
//! anything.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::erasable::{self, Erasable, Obstacle};
use crate::commands::command::Node;
use crate::commands::machine::{Machine, blocking};
use crate::disk::erase::metadata::erase_metadata;
use crate::disk::target::Target;
use crate::failure::{Class, Failure, Result};
use crate::permission::WritePermission;

/// How long what holds a disk is waited for: a volume that is being stopped, a
/// probe.
const OPEN_TRIES: u32 = 20;
const OPEN_PAUSE: Duration = Duration::from_secs(1);

/// Executes the step.
pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    let guarded = *machine.settings.params.guard_special_filesystems;
    let node = node.clone();
    blocking(move || {
        let disks = erasable::list(&node)?;
        erasable::refuse_shared(&disks, &node, guarded)?;
        let failures: Vec<(String, Failure)> = disks
            .iter()
            .flat_map(|disk| erase_disk(disk, &permission))
            .collect();
        erasable::joined(&failures).map_or(Ok(Value::Null), Err)
    })
    .await
}

/// Erases the metadata of a disk and of its partitions. Goes on after a
/// failure: what can be erased is.
pub(super) fn erase_disk(disk: &Erasable, permission: &WritePermission) -> Vec<(String, Failure)> {
    match &disk.obstacle {
        None => {}
        Some(Obstacle::ReadOnly) => {
            tracing::info!("{}: left alone, it is read-only", disk.name());
            return Vec::new();
        }
        Some(Obstacle::RaidMember) => {
            tracing::warn!(
                "{}: left alone, it belongs to a software RAID (the step delete_configuration removes that)",
                disk.name()
            );
            return Vec::new();
        }
        Some(Obstacle::InUse(uses)) => return vec![(disk.name(), in_use(uses))],
    }
    let mut failures = Vec::new();
    // A partition before its disk: with the table it is gone.
    for path in disk.partitions.iter().chain([&disk.disk]) {
        let is_disk = *path == disk.disk;
        if let Err(failure) = erase_device(path, is_disk, permission) {
            tracing::error!("{failure}");
            failures.push((path.display().to_string(), failure));
        }
    }
    failures
}

/// A disk that is in use is not touched.
pub(super) fn in_use(uses: &str) -> Failure {
    Failure::new(
        Class::BlockDeviceEraseError,
        format!("it is in use: {uses}"),
    )
    .hint("unmount it, or name it in skip_block_devices of the node's properties")
}

fn erase_device(path: &Path, is_disk: bool, permission: &WritePermission) -> Result<()> {
    let target = open_when_free(path, permission)?;
    let found = erase_metadata(&target)?;
    if is_disk {
        target.reread_partitions()?;
    }
    let found = match found.as_slice() {
        [] => "nothing known".to_owned(),
        found => found.join(", "),
    };
    tracing::info!("{}: metadata erased, it held {found}", path.display());
    Ok(())
}

/// Opens a disk or partition once nobody holds it.
///
/// # Errors
/// If it is still held after 20 s, or cannot be opened for another reason.
pub(super) fn open_when_free(path: &Path, permission: &WritePermission) -> Result<Target> {
    let mut tries = 0;
    loop {
        match Target::open_disk_or_partition(path, permission) {
            Err(failure) if failure.class == Class::BlockDeviceError && tries < OPEN_TRIES => {
                tries += 1;
                if tries == 1 {
                    tracing::info!("{failure}; waiting for it");
                }
                thread::sleep(OPEN_PAUSE);
            }
            opened => return opened,
        }
    }
}
