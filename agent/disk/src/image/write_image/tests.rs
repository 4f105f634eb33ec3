mod kept;
mod model;
mod power_cut;
mod qcow2;
mod qcow2_options;
mod signed;
mod transfer_faults;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use landfall_boot_params::digest::{Algorithm, Digest};
use landfall_devices::permission::WritePermission;
use landfall_download::digest::Hasher;
use landfall_download::fetch::{RetryPolicy, medium_url};
use landfall_report::failure::Class;
use landfall_sys::skip::skip;
use proptest::prelude::*;
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::*;
use crate::fixtures::{Asked, Reply, Server, gpt_image, http_client, loop_device, used_disk};
use crate::tables::gpt::Table;

const MIB: u64 = 1 << 20;
const DISK: u64 = 12 * MIB;
const OLD: u8 = 0xaa;

/// A disk full of old data.
fn disk(size: u64) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![OLD; size as usize]).unwrap();
    file
}

fn open(path: &Path, sector: u32) -> Target {
    Target::open_file(path, sector, &WritePermission::by_operator()).unwrap()
}

/// Writes without options: keeps no partition.
fn write_image(
    source: &ImageSource,
    target: Target,
    client: &reqwest::Client,
) -> Result<ProvenImage> {
    write_image_with(source, &WriteOptions::default(), target, client)
}

fn sha256(bytes: &[u8]) -> Digest {
    Hasher::digest(Algorithm::Sha256, bytes)
}

fn quick_retries() -> RetryPolicy {
    RetryPolicy {
        stall: Duration::from_millis(400),
        give_up: Duration::from_secs(3),
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(100),
        ..RetryPolicy::default()
    }
}

fn request(server: &Server) -> Request {
    Request {
        retry_policy: quick_retries(),
        ..Request::new([&server.url])
    }
}

fn source(server: &Server, digest: Option<Digest>) -> ImageSource {
    ImageSource::new(request(server), digest.into())
}

fn write(server: &Server, body: &[u8], disk: &NamedTempFile) -> Result<WrittenImage> {
    let source = source(server, Some(sha256(body)));
    let proven = write_image(&source, open(disk.path(), 512), &http_client())?;
    proven.commit()
}

fn correct(body: &[u8]) -> Server {
    let body = body.to_vec();
    Server::start(move |asked| Reply::correct(&body, "\"1\"", asked))
}

fn content(disk: &NamedTempFile) -> Vec<u8> {
    std::fs::read(disk.path()).unwrap()
}

/// Asserts that the disk holds the image, with the GPT adjusted to this disk.
fn assert_holds(disk: &NamedTempFile, image: &[u8]) {
    let content = content(disk);
    let mut expected = image.to_vec();
    let size = content.len() as u64;
    expected.resize(content.len(), OLD);
    expected[(size - MIB) as usize..].fill(0);
    if image.len() as u64 > size - MIB {
        let from = (size - MIB) as usize;
        expected[from..image.len()].copy_from_slice(&image[from..]);
    }
    let mut table = Table::parse(&image[..MIB as usize], 512).unwrap();
    table.move_backup_to_end(size).unwrap();
    table.write_primary(&mut expected[..MIB as usize]);
    let (offset, backup) = table.backup();
    expected[offset as usize..].copy_from_slice(&backup);
    let differs = content.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "first differing byte");
}

fn assert_untouched(disk: &NamedTempFile) {
    assert!(content(disk).iter().all(|&b| b == OLD), "disk was touched");
}

/// Asserts that the disk has no primary GPT, no backup GPT and no boot code.
fn assert_unbootable(disk: &NamedTempFile) {
    let content = content(disk);
    let (first, rest) = content.split_at(MIB as usize);
    let last = &rest[rest.len() - MIB as usize..];
    assert!(first.iter().chain(last).all(|&b| b == 0));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let level = flate2::Compression::fast();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_image_that_uefi_cannot_boot_does_not_touch_the_disk() {
    let image = used_disk(16 << 20, 512, &[(1, "boot", Uuid::from_u128(1), 2, 4)]);
    let server = correct(&image);
    let disk = disk(32 << 20);
    let source = source(&server, Some(sha256(&image)));
    let options = WriteOptions {
        needs_efi: true,
        ..WriteOptions::default()
    };
    let target = open(disk.path(), 512);
    let failure = write_image_with(&source, &options, target, &http_client()).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage);
    for text in ["EFI system partition", "the disk was not touched"] {
        assert!(failure.details.contains(text), "{failure}");
    }
    assert!(content(&disk).iter().all(|&byte| byte == OLD));
}

