//! The disks and volumes of a node that must be kept.

use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::RootDeviceHints;
use crate::report_types::Disk;

/// Disks and software RAID volumes that the operator wants to keep
/// (`skip_block_devices`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkipList {
    disks: Vec<RootDeviceHints>,
    volumes: Vec<String>,
}

impl SkipList {
    /// Parses `skip_block_devices` of a node. An entry with `volume_name` names a
    /// software RAID volume; as in Ironic's agent, the other members of that
    /// entry are ignored.
    ///
    /// # Errors
    /// If the value is not a list, or if an entry has no hints, invalid hints, or a
    /// `volume_name` that is not a text. If the agent ignored such an entry, it would
    /// destroy data that the operator wants to keep.
    pub fn parse(entries: &Value) -> Result<Self> {
        let entries = match entries {
            Value::Null => return Ok(Self::default()),
            Value::Array(entries) => entries,
            other => {
                return Err(unusable_skip_list(&format!(
                    "expected a list, found {other}"
                )));
            }
        };
        let mut list = Self::default();
        for entry in entries {
            match entry.get("volume_name") {
                Some(Value::String(volume)) => list.volumes.push(volume.clone()),
                Some(other) => {
                    return Err(unusable_skip_list(&format!(
                        "volume_name: expected a text, found {other}"
                    )));
                }
                None => {
                    let hints = RootDeviceHints::parse(entry)
                        .map_err(|error| unusable_skip_list(&error.message))?;
                    let hints = hints.ok_or_else(|| unusable_skip_list("an entry has no hints"))?;
                    list.disks.push(hints);
                }
            }
        }
        Ok(list)
    }

    /// The software RAID volumes to keep. The names do not include the host.
    pub fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Whether to keep this disk, because the list names the disk or one of its
    /// partitions. Erasing the partition table would destroy the partition.
    ///
    /// # Errors
    /// If a hint cannot be compared with the disk's value.
    pub fn contains(&self, disk: &Disk) -> Result<bool> {
        for hints in &self.disks {
            let meant = match hints.mismatch(disk) {
                Ok(None) => Ok(true),
                Ok(Some(_)) => hints.name_a_partition(disk),
                Err(error) => Err(error),
            };
            if meant.map_err(|error| unusable_skip_list(&error.message))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the first entry that names an array by its device node but matches no disk.
    /// Returns the hint `name` of the entry as JSON. The array may exist under another
    /// name, because the kernel assigns these names when it assembles the arrays.
    ///
    /// # Errors
    /// As [`SkipList::contains`].
    pub fn missing_array<'a>(
        &self,
        disks: impl IntoIterator<Item = &'a Disk> + Clone,
    ) -> Result<Option<&str>> {
        for hints in &self.disks {
            let array = hints.0.iter().find(|hint| {
                hint.name == "name" && hint.names_a_node() && hint.written.contains("/dev/md")
            });
            let Some(array) = array else { continue };
            let entry = Self {
                disks: vec![hints.clone()],
                volumes: Vec::new(),
            };
            let mut found = false;
            for disk in disks.clone() {
                found |= entry.contains(disk)?;
            }
            if !found {
                return Ok(Some(&array.written));
            }
        }
        Ok(None)
    }
}

fn unusable_skip_list(reason: &str) -> Failure {
    Failure::other(format!("skip_block_devices cannot be used: {reason}"))
        .hint("correct skip_block_devices in the node's properties")
}
