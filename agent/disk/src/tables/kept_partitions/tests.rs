use std::io::Cursor;

use ::gpt as gpt_crate;

use super::*;
use crate::fixtures::{gpt_image, sealed, used_disk};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 32 * MIB;
const DATA: Uuid = Uuid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4);

const OLD: &[(u32, &str, Uuid, u64, u64)] = &[
    (1, "EFI-SYSTEM", EFI_SYSTEM, 1, 4),
    (2, "root", DATA, 5, 7),
    (4, "var", DATA, 14, 6),
    (9, "data", DATA, 24, 7),
];

fn find_on(
    disk: &[u8],
    sector: u32,
    filters: &[PartitionFilter],
) -> Result<Option<KeptPartitions>> {
    let ends = DiskEnds {
        head: &disk[..MIB as usize],
        tail: &disk[disk.len() - MIB as usize..],
        size: disk.len() as u64,
        sector,
    };
    KeptPartitions::find(&ends, filters)
}

fn labels(text: &str) -> Vec<PartitionFilter> {
    PartitionFilter::parse_labels(text).unwrap()
}

fn indexes(text: &str) -> Vec<PartitionFilter> {
    PartitionFilter::parse_indexes(text).unwrap()
}

fn kept(filters: &[PartitionFilter]) -> KeptPartitions {
    find_on(&used_disk(SIZE, 512, OLD), 512, filters)
        .unwrap()
        .unwrap()
}

fn numbers(table: &Table) -> Vec<u32> {
    table.partitions().iter().map(|p| p.number).collect()
}

/// Puts both copies of the table on a disk and reads them with the `gpt` crate.
fn read_strictly(table: &Table, size: u64, sector: u32) -> gpt_crate::GptDisk<Cursor<Vec<u8>>> {
    let mut disk = vec![0; size as usize];
    table.write_primary_alone(&mut disk[..MIB as usize]);
    let (offset, backup) = table.backup();
    disk[offset as usize..].copy_from_slice(&backup);
    gpt_crate::GptConfig::new()
        .logical_block_size(u64::from(sector).try_into().unwrap())
        .only_valid_headers(true)
        .open_from_device(Cursor::new(disk))
        .unwrap()
}

#[test]
fn matching_partitions_stay_unchanged() {
    for (filters, expected) in [
        (labels("var"), vec![4]),
        (labels("*a*"), vec![4, 9]),
        (indexes("4-"), vec![4, 9]),
        ([labels("root"), indexes("9")].concat(), vec![2, 9]),
    ] {
        for sector in [512, 4096] {
            let disk = used_disk(SIZE, sector, OLD);
            let kept = find_on(&disk, sector, &filters).unwrap().unwrap();
            assert_eq!(numbers(kept.bare()), expected);
            let before = Table::parse(&disk[..MIB as usize], sector).unwrap();
            for partition in kept.bare().partitions() {
                assert!(before.partitions().contains(partition));
                let number = partition.number;
                assert_eq!(
                    kept.bare().entry(number),
                    before.entry(number),
                    "byte for byte"
                );
            }
            let read = read_strictly(kept.bare(), SIZE, sector);
            assert_eq!(read.partitions().len(), expected.len());
            assert_ne!(*read.guid(), Uuid::nil());
        }
    }
    assert_eq!(
        find_on(&used_disk(SIZE, 512, OLD), 512, &labels("nix")),
        Ok(None)
    );
    assert_eq!(
        find_on(&[0; 4 << 20], 512, &indexes("1-")),
        Ok(None),
        "an empty disk"
    );
}

#[test]
fn a_kept_esp_is_hidden_until_the_end() {
    let kept = kept(&indexes("1"));
    assert_eq!(kept.bare().partitions()[0].kind, HIDDEN_EFI_SYSTEM);
    assert_eq!(kept.plain().unwrap().partitions()[0].kind, EFI_SYSTEM);
    let image = gpt_image(8 * MIB, 512);
    let behind = used_disk(SIZE, 512, &[(1, "ESP", EFI_SYSTEM, 14, 2)]);
    let behind = find_on(&behind, 512, &indexes("1")).unwrap().unwrap();
    let mut table = Table::parse(&image[..MIB as usize], 512).unwrap();
    table.move_backup_to_end(SIZE).unwrap();
    behind.merge_into(&mut table).unwrap();
    assert_eq!(table.partitions()[2].kind, EFI_SYSTEM);
    // A later installation recognises the hidden type that an interrupted one left.
    let mut disk = used_disk(SIZE, 512, &[]);
    kept.bare().write_primary_alone(&mut disk[..MIB as usize]);
    let again = find_on(&disk, 512, &indexes("1")).unwrap().unwrap();
    assert_eq!(again.partitions().next().unwrap().kind, EFI_SYSTEM);
    assert_eq!(again.bare().partitions()[0].kind, HIDDEN_EFI_SYSTEM);
}