/// The boot partition is changed after the image is written, but its first MiB
/// already shows whether that is possible.
#[test]
fn an_image_whose_partitions_cannot_be_changed_does_not_touch_the_disk() {
    let mut mbr = vec![0; 8 * MIB as usize];
    mbr[510..512].copy_from_slice(&[0x55, 0xaa]);
    mbr[450] = 0x83;
    mbr[454..462].copy_from_slice(&[0, 8, 0, 0, 0, 8, 0, 0]);
    // Its first partition begins in the first MiB.
    let early = gpt_image(8 * MIB, 512);
    for (image, expected) in [
        (mbr, "expected an image with a GPT"),
        (early, "begins at byte"),
    ] {
        let server = correct(&image);
        let disk = disk(32 << 20);
        let source = source(&server, Some(sha256(&image)));
        let options = WriteOptions {
            needs_partitions: true,
            ..WriteOptions::default()
        };
        let open = || open(disk.path(), 512);
        let client = http_client();
        let written = write_image_with(&source, &options, open(), &client).map(drop);
        let checked = check_image(&source, &options, open(), &client);
        for failure in [written.unwrap_err(), checked.unwrap_err()] {
            assert_eq!(failure.class, Class::InvalidImage);
            for text in [expected, "the disk was not touched"] {
                assert!(failure.details.contains(text), "{failure}");
            }
        }
        assert!(content(&disk).iter().all(|&byte| byte == OLD));
    }
}

#[test]
fn every_packing_arrives() {
    let image = gpt_image(8 * MIB, 512);
    let bodies = [
        (Packing::Raw, image.clone()),
        (Packing::Gzip, gzip(&image)),
        (Packing::Zstd, zstd::bulk::compress(&image, 1).unwrap()),
        (Packing::Xz, xz(&image)),
        (Packing::Lz4, lz4(&image)),
        (Packing::Bzip2, bzip2(&image)),
    ];
    for (packing, body) in bodies {
        let disk = disk(DISK);
        let server = correct(&body);
        let done = write(&server, &body, &disk).unwrap();
        assert_holds(&disk, &image);
        assert_eq!(done.packing, packing);
        assert_eq!(done.image_bytes, 8 * MIB);
        assert_eq!(done.digest.bytes, body.len() as u64);
        assert!(done.verified);
        assert!(
            done.written.data < 7 * MIB,
            "zeros were sent: {:?}",
            done.written
        );
        assert_eq!(server.asked().len(), 1);
    }
}

#[test]
fn a_format_that_is_not_permitted_touches_nothing() {
    let image = gpt_image(8 * MIB, 512);
    let server = correct(&image);
    let disk = disk(DISK);
    let mut source = source(&server, Some(sha256(&image)));
    source.formats.declared = Some("qcow2".to_owned());
    let failure = write_image(&source, open(disk.path(), 512), &http_client()).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage, "{failure}");
    assert!(failure.details.contains("found raw"), "{failure}");
    assert_untouched(&disk);
}

/// Every path to a disk ends here: the steps, the sub-commands and the boot line.
#[test]
fn the_medium_of_the_image_is_not_its_target() {
    let disk = disk(DISK);
    let image = [medium_url(disk.path(), "landfall/coreos-image")];
    let source = ImageSource::new(Request::new(image), Proof::Nothing);
    let open = || open(disk.path(), 512);
    let options = WriteOptions::default();
    for failure in [
        write_image(&source, open(), &http_client()).unwrap_err(),
        check_image(&source, &options, open(), &http_client()).unwrap_err(),
    ] {
        assert!(failure.details.contains("it is the medium"), "{failure}");
    }
    assert_untouched(&disk);
}

