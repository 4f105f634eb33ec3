//! Which disk the image goes to: root device hints, or the default rule.
//!
//! A choice is deterministic, and a refusal says of every disk why it lost:
//! the wrong disk overwritten is the worst this agent can do, and a puzzling
//! "no suitable device" the most frequent question about the original.

use serde_json::Value;

use super::hint_candidate::GIB;
use super::report_types::Disk;
use super::root_device_hints::{RootDeviceHints, SkipList};
use crate::failure::{Class, Failure, Result};

/// Below this no disk is chosen without hints; the original's limit.
pub const MIN_DEFAULT_SIZE: u64 = 4 << 30;

/// Bytes of the reasons that a refusal holds, of one and of all.
const LOSS_LIMIT: usize = 400;
const LOSSES_LIMIT: usize = 8 << 10;

/// Chooses the root disk of this node (`None` before it is known): by its
/// hints, those of `instance_info` before those of `properties`, else the
/// smallest disk that is large enough.
///
/// # Errors
/// If no disk is left, or if hints or skip list cannot be used.
pub fn choose_for_node<'a>(node: Option<&Value>, disks: &'a [Disk]) -> Result<&'a Disk> {
    let field = |parent: &str, name: &str| {
        node.and_then(|node| node.get(parent)?.get(name))
            .unwrap_or(&Value::Null)
    };
    let hints = match RootDeviceHints::parse(field("instance_info", "root_device"))? {
        Some(hints) => Some(hints),
        None => RootDeviceHints::parse(field("properties", "root_device"))?,
    };
    let skip_list = SkipList::parse(field("properties", "skip_block_devices"))?;
    choose(disks, hints.as_ref(), &skip_list)
}

/// Chooses the root disk among `disks`, which are in the order of preference
/// for hints.
///
/// # Errors
/// If no disk is left; the details say of each why. If hints or skip list ask
/// for a comparison that cannot be made.
pub fn choose<'a>(
    disks: &'a [Disk],
    hints: Option<&RootDeviceHints>,
    skip_list: &SkipList,
) -> Result<&'a Disk> {
    if disks.is_empty() {
        return Err(Failure::new(
            Class::DeviceNotFound,
            "no disk found: the kernel knows of no disk in this machine",
        )
        .hint("check the storage controller's mode (AHCI or HBA instead of RAID or VMD) and that the ramdisk has its driver"));
    }
    let mut losses = Vec::new();
    let mut chosen: Option<&Disk> = None;
    for disk in disks {
        match loss(disk, hints, skip_list)? {
            Some(reason) => losses.push(format!("{}: {reason}", disk.name)),
            None if hints.is_some() => return Ok(disk),
            None => {
                let key = |disk: &Disk| (disk.size, disk.name.clone());
                if chosen.is_none_or(|best| key(disk) < key(best)) {
                    chosen = Some(disk);
                }
            }
        }
    }
    chosen.ok_or_else(|| none_left(hints, &losses))
}

/// Says on the console which disks are not written whatever the hints say, so
/// that nobody wonders why the smallest disk was not chosen.
pub fn report_untouchable(disks: &[Disk]) {
    for disk in disks {
        if let Some(reason) = disk.traits.why_untouchable() {
            let gib = disk.size as f64 / GIB;
            let model = disk.model.as_deref().unwrap_or("no model");
            tracing::info!(
                "{} ({gib:.1} GiB, {model}) is skipped: it is {reason}",
                disk.name
            );
        }
    }
}

/// Why this disk is out of the question, if it is.
fn loss(
    disk: &Disk,
    hints: Option<&RootDeviceHints>,
    skip_list: &SkipList,
) -> Result<Option<String>> {
    if let Some(reason) = disk.traits.why_untouchable() {
        return Ok(Some(reason));
    }
    if skip_list.contains(disk)? {
        return Ok(Some("in skip_block_devices".into()));
    }
    match hints {
        Some(hints) => Ok(hints.mismatch(disk)?),
        None if disk.size < MIN_DEFAULT_SIZE => Ok(Some(format!(
            "{:.2} GiB is below the 4 GiB that a disk without hints must have",
            disk.size as f64 / GIB
        ))),
        None => Ok(None),
    }
}

/// The reasons in one text. A machine with a shelf of disks has more than
/// Ironic keeps of an error, or people read.
fn list(losses: &[String]) -> String {
    let mut text = String::new();
    for (index, loss) in losses.iter().enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        let (left, cut) = (losses.len() - index, loss.len() > LOSS_LIMIT);
        if text.len() + LOSS_LIMIT > LOSSES_LIMIT {
            return format!("{text}; and {left} more");
        }
        text += separator;
        text.extend(loss.chars().take(LOSS_LIMIT));
        text += if cut { "..." } else { "" };
    }
    text
}

fn none_left(hints: Option<&RootDeviceHints>, losses: &[String]) -> Failure {
    let losses = list(losses);
    match hints {
        Some(hints) => Failure::new(
            Class::DeviceNotFound,
            format!("no disk matches the root device hints ({hints}): {losses}"),
        )
        .hint("correct root_device in the node's properties or instance_info"),
        None => Failure::new(
            Class::DeviceNotFound,
            format!("no disk can be the root disk: {losses}"),
        )
        .hint("name the disk by root_device in the node's properties"),
    }
}

#[cfg(test)]
mod tests;