#[test]
fn a_broken_primary_gives_way_to_its_backup() {
    let mut disk = used_disk(SIZE, 512, OLD);
    let expected = find_on(&disk, 512, &labels("var")).unwrap().unwrap();
    assert!(!expected.is_of_backup());
    disk[1024 + 300] ^= 1;
    let kept = find_on(&disk, 512, &labels("var")).unwrap().unwrap();
    assert!(kept.is_of_backup());
    assert_eq!(kept.partitions, expected.partitions);
    // The first MiB is empty.
    disk[..MIB as usize].fill(0);
    assert!(find_on(&disk, 512, &labels("var")).unwrap().is_some());

    let last = disk.len() - 512;
    for (place, what) in [
        (last, "signature"),
        (last + 16, "checksum"),
        (last + 24, "own place"),
        (last + 72, "place of the entries"),
        (last + 80, "number of entries"),
        (last - 16384 + 3 * 128, "an entry"),
    ] {
        let mut broken = used_disk(SIZE, 512, OLD);
        broken[1024 + 300] ^= 1;
        broken[place] ^= 0x40;
        let failure = find_on(&broken, 512, &labels("var")).unwrap_err();
        assert!(failure.details.contains("damaged"), "{what}: {failure}");
        assert!(failure.details.ends_with("the disk was not touched"));
    }
}

/// The agent must not treat a disk whose first MiB was wiped by mistake as a disk
/// without partitions.
#[test]
fn a_backup_alone_that_is_damaged_is_not_taken_for_nothing() {
    const MISSING: &str = "damaged or missing: expected a GPT, found none";
    for (sector, disk_sector, word) in [
        (512, 512, MISSING),
        (4096, 4096, MISSING),
        (4096, 512, "sectors of 4096 bytes"),
        (512, 4096, "sectors of 512 bytes"),
    ] {
        let mut disk = used_disk(SIZE, sector, OLD);
        disk[..MIB as usize].fill(0);
        let header = disk.len() - sector as usize;
        disk[header + 16] ^= 1;
        let failure = find_on(&disk, disk_sector, &labels("var")).unwrap_err();
        assert!(failure.details.contains(word), "{sector}: {failure}");
        assert!(failure.details.ends_with("the disk was not touched"));
    }
}

#[test]
fn disks_that_cannot_be_asked() {
    let other = used_disk(SIZE, 4096, OLD);
    let failure = find_on(&other, 512, &labels("var")).unwrap_err();
    assert!(
        failure.details.contains("sectors of 4096 bytes"),
        "{failure}"
    );
    let mut mbr = vec![0; 4 << 20];
    mbr[450] = 0x83;
    mbr[510..512].copy_from_slice(&[0x55, 0xaa]);
    let failure = find_on(&mbr, 512, &indexes("1")).unwrap_err();
    assert!(
        failure
            .details
            .starts_with("saving partitions from an MBR disk"),
        "{failure}"
    );
    assert_eq!(
        find_on(&mbr, 512, &labels("var")),
        Ok(None),
        "an MBR has no labels"
    );
}

#[test]
fn twins_are_found_before_anything_is_written() {
    let mut disk = used_disk(SIZE, 512, OLD);
    let guid: Vec<u8> = disk[1024 + 128 + 16..][..16].to_vec();
    disk[1024 + 3 * 128 + 16..][..16].copy_from_slice(&guid);
    let disk = sealed(disk);
    let failure = find_on(&disk, 512, &indexes("2-4")).unwrap_err();
    assert!(
        failure
            .details
            .contains("partitions 2 and 4 have the same GUID"),
        "{failure}"
    );
    find_on(&disk, 512, &indexes("4")).unwrap().unwrap();
}