#[test]
fn too_long_a_download_has_its_own_class() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |_| {
        let mut reply = Reply::whole(&body, "\"1\"").cut(3_000_000);
        reply.stall = true;
        reply
    });
    let disk = disk(DISK);
    let mut source = source(&server, Some(sha256(&image)));
    source.request.retry_policy.deadline = Some(Duration::from_millis(300));
    let failure = write_image(&source, open(disk.path(), 512), &http_client()).unwrap_err();
    assert_eq!(failure.class, Class::ImageDownloadTimeoutError, "{failure}");
    assert_unbootable(&disk);
}

#[test]
fn an_image_of_the_disks_size_fits() {
    let image = gpt_image(DISK, 512);
    let disk = disk(DISK);
    write(&correct(&image), &image, &disk).unwrap();
    assert!(content(&disk) == image);
}

#[test]
fn sectors_of_4096_bytes() {
    let image = gpt_image(8 * MIB, 4096);
    let file = disk(DISK);
    let server = correct(&image);
    let source = source(&server, Some(sha256(&image)));
    let proven = write_image(&source, open(file.path(), 4096), &http_client()).unwrap();
    proven.commit().unwrap();
    let table = Table::parse(&content(&file)[..MIB as usize], 4096).unwrap();
    assert_eq!(table.image_size(), DISK);
    let wrong = disk(DISK);
    let failure = write(&server, &image, &wrong).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage);
    assert!(
        failure
            .details
            .contains("source has sector size 4096 but destination has sector size 512")
    );
    assert_untouched(&wrong);
}

#[test]
fn a_dropped_connection_is_resumed_by_range() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |asked| {
        let reply = Reply::correct(&body, "\"1\"", asked);
        if asked.earlier < 3 {
            reply.cut(2_000_000)
        } else {
            reply
        }
    });
    let disk = disk(DISK);
    write(&server, &image, &disk).unwrap();
    assert_holds(&disk, &image);
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[1].if_range.as_deref(), Some("\"1\""));
    let starts: Vec<u64> = asked.iter().filter_map(|a| a.from).collect();
    assert!(starts.is_sorted() && starts[0] > 0, "{starts:?}");
    assert!(
        starts[2] <= 6_000_000,
        "no byte was asked for twice or skipped: {starts:?}"
    );
}

#[test]
fn a_server_that_ignores_range_is_read_again() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |asked| {
        let reply = Reply::whole(&body, "\"1\"");
        if asked.earlier == 0 {
            reply.cut(3_000_000)
        } else {
            reply
        }
    });
    let disk = disk(DISK);
    write(&server, &image, &disk).unwrap();
    assert_holds(&disk, &image);
}

#[test]
fn a_stalled_connection_is_given_up() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |asked| {
        let mut reply = Reply::correct(&body, "\"1\"", asked);
        if asked.earlier == 0 {
            reply = reply.cut(3_000_000);
            reply.stall = true;
        }
        reply
    });
    let disk = disk(DISK);
    write(&server, &image, &disk).unwrap();
    assert_holds(&disk, &image);
    assert_eq!(server.asked()[1].from, Some(3_000_000));
}

/// The state that a power cut during the write would leave.
#[test]
fn while_it_is_written_the_disk_does_not_boot() {
    let image = gpt_image(8 * MIB, 512);
    let served = image.clone();
    let (stalled, in_the_middle) = channel();
    let (go_on, looked) = channel::<()>();
    let server = Server::start(move |asked| {
        let reply = Reply::correct(&served, "\"1\"", asked);
        if asked.earlier == 0 {
            return reply.cut(7_000_000);
        }
        // The test may have failed in the meantime.
        let _ = stalled.send(());
        let _ = looked.recv();
        reply
    });
    let disk = disk(DISK);
    let mut patient = source(&server, Some(sha256(&image)));
    patient.request.retry_policy.stall = Duration::from_secs(60);
    let target = open(disk.path(), 512);
    let writer = std::thread::spawn(move || write_image(&patient, target, &http_client()));
    in_the_middle
        .recv_timeout(Duration::from_secs(60))
        .expect("the rest to be asked for");
    // The writer may still be writing what it has received.
    let begun = 3 * MIB as usize..4 * MIB as usize;
    let deadline = Instant::now() + Duration::from_secs(60);
    while content(&disk)[begun.clone()] != image[begun.clone()] {
        assert!(Instant::now() < deadline, "the writing has not begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_unbootable(&disk);
    go_on.send(()).unwrap();
    let proven = writer.join().unwrap().unwrap();
    assert_unbootable(&disk);
    proven.commit().unwrap();
    assert_holds(&disk, &image);
}

#[test]
fn another_file_under_the_url_ends_the_download() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |asked| {
        if asked.earlier == 0 {
            Reply::whole(&body, "\"1\"").cut(3_000_000)
        } else {
            Reply::correct(&body, "\"2\"", asked)
        }
    });
    let disk = disk(DISK);
    let failure = write(&server, &image, &disk).unwrap_err();
    assert_eq!(failure.class, Class::ImageDownloadError);
    assert!(
        failure.details.contains("changed on the server"),
        "{failure}"
    );
    assert_unbootable(&disk);
}

