//! Where the partitions of new software RAID volumes are on each disk. This module does
//! no I/O.

use uuid::Uuid;

use super::member::Level;
use crate::tables::gpt::{EFI_SYSTEM, Partition};

const MIB: u64 = 1 << 20;
/// The size of the EFI system partition on each disk, in MiB, as with Ironic's agent.
const ESP_MIB: u64 = 550;
/// In MiB: the space at the end of a disk that no partition uses, because the backup of
/// the partition table is there.
const END_MIB: u64 = 1;
/// The beginning of the name of an EFI system partition on a member's disk; a number
/// follows. Ironic's agent uses the same name.
pub const ESP_NAME: &str = "uefi-holder-";
/// "Linux RAID".
pub(super) const LINUX_RAID: Uuid = Uuid::from_u128(0xa19d_880f_05fc_4d3b_a006_743f_0f84_911e);

/// How much of each disk a volume takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// In bytes.
    Fixed(u64),
    /// The space that the other volumes leave, on the disk with the least such space.
    Rest,
}

/// A volume to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// At most 32 bytes.
    pub name: String,
    pub level: Level,
    pub share: Share,
    /// The disks, as indices of the list of disks.
    pub disks: Vec<usize>,
}

/// The volumes do not fit on the disks. Choose smaller sizes, or other disks by
/// `physical_disks`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected {needed} MiB on {disk} for the software RAID volumes and an EFI system partition of {esp} MiB, found {found} MiB",
    esp = ESP_MIB
)]
pub struct TooSmall {
    /// The path of the disk.
    pub disk: String,
    /// In MiB.
    pub needed: u64,
    /// In MiB.
    pub found: u64,
}

/// The partitions of each disk. Partition 1 is the EFI system partition, and the next
/// ones are for the volumes in their order. `disks` has the path and the size of each
/// disk.
///
/// # Errors
/// If a disk is too small.
pub(super) fn partitions(
    disks: &[(String, u64)],
    volumes: &[Volume],
) -> Result<Vec<Vec<Partition>>, TooSmall> {
    let of_disk = |index: usize| volumes.iter().filter(move |it| it.disks.contains(&index));
    let mut rest = u64::MAX;
    for (index, (disk, size)) in disks.iter().enumerate() {
        let fixed: u64 = of_disk(index).map(|volume| mib(volume.share)).sum();
        let takes_rest = of_disk(index).any(|volume| volume.share == Share::Rest);
        let found = size / MIB;
        // The table uses the first MiB. A volume that gets the remaining space has at
        // least 64 MiB.
        let others = 1 + ESP_MIB + fixed + END_MIB;
        let needed = others + if takes_rest { 64 } else { 0 };
        if needed > found {
            return Err(TooSmall {
                disk: disk.clone(),
                needed,
                found,
            });
        }
        if takes_rest {
            rest = rest.min(found - others);
        }
    }
    let of_volume = |volume: &Volume| match volume.share {
        Share::Rest => rest,
        share => mib(share),
    };
    let place = |index: usize| {
        let esp = (EFI_SYSTEM, ESP_MIB, format!("{ESP_NAME}{index}"));
        let members = of_disk(index).map(|volume| {
            let name = format!("{}-{index}", volume.name);
            (LINUX_RAID, of_volume(volume), name)
        });
        let mut next = MIB;
        let all = [esp].into_iter().chain(members).zip(1..);
        let all = all.map(|((kind, len, name), number)| {
            let offset = next;
            next += len * MIB;
            Partition {
                number,
                kind,
                guid: Uuid::new_v4(),
                offset,
                len: len * MIB,
                name,
            }
        });
        all.collect::<Vec<_>>()
    };
    Ok((0..disks.len()).map(place).collect())
}

/// The fixed size in MiB, rounded up.
fn mib(share: Share) -> u64 {
    match share {
        Share::Fixed(bytes) => bytes.div_ceil(MIB),
        Share::Rest => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn volume(name: &str, share: Share, disks: &[usize]) -> Volume {
        Volume {
            name: name.to_owned(),
            level: Level::Raid1,
            share,
            disks: disks.to_vec(),
        }
    }

    fn disks(sizes: &[u64]) -> Vec<(String, u64)> {
        let sizes = sizes.iter().enumerate();
        sizes
            .map(|(index, size)| (format!("/dev/sd{index}"), *size))
            .collect()
    }

    #[test]
    fn members_of_a_volume_have_equal_sizes() {
        let volumes = [
            volume("root", Share::Fixed(10 * GIB), &[0, 1]),
            volume("data", Share::Rest, &[0, 1, 2]),
        ];
        let found = partitions(&disks(&[40 * GIB, 50 * GIB, 100 * GIB]), &volumes).unwrap();
        let places = |disk: usize| -> Vec<(u32, u64, u64)> {
            let parts = found[disk].iter();
            parts
                .map(|it| (it.number, it.offset / MIB, it.len / MIB))
                .collect()
        };
        let rest = 40 * 1024 - 1 - 550 - 10 * 1024 - 1;
        let root = (2, 551, 10 * 1024);
        assert_eq!(places(0), [(1, 1, 550), root, (3, 551 + 10 * 1024, rest)]);
        assert_eq!(places(1), places(0));
        assert_eq!(places(2), [(1, 1, 550), (2, 551, rest)]);
        let names: Vec<&str> = found[1].iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["uefi-holder-1", "root-1", "data-1"]);
        let kinds: Vec<Uuid> = found[2].iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [EFI_SYSTEM, LINUX_RAID]);
    }

    #[test]
    fn a_disk_that_is_too_small_is_named() {
        let volumes = [volume("root", Share::Fixed(10 * GIB), &[0, 1])];
        let error = partitions(&disks(&[40 * GIB, 10 * GIB]), &volumes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected 10792 MiB on /dev/sd1 for the software RAID volumes and an EFI system partition of 550 MiB, found 10240 MiB"
        );
        let volumes = [volume("root", Share::Rest, &[0])];
        assert!(partitions(&disks(&[600 * MIB]), &volumes).is_err());
        assert!(partitions(&disks(&[616 * MIB]), &volumes).is_ok());
    }
}
