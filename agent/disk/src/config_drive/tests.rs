use std::io::Write;
use std::process::Command;

use landfall_devices::permission::WritePermission;
use landfall_http_client::fixtures::{Server, http_client};
use landfall_media_formats::fat::Fat;
use landfall_sys::skip::skip;
use tempfile::NamedTempFile;

use super::*;
use crate::fixtures::gpt_image;

const MIB: u64 = 1 << 20;
const USER_DATA: &[u8] = b"#cloud-config\n";

/// Just enough of an ISO 9660 image to carry its label.
fn iso() -> Vec<u8> {
    let mut image = vec![0; 100_000];
    image[32768..32774].copy_from_slice(b"\x01CD001");
    image[32808..32816].copy_from_slice(b"config-2");
    image[99_999] = 9;
    image
}

fn packed() -> String {
    let level = flate2::Compression::fast();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(&iso()).unwrap();
    STANDARD.encode(encoder.finish().unwrap())
}

/// An image of 8 MiB on a larger disk. The rest of the disk holds old data.
fn disk(size: u64) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut disk = gpt_image(8 * MIB, 512);
    disk.resize(size as usize, 0xaa);
    std::fs::write(file.path(), disk).unwrap();
    file
}

fn open(disk: &NamedTempFile) -> Target {
    Target::open_file(disk.path(), 512, &WritePermission::by_operator()).unwrap()
}

/// Writes the config drive next to the image on the disk, then the table.
fn write(disk: &NamedTempFile, image: &[u8]) -> Result<Partition> {
    let before = std::fs::read(disk.path()).unwrap();
    let mut table = Table::parse(&before[..MIB as usize], 512).unwrap();
    table.move_backup_to_end(before.len() as u64).unwrap();
    let content = Content::Image(image.to_vec());
    let partition = write_config_drive(&open(disk), &mut table, &content)?;
    let mut content = std::fs::read(disk.path()).unwrap();
    table.write_primary(&mut content[..MIB as usize]);
    let (offset, backup) = table.backup();
    content[offset as usize..][..backup.len()].copy_from_slice(&backup);
    std::fs::write(disk.path(), content).unwrap();
    Ok(partition)
}

fn table(disk: &NamedTempFile) -> (Table, Vec<u8>) {
    let content = std::fs::read(disk.path()).unwrap();
    (
        Table::parse(&content[..MIB as usize], 512).unwrap(),
        content,
    )
}

#[test]
fn every_form_of_text() {
    let client = http_client();
    let load = |text: String| ConfigDrive::Text(text).load(&client, 512, false);
    let image = || Content::Image(iso());
    assert!(load(packed()).unwrap() == image());
    let broken: String = packed().chars().flat_map(|c| [c, '\n']).collect();
    assert!(load(broken).unwrap() == image());
    assert!(load(STANDARD.encode(iso())).unwrap() == image());
    for body in [packed().into_bytes(), iso()] {
        let server = Server::of(&body);
        let loaded = ConfigDrive::Url(server.url.clone()).load(&client, 512, false);
        assert!(loaded.unwrap() == image());
    }
    let truncated = STANDARD.encode(&STANDARD.decode(packed()).unwrap()[..50]);
    for bad in ["no base64!", "=", truncated.as_str()] {
        assert!(load(bad.to_owned()).is_err(), "{bad}");
    }
}

#[test]
fn a_bomb_is_cut_at_the_limit() {
    let level = flate2::Compression::fast();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(&vec![0; SIZE as usize + 1]).unwrap();
    let failure = unpack(encoder.finish().unwrap()).unwrap_err();
    assert!(
        failure.details.contains("67108864 bytes, found more"),
        "{failure}"
    );
}

#[test]
fn a_new_partition_at_the_very_end() {
    let disk = disk(100 * MIB);
    let partition = write(&disk, &iso()).unwrap();
    assert_eq!((partition.number, partition.offset), (3, 35 * MIB));
    let (table, content) = table(&disk);
    assert_eq!(table.partitions()[2], partition);
    assert_eq!(table.image_size(), 100 * MIB);
    let start = partition.offset as usize;
    assert!(content[start..start + iso().len()] == iso());
    let rest = &content[start + iso().len()..start + partition.len as usize];
    assert!(rest.iter().all(|&b| b == 0), "old data is gone");
    assert!(
        content[MIB as usize..8 * MIB as usize - 64 * 512]
            == gpt_image(8 * MIB, 512)[MIB as usize..8 * MIB as usize - 64 * 512]
    );
}

