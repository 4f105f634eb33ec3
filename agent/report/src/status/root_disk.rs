//! The disk that the machine is installed to, and why the agent did not choose another
//! disk.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::update;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RootDisk {
    /// `/dev/sda`
    pub path: String,
    /// Why this disk and no other.
    pub why: String,
    /// The other disks, in the kernel's order, including those that the agent never
    /// writes to. Empty if the operator has named the disk, or if the node's software
    /// RAID has a root volume.
    pub rejected: Vec<RejectedDisk>,
    /// What the operator can do to get another disk.
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectedDisk {
    /// `/dev/sdb`
    pub path: String,
    /// Why the disk was not chosen.
    pub why: String,
}

impl RootDisk {
    /// The other disks and why they were not chosen. `None` if there are none. Lists at
    /// most `most` disks, because nobody reads a list of dozens.
    pub fn rejected_in_words(&self, most: usize) -> Option<String> {
        let listed = self.rejected.iter().take(most);
        let listed: Vec<_> = listed
            .map(|disk| format!("{}: {}", disk.path, disk.why))
            .collect();
        let more = self.rejected.len() - listed.len();
        let mut words = listed.join("; ");
        if more > 0 {
            let noun = if more == 1 { "disk" } else { "disks" };
            // Writing to a String cannot fail.
            let _ = write!(words, "; and {more} more {noun}");
        }
        (!words.is_empty()).then_some(words)
    }
}

/// Records the disk that the machine will be installed to.
pub fn chose_root_disk(disk: RootDisk) {
    update(|status| status.root_disk = Some(disk));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_of_disks_is_cut_short() {
        let disk = |number: usize| RejectedDisk {
            path: format!("/dev/sd{number}"),
            why: "too small".into(),
        };
        for (count, expected) in [
            (0, None),
            (1, Some("/dev/sd0: too small")),
            (2, Some("/dev/sd0: too small; /dev/sd1: too small")),
            (
                3,
                Some("/dev/sd0: too small; /dev/sd1: too small; and 1 more disk"),
            ),
            (
                9,
                Some("/dev/sd0: too small; /dev/sd1: too small; and 7 more disks"),
            ),
        ] {
            let root = RootDisk {
                rejected: (0..count).map(disk).collect(),
                ..RootDisk::default()
            };
            assert_eq!(root.rejected_in_words(2).as_deref(), expected, "{count}");
        }
    }
}