#[test]
fn a_server_that_stays_away_ends_it_with_both_lengths() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |asked| {
        if asked.earlier == 0 {
            Reply::whole(&body, "\"1\"").cut(3_000_000)
        } else {
            Reply::status(503)
        }
    });
    let disk = disk(DISK);
    let failure = write(&server, &image, &disk).unwrap_err();
    assert_eq!(failure.class, Class::ImageDownloadError);
    assert!(
        failure.details.contains("503") && failure.details.contains("byte 3000000 of 8388608"),
        "{failure}"
    );
    assert_unbootable(&disk);
}

#[test]
fn statuses_that_pass_and_statuses_that_do_not() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |asked| match asked.earlier {
        0 => Reply::status(503),
        1 => Reply::status(429),
        _ => Reply::correct(&body, "\"1\"", asked),
    });
    write(&server, &image, &disk(DISK)).unwrap();

    let gone = Server::start(|_| Reply::status(404));
    let untouched = disk(DISK);
    let failure = write(&gone, &image, &untouched).unwrap_err();
    assert_eq!(failure.class, Class::ImageDownloadError);
    assert!(failure.details.contains("404") && failure.details.contains(&gone.url));
    assert_eq!(gone.asked().len(), 1, "404 is final");
    assert_untouched(&untouched);

    let mut both = source(&gone, Some(sha256(&image)));
    both.request.urls.push(correct(&image).url);
    let target = disk(DISK);
    let proven = write_image(&both, open(target.path(), 512), &http_client()).unwrap();
    proven.commit().unwrap();
    assert_holds(&target, &image);
}

#[test]
fn a_mismatch_names_everything_and_leaves_no_table() {
    let image = gpt_image(8 * MIB, 512);
    for body in [image.clone(), gzip(&image)] {
        let disk = disk(DISK);
        let server = correct(&body);
        let failure = write(&server, b"another image", &disk).unwrap_err();
        assert_eq!(failure.class, Class::ImageChecksumError);
        for part in [
            server.url.as_str(),
            "sha256",
            &sha256(b"another image").hex(),
            &sha256(&body).hex(),
            &body.len().to_string(),
        ] {
            assert!(failure.details.contains(part), "{part} in {failure}");
        }
        assert_unbootable(&disk);
    }
}

#[test]
fn a_damaged_stream_is_a_checksum_error_when_one_was_given() {
    let image = gpt_image(8 * MIB, 512);
    let good = gzip(&image);
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x20;
    let truncated = good[..good.len() - 1000].to_vec();
    for body in [damaged, truncated] {
        let disk = disk(DISK);
        let failure = write(&correct(&body), &good, &disk).unwrap_err();
        assert_eq!(failure.class, Class::ImageChecksumError, "{failure}");
        assert!(failure.details.contains("unpacking gzip"), "{failure}");
        assert_unbootable(&disk);
        // The digest is that of the damaged file itself, so the image is at fault.
        let failure = write(&correct(&body), &body, &disk).unwrap_err();
        assert_eq!(failure.class, Class::InvalidImage, "{failure}");
        assert_unbootable(&disk);
    }
}

#[test]
fn a_truncated_raw_image_is_refused_even_with_its_checksum() {
    let image = gpt_image(8 * MIB, 512);
    let body = &image[..3_000_000];
    let disk = disk(DISK);
    let failure = write(&correct(body), body, &disk).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage);
    assert!(failure.details.contains("truncated"), "{failure}");
    assert_unbootable(&disk);
}

