mod kept;
mod model;
mod power_cut;
mod qcow2;
mod qcow2_options;
mod refused;
mod signed;
mod software_raid;
mod transfer_faults;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use landfall_boot_params::digest::{Algorithm, Digest};
use landfall_devices::permission::WritePermission;
use landfall_download::digest::Hasher;
use landfall_download::fetch::{RetryPolicy, medium_url};
use landfall_http_client::fixtures::{Asked, Reply, Server, http_client};
use landfall_report::failure::Class;
use landfall_report::status::{self, DiskState};
use landfall_sys::skip::skip;
use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::*;
use crate::fixtures::{gpt_image, loop_device, put_mbr};
use crate::image::decode::tests::{PACKED, pack};
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
        // On a busy machine the server of a test once sent nothing for 3 s. Such a pause
        // costs retries, but must not last until `give_up`.
        stall: Duration::from_secs(1),
        give_up: Duration::from_secs(15),
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

/// Writes an image without committing it.
fn proven(body: &[u8], disk: &NamedTempFile) -> Result<ProvenImage> {
    let source = source(&Server::of(body), Some(sha256(body)));
    write_image(&source, open(disk.path(), 512), &http_client())
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
    // Without optimization, comparing byte by byte would take half of the time of these
    // tests. So the bytes are compared one by one only to locate a difference.
    if content != expected {
        let differs = content.iter().zip(&expected).position(|(a, b)| a != b);
        panic!("the disk differs from byte {differs:?}");
    }
}

fn assert_untouched(disk: &NamedTempFile) {
    let content = content(disk);
    assert!(content == vec![OLD; content.len()], "disk was touched");
}

/// Asserts that the disk has no primary GPT, no backup GPT and no boot code.
fn assert_unbootable(disk: &NamedTempFile) {
    let content = content(disk);
    let (first, rest) = content.split_at(MIB as usize);
    let last = &rest[rest.len() - MIB as usize..];
    assert!(first.iter().chain(last).all(|&b| b == 0));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    pack(Packing::Gzip, bytes)
}

#[test]
fn every_packing_arrives() {
    let image = gpt_image(8 * MIB, 512);
    for packing in PACKED.into_iter().chain([Packing::Raw]) {
        let (body, disk) = (pack(packing, &image), disk(DISK));
        let server = Server::of(&body);
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
fn too_long_a_download_has_its_own_class() {
    let image = gpt_image(8 * MIB, 512);
    let body = image.clone();
    let server = Server::start(move |_| Reply::whole(&body, "\"1\"").stalled(3_000_000));
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
    write(&Server::of(&image), &image, &disk).unwrap();
    assert!(content(&disk) == image);
}

#[test]
fn sectors_of_4096_bytes() {
    let image = gpt_image(8 * MIB, 4096);
    let file = disk(DISK);
    let server = Server::of(&image);
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

/// Looks at the disk in the state that a power cut during the write would leave.
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
fn the_digest_is_reported_even_without_a_checksum() {
    let image = gpt_image(8 * MIB, 512);
    let disk = disk(DISK);
    let server = Server::of(&image);
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

/// Covers O_DIRECT, O_EXCL, zeroing and BLKRRPART on a real block device (loop).
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
        let server = Server::of(&body);
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
    // A test that has made a mount namespace meanwhile has a copy of the mount there. The
    // removal of the mount point detaches the copies.
    drop(place);
    Target::open(device.path(), &WritePermission::by_operator()).unwrap();
}

/// The image is as large as the disk and has an MBR in place of its former GPT, but still
/// has the backup GPT header in its last sector. The agent must never write that header:
/// some firmware would restore a primary GPT from it.
#[test]
fn a_backup_table_behind_an_mbr_is_left_out() {
    let mut image = gpt_image(DISK, 512);
    image[..34 * 512].fill(0);
    put_mbr(&mut image, &[(0x83, 2048, DISK as u32 / 512 - 2048)]);
    let last = DISK as usize - 512;
    assert_eq!(image[last..last + 8], *b"EFI PART");
    let bodies = [
        Some(image.clone()),
        Some(gzip(&image)),
        qcow2::packed(&image, &[]),
    ];
    for body in bodies.into_iter().flatten() {
        let disk = disk(DISK);
        let proven = proven(&body, &disk).unwrap();
        let unproven = content(&disk);
        assert!(unproven[..MIB as usize].iter().all(|&b| b == 0));
        assert!(unproven[last..].iter().all(|&b| b == 0));
        proven.commit().unwrap();
        let written = content(&disk);
        assert!(written[..last] == image[..last]);
        assert!(written[last..].iter().all(|&b| b == 0));
    }
}

/// If a program (udev, a probe) holds a partition open, the kernel does not reread the
/// table. The image is verified all the same and stays on the disk.
#[test]
fn a_kernel_that_does_not_read_the_table_costs_no_image() {
    let image = gpt_image(8 * MIB, 512);
    let disk = disk(DISK);
    let mut proven = proven(&image, &disk).unwrap();
    proven.refuse_reread();
    proven.commit().unwrap();
    assert_holds(&disk, &image);
}

/// Without the state `Writing`, an operator could start the agent again from the network
/// form while the image waits for its commit.
#[test]
fn an_image_that_is_not_committed_yet_is_reported() {
    let disk = disk(DISK);
    let proven = proven(&gpt_image(8 * MIB, 512), &disk).unwrap();
    assert_eq!(status::now().disk_state, Some(DiskState::Writing));
    proven.commit().unwrap();
}

/// The agent writes the first MiB last. A partition in the first MiB would lack its data
/// while `work` uses it, and the commit would overwrite changes to it.
#[test]
fn partitions_in_the_first_mib_are_not_shown() {
    let image = gpt_image(8 * MIB, 512);
    let disk = disk(DISK);
    let proven = proven(&image, &disk).unwrap();
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
