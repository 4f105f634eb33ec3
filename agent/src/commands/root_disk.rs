//! Which disk is meant, as soon as it is there.

use std::path::{Path, PathBuf};

use super::command::Node;
use super::machine::{Machine, blocking};
use crate::devices_settled;
use crate::failure::{Class, Failure, Result};
use crate::inventory::root_device::choose_for_node;
use crate::inventory::wait_for_disk::{Patience, wait_for_disk};

/// The root disk of this node: by its hints, else the smallest that is large
/// enough. A disk that is not there yet is waited for, as long as the settings
/// say.
///
/// # Errors
/// If there is none; the details say of each disk why it is not the one.
pub(super) async fn find(machine: &Machine, node: &Node) -> Result<PathBuf> {
    devices_settled::wait(machine.devices_settled.clone()).await;
    let params = &machine.settings.params;
    let patience = Patience::of_attempts(*params.disk_wait_attempts, *params.disk_wait_delay);
    let node = node.0.clone();
    blocking(move || {
        let disks = wait_for_disk(Path::new("/"), patience, |disks| {
            choose_for_node(Some(&node), disks).is_ok()
        })
        .map_err(|error| {
            Failure::new(
                Class::CommandExecutionError,
                format!("waiting for a disk: {error}"),
            )
        })?;
        let disk = choose_for_node(Some(&node), &disks)?;
        tracing::info!(
            "root disk is {} ({}, {})",
            disk.name,
            disk.model.as_deref().unwrap_or("no model"),
            disk.serial.as_deref().unwrap_or("no serial number")
        );
        Ok(PathBuf::from(&disk.name))
    })
    .await
}
