//! Partitions of the disk that survive an installation.

use uuid::Uuid;

use super::*;
use crate::fixtures::{SENTINEL, used_disk};
use crate::tables::gpt::EFI_SYSTEM;
use crate::tables::saved_partitions::PartitionFilter;

const SIZE: u64 = 32 * MIB;
const DATA: Uuid = Uuid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4);
/// Number, name, type, start in MiB, length in MiB.
const OLD: &[(u32, &str, Uuid, u64, u64)] = &[
    (1, "ESP", EFI_SYSTEM, 1, 4),
    (2, "root", DATA, 5, 5),
    (3, "var", DATA, 12, 6),
    (9, "data", DATA, 24, 7),
];

fn used(sector: u32) -> (NamedTempFile, Vec<u8>) {
    let before = used_disk(SIZE, sector, OLD);
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &before).unwrap();
    (file, before)
}

fn keeping(labels: &str) -> WriteOptions {
    WriteOptions {
        saved: PartitionFilter::parse_labels(labels).unwrap(),
        verify: true,
        ..WriteOptions::default()
    }
}

/// Writes an image to a disk with sectors of 512 bytes.
fn write_keeping(labels: &str, image: &[u8], path: &Path) -> Result<ProvenImage> {
    let source = source(&Server::of(image), Some(sha256(image)));
    write_image_with(&source, &keeping(labels), open(path, 512), &http_client())
}

fn numbers(disk: &[u8], sector: u32) -> Vec<u32> {
    let table = Table::parse(&disk[..MIB as usize], sector).unwrap();
    table.partitions().iter().map(|p| p.number).collect()
}

/// Asserts that the last two partitions have the same content as before.
fn assert_content(disk: &[u8], before: &[u8]) {
    for range in [12..18, 24..31] {
        let range = range.start * MIB as usize..range.end * MIB as usize;
        assert!(disk[range.clone()] == before[range]);
    }
}

/// Asserts that both copies of the table name only the two kept partitions, that
/// their content is unchanged and that there is no boot code.
fn assert_bare(disk: &[u8], before: &[u8]) {
    assert_content(disk, before);
    assert_eq!(numbers(disk, 512), [3, 9]);
    assert!(disk[..440].iter().all(|&b| b == 0));
    let tail = &disk[disk.len() - MIB as usize..];
    let backup = Table::parse_backup(tail, SIZE, 512).unwrap();
    let primary = Table::parse(&disk[..MIB as usize], 512).unwrap();
    assert_eq!(primary.partitions(), backup.partitions());
}

#[test]
fn kept_partitions_stay_next_to_the_image() {
    for sector in [512, 4096] {
        let (file, before) = used(sector);
        let image = gpt_image(8 * MIB, sector);
        let server = Server::of(&image);
        let source = source(&server, Some(sha256(&image)));
        let options = keeping("var,data");
        let target = open(file.path(), sector);
        let proven = write_image_with(&source, &options, target, &http_client()).unwrap();
        assert_eq!(proven.commit().unwrap().kept, [3, 9]);
        let disk = content(&file);
        assert_eq!(numbers(&disk, sector), [1, 2, 3, 9]);
        assert_content(&disk, &before);
        assert!(disk[MIB as usize..7 * MIB as usize] == image[MIB as usize..7 * MIB as usize]);
        assert!(disk[..440] == image[..440], "boot code");
        // The `gpt` crate reads the table too: both copies are valid, and the
        // backup is at the end of the disk.
        let read = ::gpt::GptConfig::new()
            .logical_block_size(u64::from(sector).try_into().unwrap())
            .only_valid_headers(true)
            .open_from_device(std::io::Cursor::new(disk))
            .unwrap();
        assert_eq!(read.guid().to_string(), SENTINEL);
        assert_eq!(read.partitions()[&9].name, "data");
        assert_eq!(
            read.primary_header().unwrap().backup_lba,
            SIZE / u64::from(sector) - 1
        );
    }
}

#[test]
fn a_failure_leaves_them_alone() {
    let (file, before) = used(512);
    let image = gpt_image(8 * MIB, 512);
    let server = Server::of(&image);
    let wrong = source(&server, Some(sha256(b"other")));
    let target = open(file.path(), 512);
    let failure =
        write_image_with(&wrong, &keeping("var,data"), target, &http_client()).unwrap_err();
    assert_eq!(failure.class, Class::ImageChecksumError);
    let disk = content(&file);
    assert!(disk[MIB as usize..3 * MIB as usize] != before[MIB as usize..3 * MIB as usize]);
    assert_bare(&disk, &before);
    // A second installation finds the partitions.
    let proven = write_keeping("var,data", &image, file.path()).unwrap();
    proven.commit().unwrap();
    assert_eq!(numbers(&content(&file), 512), [1, 2, 3, 9]);
    assert_content(&content(&file), &before);
}

#[test]
fn an_image_that_reaches_them_is_refused() {
    let long = gpt_image(14 * MIB, 512);
    let (file, before) = used(512);
    for body in [long.clone(), gzip(&long)] {
        let failure = write_keeping("var,data", &body, file.path()).unwrap_err();
        assert_eq!(failure.class, Class::ImageWriteError);
        let expected =
            "collision with partition 3 (\"var\") at offset 12582912; the disk was not touched";
        assert!(failure.details.ends_with(expected), "{failure}");
        assert!(content(&file) == before);
    }
    // The table claims 8 MiB but the image has 14 MiB, so the agent detects the collision
    // only while it writes.
    let mut lying = gpt_image(8 * MIB, 512);
    lying.resize(14 * MIB as usize, 7);
    let body = gzip(&lying);
    let failure = write_keeping("var,data", &body, file.path()).unwrap_err();
    let expected = "collision with partition 3 (\"var\") at offset 12582912";
    assert_eq!(failure.details, expected);
    assert_bare(&content(&file), &before);
}