#[test]
fn a_disk_with_an_mbr() {
    let file = NamedTempFile::new().unwrap();
    let mut content = vec![0xaa; 100 * MIB as usize];
    content[..MIB as usize].fill(0);
    content[446 + 4] = 0x83;
    content[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    content[446 + 12..446 + 16].copy_from_slice(&8192u32.to_le_bytes());
    content[510..512].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(file.path(), &content).unwrap();
    let head = &mut content[..MIB as usize];
    let mut table = mbr::Table::parse(head, 512, 100 * MIB).unwrap();
    let first = write_config_drive(&open(&file), &mut table, &Content::Image(iso())).unwrap();
    assert_eq!((first.number, first.offset), (2, 36 * MIB));
    let content = std::fs::read(file.path()).unwrap();
    assert!(content[36 * MIB as usize..][..iso().len()] == iso());
    let again = write_config_drive(&open(&file), &mut table, &Content::Image(iso())).unwrap();
    assert_eq!(again, first, "found by its label");
    assert_eq!(table.partitions().len(), 2);
}

/// An image with one file, made by genisoimage as Ironic does it; `None` if
/// genisoimage is not installed.
fn real_iso() -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree/openstack/latest");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("user_data"), USER_DATA).unwrap();
    let image = directory.path().join("image");
    let made = Command::new("genisoimage")
        .args(["-quiet", "-V", "config-2", "-J", "-r", "-o"])
        .arg(&image)
        .arg(directory.path().join("tree"))
        .output();
    match made {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            Some(std::fs::read(image).unwrap())
        }
        Err(error) => {
            skip(format_args!("genisoimage: {error}"));
            None
        }
    }
}

#[test]
fn rebuilt_where_an_iso_cannot_be_mounted() {
    let Some(image) = real_iso() else {
        return;
    };
    let drive = ConfigDrive::Text(STANDARD.encode(image));
    let permission = WritePermission::by_operator();
    for (sector, rebuild, kind) in [
        (4096, false, "vfat"),
        (512, true, "vfat"),
        (512, false, "iso9660"),
    ] {
        let file = NamedTempFile::new().unwrap();
        let mut content = gpt_image(8 * MIB, sector);
        content.resize(100 * MIB as usize, 0xaa);
        std::fs::write(file.path(), &content).unwrap();
        let mut table = Table::parse(&content[..MIB as usize], sector).unwrap();
        table.move_backup_to_end(100 * MIB).unwrap();
        let target = Target::open_file(file.path(), sector, &permission).unwrap();
        let content = drive.load(&http_client(), sector, rebuild).unwrap();
        let added = write_config_drive(&target, &mut table, &content).unwrap();
        let content = std::fs::read(file.path()).unwrap();
        let written = &content[added.offset as usize..][..added.len as usize];
        let found = file_system::identify(&written[..PROBE_LEN]).unwrap();
        assert_eq!(found.kind, kind);
        assert!(found.label.eq_ignore_ascii_case(LABEL));
        if kind == "vfat" {
            let mut fat = Fat::open(Cursor::new(written)).unwrap();
            let read = fat.read("openstack/latest/user_data", 100).unwrap();
            assert_eq!(read.as_deref(), Some(USER_DATA));
        }
    }
}

/// An error that can be detected before the image is written must not occur after it.
#[test]
fn an_iso_that_cannot_be_rebuilt_is_an_error_before_the_disk_is_touched() {
    let Some(image) = real_iso() else {
        return;
    };
    // Finds the name in the Rock Ridge records. Plain ISO 9660 stores it in upper
    // case, Joliet in UTF-16.
    let find = |part: &[u8]| image.windows(part.len()).position(|place| place == part);
    let name = find(b"user_data").unwrap();
    let mut odd_name = image.clone();
    odd_name[name] = 7;
    // Turns the field PX, which follows the name, into a continuation area (CE) with an
    // invalid length.
    let mut odd_area = image.clone();
    let field = name + image[name..].windows(2).position(|p| p == b"PX").unwrap();
    odd_area[field..field + 2].copy_from_slice(b"CE");
    odd_area[field + 20..field + 24].fill(0xff);
    for (image, reason) in [
        (
            odd_name,
            "\"openstack/latest/\\u{7}ser_data\": expected a name that FAT permits",
        ),
        (
            odd_area,
            "cannot read the ISO 9660 image: ISO: a continuation area is",
        ),
    ] {
        let drive = ConfigDrive::Text(STANDARD.encode(&image));
        let load = |sector, rebuild| drive.load(&http_client(), sector, rebuild);
        assert!(load(512, false).unwrap() == Content::Image(image.clone()));
        for (sector, rebuild) in [(4096, false), (512, true)] {
            let failure = load(sector, rebuild).err().unwrap();
            assert!(failure.details.contains(reason), "{failure}");
        }
    }
}

/// The parts become a VFAT file system that holds each file once per format
/// version.
#[test]
fn parts_become_a_file_system_of_the_partitions_size() {
    use serde_json::json;

    let value = json!({
        "meta_data": {"name": "node-1"},
        "user_data": "#cloud-config\n",
    });
    let parts = Parts::new(value.as_object().unwrap()).unwrap();
    let drive = ConfigDrive::Parts(parts);
    for sector in [512, 4096] {
        let content = drive.load(&http_client(), sector, false).unwrap();
        let file = NamedTempFile::new().unwrap();
        let mut disk = gpt_image(8 * MIB, sector);
        disk.resize(100 * MIB as usize, 0xaa);
        std::fs::write(file.path(), &disk).unwrap();
        let mut table = Table::parse(&disk[..MIB as usize], sector).unwrap();
        table.move_backup_to_end(100 * MIB).unwrap();
        let permission = WritePermission::by_operator();
        let target = Target::open_file(file.path(), sector, &permission).unwrap();
        let added = write_config_drive(&target, &mut table, &content).unwrap();
        let disk = std::fs::read(file.path()).unwrap();
        let written = &disk[added.offset as usize..][..added.len as usize];
        let found = file_system::identify(&written[..PROBE_LEN]).unwrap();
        assert_eq!((found.kind, found.label.as_str()), ("vfat", "CONFIG-2"));
        let copies = written.windows(USER_DATA.len()).filter(|w| *w == USER_DATA);
        assert_eq!(copies.count(), 2, "one for each version");
    }
}

