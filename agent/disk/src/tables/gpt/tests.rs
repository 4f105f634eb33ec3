use std::io::Cursor;

use super::*;
use crate::fixtures::{SENTINEL, gpt_image, sealed};

const MIB: u64 = 1 << 20;

fn head(image: &[u8]) -> &[u8] {
    &image[..MIB as usize]
}

/// The whole disk after the table was adjusted to `size`, for an independent
/// reader.
fn moved(image: &[u8], sector: u32, size: u64) -> Vec<u8> {
    let mut table = Table::parse(head(image), sector).unwrap();
    table.move_backup_to_end(size).unwrap();
    place(&table, image, size)
}

fn place(table: &Table, image: &[u8], size: u64) -> Vec<u8> {
    let mut disk = image.to_vec();
    disk.resize(size as usize, 0);
    table.write_primary(&mut disk[..MIB as usize]);
    let (offset, backup) = table.backup();
    assert_eq!(
        offset + backup.len() as u64,
        size,
        "the backup ends the disk"
    );
    disk[offset as usize..].copy_from_slice(&backup);
    disk
}

/// Reads both headers with the `gpt` crate, which accepts only valid ones.
fn read_strictly(disk: &[u8], sector: u32) -> gpt::GptDisk<Cursor<Vec<u8>>> {
    gpt::GptConfig::new()
        .logical_block_size(u64::from(sector).try_into().unwrap())
        .only_valid_headers(true)
        .open_from_device(Cursor::new(disk.to_vec()))
        .unwrap()
}

#[test]
fn backup_moves_and_nothing_else_changes() {
    for sector in [512, 4096] {
        let image = gpt_image(8 * MIB, sector);
        let disk = moved(&image, sector, 32 * MIB);
        let before = read_strictly(&image, sector);
        let after = read_strictly(&disk, sector);
        assert_eq!(before.partitions(), after.partitions());
        assert_eq!(after.guid().to_string(), SENTINEL);
        let (primary, backup) = (
            after.primary_header().unwrap().clone(),
            after.backup_header().unwrap().clone(),
        );
        let last = 32 * MIB / u64::from(sector) - 1;
        assert_eq!((primary.current_lba, primary.backup_lba), (1, last));
        assert_eq!((backup.current_lba, backup.backup_lba), (last, 1));
        let entries = 128u64 * 128 / u64::from(sector);
        assert_eq!(primary.last_usable, last - entries - 1);
        assert_eq!(backup.part_start, last - entries);
        assert_eq!(
            primary.first_usable,
            before.primary_header().unwrap().first_usable
        );
    }
}

#[test]
fn moving_to_the_same_size_keeps_every_byte_that_counts() {
    let image = gpt_image(8 * MIB, 512);
    assert!(moved(&image, 512, 8 * MIB) == image);
}

#[test]
fn numbers_with_gaps_stay() {
    let mut image = gpt_image(8 * MIB, 512);
    // Moves the second entry to slot 7. The writer of the `gpt` crate would pack it
    // back to 2.
    let entry: Vec<u8> = image[1024 + 128..1024 + 256].to_vec();
    image[1024 + 128..1024 + 256].fill(0);
    image[1024 + 6 * 128..1024 + 7 * 128].copy_from_slice(&entry);
    let entries_crc = crc32(&image[1024..1024 + 128 * 128]);
    put_u32(&mut image[512..], field::ENTRIES_CRC, entries_crc);
    seal_header(&mut image[512..1024]);
    let table = Table::parse(head(&image), 512).unwrap();
    let numbers: Vec<u32> = table.partitions().iter().map(|p| p.number).collect();
    assert_eq!(numbers, [1, 7]);
    let disk = moved(&image, 512, 16 * MIB);
    let after = read_strictly(&disk, 512);
    assert_eq!(
        after.partitions().keys().copied().collect::<Vec<_>>(),
        [1, 7]
    );
}

#[test]
fn a_partition_is_added_at_the_very_end() {
    for sector in [512, 4096] {
        let image = gpt_image(8 * MIB, sector);
        let mut table = Table::parse(head(&image), sector).unwrap();
        table.move_backup_to_end(128 * MIB).unwrap();
        let guid = Uuid::from_u128(7);
        let added = table.add_at_end("config-2", 64 * MIB, guid).unwrap();
        assert_eq!((added.number, added.len), (3, 64 * MIB));
        assert_eq!(added.offset, 63 * MIB, "aligned, before the backup table");
        let disk = place(&table, &image, 128 * MIB);
        let after = read_strictly(&disk, sector);
        let entry = &after.partitions()[&3];
        assert_eq!((entry.name.as_str(), entry.part_guid), ("config-2", guid));
        assert_eq!(entry.first_lba * u64::from(sector), added.offset);
        let again = Table::parse(head(&disk), sector).unwrap();
        assert_eq!(again.partitions()[2], added);
    }
}

