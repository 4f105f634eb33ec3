//! Recognises the partition tables of `create`. This module does no I/O.

use super::super::layout::{ESP_NAME, LINUX_RAID};
use crate::tables::gpt::{EFI_SYSTEM, Partition};

/// Whether the partitions are exactly those of new volumes, and none of them is for a
/// volume to keep.
pub(super) fn is_left(partitions: &[Partition], keep: &[String]) -> bool {
    let is_esp = |it: &Partition| {
        let number = it.name.strip_prefix(ESP_NAME);
        it.kind == EFI_SYSTEM && number.is_some_and(|it| it.parse::<usize>().is_ok())
    };
    // The name consists of the volume's name and the number of the disk, see `layout`.
    let is_kept = |it: &Partition| {
        let volume = it.name.rsplit_once('-').map(|(volume, _)| volume);
        volume.is_some_and(|volume| keep.iter().any(|kept| kept == volume))
    };
    let [first, members @ ..] = partitions else {
        return false;
    };
    let are_members = { members.iter() }.all(|it| it.kind == LINUX_RAID && !is_kept(it));
    is_esp(first) && !members.is_empty() && are_members
}

#[cfg(test)]
mod tests {
    use super::super::super::layout::{Share, Volume, partitions};
    use super::super::super::member::Level;
    use super::*;

    #[test]
    fn only_a_table_of_new_volumes_is_one() {
        let volume = |name: &str| Volume {
            name: name.to_owned(),
            level: Level::Raid1,
            share: Share::Fixed(1 << 30),
            disks: vec![0],
        };
        let disks = [("/dev/sda".to_owned(), 8 << 30)];
        let ours = partitions(&disks, &[volume("root"), volume("my-data")]).unwrap();
        let [ours] = &ours[..] else {
            panic!("{ours:?}");
        };
        assert!(is_left(ours, &[]));
        assert!(is_left(ours, &["data".to_owned()]));
        assert!(!is_left(ours, &["my-data".to_owned()]));
        assert!(!is_left(&ours[..1], &[]));
        assert!(!is_left(&ours[1..], &[]));
        assert!(!is_left(&[], &[]));
        for change in [
            |it: &mut [Partition]| it[0].name = "ESP".to_owned(),
            |it: &mut [Partition]| it[2].kind = EFI_SYSTEM,
        ] {
            let mut other = ours.clone();
            change(&mut other);
            assert!(!is_left(&other, &[]));
        }
    }
}
