//! Chooses the disk for the image: by root device hints, or by the default rule.
//!
//! The choice is deterministic, and an error gives the reason for every disk that was
//! not chosen. Overwriting the wrong disk would be the agent's worst possible fault. An
//! error "no suitable device" without reasons is the most frequent subject of questions
//! about Ironic's agent.

mod choice;

pub use choice::Choice;
use landfall_devices::disk_sets::DiskSets;
use landfall_devices::driver_faults::{self, Purpose};
use landfall_network_plan::Embedded;
use landfall_report::failure::{Failure, Result};
use landfall_sys::system_path::SystemPath;
use serde_json::Value;

use super::given_hints::GivenHints;
use super::hint_candidate::GIB;
use super::report_types::Disk;
use super::root_device_hints::SkipList;

/// The minimum size, in bytes, of a root disk that is chosen without hints. Ironic's
/// agent has the same limit.
pub const MIN_DEFAULT_SIZE: u64 = 4 << 30;

/// The length limits, in bytes, of one reason in an error and of all reasons together.
const LOSS_LIMIT: usize = 400;
const LOSSES_LIMIT: usize = 8 << 10;

/// Chooses the root disk of this node by the hints of [`GivenHints::for_node`]. Without
/// hints, the smallest disk that is large enough is the root disk. `sets` returns the
/// arrays and volumes to which a disk belongs.
///
/// # Errors
/// If no disk is left, or if the hints or the skip list cannot be used.
pub fn choose_for_node<'a>(
    node: Option<&Value>,
    embedded: &Embedded,
    disks: &'a [Disk],
    sets: &dyn Fn(&Disk) -> DiskSets,
) -> Result<Choice<'a>> {
    let hints = GivenHints::for_node(node, embedded)?;
    let skipped = node.and_then(|node| node.get("properties")?.get("skip_block_devices"));
    let skip_list = SkipList::parse(skipped.unwrap_or(&Value::Null))?;
    choose(disks, hints.as_ref(), &skip_list, sets)
}

/// Returns a function that reads the arrays and volumes to which a disk of the
/// machine below `root` belongs.
pub fn sets_below(root: &SystemPath) -> impl Fn(&Disk) -> DiskSets + use<> {
    let blocks = root.join("sys/block");
    move |disk| DiskSets::of(&blocks.join(disk.name.trim_start_matches("/dev/")))
}

/// Chooses the root disk among `disks`. With hints, the first disk that matches is the
/// root disk.
///
/// # Errors
/// If no disk is left; the details give the reason for each disk. Also if a hint or an
/// entry of the skip list cannot be compared with a disk.
pub fn choose<'a>(
    disks: &'a [Disk],
    hints: Option<&GivenHints>,
    skip_list: &SkipList,
    sets: &dyn Fn(&Disk) -> DiskSets,
) -> Result<Choice<'a>> {
    if disks.is_empty() {
        return Err(Failure::device_not_found("no disk found: the kernel knows of no disk in this machine",
        )
        .hint("check the storage controller's mode (AHCI or HBA instead of RAID or VMD) and that the ramdisk has its driver"));
    }
    let mut losses = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let mut reason = loss(disk, hints, skip_list)?;
        if hints.is_some() && reason.is_none() {
            reason = loss_to_sets(&sets(disk), hints, skip_list);
            if reason.is_none() {
                // As in Ironic's agent, the disks after this one are not compared.
                return Ok(Choice::first_match(disks, index, &losses));
            }
        }
        losses.push(reason);
    }
    let mut candidates: Vec<usize> = (0..disks.len())
        .filter(|&index| losses[index].is_none())
        .collect();
    candidates.sort_by_key(|&index| (disks[index].size, &disks[index].name));
    // `sets` reads signatures from the disk, so call it only for disks that would be
    // chosen.
    for index in candidates {
        let disk = &disks[index];
        match loss_to_sets(&sets(disk), hints, skip_list) {
            None => return Ok(Choice::smallest(disks, index, &losses)),
            Some(reason) => {
                // Warn, because a larger disk may be chosen instead, which an operator
                // would not expect.
                tracing::warn!("{}: not chosen as root disk: {reason}", disk.name);
                losses[index] = Some(reason);
            }
        }
    }
    let losses: Vec<String> = disks
        .iter()
        .zip(losses)
        .map(|(disk, loss)| format!("{}: {}", disk.name, loss.unwrap_or_default()))
        .collect();
    Err(none_left(hints, &losses))
}