/// An image may contain a partition of any size for the config drive. `load` does not
/// know this size, so the config drive must work with every size that is large enough
/// for the files.
#[test]
fn files_go_into_an_existing_partition_of_any_size() {
    let files = vec![("openstack/latest/user_data".to_owned(), USER_DATA.to_vec())];
    for (sector, mib) in [
        (512, 3),
        (512, 8),
        (512, 31),
        (512, 32),
        (512, 512),
        (4096, 17),
        (4096, 512),
    ] {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), gpt_image(8 * MIB, sector)).unwrap();
        file.as_file().set_len(600 * MIB).unwrap();
        let head = gpt_image(8 * MIB, sector);
        let mut table = Table::parse(&head[..MIB as usize], sector).unwrap();
        table.move_backup_to_end(600 * MIB).unwrap();
        let own = table.add_at_end(LABEL, mib * MIB, Uuid::from_u128(7));
        let own = own.unwrap();
        let permission = WritePermission::by_operator();
        let target = Target::open_file(file.path(), sector, &permission).unwrap();
        let content = Content::Files(files.clone());
        let used = write_config_drive(&target, &mut table, &content).unwrap();
        assert_eq!(used, own);
        let written = target.read_at(own.offset, own.len.min(SIZE) as usize);
        let written = written.unwrap();
        let mut fat = Fat::open(Cursor::new(&written[..])).unwrap();
        assert_eq!(fat.label, "CONFIG-2");
        let read = fat.read("openstack/latest/user_data", 100).unwrap();
        assert_eq!(read.as_deref(), Some(USER_DATA), "{sector} {mib}");
    }
}

#[test]
fn the_existing_partition_is_used_again() {
    let disk = disk(100 * MIB);
    let first = write(&disk, &iso()).unwrap();
    let mut other = iso();
    other[50_000] = 7;
    assert_eq!(write(&disk, &other).unwrap(), first);
    let (table, content) = table(&disk);
    assert_eq!(table.partitions().len(), 3);
    assert_eq!(content[first.offset as usize + 50_000], 7);
}

#[test]
fn found_by_its_file_system_and_never_guessed_between_two() {
    let disk = disk(100 * MIB);
    let mut content = std::fs::read(disk.path()).unwrap();
    let (table, _) = table(&disk);
    let first = table.partitions()[1].offset as usize;
    content[first..first + iso().len()].copy_from_slice(&iso());
    std::fs::write(disk.path(), &content).unwrap();
    let used = write(&disk, &iso()).unwrap();
    assert_eq!(used.number, 2);
    let second = table.partitions()[0].offset as usize;
    content[second..second + iso().len()].copy_from_slice(&iso());
    std::fs::write(disk.path(), &content).unwrap();
    let failure = write(&disk, &iso()).unwrap_err();
    assert!(failure.details.contains("found 1 and 2"), "{failure}");
}

#[test]
fn without_room_the_disk_stays_as_it_is() {
    let small = disk(20 * MIB);
    let before = std::fs::read(small.path()).unwrap();
    let failure = write(&small, &iso()).unwrap_err();
    assert!(failure.details.contains("no free space"), "{failure}");
    assert!(std::fs::read(small.path()).unwrap() == before);
}

#[test]
fn secrets_stay_out_of_debug_texts() {
    let drive = ConfigDrive::Text("c2VjcmV0".into());
    assert_eq!(format!("{drive:?}"), "ConfigDrive(8 characters)");
}

/// The commit writes the first MiB of the image last, and would overwrite a partition
/// in this MiB.
#[test]
fn a_partition_in_the_first_mib_is_refused() {
    let mut device = std::io::Cursor::new(vec![0; 8 * MIB as usize]);
    gpt::mbr::ProtectiveMBR::with_lb_size((8 * MIB / 512 - 1) as u32)
        .overwrite_lba0(&mut device)
        .unwrap();
    let mut made = gpt::GptConfig::new()
        .writable(true)
        .logical_block_size(512.try_into().unwrap())
        .create_from_device(device, None)
        .unwrap();
    let linux = gpt::partition_types::LINUX_FS;
    made.add_partition(LABEL, 512 << 10, linux, 0, Some(64))
        .unwrap();
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), made.write().unwrap().into_inner()).unwrap();
    let before = std::fs::read(file.path()).unwrap();
    let failure = write(&file, &iso()).unwrap_err();
    assert!(
        failure.details.contains("partition 1 begins at byte 32768"),
        "{failure}"
    );
    assert!(std::fs::read(file.path()).unwrap() == before);
}