/// UEFI 2.10, 5.3.3: an entry whose type is zero is unused, whatever else it holds.
/// Found by fuzzing.
#[test]
fn a_deleted_partition_leaves_nothing_to_the_next() {
    let mut image = gpt_image(8 * MIB, 512);
    let third = &mut image[1024 + 2 * 128..][..128];
    third[16..].fill(0xf6);
    let crc = crc32(&image[1024..1024 + 128 * 128]);
    put_u32(&mut image[512..], field::ENTRIES_CRC, crc);
    seal_header(&mut image[512..1024]);
    let mut table = Table::parse(head(&image), 512).unwrap();
    table.move_backup_to_end(128 * MIB).unwrap();
    let added = table.add_at_end("config-2", MIB, Uuid::nil()).unwrap();
    let disk = place(&table, &image, 128 * MIB);
    let again = Table::parse(head(&disk), 512).unwrap();
    assert_eq!(again.partitions()[2], added);
    let attributes = &disk[1024 + 2 * 128 + 48..][..8];
    assert_eq!(attributes, [0; 8]);
}

#[test]
fn no_room_is_an_error() {
    let image = gpt_image(8 * MIB, 512);
    let mut table = Table::parse(head(&image), 512).unwrap();
    assert!(table.add_at_end("config-2", 64 * MIB, Uuid::nil()).is_err());
    assert!(table.move_backup_to_end(4 * MIB).is_err());
    assert!(table.move_backup_to_end(0).is_err());
    assert!(table.move_backup_to_end(1024).is_err());
}

#[test]
fn protective_mbr_spans_the_disk() {
    let mut image = gpt_image(8 * MIB, 512);
    // The end of 8 MiB with 16 heads and 63 sectors, as partitioning tools write
    // it.
    image[451..454].copy_from_slice(&[0x04, 0x11, 0x10]);
    let disk = moved(&image, 512, 32 * MIB);
    assert_eq!(get_u32(&disk, 446 + 12), (32 * MIB / 512 - 1) as u32);
    assert_eq!(disk[451..454], [0xff; 3], "not the image's end");
    let same = moved(&image, 512, 8 * MIB);
    assert_eq!(same[446..510], image[446..510]);
    assert_eq!(disk[..440], image[..440], "boot code stays");
    let mut hybrid = image.clone();
    hybrid[446 + 16 + 4] = 0x0c;
    let disk = moved(&hybrid, 512, 32 * MIB);
    assert_eq!(disk[446..510], hybrid[446..510]);
}

#[test]
fn broken_tables_are_refused() {
    let image = gpt_image(8 * MIB, 512);
    for (at, what) in [
        (512, "signature"),
        (512 + 12, "header size"),
        (512 + 16, "header checksum"),
        (512 + 24, "own place"),
        (512 + 72, "place of the entries"),
        (512 + 80, "number of entries"),
        (512 + 84, "size of an entry"),
        (1024 + 5, "an entry"),
    ] {
        let mut broken = image.clone();
        broken[at] ^= 0x40;
        assert!(Table::parse(head(&broken), 512).is_err(), "{what}");
    }
    assert!(Table::parse(&image[..700], 512).is_err());
    assert!(Table::parse(&[], 4096).is_err());
}

#[test]
fn partitions_share_no_sector() {
    let image = gpt_image(8 * MIB, 512);
    let first_end = get_u64(&image, 1024 + 40);
    for (first_lba, expected) in [
        (first_end, Some("partitions 1 and 2 overlap")),
        (33, Some("partition 2 begins at byte 16896, inside the")),
        (0, Some("partition 2 begins at byte 0, inside the")),
        (first_end + 1, None),
    ] {
        let mut image = image.clone();
        put_u64(&mut image, 1024 + 128 + 32, first_lba);
        let parsed = Table::parse(head(&sealed(image)), 512);
        match expected {
            Some(expected) => {
                let reason = parsed.unwrap_err().to_string();
                assert!(reason.contains(expected), "{reason}");
            }
            None => assert_eq!(parsed.unwrap().partitions().len(), 2),
        }
    }
}