#[test]
fn larger_than_the_disk_is_refused_before_the_first_byte() {
    let image = gpt_image(16 * MIB, 512);
    for body in [image.clone(), gzip(&image), xz(&image)] {
        let disk = disk(DISK);
        let failure = write(&correct(&body), &body, &disk).unwrap_err();
        assert_eq!(failure.class, Class::ImageWriteError);
        assert!(
            failure.details.contains("16777216") && failure.details.contains("12582912"),
            "{failure}"
        );
        assert_untouched(&disk);
    }
}

/// The table claims a smaller size, so the agent notices only when the disk is
/// full.
#[test]
fn a_decompression_bomb_ends_at_the_disks_end() {
    let mut image = gpt_image(8 * MIB, 512);
    image.resize(64 << 20, 0);
    let body = gzip(&image);
    let disk = disk(DISK);
    let failure = write(&correct(&body), &body, &disk).unwrap_err();
    assert!(
        failure.details.contains("larger than the disk"),
        "{failure}"
    );
    assert_unbootable(&disk);
    assert_eq!(content(&disk).len() as u64, DISK);
}

#[test]
fn what_is_no_image_touches_nothing() {
    for (body, expected) in [
        (b"<!DOCTYPE html>".to_vec(), "web page"),
        (b"QFI\xfb\0\0\0\x03".to_vec(), "qcow2"),
        (gzip(b"QFI\xfb\0\0\0\x03"), "qcow2"),
        (vec![0; 2_000_000], "no GPT and no MBR"),
        (Vec::new(), "empty"),
    ] {
        let disk = disk(DISK);
        let failure = write(&correct(&body), &body, &disk).unwrap_err();
        assert_eq!(failure.class, Class::InvalidImage);
        assert!(failure.details.contains(expected), "{failure}");
        assert_untouched(&disk);
    }
}

#[test]
fn a_length_that_lies() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    // Announces more bytes than it sends, on every request.
    let server = Server::start(move |asked| {
        if asked.from.is_some() {
            return Reply::status(416);
        }
        let mut reply = Reply::whole(&body, "\"1\"");
        reply.headers[0] = format!("Content-Length: {}", body.len() + 5000);
        reply
    });
    let disk = disk(DISK);
    let failure = write(&server, &image, &disk).unwrap_err();
    assert_eq!(failure.class, Class::ImageDownloadError);
    assert_unbootable(&disk);
}

#[test]
fn a_length_that_is_not_told() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |_| {
        let mut reply = Reply::whole(&body, "\"1\"");
        reply.headers.remove(0);
        reply
    });
    let disk = disk(DISK);
    write(&server, &image, &disk).unwrap();
    assert_holds(&disk, &image);
}

#[test]
fn without_a_checksum_the_digest_is_told_all_the_same() {
    let image = gpt_image(8 * MIB, 512);
    let disk = disk(DISK);
    let server = correct(&image);
    let done = write_image(
        &source(&server, None),
        open(disk.path(), 512),
        &http_client(),
    )
    .and_then(ProvenImage::commit)
    .unwrap();
    assert!(!done.verified);
    assert_eq!(done.digest.digest, sha256(&image));
}

/// O_DIRECT, O_EXCL, zeroing and BLKRRPART on a real block device.
#[test]
fn a_block_device_of_either_sector_size() {
    for sector in [512, 4096] {
        // As on real disks, the size is not a whole number of MiB.
        let file = disk(DISK + 7 * 4096);
        let Some(device) = loop_device(file.path(), sector) else {
            return;
        };
        let image = gpt_image(8 * MIB, sector);
        let body = zstd::bulk::compress(&image, 1).unwrap();
        let server = correct(&body);
        let permission = WritePermission::by_operator();
        let target = Target::open(device.path(), &permission).unwrap();
        assert_eq!(target.size(), DISK + 7 * 4096);
        assert_eq!(target.sector_size(), sector);

        let busy = Target::open(device.path(), &permission).unwrap_err();
        assert_eq!(busy.class, Class::BlockDeviceError);
        assert!(busy.details.contains("found busy partitions"), "{busy}");

        let wanted = source(&server, Some(sha256(&body)));
        let proven = write_image(&wanted, target, &http_client()).unwrap();
        assert_unbootable(&file);
        proven.commit().unwrap();
        let content = content(&file);
        assert!(content[MIB as usize..7 * MIB as usize] == image[MIB as usize..7 * MIB as usize]);
        let table = Table::parse(&content[..MIB as usize], sector).unwrap();
        assert_eq!(table.image_size(), DISK + 7 * 4096);

        let target = Target::open(device.path(), &permission).unwrap();
        let wrong = source(&server, Some(sha256(b"other")));
        write_image(&wrong, target, &http_client()).unwrap_err();
        assert_unbootable(&file);
    }
}