#[test]
fn the_image_ends_before_the_first_of_them() {
    let kept = kept(&labels("*a*"));
    kept.refuse_collision(14 * MIB).unwrap();
    let failure = kept.refuse_collision(14 * MIB + 1).unwrap_err();
    assert_eq!(
        failure.details,
        "collision with partition 4 (\"var\") at offset 14680064"
    );
    let mut disk = Table::empty(512, SIZE, Uuid::nil(), 128).unwrap();
    let early = Partition {
        number: 1,
        kind: DATA,
        guid: Uuid::from_u128(1),
        offset: MIB / 2,
        len: MIB,
        name: "early".to_owned(),
    };
    disk.put(early.clone(), &Entry::of(&early, 512)).unwrap();
    let mut head = vec![0; SIZE as usize];
    disk.write_primary_alone(&mut head[..MIB as usize]);
    let kept = find_on(&head, 512, &indexes("1")).unwrap().unwrap();
    assert!(
        kept.refuse_collision(0).is_err(),
        "the first MiB is written"
    );
}

#[test]
fn numbers_after_those_of_the_image() {
    let image = gpt_image(8 * MIB, 512);
    let merge = |filters: &[PartitionFilter]| {
        let mut table = Table::parse(&image[..MIB as usize], 512).unwrap();
        table.move_backup_to_end(SIZE).unwrap();
        let moved = kept(filters).merge_into(&mut table).unwrap();
        (moved, table)
    };
    // The image has partitions 1 and 2. It ends at 8 MiB, before partitions 4 and
    // 9.
    let (moved, table) = merge(&indexes("4-"));
    assert_eq!(moved, [(4, 4), (9, 9)]);
    assert_eq!(numbers(&table), [1, 2, 4, 9]);
    let read = read_strictly(&table, SIZE, 512);
    assert_eq!(read.guid().to_string(), crate::fixtures::SENTINEL);
    assert_eq!(read.partitions()[&9].name, "data");
    assert_eq!(read.partitions()[&9].flags, 4, "attributes stay");

    let renumbered = used_disk(SIZE, 512, &[(1, "a", DATA, 14, 2), (3, "b", DATA, 20, 2)]);
    let kept = find_on(&renumbered, 512, &indexes("1-")).unwrap().unwrap();
    let mut table = Table::parse(&image[..MIB as usize], 512).unwrap();
    table.move_backup_to_end(SIZE).unwrap();
    assert_eq!(kept.merge_into(&mut table).unwrap(), [(1, 3), (3, 4)]);
}

#[test]
fn partitions_that_do_not_fit_the_images_table() {
    let image = gpt_image(8 * MIB, 512);
    let mut table = Table::parse(&image[..MIB as usize], 512).unwrap();
    table.move_backup_to_end(SIZE).unwrap();
    let last = used_disk(SIZE, 512, &[(128, "a", DATA, 14, 2)]);
    let kept = find_on(&last, 512, &indexes("128")).unwrap().unwrap();
    kept.merge_into(&mut table.clone()).unwrap();
    let two = used_disk(
        SIZE,
        512,
        &[(127, "a", DATA, 14, 2), (128, "b", DATA, 18, 2)],
    );
    let kept = find_on(&two, 512, &indexes("1-")).unwrap().unwrap();
    let first = Partition {
        number: 127,
        guid: Uuid::from_u128(5),
        offset: 10 * MIB,
        ..kept.partitions().next().unwrap().clone()
    };
    let mut full = table.clone();
    full.put(first.clone(), &Entry::of(&first, 512)).unwrap();
    let reason = kept.merge_into(&mut full).unwrap_err().to_string();
    assert!(reason.contains("has only 128 entries"), "{reason}");

    let mut twin = table.clone();
    let same = Partition {
        number: 3,
        offset: 10 * MIB,
        ..kept.partitions().next().unwrap().clone()
    };
    twin.put(same.clone(), &Entry::of(&same, 512)).unwrap();
    let reason = kept.merge_into(&mut twin).unwrap_err().to_string();
    assert!(reason.contains("have the same GUID"), "{reason}");
}

#[test]
fn a_partition_in_the_place_of_the_backup_is_refused() {
    // Such a partition is possible on a disk whose table has four entries, because that
    // leaves more usable space than a table of 128 entries.
    let mut disk = used_disk(SIZE, 512, &[(1, "a", DATA, 14, 2)]);
    let at = 1024 + 40;
    disk[at..at + 8].copy_from_slice(&(SIZE / 512 - 3).to_le_bytes());
    let disk = sealed(disk);
    let failure = find_on(&disk, 512, &indexes("1")).unwrap_err();
    assert!(
        failure.details.contains("the backup table needs the disk"),
        "{failure}"
    );
}
