//! Images on software RAID. Firmware boots from the copies of the EFI system partition,
//! which are partitions of other disks.

use landfall_devices::disk_sets::md_superblock;
use uuid::Uuid;

use super::*;
use crate::fixtures::used_disk;
use crate::tables::gpt::EFI_SYSTEM;

const ESP: (u32, &str, Uuid, u64, u64) = (1, "ESP", EFI_SYSTEM, 2, 3);

/// Writes an image to `array`. Firmware boots from `copies`, the partitions for the
/// copies of its EFI system partition.
fn write_with(
    image: &[u8],
    array: &NamedTempFile,
    copies: &[NamedTempFile],
) -> Result<ProvenImage> {
    let mut target = open(array.path(), 512);
    let copies = copies.iter().map(|copy| open(copy.path(), 512));
    target.set_loaders(copies.collect());
    let source = source(&Server::of(image), Some(sha256(image)));
    write_image(&source, target, &http_client())
}

/// The agent must make the copies even if it makes no boot entry. Ironic requests no boot
/// entry on some nodes, and neither does this test.
#[test]
fn the_commit_copies_the_efi_system_partition() {
    let image = used_disk(8 << 20, 512, &[ESP]);
    let (array, copies) = (disk(16 << 20), [disk(8 << 20), disk(8 << 20)]);
    let proven = write_with(&image, &array, &copies).unwrap();
    for copy in &copies {
        assert!(content(copy)[..MIB as usize].iter().all(|&byte| byte == 0));
    }
    proven.commit().unwrap();
    for copy in &copies {
        let content = content(copy);
        assert!(content[..3 << 20] == image[2 << 20..5 << 20]);
        let found = md_superblock::find(copy.as_file(), content.len() as u64).unwrap();
        assert_eq!(found[0].volume_name(), Some("esp"));
    }
}

#[test]
fn an_image_that_gets_no_copies_does_not_touch_the_disks() {
    let without = used_disk(8 << 20, 512, &[(1, "boot", Uuid::from_u128(1), 2, 3)]);
    let large = used_disk(12 << 20, 512, &[(1, "ESP", EFI_SYSTEM, 2, 9)]);
    for (image, expected) in [
        (without, "expected an EFI system partition"),
        (large, "found room for"),
    ] {
        let (array, copies) = (disk(16 << 20), [disk(8 << 20)]);
        let failure = write_with(&image, &array, &copies).unwrap_err();
        for text in [expected, "the disk was not touched"] {
            assert!(failure.details.contains(text), "{failure}");
        }
        assert_untouched(&array);
        assert_untouched(&copies[0]);
    }
}

/// The superblock of the second copy cannot be written. In this case firmware must not be
/// able to boot from the first copy either.
#[test]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "a list of ranges that has one"
)]
fn copies_that_are_not_complete_do_not_start() {
    let image = used_disk(8 << 20, 512, &[ESP]);
    let (array, copies) = (disk(16 << 20), [disk(8 << 20), disk(8 << 20)]);
    let mut target = open(array.path(), 512);
    let mut loaders = copies.each_ref().map(|copy| open(copy.path(), 512));
    loaders[1].spare(vec![(8 << 20) - 4096..8 << 20]);
    target.set_loaders(loaders.into());
    let source = source(&Server::of(&image), Some(sha256(&image)));
    let proven = write_image(&source, target, &http_client()).unwrap();
    let failure = proven.commit().unwrap_err();
    assert!(
        failure.details.contains("belong to a partition"),
        "{failure}"
    );
    assert_unbootable(&array);
    for copy in &copies {
        assert!(content(copy)[..MIB as usize].iter().all(|&byte| byte == 0));
    }
}

/// `with_partitions` closes the array and opens it again. The agent must still know the
/// partitions for the copies afterwards.
#[test]
fn an_image_that_is_changed_before_the_commit_is_copied() {
    let image = used_disk(8 << 20, 512, &[ESP]);
    let (array, copy) = (disk(16 << 20), disk(8 << 20));
    let Some(device) = loop_device(array.path(), 512) else {
        return;
    };
    let permission = WritePermission::by_operator();
    let mut target = Target::open(device.path(), &permission).unwrap();
    target.set_loaders(vec![open(copy.path(), 512)]);
    let source = source(&Server::of(&image), Some(sha256(&image)));
    let proven = write_image(&source, target, &http_client()).unwrap();
    let proven = proven.with_partitions(&permission, |_, _| Ok(())).unwrap();
    proven.commit().unwrap();
    assert!(content(&copy)[..3 << 20] == image[2 << 20..5 << 20]);
}