#[test]
fn a_mounted_disk_is_refused_by_name() {
    use std::process::Command;
    let file = disk(DISK);
    let made = Command::new("/sbin/mke2fs")
        .args(["-q", "-F"])
        .arg(file.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let Some(device) = loop_device(file.path(), 512) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let flags = nix::mount::MsFlags::MS_RDONLY;
    let mounted =
        match landfall_sys::mount::Mounted::new(device.path(), place.path(), "ext4", flags) {
            Ok(mounted) => mounted,
            Err(e) => return skip(format_args!("mount: {e}")),
        };
    let failure = Target::open(device.path(), &WritePermission::by_operator()).unwrap_err();
    let expected = format!("is mounted on {}", place.path().display());
    assert!(failure.details.contains(&expected), "{failure}");
    mounted.unmount().unwrap();
    Target::open(device.path(), &WritePermission::by_operator()).unwrap();
}

/// The MBR has one partition that ends at 9 MiB. Only 3 MiB arrive, from a server
/// that sends no Content-Length.
#[test]
fn a_truncated_image_with_an_mbr_gets_no_boot_sector() {
    let mut body = vec![7; 3 << 20];
    body[..512].fill(0);
    body[450] = 0x83;
    body[454..458].copy_from_slice(&2048u32.to_le_bytes());
    body[458..462].copy_from_slice(&16384u32.to_le_bytes());
    body[510..512].copy_from_slice(&[0x55, 0xaa]);
    let server = Server::start(move |_| {
        let mut reply = Reply::whole(&body, "\"1\"");
        reply.headers.remove(0);
        reply
    });
    let disk = disk(DISK);
    let written = write_image(
        &source(&server, None),
        open(disk.path(), 512),
        &http_client(),
    );
    let failure = written.and_then(ProvenImage::commit).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage);
    assert!(
        failure
            .details
            .contains("its partitions end at byte 9437184, it ends at byte 3145728"),
        "{failure}"
    );
    assert_unbootable(&disk);
}

/// The image has an MBR in place of its former GPT and is as large as the disk.
/// Some firmware restores a primary GPT from the backup, so the disk must not hold
/// the backup while the image is unproven.
#[test]
fn a_backup_table_behind_an_mbr_is_left_out() {
    let mut image = gpt_image(DISK, 512);
    image[..34 * 512].fill(0);
    image[450] = 0x83;
    image[454..458].copy_from_slice(&2048u32.to_le_bytes());
    image[458..462].copy_from_slice(&(DISK as u32 / 512 - 2048).to_le_bytes());
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    let last = DISK as usize - 512;
    assert_eq!(image[last..last + 8], *b"EFI PART");
    let bodies = [
        Some(image.clone()),
        Some(gzip(&image)),
        qcow2::packed(&image, &[]),
    ];
    for body in bodies.into_iter().flatten() {
        let disk = disk(DISK);
        let source = source(&correct(&body), Some(sha256(&body)));
        let target = open(disk.path(), 512);
        let proven = write_image(&source, target, &http_client()).unwrap();
        let unproven = content(&disk);
        assert!(unproven[..MIB as usize].iter().all(|&b| b == 0));
        assert!(unproven[last..].iter().all(|&b| b == 0));
        proven.commit().unwrap();
        let written = content(&disk);
        assert!(written[..last] == image[..last]);
        assert!(written[last..].iter().all(|&b| b == 0));
    }
}

/// RFC 8878, 3.1.2: a frame that decompresses to nothing.
fn skippable_frame(len: u32) -> Vec<u8> {
    let mut frame = vec![0x50, 0x2a, 0x4d, 0x18];
    frame.extend(len.to_le_bytes());
    frame.resize(8 + len as usize, 0);
    frame
}