/// The error for a machine without any disk. It names the controller that has no driver,
/// no firmware or no disk.
pub fn no_disk(root: &SystemPath) -> Failure {
    let driver_faults::Reason { cause, remedy } = driver_faults::why_none(root, Purpose::Storage);
    Failure::device_not_found(format!("no disk found: {cause}")).hint(remedy)
}

/// The reason why the arrays and volumes to which a disk belongs prevent its choice as
/// root disk. `None` if they do not.
fn loss_to_sets(
    sets: &DiskSets,
    hints: Option<&GivenHints>,
    skip_list: &SkipList,
) -> Option<String> {
    if let Some(volume) = sets.kept_volume(skip_list.volumes()) {
        return Some(format!(
            "part of the software RAID volume {volume}, which is in skip_block_devices"
        ));
    }
    if sets.unread && !skip_list.volumes().is_empty() {
        return Some(
            "unreadable where a RAID superblock may be, and skip_block_devices names software RAID volumes to keep"
                .to_owned(),
        );
    }
    if hints.is_some_and(|given| given.hints.name_a_disk()) {
        return None;
    }
    let membership = sets.member_of.first()?;
    Some(format!(
        "{membership}, so only a hint that names this disk can choose it"
    ))
}

/// Logs the disks to which the agent never writes, regardless of hints. Without these
/// lines an operator may wonder why the smallest disk was not chosen.
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

/// Why this disk cannot be chosen; `None` if it can.
fn loss(disk: &Disk, hints: Option<&GivenHints>, skip_list: &SkipList) -> Result<Option<String>> {
    if let Some(reason) = disk.traits.why_untouchable() {
        return Ok(Some(reason));
    }
    if skip_list.contains(disk)? {
        return Ok(Some("in skip_block_devices".into()));
    }
    match hints {
        Some(given) => {
            let mismatch = given.hints.mismatch(disk);
            mismatch.map_err(|error| given.incomparable(error))
        }
        None if disk.size < MIN_DEFAULT_SIZE => Ok(Some(format!(
            "{:.2} GiB is below the 4 GiB that a root disk needs without root device hints",
            disk.size as f64 / GIB
        ))),
        None => Ok(None),
    }
}

/// Joins the reasons into one text of limited length. A machine with a shelf of disks has
/// more reasons than Ironic stores in an error.
fn list(losses: &[String]) -> String {
    let mut text = String::new();
    for (index, loss) in losses.iter().enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        let (left, end) = (losses.len() - index, loss.floor_char_boundary(LOSS_LIMIT));
        if text.len() + LOSS_LIMIT > LOSSES_LIMIT {
            return format!("{text}; and {left} more");
        }
        text += separator;
        text += &loss[..end];
        text += if end < loss.len() { "..." } else { "" };
    }
    text
}

/// Added to the remedy if a disk is too small or too large for a hint.
const SIZES_ARE_GIB: &str =
    "size and minSizeGigabytes count GiB: a disk that is sold as 480 GB has 447 GiB";

fn none_left(hints: Option<&GivenHints>, losses: &[String]) -> Failure {
    // The size may be any of the differences of a disk, not only the first one.
    let is_by_size = |loss: &String| loss.contains(": size is ") || loss.contains("; size is ");
    let by_size = losses.iter().any(is_by_size);
    let losses = list(losses);
    match hints {
        Some(GivenHints { hints, source }) => {
            let remedy = match (source.remedy(), by_size) {
                (remedy, false) => remedy,
                (remedy, true) => format!("{remedy}; {SIZES_ARE_GIB}"),
            };
            Failure::device_not_found(format!(
                "no disk matches the root device hints ({hints}): {losses}"
            ))
            .hint(remedy)
        }
        None => Failure::device_not_found(format!("no disk can be the root disk: {losses}"),
        )
        .hint("name the disk by root_device in the node's properties; the step delete_configuration deletes software RAID, erase_devices_metadata also LVM"),
    }
}

#[cfg(test)]
mod tests;