#[test]
fn partitions_that_are_not_kept_are_ignored() {
    let (file, before) = used(512);
    let image = gpt_image(8 * MIB, 512);
    let proven = write_keeping("nothing*", &image, file.path()).unwrap();
    proven.commit().unwrap();
    let disk = content(&file);
    assert_eq!(numbers(&disk, 512), [1, 2]);
    assert!(
        disk[24 * MIB as usize..31 * MIB as usize] == before[24 * MIB as usize..31 * MIB as usize]
    );
}

#[test]
fn an_image_with_an_mbr_has_no_place_for_them() {
    let (file, before) = used(512);
    let mut image = vec![0; 4 << 20];
    put_mbr(&mut image, &[(0x83, 2048, 2048)]);
    let failure = write_keeping("var", &image, file.path()).unwrap_err();
    assert!(
        failure.details.contains("the image has no GPT"),
        "{failure}"
    );
    assert!(content(&file) == before);
}

#[test]
fn preserved_on_request_with_a_way_back() {
    let (file, before) = used(512);
    let image = gpt_image(8 * MIB, 512);
    let wrong = source(&Server::of(&image), Some(sha256(b"other")));
    let mut options = keeping("var,data");
    options.preserve_on_error = true;
    let marks = |disk: &[u8]| disk[2 * MIB as usize..3 * MIB as usize].to_vec();
    let saved = || {
        let mut found: Vec<_> = std::fs::read_dir(std::env::temp_dir())
            .unwrap()
            .filter_map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.starts_with("landfall-partitions-").then_some(path)
            })
            .collect();
        found.sort();
        found
    };
    let earlier = saved();
    write_image_with(&wrong, &options, open(file.path(), 512), &http_client()).unwrap_err();
    assert_eq!(
        marks(&content(&file)),
        marks(&image),
        "what was written stays"
    );
    assert_content(&content(&file), &before);
    let files: Vec<_> = saved()
        .into_iter()
        .filter(|f| !earlier.contains(f))
        .collect();
    let [kept] = &files[..] else {
        panic!("{files:?}")
    };
    let head = std::fs::read(kept).unwrap();
    assert_eq!(numbers(&head, 512), [3, 9]);
    std::fs::remove_file(kept).unwrap();

    let right = source(&Server::of(&image), Some(sha256(&image)));
    let proven = write_image_with(&right, &options, open(file.path(), 512), &http_client());
    proven.unwrap().commit().unwrap();
    let files: Vec<_> = saved()
        .into_iter()
        .filter(|f| !earlier.contains(f))
        .collect();
    assert!(files.is_empty(), "not needed any more: {files:?}");
}

/// The agent writes the config drive into the gap between the image and the kept
/// partition, not into the kept partition, although the kept partition has the name
/// `config-2`.
#[test]
fn the_config_drive_goes_into_a_gap() {
    let size = 160 * MIB;
    let before = used_disk(size, 512, &[(3, "config-2", DATA, 100, 59)]);
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &before).unwrap();
    let image = gpt_image(8 * MIB, 512);
    let mut proven = write_keeping("config-2", &image, file.path()).unwrap();
    let mut drive = vec![0; 100_000];
    drive[32768..32774].copy_from_slice(b"\x01CD001");
    drive[32808..32816].copy_from_slice(b"config-2");
    let wanted = crate::config_drive::Content::Image(drive.clone());
    proven.write_config_drive(&wanted).unwrap();
    proven.commit().unwrap();
    let disk = content(&file);
    let table = Table::parse(&disk[..MIB as usize], 512).unwrap();
    let places: Vec<_> = table
        .partitions()
        .iter()
        .map(|p| (p.number, p.offset / MIB))
        .collect();
    assert_eq!(places[2..], [(3, 100), (4, 36)]);
    assert!(disk[36 * MIB as usize..][..100_000] == drive);
    let kept = 100 * MIB as usize..159 * MIB as usize;
    assert!(disk[kept.clone()] == before[kept]);
}

/// On a real block device, neither writes nor zeroing reach the kept partitions.
#[test]
fn on_a_block_device() {
    let (file, before) = used(512);
    let Some(device) = loop_device(file.path(), 512) else {
        return;
    };
    let image = gpt_image(8 * MIB, 512);
    let body = zstd::bulk::compress(&image, 1).unwrap();
    let source = source(&Server::of(&body), Some(sha256(&body)));
    let permission = WritePermission::by_operator();
    let target = Target::open(device.path(), &permission).unwrap();
    let proven = write_image_with(&source, &keeping("var,data"), target, &http_client()).unwrap();
    assert_bare(&content(&file), &before);
    proven.commit().unwrap();
    assert_content(&content(&file), &before);
    assert_eq!(numbers(&content(&file), 512), [1, 2, 3, 9]);
}

#[test]
fn the_target_itself_refuses_their_place() {
    let (file, _) = used(512);
    let mut target = open(file.path(), 512);
    let kept = 12 * MIB..18 * MIB;
    target.spare([kept].into());
    let sector = crate::device::aligned_buffer::AlignedBuffer::zeroed(512);
    target.write_at(&sector, 12 * MIB - 512).unwrap();
    target.write_at(&sector, 18 * MIB).unwrap();
    for offset in [12 * MIB, 18 * MIB - 512] {
        let failure = target.write_at(&sector, offset).unwrap_err();
        assert!(failure.details.contains("that is kept"), "{failure}");
    }
    assert!(target.punch_zeros(11 * MIB, 20 * MIB).is_err());
}