#[test]
fn a_stream_that_unpacks_to_nothing_is_not_read_for_ever() {
    let image = zstd::bulk::compress(&gpt_image(8 * MIB, 512), 1).unwrap();
    let before = [skippable_frame(66 << 20), image.clone()].concat();
    let after = [image, skippable_frame(80 << 20)].concat();

    let untouched = disk(DISK);
    let failure = write(&correct(&before), &before, &untouched).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage, "{failure}");
    assert!(
        failure.details.contains("67108864 packed bytes"),
        "{failure}"
    );
    assert_untouched(&untouched);

    let disk = disk(DISK);
    let failure = write(&correct(&after), &after, &disk).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage, "{failure}");
    assert!(
        failure.details.contains("79691776 packed bytes"),
        "{failure}"
    );
    assert_unbootable(&disk);
}

/// If a program (udev, a probe) holds a partition open, the kernel does not reread
/// the table. The image is proven and stays on the disk.
#[test]
fn a_kernel_that_does_not_read_the_table_costs_no_image() {
    let image = gpt_image(8 * MIB, 512);
    let disk = disk(DISK);
    let server = correct(&image);
    let source = source(&server, Some(sha256(&image)));
    let mut proven = write_image(&source, open(disk.path(), 512), &http_client()).unwrap();
    proven.refuse_reread();
    proven.commit().unwrap();
    assert_holds(&disk, &image);
}

/// The first MiB is held back. A partition there would lack its data while it is in
/// use, and the commit would overwrite changes to it.
#[test]
fn partitions_in_the_first_mib_are_not_shown() {
    let image = gpt_image(8 * MIB, 512);
    let disk = disk(DISK);
    let server = correct(&image);
    let source = source(&server, Some(sha256(&image)));
    let proven = write_image(&source, open(disk.path(), 512), &http_client()).unwrap();
    let permission = WritePermission::by_operator();
    let failure = proven
        .with_partitions(&permission, |_, _| Ok(()))
        .unwrap_err();
    assert!(
        failure.details.contains("partition 1 begins at byte 32768"),
        "{failure}"
    );
    assert_unbootable(&disk);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Wherever connections break, the content of the disk is the same.
    #[test]
    fn any_cuts_give_the_same_disk(cuts in proptest::collection::vec(1usize..3_000_000, 0..6)) {
        let image = gpt_image(5 * MIB, 512);
        let body = zstd::bulk::compress(&image, 1).unwrap();
        let (served, lengths) = (body.clone(), cuts.clone());
        let server = Server::start(move |asked: &Asked| {
            let reply = Reply::correct(&served, "\"1\"", asked);
            match lengths.get(asked.earlier) {
                Some(&cut) => reply.cut(cut % served.len()),
                None => reply,
            }
        });
        let disk = disk(DISK);
        write(&server, &body, &disk).unwrap();
        assert_holds(&disk, &image);
    }
}

/// The agent requests the whole URL from a proxy, and connects directly to a host
/// that is in the exceptions.
#[test]
fn an_image_comes_through_a_proxy() {
    use landfall_http_client::{HttpOptions, Proxies, image_client};

    let image = gpt_image(8 * MIB, 512);
    // Serves the image for every URL.
    let proxy = correct(&image);
    let through = |exceptions: &str| {
        let _ = http_client();
        image_client(&HttpOptions {
            proxies: Proxies {
                http: Some(proxy.url.clone()),
                https: None,
                none_for: vec![exceptions.to_owned()],
            },
            ..HttpOptions::default()
        })
        .unwrap()
    };
    let mut source = source(&proxy, Some(sha256(&image)));
    source.request.urls = vec!["http://images.invalid/image.raw".to_owned()];
    source.request.retry_policy.give_up = Duration::ZERO;
    let first = disk(DISK);
    let write = |disk: &NamedTempFile, exceptions: &str| {
        write_image(&source, open(disk.path(), 512), &through(exceptions))
            .and_then(ProvenImage::commit)
    };
    write(&first, "192.0.2.0/24,.example").unwrap();
    assert_holds(&first, &image);
    let second = disk(DISK);
    write(&second, "invalid").unwrap_err();
    assert_untouched(&second);
    assert_eq!(proxy.asked().len(), 1);
}
